"""Tables of the static pages: what cells are sorted by, and how a long one is packed."""

import json
import random

import pytest

from slurm_ofu.reports.html_table import (
    FIRST_ROWS,
    Cell,
    HtmlColumn,
    HtmlTable,
    natural,
    paged_rows,
    script_safe,
    static_rows,
)

COLUMNS = (HtmlColumn(title="Name", numeric=False), HtmlColumn(title="Number"))


def table(rows: list[list[Cell]]) -> HtmlTable:
    """A table of names and numbers."""
    return HtmlTable(
        key="t", caption="T", columns=COLUMNS, rows=iter(rows), row_count=len(rows), sorted_by="Number"
    )


def test_names_are_sorted_as_people_count() -> None:
    """Digits count as numbers, case does not, and no two different names are equal."""
    names = ["gpu10", "GPU2", "gpu2", "gpu1", "a", ""]
    assert ["", "a", "gpu1", "GPU2", "gpu2", "gpu10"] == sorted(names, key=natural)


@pytest.mark.parametrize("text", ["٣", "²", "9" * 40, "1_0", "-1"])
def test_odd_digits_are_text_or_numbers_but_never_an_error(text: str) -> None:
    """Whatever a name is made of, it has a place."""
    assert [text] == sorted([text], key=natural)


def test_a_cell_that_is_not_known_has_no_order() -> None:
    """Missing is not zero: a cell without a figure is sorted by nothing, one with 0 by 0."""
    rows = static_rows(
        table(
            [
                [Cell(text="b", order="b"), Cell(text="n/a")],
                [Cell(text="a", order="a"), Cell(text="0.0", order=0.0)],
            ]
        )
    )
    assert [[1, None], [0, 0.0]] == [[order for _, order in row] for row in rows]


def test_a_long_table_is_packed_whole() -> None:
    """Words, orders and paths of the packed table give back every row, and its first rows stand beside."""
    chance = random.Random(3)
    rows = [
        [
            Cell(
                text=f"job{number}", order=f"job{number}", path=None if number % 3 else f"jobs/{number}.html"
            ),
            Cell(text="n/a") if value is None else Cell(text=f"{value:.1f}", order=value),
        ]
        for number in range(250)
        for value in [chance.choice((None, 0.0, 1.5, 2.25))]
    ]
    first, text = paged_rows(table(rows))
    packed = json.loads(text)
    assert rows[:FIRST_ROWS] == first
    assert 250 == packed["rows"]
    names, numbers = packed["columns"]
    assert [row[0].text for row in rows] == [names["words"][word] for word in names["cells"]]
    assert [row[1].text for row in rows] == [numbers["words"][word] for word in numbers["cells"]]
    assert [row[1].order for row in rows] == [numbers["orders"][word] for word in numbers["cells"]]
    assert {str(at): row[0].path for at, row in enumerate(rows) if row[0].path} == names["paths"]
    by_rank = sorted(range(250), key=lambda row: names["orders"][names["cells"][row]])
    assert list(range(250)) == by_rank


@pytest.mark.parametrize("name", ["</script>", "<!--<script>", "a&b", "\u2028", "\\u003c/script>", '"'])
def test_no_name_gets_out_of_a_script_element(name: str) -> None:
    """JSON within a page holds nothing that could end its element, and still says the same."""
    text = script_safe([name])
    assert not set(text) & set("<>&\u2028")
    assert [name] == json.loads(text)
