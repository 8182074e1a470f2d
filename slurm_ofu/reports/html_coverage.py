"""What was not measured, and why: by the reason that tells most of each job."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from slurm_ofu.figures.reasons import SEVERITY
from slurm_ofu.reports.html_figures import ShownRow, hours_cell, whole
from slurm_ofu.reports.html_table import Cell, HtmlColumn, HtmlTable
from slurm_ofu.reports.wording import EXPLANATIONS, UNKNOWN, name

_PART: Final = "measured, but for gaps: the sampler had not begun yet, or readings failed"


def reasons_table(rows: Sequence[ShownRow]) -> HtmlTable:
    """GPU-hours without an OFU by the dominating reason of their job; hours that are not known stay so."""
    hours: dict[str, float] = defaultdict(float)
    jobs: dict[str, int] = defaultdict(int)
    unknown_time: dict[str, float] = defaultdict(float)
    for its in (shown.figures for shown in rows):
        reason = UNKNOWN if its.reason is None else its.reason
        unmeasured = its.gpu_hours_unmeasured
        if its.gpu_count_unknown_time > 0 or (unmeasured is not None and unmeasured > 0):
            if unmeasured is not None:
                hours[reason] += unmeasured
            jobs[reason] += 1
            unknown_time[reason] += its.gpu_count_unknown_time
    found = sorted(jobs, key=lambda reason: (-hours.get(reason, 0.0), _severity(reason), reason))
    return HtmlTable(
        key="reasons",
        caption="GPU-hours that were not measured, by reason",
        columns=(
            HtmlColumn(title="Reason", numeric=False),
            HtmlColumn(title="Not measured", meaning="GPU-hours"),
            HtmlColumn(title="Jobs", meaning="jobs with this as their main reason"),
            HtmlColumn(title="GPUs of unknown time", meaning="in no GPU-hours"),
            HtmlColumn(title="What it means", numeric=False),
        ),
        rows=[
            [
                Cell(text=name(reason), order=name(reason)),
                hours_cell(hours.get(reason)),
                whole(jobs[reason]),
                whole(unknown_time[reason]),
                Cell(text=_meaning(reason), order=_meaning(reason)),
            ]
            for reason in found
        ],
        row_count=len(found),
        sorted_by="Not measured",
    )


def _meaning(reason: str) -> str:
    return _PART if reason == "ok" else EXPLANATIONS.get(reason, "nothing explains it")


def _severity(reason: str) -> int:
    return SEVERITY.index(reason) if reason in SEVERITY else -1
