"""What dmon prints, in the shapes that were seen in the field, and in any other."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.counters.dcgm_rows import (
    DRAM_ACTIVE,
    LINE_LIMIT,
    POWER,
    SM_ACTIVE,
    SM_CLOCK,
    TENSOR_ACTIVE,
    UTILISATION,
    Entity,
    Row,
    Table,
    cell_value,
)

ASKED = (TENSOR_ACTIVE, SM_CLOCK, SM_ACTIVE)
DCGM_3 = """\
#Entity   TENSO        SMCLK        SMACT
ID
GPU 7     0.000        345          0.000
GPU-I 21  0.468        1410         0.495
GPU-CI 4  0.468        1410         0.495
GPU 0     N/A          1980         N/A
GPU 0 LINK 3 0.1       0.2          0.3
Switch 2  0.1          0.2          0.3
#Entity   TENSO        SMCLK        SMACT
ID
GPU 0     0.125        1980         1.000


dmon was stopped do to receiving a signal
GPU 0 was lost
"""
DCGM_2 = """\
# Entity  TENSO  SMCLK  SMACT
      Id
     GPU 0  0.468   1410  0.495
     GPU 1    N/A    345    N/A
   GPU-I 21 0.0125   1410  1e-05

# Entity  TENSO  SMCLK  SMACT
      Id
     GPU 10      0    345      0
Error getting values information.Return: Bad parameter passed to function
"""


def rows(text: str, asked: tuple[int, ...] = ASKED) -> list[Row]:
    """What a table reads out of a text."""
    table = Table(asked)
    return [row for line in text.splitlines() if (row := table.row(line)) is not None]


def gpu(number: int, **values: float) -> Row:
    """A GPU's row: tensor, clock, sm."""
    return _row(Entity(kind="GPU", number=number), values)


def instance(number: int, **values: float) -> Row:
    """A GPU instance's row."""
    return _row(Entity(kind="GPU-I", number=number), values)


def _row(entity: Entity, values: dict[str, float]) -> Row:
    names = {"tensor": TENSOR_ACTIVE, "clock": SM_CLOCK, "sm": SM_ACTIVE}
    return Row(entity=entity, values={names[name]: value for name, value in values.items()})


def test_dcgm_3_and_4() -> None:
    """GPUs and GPU instances in any order, headers again and again; other entities and lines are nothing."""
    expected = [
        gpu(7, tensor=0.0, clock=345.0, sm=0.0),
        instance(21, tensor=0.468, clock=1410.0, sm=0.495),
        gpu(0, clock=1980.0),
        gpu(0, tensor=0.125, clock=1980.0, sm=1.0),
    ]
    assert expected == rows(DCGM_3)


def test_dcgm_2() -> None:
    """It aligns to the right, not quite under the names, and begins its header with a blank."""
    expected = [
        gpu(0, tensor=0.468, clock=1410.0, sm=0.495),
        gpu(1, clock=345.0),
        instance(21, tensor=0.0125, clock=1410.0, sm=1e-05),
        gpu(10, tensor=0.0, clock=345.0, sm=0.0),
    ]
    assert expected == rows(DCGM_2)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("GPU 0                  1410", {"clock": 1410.0}),
        ("GPU 0                   1410", {"clock": 1410.0}),
        ("GPU 0     0.125                     0.5", {"tensor": 0.125, "sm": 0.5}),
        ("GPU 0                               0.500", {"sm": 0.5}),
    ],
)
def test_empty_cells(row: str, expected: dict[str, float]) -> None:
    """A figure in a row with empty cells belongs to the name that it begins or ends under."""
    assert [gpu(0, **expected)] == rows("#Entity   TENSO        SMCLK        SMACT\n" + row)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("#Entity   SMACT        TENSO        SMCLK", {"sm": 0.1, "tensor": 0.2, "clock": 1410.0}),
        ("#Entity   SMACT        NEWNAME      SMCLK", {"sm": 0.1, "tensor": 0.2, "clock": 1410.0}),
        ("#Entity   TENSO        TENSO        SMCLK", {"tensor": 0.1, "clock": 1410.0}),
        ("#Entity   FOO          TENSO        SMCLK", {"sm": 0.1, "tensor": 0.2, "clock": 1410.0}),
    ],
)
def test_columns_are_what_the_header_says(header: str, expected: dict[str, float]) -> None:
    """Columns go by name; by the order asked for only where a name is new, and never twice."""
    row = "GPU 0     0.1          0.2          1410"
    asked = (TENSOR_ACTIVE, SM_CLOCK, SM_ACTIVE) if "FOO" in header else (SM_ACTIVE, TENSOR_ACTIVE, SM_CLOCK)
    assert [gpu(0, **expected)] == rows(f"{header}\nID\n{row}", asked)


