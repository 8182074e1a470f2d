"""Figures as cells of the static pages' tables. What was not measured is n/a, and is sorted as not known."""

from dataclasses import dataclass

from slurm_ofu.figures import figures
from slurm_ofu.figures.bands import BAND_NAMES
from slurm_ofu.reports.html_table import Cell, HtmlColumn
from slurm_ofu.reports.run_words import sums_of
from slurm_ofu.reports.wording import NOT_MEASURED, UNKNOWN, count, hours, idle_in_part, name, ofu, percent
from slurm_ofu.values import Figures, UsageRow

GPU_HOURS = HtmlColumn(title="GPU-hours", meaning="GPU-hours allocated, measured or not")
COVERAGE = HtmlColumn(title="Coverage", meaning="the share of the GPU-hours that the OFU speaks for")
OFU = HtmlColumn(
    title="OFU",
    right=False,
    meaning="Overall FLOP Utilization, ± the half-width of its 95 % interval in percentage points",
)
IDLE = HtmlColumn(title="Idle", meaning="GPU-hours in which hardly anything ran; ≥: not all could be judged")
NON_TENSOR = HtmlColumn(
    title="No tensor work", meaning="GPU-hours busy without tensor cores, which is neither idle nor wasteful"
)
LOST = HtmlColumn(
    title="Lost",
    meaning="measured GPU-hours below the partition's goal, of jobs with tensor work or idle ones",
)
#: What the bands of OFU are called.
BAND_TITLES = tuple(
    f"{band}\u00a0%".replace("<", "<\u202f").replace(">=", "≥\u202f").replace("-", "\u2011")
    for band in BAND_NAMES
)
GROUP_COLUMNS = (
    HtmlColumn(title="Jobs"),
    GPU_HOURS,
    OFU,
    COVERAGE,
    HtmlColumn(title="Not measured", meaning="GPU-hours that no OFU speaks for, which does not mean idle"),
    IDLE,
    LOST,
    NON_TENSOR,
    *(HtmlColumn(title=f"Jobs {band}") for band in BAND_TITLES),
    HtmlColumn(title="Jobs no tensor work", meaning="jobs busy without tensor cores, in none of the bands"),
    HtmlColumn(title="Jobs not measured", meaning="jobs without an OFU, in none of the bands"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """A row with its figures, divided once."""

    row: UsageRow
    figures: Figures


def shown_row(row: UsageRow) -> ShownRow:
    """The row with its figures."""
    return ShownRow(row=row, figures=figures(sums_of(row)))


def group_cells(its: Figures) -> list[Cell]:
    """Those of :data:`GROUP_COLUMNS`."""
    return [
        whole(its.run_count),
        hours_cell(its.gpu_hours),
        ofu_cell(its),
        coverage_cell(its),
        hours_cell(its.gpu_hours_unmeasured),
        idle_cell(its),
        hours_cell(its.lost_gpu_hours, absent=NOT_MEASURED),
        hours_cell(its.non_tensor_gpu_hours, absent=NOT_MEASURED),
        *map(whole, its.band_run_counts),
        whole(its.non_tensor_run_count),
        whole(its.unmeasured_run_count),
    ]


def text_cell(text: str | None, path: str | None = None) -> Cell:
    """A name that somebody gave; unknown ones come last."""
    shown = name(text)
    return Cell(text=shown, order=None if text is None else shown, path=path)


def whole(value: float | None) -> Cell:
    """A number of things."""
    return Cell(text=count(value), order=value)


def hours_text(value: float | None, *, absent: str = UNKNOWN, digits: int | None = None) -> str:
    """GPU-hours as everywhere, and with commas between thousands."""
    return hours(value, absent=absent, digits=digits) if value is None or value < 1000 else f"{value:,.1f}"


def hours_cell(value: float | None, *, absent: str = UNKNOWN) -> Cell:
    """GPU-hours."""
    return Cell(text=hours_text(value, absent=absent), order=value)


def ratio_cell(value: float | None) -> Cell:
    """A ratio in per cent, or that it was not measured."""
    return Cell(text=percent(value, absent=NOT_MEASURED), order=value)


def coverage_cell(its: Figures) -> Cell:
    """How much of the time the OFU speaks for."""
    return Cell(text=percent(its.coverage_ratio), order=its.coverage_ratio)


def ofu_cell(its: Figures) -> Cell:
    """OFU with its error, or why there is none."""
    return Cell(text=_figure_spaces(ofu(its)), order=its.ofu_ratio)


def _figure_spaces(text: str) -> str:
    """Leading blanks as wide as digits, so that figures end in line."""
    digits = text.lstrip()
    return "\u2007" * (len(text) - len(digits)) + digits


def idle_cell(its: Figures) -> Cell:
    """At least so much, where more was measured than judged."""
    text = ("≥" if idle_in_part(its) else "") + hours_text(its.idle_gpu_hours, absent=NOT_MEASURED)
    return Cell(text=text, order=its.idle_gpu_hours)
