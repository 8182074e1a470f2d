"""The columns of a table that hold figures: of single runs, and of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slurm_ofu.figures.bands import BAND_NAMES
from slurm_ofu.reports.grid import Column
from slurm_ofu.reports.wording import (
    NOT_MEASURED,
    UNKNOWN,
    bands,
    count,
    hour_digits,
    hours,
    idle_in_part,
    ofu,
    percent,
)
from slurm_ofu.values import Figures

_NOTHING_RAN = ""  # in the place of a figure, where there is nothing that it could be about


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureColumn:
    """One column. One that is ``known`` for no line is left out."""

    column: Column
    of: Callable[[Figures], str]
    known: Callable[[Figures], bool] = lambda _: True
    legend: str | None = None  # what has to be said about it
    hours_of: Callable[[Figures], float | None] | None = None  # its GPU-hours, if it is about such


def that_are_known(columns: Sequence[FigureColumn], shown: Sequence[Figures]) -> tuple[FigureColumn, ...]:
    """The columns without those of which nothing is known; the hours of a column with as many decimals."""
    return tuple(_in_step(column, shown) for column in columns if any(map(column.known, shown)))


def _in_step(column: FigureColumn, shown: Sequence[Figures]) -> FigureColumn:
    hours_of = column.hours_of
    if hours_of is None:
        return column
    digits = hour_digits(map(hours_of, shown), most_digits=3)
    if column.column.title == "Idle":
        return replace(column, of=lambda its: _idle(its, digits))
    absent = UNKNOWN if column.column.title == "GPU-h" else NOT_MEASURED
    return replace(column, of=lambda its: hours(hours_of(its), absent=absent, digits=digits))


def cells(columns: Sequence[FigureColumn], its: Figures) -> tuple[str, ...]:
    """One line's; of a time in which nothing ran only how much that was."""
    if its.run_count == 0:
        return tuple("0.0" if column.column.title == "GPU-h" else _NOTHING_RAN for column in columns)
    return tuple(column.of(its) for column in columns)


def _idle(its: Figures, digits: int | None = None) -> str:
    """At least so much, where more was measured than judged."""
    text = hours(its.idle_gpu_hours, absent=NOT_MEASURED, digits=digits)
    if not idle_in_part(its):
        return text
    return ">0" if text.startswith("<") else f"≥{text}"


def _number(title: str, of: Callable[[Figures], str], give_way: int = 0) -> FigureColumn:
    return FigureColumn(column=Column(title=title, right=True, give_way=give_way), of=of)


def _hours(
    title: str, of: Callable[[Figures], float | None], give_way: int, legend: str | None = None
) -> FigureColumn:
    """Hours that may not be known at all."""
    return FigureColumn(
        column=Column(title=title, right=True, give_way=give_way),
        of=lambda its: hours(of(its), absent=NOT_MEASURED),
        known=lambda its: of(its) is not None,
        legend=legend,
        hours_of=of,
    )


def _idle_column(give_way: int) -> FigureColumn:
    return FigureColumn(
        column=Column(title="Idle", right=True, give_way=give_way),
        of=_idle,
        known=lambda its: its.idle_gpu_hours is not None,
        hours_of=lambda its: its.idle_gpu_hours,
    )


def _lost_column(give_way: int) -> FigureColumn:
    legend = (
        "Lost: GPU-hours below the partition's goal, of what was measured of runs with tensor work or idle"
    )
    return _hours("Lost", lambda its: its.lost_gpu_hours, give_way, legend)


_GPU_HOURS = FigureColumn(
    column=Column(title="GPU-h", right=True),
    of=lambda its: hours(its.gpu_hours),
    hours_of=lambda its: its.gpu_hours,
)
_COVERAGE = _number("Coverage", lambda its: percent(its.coverage_ratio))
_OFU = FigureColumn(column=Column(title="OFU"), of=ofu)


def _factors(give_way: int) -> tuple[FigureColumn, ...]:
    return (
        _number("Tensor", lambda its: percent(its.tpa_mean_ratio, absent=NOT_MEASURED), give_way),
        _number("Clock", lambda its: percent(its.active_clock_ratio, absent=NOT_MEASURED), give_way),
    )


RUN_FIGURES = (
    _number("GPUs", lambda its: count(its.gpu_count)),
    _GPU_HOURS,
    _idle_column(3),
    _lost_column(3),
    *_factors(1),
    _COVERAGE,
    _OFU,
)
GROUP_FIGURES = (
    _number("Runs", lambda its: str(its.run_count)),
    _number("GPUs", lambda its: count(its.gpu_count), 3),
    _GPU_HOURS,
    _hours("Unmeasured", lambda its: its.gpu_hours_unmeasured, 4),
    _idle_column(2),
    _hours("Non-tensor", lambda its: its.non_tensor_gpu_hours, 5),
    _lost_column(1),
    FigureColumn(
        column=Column(title="Bands", right=True, give_way=1),
        of=bands,
        known=lambda its: any(its.band_run_counts),
        legend="Bands",
    ),
    *_factors(6),
    _COVERAGE,
    _OFU,
)
WORST_FIGURES = (
    _lost_column(0),
    _GPU_HOURS,
    _number("Coverage", lambda its: percent(its.coverage_ratio), 1),
    _OFU,
)


def legends(columns: Sequence[FigureColumn], total: Figures) -> list[str]:
    """What has to be said about these columns."""
    return [
        _bands_legend(total) if column.legend == "Bands" else column.legend
        for column in columns
        if column.legend is not None
    ]


def _bands_legend(total: Figures) -> str:
    others = [
        f"{its} {what}"
        for its, what in (
            (total.non_tensor_run_count, "busy without tensor cores"),
            (total.unmeasured_run_count, "without an OFU"),
        )
        if its
    ]
    rest = f"; in none: {' and '.join(others)}" if others else ""
    return f"Bands: runs with an OFU of {' / '.join(BAND_NAMES)} %{rest}"
