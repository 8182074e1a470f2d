"""Lines of chosen fields: aligned as sacct aligns them, with a separator between them, or as CSV."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from slurm_ofu.figures import figures
from slurm_ofu.reports.as_csv import Separation, csv_lines, separated_lines
from slurm_ofu.reports.fields import Value
from slurm_ofu.reports.formatting import FormatColumn
from slurm_ofu.reports.free_text import cell_width, leading_cells
from slurm_ofu.reports.notes import as_notes, explanations
from slurm_ofu.reports.printed_fields import PrintedField, Subject, machine_value, shown_value
from slurm_ofu.reports.run_words import display_job_id, sums_of
from slurm_ofu.reports.times_shown import shown_time
from slurm_ofu.reports.wording import hour_digits
from slurm_ofu.values import GroupBy, UsageRow

_OF_FIGURES = ("ratio", "points", "hours")  # kinds of fields that notes are about
_WHY = ("Reason", "Reasons")
_CUT = "+"  # at the end of what was cut, as sacct has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatting:
    """Which fields, and how times are shown (by ``SLURM_TIME_FORMAT``, as of ``now``)."""

    columns: tuple[FormatColumn, ...]
    time_format: str | None
    zone: tzinfo
    now: datetime


def formatted_table(
    rows: Sequence[UsageRow],
    by: GroupBy,
    formatting: Formatting,
    *,
    width: int,
    header: bool = True,
    more_notes: Sequence[str] = (),
) -> str:
    """Columns of fixed widths under their names; notes on what needs one, where there is a header."""
    subjects = _subjects(rows, by, formatting)
    digits = [_digits(column.field, subjects) for column in formatting.columns]
    cells = [
        [
            shown_value(column.field, subject, its)
            for column, its in zip(formatting.columns, digits, strict=True)
        ]
        for subject in subjects
    ]
    widths = [_width(column, [line[at] for line in cells]) for at, column in enumerate(formatting.columns)]
    titles = [
        leading_cells(column.field.name, its) for column, its in zip(formatting.columns, widths, strict=True)
    ]
    lines = [*([titles, ["-" * its for its in widths]] if header else []), *cells]
    text = "".join(_line(line, widths, formatting.columns) + "\n" for line in lines)
    if not header or not subjects:
        return text
    if not any(
        column.field.kind in _OF_FIGURES or column.field.name in _WHY for column in formatting.columns
    ):
        return text
    shown = [subject.its for subject in subjects]
    notes = [*explanations(shown, total=shown[-1]), *_restarted(rows, formatting), *more_notes]
    return text + as_notes(notes, width=width)


def _restarted(rows: Sequence[UsageRow], formatting: Formatting) -> list[str]:
    """Lines that look alike since they are lives of one job."""
    if any(column.field.name == "Restarts" for column in formatting.columns):
        return []
    names = Counter((row.run.cluster, display_job_id(row.run)) for row in rows if row.run is not None)
    twice = [name for (_, name), count in names.items() if count > 1]
    if not twice:
        return []
    more = "" if len(twice) == 1 else f" and {len(twice) - 1} more"
    return [f"several lines of job {twice[0]}{more}: it was requeued; +Restarts, +Start tell them apart"]


def formatted_parsable(
    rows: Sequence[UsageRow],
    by: GroupBy,
    formatting: Formatting,
    *,
    separation: Separation,
    header: bool = True,
) -> str:
    """The chosen fields with a separator between them."""
    return separated_lines(_machine_lines(rows, by, formatting, header=header), separation)


def formatted_csv(
    rows: Sequence[UsageRow], by: GroupBy, formatting: Formatting, *, header: bool = True
) -> str:
    """The chosen fields as CSV."""
    return csv_lines(_machine_lines(rows, by, formatting, header=header))


def _machine_lines(
    rows: Sequence[UsageRow], by: GroupBy, formatting: Formatting, *, header: bool
) -> list[list[Value]]:
    titles: list[Value] = [column.field.name for column in formatting.columns]
    values = [
        [machine_value(column.field, subject) for column in formatting.columns]
        for subject in _subjects(rows, by, formatting)
    ]
    return [titles, *values] if header else values


def _subjects(rows: Sequence[UsageRow], by: GroupBy, formatting: Formatting) -> list[Subject]:
    def in_words(epoch_s: float) -> str:
        return shown_time(epoch_s, formatting.time_format, zone=formatting.zone, now=formatting.now)

    return [Subject(row=row, its=figures(sums_of(row)), by=by, shown_time=in_words) for row in rows]


def _digits(field: PrintedField, subjects: Sequence[Subject]) -> int | None:
    """Of a column of hours, that they can be compared."""
    if field.kind != "hours":
        return None
    values = [machine_value(field, subject) for subject in subjects]
    return hour_digits([value for value in values if isinstance(value, int | float)], most_digits=3)


def _width(column: FormatColumn, cells: Sequence[str]) -> int:
    """As it was asked for; a column of figures is as wide as they need, since none is cut."""
    longest = max(map(cell_width, cells), default=0)
    if column.width == 0:
        return max(len(column.field.name), longest)
    return column.width if column.field.kind == "text" else max(column.width, longest)


def _line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[FormatColumn]) -> str:
    return " ".join(map(_cell, cells, widths, columns)).rstrip()


def _cell(text: str, width: int, column: FormatColumn) -> str:
    """Text is cut to its column, a figure never: rather too wide than wrong."""
    used = cell_width(text)
    if used > width and column.field.kind == "text":
        text = leading_cells(text, width - 1) + _CUT if width > 0 else ""
        used = cell_width(text)
    room = max(0, width - used)
    before = {"<": 0, "^": room // 2, ">": room}[column.alignment]
    return " " * before + text + " " * (room - before)
