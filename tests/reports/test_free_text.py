"""Text that somebody else wrote."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.reports.free_text import cell_width, padded, printable, shortened, wrapped
from tests.reports.examples import HOSTILE

ANY_TEXT = st.text(st.characters(), max_size=60)  # surrogates and controls included


@pytest.mark.property
@given(ANY_TEXT)
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    """No control, format, surrogate or line-separating character is left, and ordinary text is untouched."""
    shown = printable(text)
    assert [] == [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert len(text) == len(shown)
    assert not text.isprintable() or text == shown


def test_hostile_name() -> None:
    """An escape sequence loses what makes it one; what remains is visible text."""
    assert "�[31mred�]0;title����x�5m�gnp���" == printable(HOSTILE)


@pytest.mark.property
@given(ANY_TEXT.map(printable), st.integers(min_value=1, max_value=40), st.booleans())
def test_padding_is_exact(text: str, width: int, right: bool) -> None:
    """A padded cell takes exactly its width, whatever script its text is in."""
    assert width == cell_width(padded(text, width, right=right))


@pytest.mark.parametrize(
    ("text", "width"),
    [("z\u0301\u0302", 1), ("เด็ก", 3), ("\u26a0\ufe0f", 1), ("1\u20e3", 1), ("日本", 4), ("naïve", 5)],
)
def test_marks_take_no_cell_of_their_own(text: str, width: int) -> None:
    """What stands above, below or around another character widens no column, in any script."""
    assert width == cell_width(text)


def test_a_cut_is_marked() -> None:
    """Shortened text ends in an ellipsis; wide characters count two cells."""
    assert ["partition", "parti…", "日本…"] == [
        shortened("partition", 9),
        shortened("partition", 6),
        shortened("日本語名前", 5),
    ]


@pytest.mark.property
@given(ANY_TEXT.map(printable), st.integers(min_value=2, max_value=40))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    """No wrapped line is too wide, and only blanks are lost."""
    lines = wrapped(text, width)
    assert all(cell_width(line) <= width for line in lines)
    assert "".join(text.split()) == "".join("".join(lines).split())