def test_without_a_header_there_are_no_columns() -> None:
    """A row before the first header says nothing."""
    assert [] == rows("GPU 0     0.1          0.2          1410")


def test_a_row_that_fits_no_header_has_no_figures() -> None:
    """Fewer cells than names, none of them under one: which is which cannot be told."""
    found = rows("#Entity   TENSO        SMCLK        SMACT\nGPU 0       0.5        1410")
    assert [gpu(0)] == found


BLANKS = [
    *("N/A", "<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>", "-", "nan", "inf", ""),
    *(f"{2**47 + code}.0" for code in range(4)),
    *("140737488355328", "140737488355328.000000", "1.40737e+14", "140737488..."),
    *(str(2**63 - 16 + code) for code in range(4)),
    *("9.223372036854775807e18", "9.22337e+18", "9223372036854775807"),
    *(str(2**31 - 16 + code) for code in range(4)),
    *("-1", "-9223372036854775808", "1e999", "0x10", "0.4.2", "4,5", "½", "٣"),
]


@pytest.mark.parametrize("field_id", [TENSOR_ACTIVE, SM_CLOCK, SM_ACTIVE, DRAM_ACTIVE, UTILISATION, POWER])
@pytest.mark.parametrize("text", BLANKS)
def test_a_blank_value_is_missing(text: str, field_id: int) -> None:
    """DCGM's blank values, of every type, whole or rounded by a float, are never numbers."""
    assert cell_value(field_id, text) is None


@pytest.mark.parametrize(
    ("field_id", "text", "expected"),
    [
        (TENSOR_ACTIVE, "0.000", 0.0),
        (TENSOR_ACTIVE, "1.000", 1.0),
        (TENSOR_ACTIVE, "1.001", 1.0),
        (TENSOR_ACTIVE, "1.74", None),
        (TENSOR_ACTIVE, "43.21", None),
        (TENSOR_ACTIVE, "-0.1", None),
        (SM_CLOCK, "1410", 1410.0),
        (SM_CLOCK, "0", None),
        (UTILISATION, "1", 0.01),
        (UTILISATION, "100", 1.0),
        (UTILISATION, "101", None),
        (POWER, "0", 0.0),
    ],
)
def test_scales_are_fixed(field_id: int, text: str, expected: float | None) -> None:
    """Ratios are 0..1 and nothing else, whatever their size suggests; beyond, by more than rounding, they
    are missing, not cut to fit. Utilisation is per cent, 1 included."""
    assert expected == cell_value(field_id, text)


def test_an_overlong_line_is_nothing() -> None:
    """A line longer than any row is not one."""
    table = Table(ASKED)
    table.row(DCGM_3.splitlines()[0])
    assert table.row("GPU 0     0.468        1410         0.495" + " " * LINE_LIMIT) is None


LINES = st.one_of(
    st.text(max_size=200),
    st.sampled_from((DCGM_2 + DCGM_3).splitlines()),
    st.tuples(
        st.sampled_from(
            ["GPU 0", "    GPU 1", "GPU-I 3", "#Entity", "# Entity", "ID", "GPU 0 LINK 1", "GPU"]
        ),
        st.lists(
            st.one_of(
                st.sampled_from(["TENSO", "SMCLK", "SMACT", *BLANKS]),
                st.floats().map(str),
                st.floats(0, 1).map("{:.3f}".format),
                st.integers(-(2**65), 2**65).map(str),
                st.text(max_size=8),
            ),
            max_size=6,
        ),
        st.integers(1, 15),
    ).map(lambda parts: parts[0] + "".join(f"{cell:>{parts[2]}}" for cell in ["", *parts[1]])),
)


@pytest.mark.property
@given(st.lists(LINES, max_size=30))
def test_it_invents_nothing(lines: list[str]) -> None:
    """Whatever is printed, reading it ends well: each figure was in its line, and its field can have it."""
    table = Table(ASKED)
    for line in lines:
        row = table.row(line)
        if row is None:
            continue
        numbers = {float(number) for number in re.findall(r"(?<!\S)-?[\d.]+(?:[eE][+-]?\d+)?(?!\S)", line)}
        for field_id, value in row.values.items():
            assert math.isfinite(value)
            assert field_id == SM_CLOCK or 0 <= value <= 1
            near = [number for number in numbers if abs(number - value) <= 0.001]
            assert near, (line, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", False),
        ("N/A", False),
        ("2147483632", False),
        ("140737488...", False),
        ("1.74", True),
        ("-3", True),
    ],
)
def test_a_number_beyond_is_told_from_a_blank(text: str, expected: bool) -> None:
    """A blank means that somebody else has the hardware, a number that cannot be, that something is wrong."""
    [row] = rows(f"#Entity   TENSO        SMCLK        SMACT\nGPU 0     {text:<13}1410         0.5")
    assert expected == row.is_beyond
