"""Charts of the static pages, each drawn from a table that stands beside it for those who cannot see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.reports.html_course import Course, Step
from slurm_ofu.reports.html_figures import (
    COVERAGE,
    OFU,
    coverage_cell,
    hours_cell,
    hours_text,
    ofu_cell,
    shown_row,
    whole,
)
from slurm_ofu.reports.html_table import Cell, HtmlColumn, HtmlTable
from slurm_ofu.reports.wording import hour_digits, percent
from slurm_ofu.values import Figures, UsageRow

_FROM: Final = {"hour": "Hour", "day": "Day", "week": "From", "month": "Month"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """``series``: the numbers of the table's columns that are drawn; ``unit``: %, of ratios, or what it says.
    ``summary`` says in words what there is to see."""

    kind: Literal["line", "bars"]
    table: HtmlTable
    series: tuple[int, ...]
    unit: str
    summary: str


def course_charts(course: Course, rows: Sequence[UsageRow]) -> list[Chart]:
    """OFU, and the GPU-hours that it speaks for and does not, over the window."""
    cells = [
        (Cell(text=label, order=edge), shown_row(row).figures)
        for label, edge, row in zip(course.labels, course.edges, rows, strict=False)
    ]
    first = HtmlColumn(title=_FROM[course.step], numeric=False)
    ofu_rows = [[label, *_ofu_cells(its)] for label, its in cells]
    hour_rows = [
        [
            label,
            hours_cell(its.gpu_hours_measured),
            hours_cell(its.gpu_hours_unmeasured if its.run_count else 0.0),
            whole(its.run_count),
        ]
        for label, its in cells
    ]
    return [
        Chart(
            kind="line",
            table=_table("course-ofu", f"OFU by {course.step}", (first, OFU, COVERAGE), ofu_rows),
            series=(1,),
            unit="%",
            summary=_range(ofu_rows, f"OFU by {course.step}"),
        ),
        Chart(
            kind="bars",
            table=_table("course-hours", f"GPU-hours by {course.step}", (first, *_HOURS), hour_rows),
            series=(1, 2),
            unit="GPU-hours",
            summary=_sums(hour_rows, course.step),
        ),
    ]


def bands_chart(table: HtmlTable) -> Chart:
    """Jobs by band of OFU."""
    rows = list(table.rows)
    told = "; ".join(f"{row[0].text}: {row[1].text}" for row in rows)
    return Chart(kind="bars", table=table, series=(1,), unit="jobs", summary=f"Jobs by OFU. {told}.")


def histogram_chart(table: HtmlTable) -> Chart:
    """Measured GPU-hours by per cent of OFU."""
    rows = list(table.rows)
    most = max(rows, key=lambda row: _number(row[1]))
    told = f"Most lie at {most[0].text} %: {most[1].text}." if _number(most[1]) > 0 else "There are none."
    summary = f"Measured GPU-hours by the OFU of their job, by whole per cent. {told}"
    return Chart(kind="bars", table=table, series=(1,), unit="GPU-hours", summary=summary)


def job_chart(table: HtmlTable) -> Chart:
    """OFU over a job's life."""
    return Chart(
        kind="line", table=table, series=(1,), unit="%", summary=_range(list(table.rows), table.caption)
    )


_HOURS: Final = (
    HtmlColumn(title="Measured", meaning="GPU-hours that an OFU speaks for"),
    HtmlColumn(title="Not measured", meaning="GPU-hours that none does"),
    HtmlColumn(title="Jobs", meaning="that had any part in it"),
)


def _table(
    key: str, caption: str, columns: tuple[HtmlColumn, ...], rows: Sequence[Sequence[Cell]]
) -> HtmlTable:
    return HtmlTable(
        key=key,
        caption=caption,
        columns=columns,
        rows=rows,
        row_count=len(rows),
        sorted_by=columns[0].title,
    )


def _ofu_cells(its: Figures) -> list[Cell]:
    """Of a time in which nothing ran there is nothing to be measured."""
    return [ofu_cell(its), coverage_cell(its)] if its.run_count else [Cell(text="no jobs"), Cell(text="")]


def _number(cell: Cell) -> float:
    return cell.order if isinstance(cell.order, int | float) else 0.0


def _range(rows: Sequence[Sequence[Cell]], what: str) -> str:
    """From how little to how much."""
    known = [row for row in rows if row[1].order is not None]
    if not known:
        return f"{what}: nothing was measured."
    least, most = (pick(known, key=lambda row: _number(row[1])) for pick in (min, max))
    gaps = f" Without a figure: {len(rows) - len(known)} of {len(rows)}." if len(known) < len(rows) else ""
    low, high = percent(_number(least[1])), percent(_number(most[1]))
    return f"{what}: lowest {low} ({least[0].text}), highest {high} ({most[0].text}).{gaps}"


def _sums(rows: Sequence[Sequence[Cell]], step: Step) -> str:
    measured, other = (sum(_number(row[number]) for row in rows) for number in (1, 2))
    digits = hour_digits([measured + other])
    parts = f"{hours_text(measured, digits=digits)} measured, {hours_text(other, digits=digits)} not measured"
    return f"GPU-hours by {step}: {parts} in all."
