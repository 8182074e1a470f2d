"""What ``--format`` says: fields by name, each with a width and an alignment of its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.errors import UsageError
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.printed_fields import (
    ALIASES,
    DEFAULT_OF_GROUPS,
    DEFAULT_OF_RUNS,
    FIELDS,
    PrintedField,
    fields_by,
    fits,
)
from slurm_ofu.values import GroupBy

Alignment = Literal["<", "^", ">"]
_WIDEST: Final = 1000
_EVERY_FIELD: Final = "all"
_LEFT: Final = ("JobID", "JobIDRaw")  # unless a width is said; sacct has all others to the right
_FORM: Final = re.compile(r"(\+?)([A-Za-z]+)(?:%([-<^>]?)([0-9]*))?")
_LONGEST_SAID: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatColumn:
    """One column of a report whose fields were chosen. A width of 0: as wide as its cells."""

    field: PrintedField
    width: int
    alignment: Alignment


def parse_format(text: str, by: GroupBy, *, said_by: str = "--format") -> tuple[FormatColumn, ...]:
    """The columns that ``text`` asks for; with a + before any of its fields, after the default ones.

    Fields are named as sacct's: case does not matter, and a beginning is enough where it is no other's; ALL
    is every field. ``%20`` sets a width, ``%-20`` or ``%<20`` to the left, ``%^20`` in the middle. Raises
    UsageError, which names ``said_by``.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise UsageError(f"{said_by} names no field; ofu-report --helpformat shows them all")
    try:
        columns = [column for item in items for column in _columns(item, by)]
    except UsageError as error:
        raise UsageError(f"{said_by}: {error}") from error
    if any(item.startswith("+") for item in items):
        return (*default_columns(by), *columns)
    return tuple(columns)


def default_columns(by: GroupBy) -> tuple[FormatColumn, ...]:
    """The columns that + adds to."""
    names = DEFAULT_OF_RUNS if by == "job" else DEFAULT_OF_GROUPS
    return tuple(_column(name, by) for name in names)


def help_format(by: GroupBy | None = None) -> str:
    """Every field with its meaning, one a line."""
    fields = FIELDS if by is None else fields_by(by)
    widest = max(len(field.name) for field in fields)
    lines = [f"{field.name:<{widest}}  {field.meaning}" for field in fields]
    return "".join(line + "\n" for line in (*lines, "", *_HELP_NOTES))


_HELP_NOTES: Final = (
    "In tables ratios are in per cent (n/a: not measured), with -p, -P and --csv from 0 to 1 (empty: not",
    "measured). Times follow SLURM_TIME_FORMAT. NAME%20 sets a width, %-20 or %<20 to the left, %^20 in the",
    "middle, %0 as wide as needed; +NAME adds to the default fields; ALL is every field. Too long a text is",
    "cut, and ends in +.",
)


def _columns(item: str, by: GroupBy) -> list[FormatColumn]:
    if item.removeprefix("+").lower() == _EVERY_FIELD:
        return [_column(field.name, by) for field in fields_by(by)]
    return [_column(item, by)]


def _column(item: str, by: GroupBy) -> FormatColumn:
    match = _FORM.fullmatch(item)
    if match is None:
        raise UsageError(f"{_said(item)} is no field: write NAME, NAME%20, NAME%-20 or +NAME")
    field = _field(match[2], by)
    width = match[4] or str(field.width)
    if len(width) > _LONGEST_SAID or int(width) > _WIDEST:
        raise UsageError(f"{_said(item)}: a column has at most {_WIDEST} characters")
    to_the_left = field.name in _LEFT and not match[4]
    return FormatColumn(field=field, width=int(width), alignment=_alignment(match[3], left=to_the_left))


def _alignment(sign: str | None, *, left: bool) -> Alignment:
    match sign:
        case "-" | "<":
            return "<"
        case "^":
            return "^"
        case ">":
            return ">"
    return "<" if left else ">"


def _field(name: str, by: GroupBy) -> PrintedField:
    wanted = ALIASES.get(name.lower(), name).lower()
    candidates = [field for field in FIELDS if field.name.lower().startswith(wanted)]
    exact = [field for field in candidates if field.name.lower() == wanted] or _beginning_of_all(candidates)
    if not exact and len(candidates) != 1:
        raise UsageError(_no_such_field(name, candidates or fields_by(by)))
    field = (exact or candidates)[0]
    if not fits(field, by):
        names = ", ".join(other.name for other in fields_by(by))
        where = "" if field.of_group is None or field.of_run else f" (--by {field.of_group} has it)"
        raise UsageError(f"with --by {by} there is no {field.name}{where}; there are {names}")
    return field


def _beginning_of_all(candidates: Sequence[PrintedField]) -> list[PrintedField]:
    """Elapsed of Elapsed and ElapsedRaw."""
    shortest = min(candidates, key=lambda field: len(field.name), default=None)
    if shortest is None:
        return []
    return [shortest] if all(field.name.startswith(shortest.name) for field in candidates) else []


def _no_such_field(name: str, candidates: Sequence[PrintedField]) -> str:
    names = ", ".join(field.name for field in candidates)
    several = any(field.name.lower().startswith(name.lower()) for field in candidates)
    what = "may be any of" if several else "is no field; there are"
    return f"{_said(name)} {what} {names}"


def _said(text: str) -> str:
    shown = printable(text)
    return repr(shown if len(shown) <= _LONGEST_SAID else shown[:_LONGEST_SAID] + "…")
