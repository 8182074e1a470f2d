"""Host lists: what Slurm's `scontrol show hostnames` prints, and the laws of compressing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.slurm.hostlists import compress, expand, natural_order

NAMES = st.from_regex(r"[a-z0-9.-]{0,4}[a-z][a-z0-9.-]{0,6}", fullmatch=True).filter(
    lambda name: name != "none"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3,07-09]", ("n1", "n2", "n3", "n07", "n08", "n09")),
        ("rack[1-2]n[01-02]", ("rack1n01", "rack1n02", "rack2n01", "rack2n02")),
        ("n[1-2][3-4]", ("n13", "n14", "n23", "n24")),
        ("n[1-2]-ib,login1", ("n1-ib", "n2-ib", "login1")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[099-101]", ("n099", "n100", "n101")),
        ("n[9-010]", ("n9", "n10")),
        ("[1-2]", ("1", "2")),
        ("/dev/nvidia[3,1,0]", ("/dev/nvidia3", "/dev/nvidia1", "/dev/nvidia0")),
        ("n1,,n1,", ("n1", "n1")),
        (" n1 ", ("n1",)),
    ],
)
def test_expands_as_slurm_does(text: str, names: tuple[str, ...]) -> None:
    """Order, repeats and zero padding are Slurm's."""
    assert names == expand(text)


@pytest.mark.parametrize("text", ["", "  ", "(null)", "None", "None assigned"])
def test_no_nodes(text: str) -> None:
    """What Slurm prints in place of a list stands for no names."""
    assert () == expand(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("n[1-3", "not closed"),
        ("n1-3]", "unexpected ']'"),
        ("n[1-3]]", "unexpected ']'"),
        ("n[[1]]", r"unexpected '\['"),
        ("n[]", "not a number"),
        ("n[1,]", "not a number"),
        ("n[a]", "'a' is not a number"),
        ("n[1--2]", "not a number"),
        ("n[1, 2]", "white space"),
        ("n[²]", "not a number"),
        ("n1 n2", "white space"),
        ("n[3-1]", "runs backwards"),
        ("n[" + "9" * 5000 + "]", "not a number"),
    ],
)
def test_refuses_the_malformed(text: str, complaint: str) -> None:
    """A malformed list raises ValueError, which says what is wrong with it."""
    with pytest.raises(ValueError, match=complaint):
        expand(text)


@pytest.mark.parametrize("text", ["n[0-999999999999]", "n[0-999][0-999]", "n[1-3],m[1-2]"])
def test_keeps_to_the_limit(text: str) -> None:
    """A list of more names than the limit is refused before it is built."""
    with pytest.raises(ValueError, match="more names than the limit"):
        expand(text, limit=4)


def test_the_limit_itself_is_allowed() -> None:
    """As many names as the limit are no error."""
    assert 4 == len(expand("n[1-3],m1", limit=4))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n10", "n2", "n1", "n2"], "n[1-2,10]"),
        (["n01", "n02", "n09", "n10"], "n[01-02,09-10]"),
        (["rack1n1", "rack1n2", "rack2n1"], "rack1n[1-2],rack2n1"),
        (["n1-ib", "n2-ib"], "n[1-2]-ib"),
        (["login", "n1"], "login,n1"),
    ],
)
def test_compresses_for_display(names: list[str], text: str) -> None:
    """Neighbours that differ in their last number share a bracket; runs become ranges."""
    assert text == compress(names)


@pytest.mark.parametrize("name", ["a,b", "a[1]", "a b", "", "(null)"])
def test_refuses_what_is_no_name(name: str) -> None:
    """A name that could not be read back is refused."""
    with pytest.raises(ValueError, match="cannot be a name"):
        compress([name])


@pytest.mark.property
@given(st.lists(NAMES, max_size=30))
def test_compressing_loses_nothing(names: list[str]) -> None:
    """Expanding a compressed list gives the sorted names without repeats."""
    assert natural_order(names) == expand(compress(names))


@pytest.mark.property
@given(st.lists(st.integers(0, 1200), max_size=60), st.integers(0, 4), st.sampled_from(["", "-ib", "x"]))
def test_compressing_loses_no_number(numbers: list[int], width: int, suffix: str) -> None:
    """The same for numbered nodes, where ranges and widths meet."""
    names = [f"n{number:0{width}}{suffix}" for number in numbers]
    assert natural_order(names) == expand(compress(names))


@pytest.mark.property
@given(st.text(alphabet="n019[]-, x", max_size=14))
def test_any_text_is_names_or_a_value_error(text: str) -> None:
    """No text brings anything but names or a ValueError, and the names carry no brackets."""
    try:
        names = expand(text, limit=1000)
    except ValueError:
        return
    assert [] == [name for name in names if set("[], ") & set(name) or not name]
