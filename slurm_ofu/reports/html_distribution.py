"""How jobs and their GPU-hours are distributed over OFU: a mean alone hides that there are two kinds."""

from collections.abc import Iterable, Sequence
from typing import Final

from slurm_ofu.figures.work import work_kind
from slurm_ofu.reports.html_figures import BAND_TITLES, ShownRow, hours_cell, whole
from slurm_ofu.reports.html_table import Cell, HtmlColumn, HtmlTable
from slurm_ofu.values import Figures

_LEAST_SHOWN: Final = 50  # per cent: an axis that ended lower would make little look like much
_HIGHEST: Final = 120


def bands_table(its: Figures) -> HtmlTable:
    """Jobs by band of OFU, and those that are in none."""
    bands = zip(BAND_TITLES, its.band_run_counts, strict=True)
    others = [("no tensor work", its.non_tensor_run_count), ("not measured", its.unmeasured_run_count)]
    rows = [
        [Cell(text=text, order=float(place)), whole(run_count)]
        for place, (text, run_count) in enumerate([*bands, *others])
    ]
    return HtmlTable(
        key="bands",
        caption="Jobs by OFU",
        columns=(HtmlColumn(title="OFU", numeric=False), HtmlColumn(title="Jobs")),
        rows=rows,
        row_count=len(rows),
        sorted_by="OFU",
    )


def histogram_table(rows: Iterable[ShownRow]) -> HtmlTable:
    """Measured GPU-hours and jobs by whole per cent of OFU, without jobs that did no tensor work."""
    hours, jobs = [0.0] * (_HIGHEST + 1), [0] * (_HIGHEST + 1)
    for shown in rows:
        ratio = shown.figures.ofu_ratio
        if ratio is None or work_kind(shown.row.sums) == "non_tensor":
            continue
        band = max(0, min(_HIGHEST, int(round(100 * ratio, 9))))
        hours[band] += shown.figures.gpu_hours_measured
        jobs[band] += 1
    return HtmlTable(
        key="histogram",
        caption="Measured GPU-hours by their job's OFU",
        columns=(
            HtmlColumn(title="OFU in per cent", numeric=False),
            HtmlColumn(title="GPU-hours measured"),
            HtmlColumn(title="Jobs"),
        ),
        rows=_bars(hours, jobs),
        row_count=_shown(jobs),
        sorted_by="OFU in per cent",
    )


def _shown(jobs: Sequence[int]) -> int:
    highest = max((band for band, count in enumerate(jobs) if count), default=0)
    return max(_LEAST_SHOWN, highest + 1)


def _bars(hours: Sequence[float], jobs: Sequence[int]) -> list[list[Cell]]:
    return [
        [
            Cell(text=f"≥ {band}" if band == _HIGHEST else f"{band}–{band + 1}", order=float(band)),
            hours_cell(hours[band]),
            whole(jobs[band]),
        ]
        for band in range(_shown(jobs))
    ]
