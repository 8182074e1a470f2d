"""Rows for spreadsheets and for the shell: CSV, and a separator between fields as ``sacct -P`` has it."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slurm_ofu.errors import UsageError
from slurm_ofu.reports.fields import Value, flat_fields, flat_values
from slurm_ofu.values import GroupBy, UsageRow

_STAND_INS: Final = "_ ?\ufffd"  # for the separator within text
_OF_FIGURES: Final = frozenset("0123456789+-.e")
_UNPRINTABLE_SEPARATORS: Final = frozenset("\t\x1e\x1f")
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# Where the decimal separator is a comma, spreadsheets take the semicolon for what is between cells, and begin
# one in the middle of ours.
_FORMULA_BEHIND: Final = re.compile(rf";(?=\s*[{re.escape(''.join(_FORMULA_STARTS))}])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """What stands between fields, and whether also after the last one (``sacct -p``)."""

    separator: str = "|"
    trailing: bool = False


PARSABLE: Final = Separation()


def separation_of(separator: str | None, *, trailing: bool) -> Separation:
    """The separation for what --delimiter says. Raises UsageError for what would tear figures apart."""
    if separator is None:
        return Separation(trailing=trailing)
    if not separator:
        raise UsageError("--delimiter is empty")
    if _OF_FIGURES.issuperset(separator):
        raise UsageError(f"--delimiter {separator!r}: figures could hold it; take another")
    if not all(character.isprintable() or character in _UNPRINTABLE_SEPARATORS for character in separator):
        raise UsageError(f"--delimiter {separator!a}: only printable characters and tab")
    return Separation(separator=separator, trailing=trailing)


def as_csv(rows: Sequence[UsageRow], by: GroupBy, *, header: bool = True) -> str:
    """Comma-separated values by RFC 4180 with bare line ends; what was not measured is empty."""
    return csv_lines(_lines(rows, by, header=header))


def as_parsable(
    rows: Sequence[UsageRow], by: GroupBy, *, header: bool = True, separation: Separation = PARSABLE
) -> str:
    """One line per row, a separator between fields and in none of them, so that splitting at it is safe."""
    return separated_lines(_lines(rows, by, header=header), separation)


def csv_lines(lines: Iterable[Sequence[Value]]) -> str:
    """Lines of cells as CSV, safe to open in a spreadsheet."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for line in lines:
        writer.writerow([_csv_cell(value) for value in line])
    return output.getvalue()


def separated_lines(lines: Iterable[Sequence[Value]], separation: Separation) -> str:
    """Lines of cells with the separator between them."""
    stand_in = next((character for character in _STAND_INS if character not in separation.separator), "")
    end = separation.separator + "\n" if separation.trailing else "\n"
    return "".join(
        separation.separator.join(_separated_cell(value, separation.separator, stand_in) for value in line)
        + end
        for line in lines
    )


def _lines(rows: Sequence[UsageRow], by: GroupBy, *, header: bool) -> Iterable[Sequence[Value]]:
    if header:
        yield flat_fields(by)
    for row in rows:
        yield tuple(flat_values(row, by).values())


def _csv_cell(value: Value) -> str:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    text = _plain(value)
    if _is_number(value):
        return text
    text = _FORMULA_BEHIND.sub(";'", text)
    return "'" + text if text.lstrip().startswith(_FORMULA_STARTS) else text


def _separated_cell(value: Value, separator: str, stand_in: str) -> str:
    """Without the separator's first character no separator can begin in it."""
    text = _plain(value)
    return text if _is_number(value) else text.replace(separator[0], stand_in)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Value) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
