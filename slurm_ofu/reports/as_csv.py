"""Rows for spreadsheets and for the shell: CSV, and ``|`` between fields as ``sacct -P`` has it."""

import csv
import io
from collections.abc import Sequence

from slurm_ofu.reports.fields import Value, flat_fields, flat_values
from slurm_ofu.values import GroupBy, UsageRow

SEPARATOR = "|"
_SEPARATOR_IN_TEXT = "_"
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def as_csv(rows: Sequence[UsageRow], by: GroupBy, *, header: bool = True) -> str:
    """Comma-separated values by RFC 4180 with bare line ends; what was not measured is empty."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    if header:
        writer.writerow(flat_fields(by))
    for row in rows:
        writer.writerow([_csv_cell(value) for value in flat_values(row, by).values()])
    return output.getvalue()


def as_parsable(rows: Sequence[UsageRow], by: GroupBy, *, header: bool = True) -> str:
    """One line per row, ``|`` between fields and none at the end, so that splitting at ``|`` is safe."""
    lines = [flat_fields(by)] if header else []
    lines += [tuple(_parsable_cell(value) for value in flat_values(row, by).values()) for row in rows]
    return "".join(SEPARATOR.join(line) + "\n" for line in lines)


def _csv_cell(value: Value) -> str:
    """Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, str) and value.lstrip().startswith(_FORMULA_STARTS):
        return "'" + value
    return _plain(value)


def _parsable_cell(value: Value) -> str:
    text = _plain(value)
    return text.replace(SEPARATOR, _SEPARATOR_IN_TEXT) if isinstance(value, str) else text


def _plain(value: Value) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
