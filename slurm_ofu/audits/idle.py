"""Runs that held GPUs and did nothing with them: when they have ended, and while they still run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_ofu.audits.eligible import LeftOut, heaviest, judged, no_idle, run_entry, runtime_seconds
from slurm_ofu.figures import figures
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, AuditValue, Goals, RunGpu, UsageRow

_HOUR = 3600.0


def idle(
    runs: Sequence[UsageRow],
    gpus: Mapping[int, Sequence[RunGpu]],
    settings: AuditConfig,
    goals: Goals,
    *,
    now_epoch_s: float | None = None,
) -> AuditResult:
    """Entries of the kinds ``running`` and ``ended``, a run each.

    ``ended``: idle for much of the time of which that is known; idle GPU-hours are at stake. ``running``:
    every one of its GPUs has been idle without a break until its latest figures were made
    (``as_of_epoch_s``); the GPU-hours of that stretch are at stake. A run that goes on and works now is not
    listed, whatever it did before; nor is one that was not heard of for so long (``stale``).
    """

    def why_not(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
        return no_idle(row, settings) or ("stale" if _is_stale(row, settings, now_epoch_s) else None)

    those = judged(runs, settings, why_not)
    found = []
    for row in those.runs:
        if row.run is None:
            continue
        entry = (
            _running(row, gpus.get(row.run.run_id, ()), settings)
            if row.run.running
            else _ended(row, settings)
        )
        found += [] if entry is None else [entry]
    kept, below = heaviest(found, settings)
    return AuditResult(
        audit="idle",
        entries=kept,
        examined_count=len(those.runs),
        left_out=those.left_out,
        summary={**_summary(those.runs), **below},
    )


def tail_seconds(gpus: Sequence[RunGpu], gpu_count: float) -> float | None:
    """For how long all GPUs of a run have been idle up to its end, on the clock. 0: one was not; ``None``:
    not known, also where one of them is not."""
    tails = [
        None
        if gpu.totals.idle_tail_seconds is None or gpu.totals.reason == "suspect"
        else gpu.totals.idle_tail_seconds / gpu.totals.sm_share_ratio
        for gpu in gpus
    ]
    known = [tail for tail in tails if tail is not None]
    if known and min(known) == 0:
        return 0.0
    return min(known) if known and len(known) == len(tails) and len(known) >= gpu_count else None


def _is_stale(row: UsageRow, settings: AuditConfig, now_epoch_s: float | None) -> bool:
    """Whether the latest figures of a run that goes on are too old to speak of now."""
    run = row.run
    if run is None or not run.running or run.end_epoch_s is None or now_epoch_s is None:
        return False
    return now_epoch_s - run.end_epoch_s > settings.idle_seconds


def _running(row: UsageRow, gpus: Sequence[RunGpu], settings: AuditConfig) -> AuditEntry | None:
    tail = tail_seconds(gpus, row.sums.gpu_count)
    if tail is None or tail < settings.idle_seconds:
        return None
    at_stake = math.fsum(gpu.totals.idle_tail_seconds or 0.0 for gpu in gpus)
    as_of = None if row.run is None else row.run.end_epoch_s
    return _entry("running", row, at_stake, {"idle_tail_seconds": tail, "as_of_epoch_s": as_of})


def _ended(row: UsageRow, settings: AuditConfig) -> AuditEntry | None:
    seconds = row.sums.idle_seconds
    if seconds is None or seconds < settings.idle_ratio * row.sums.idle_covered_seconds:
        return None
    return _entry("ended", row, seconds, {})


def _entry(kind: str, row: UsageRow, at_stake_seconds: float, more: Mapping[str, AuditValue]) -> AuditEntry:
    its = figures(row.sums)
    entry = run_entry("idle", kind, row, at_stake_seconds / _HOUR)
    values: dict[str, AuditValue] = {
        "idle_gpu_hours": its.idle_gpu_hours,
        "idle_judged_gpu_hours": its.idle_judged_gpu_hours,
        "idle_ratio": _share(row),
        **more,
        "gpu_count": its.gpu_count,
        "gpu_hours": its.gpu_hours,
        "ofu_ratio": its.ofu_ratio,
        "runtime_seconds": None if row.run is None else runtime_seconds(row.run),
    }
    return replace(entry, figures=values)


def _share(row: UsageRow) -> float | None:
    covered = row.sums.idle_covered_seconds
    return None if row.sums.idle_seconds is None or covered <= 0 else row.sums.idle_seconds / covered


def _summary(runs: Sequence[UsageRow]) -> dict[str, AuditValue]:
    idle_hours = math.fsum(row.sums.idle_seconds or 0.0 for row in runs) / _HOUR
    known_hours = math.fsum(row.sums.idle_covered_seconds for row in runs) / _HOUR
    return {
        "idle_gpu_hours": idle_hours if runs else None,
        "idle_judged_gpu_hours": known_hours if runs else None,
        "idle_ratio": idle_hours / known_hours if known_hours > 0 else None,
    }
