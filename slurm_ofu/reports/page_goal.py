"""What was expected of a run, and what it lost against that."""

import math

from slurm_ofu.figures.work import RANKED, lost_seconds, with_lost, work_kind
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.wording import hours, name, percent
from slurm_ofu.values import Goals, JobPage, UsageSums

_HOUR = 3600.0


def goal_facts(page: JobPage, goals: Goals | None) -> list[Fact]:
    """One line under the OFU; none for a run whose loss is not counted, or where no goal is known."""
    sums, run = page.row.sums, page.row.run
    if goals is None or work_kind(sums) not in RANKED or sums.tensor_ref_seconds is None:
        return []
    partition = None if run is None else run.partition
    goal = goals.of(partition)
    where = "" if partition is None else f" (partition {name(partition)})"
    lost = hours(_lost_seconds(page, goal) / _HOUR)
    if sums.tensor_ref_seconds < goal * sums.ofu_covered_seconds:
        against = f"{lost} GPU-hours below it"
    elif lost == hours(0.0):
        against = "reached"
    else:
        against = f"reached; {lost} GPU-hours of single GPUs below it"
    return [("Goal", f"{_percent(goal)}{where}: {against}")]


def _lost_seconds(page: JobPage, goal: float) -> float:
    """GPU by GPU, where they are known, as everywhere else."""
    sums: UsageSums = page.row.sums
    if page.gpus:
        lost = with_lost(sums, [gpu.totals for gpu in page.gpus], goal).lost_seconds
        return 0.0 if lost is None else lost
    if sums.lost_seconds is not None:
        return sums.lost_seconds
    return lost_seconds(sums.ofu_covered_seconds, sums.tensor_ref_seconds or 0.0, goal)


def _percent(goal: float) -> str:
    whole = math.isclose(100 * goal, round(100 * goal))
    return percent(goal, digits=0 if whole else 1)
