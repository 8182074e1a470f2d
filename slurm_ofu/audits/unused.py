"""Runs that used some of their GPUs and left others idle all along, and whose they are."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slurm_ofu.audits.arrays import array_entry, by_array
from slurm_ofu.audits.eligible import LeftOut, heaviest, judged, not_judged, runtime_seconds, worst_runs
from slurm_ofu.figures import figures, pool
from slurm_ofu.values import (
    AuditConfig,
    AuditEntry,
    AuditResult,
    AuditValue,
    Goals,
    RunGpu,
    RunRow,
    UsageRow,
)

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unused:
    """A run, those of its GPUs that were idle, and for how many GPU-seconds in the window."""

    row: UsageRow
    run: RunRow
    gpus: tuple[RunGpu, ...]
    unknown_count: float
    seconds: float


def unused(
    runs: Sequence[UsageRow],
    gpus: Mapping[int, Sequence[RunGpu]],
    settings: AuditConfig,
    goals: Goals,
) -> AuditResult:
    """Entries of the kinds ``user`` (all of a user's pooled) and ``run`` (or the tasks of one array). At
    stake is the time for which they were seen idle, not what nobody measured.

    A GPU of which too little is known is neither unused nor used. Where no other GPU worked, the run as a
    whole was idle: that is the audit of that name.
    """

    def why_not(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
        if reason := not_judged(row, settings):
            return reason
        if row.sums.gpu_count < 2:
            return "one_gpu"
        its = () if row.run is None else gpus.get(row.run.run_id, ())
        return None if any(_use(gpu, settings) is not None for gpu in its) else "unmeasured"

    those = judged(runs, settings, why_not)
    found = [
        one
        for row in those.runs
        if row.run is not None
        and (one := _unused_of(row, row.run, gpus[row.run.run_id], settings)) is not None
    ]
    runs_of_arrays = by_array((one.run, one) for one in found)
    kept, below = heaviest([*_users(found), *map(_run, runs_of_arrays)], settings)
    return AuditResult(
        audit="unused",
        entries=kept,
        examined_count=len(those.runs),
        left_out=those.left_out,
        summary={
            "unused_gpu_hours": _hours(found),
            "run_count": len(found),
            **below,
        },
    )


def _use(gpu: RunGpu, settings: AuditConfig) -> Literal["unused", "used"] | None:
    totals = gpu.totals
    covered, allocated = totals.idle_covered_seconds, totals.allocated_seconds
    if totals.idle_seconds is None or totals.reason == "suspect" or covered <= 0 or allocated is None:
        return None
    if covered < settings.minimum_coverage_ratio * allocated:
        return None
    return "unused" if totals.idle_seconds >= settings.unused_ratio * covered else "used"


def _unused_of(row: UsageRow, run: RunRow, gpus: Sequence[RunGpu], settings: AuditConfig) -> _Unused | None:
    uses = [(gpu, _use(gpu, settings)) for gpu in gpus]
    idle = sorted((gpu for gpu, use in uses if use == "unused"), key=_place)
    used_count = sum(use == "used" for _, use in uses)
    if not idle or not used_count:
        return None
    return _Unused(
        row=row,
        run=run,
        gpus=tuple(idle),
        unknown_count=max(0.0, row.sums.gpu_count - len(idle) - used_count),
        seconds=math.fsum(gpu.totals.idle_seconds or 0.0 for gpu in idle) * _inside(row, gpus),
    )


def _inside(row: UsageRow, gpus: Sequence[RunGpu]) -> float:
    """The part of a run that lies in the window; single GPUs are known as wholes, those of nodes that were
    never heard from not at all."""
    known = [seconds for gpu in gpus if (seconds := gpu.totals.allocated_seconds) is not None]
    if not known or row.sums.allocated_seconds is None:
        return 1.0
    count = max(float(len(known)), row.sums.gpu_count - row.sums.gpu_count_unknown_time)
    whole = math.fsum(known) / len(known) * count
    return 1.0 if whole <= 0 else min(1.0, row.sums.allocated_seconds / whole)


def _place(gpu: RunGpu) -> tuple[str, int]:
    return gpu.node_name, gpu.totals.position


def _run(those: Sequence[_Unused]) -> AuditEntry:
    its = figures(pool(one.row.sums for one in those))
    alone = those[0] if len(those) == 1 else None
    places = None if alone is None else (f"{gpu.node_name}:{gpu.totals.position}" for gpu in alone.gpus)
    values: dict[str, AuditValue] = {
        "unused_gpu_hours": _hours(those),
        "unused_gpu_count": sum(len(one.gpus) for one in those),
        "gpu_count": its.gpu_count,
        "unknown_gpu_count": math.fsum(one.unknown_count for one in those),
        "unused_gpus": None if places is None else ",".join(places),
        "gpu_hours": its.gpu_hours,
        "ofu_ratio": its.ofu_ratio,
        "ofu_error_pp": its.ofu_error_pp,
        "coverage_ratio": its.coverage_ratio,
        "runtime_seconds": None if alone is None else runtime_seconds(alone.run),
        "run_count": len(those),
    }
    weighed = [(one.seconds, one.row) for one in those]
    return replace(array_entry("unused", "run", weighed, _hours(those)), figures=values)


def _users(found: Sequence[_Unused]) -> list[AuditEntry]:
    groups: dict[str, list[_Unused]] = defaultdict(list)
    for one in found:
        if one.run.user is not None:
            groups[one.run.user].append(one)
    return [_user(name, its) for name, its in groups.items()]


def _user(name: str, its: Sequence[_Unused]) -> AuditEntry:
    hours = _hours(its)
    gpu_hours = math.fsum(one.row.sums.allocated_seconds or 0.0 for one in its) / _HOUR
    return AuditEntry(
        audit="unused",
        kind="user",
        subject=name,
        user=name,
        weight_gpu_hours=hours,
        figures={
            "unused_gpu_hours": hours,
            "run_count": len(its),
            "gpu_hours": gpu_hours,
            "unused_ratio": hours / gpu_hours if gpu_hours > 0 else None,
        },
        runs=worst_runs((one.seconds, one.row) for one in its),
    )


def _hours(found: Sequence[_Unused]) -> float:
    return math.fsum(one.seconds for one in found) / _HOUR
