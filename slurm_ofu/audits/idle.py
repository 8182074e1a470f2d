"""Runs that held GPUs and did nothing with them: when they have ended, and while they still run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_ofu.audits.arrays import array_entry, by_array
from slurm_ofu.audits.eligible import LeftOut, heaviest, judged, no_idle, runtime_seconds
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
    UsageSums,
)

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    """A run that is listed; ``row`` is whole."""

    row: UsageRow
    run: RunRow
    at_stake_seconds: float
    tail_seconds: float | None = None
    as_of_epoch_s: float | None = None  # of one that goes on: when the last word of all of its GPUs came


def idle(
    runs: Sequence[UsageRow],
    gpus: Mapping[int, Sequence[RunGpu]],
    settings: AuditConfig,
    goals: Goals,
    *,
    now_epoch_s: float | None = None,
    whole: Mapping[int, UsageRow] | None = None,
) -> AuditResult:
    """Entries of the kinds ``running`` and ``ended``, a run each, or the tasks of one array.

    ``ended``: idle for much of the time of which that is known; idle GPU-hours in the window are at stake.
    ``whole``: by ``run_id`` the runs that the window cuts, which are judged, and shown, uncut. ``running``:
    every one of its GPUs has been idle without a break until its latest figures were made
    (``as_of_epoch_s``); the GPU-hours of that stretch are at stake. A run that goes on and works now is not
    listed, whatever it did before; nor is one that Slurm has suspended, or that was not heard of for so long
    (``stale``).
    """
    uncut = whole or {}

    def why_not(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
        its = row if row.run is None else uncut.get(row.run.run_id, row)
        return no_idle(its, settings) or _not_now(row.run, settings, now_epoch_s)

    those = judged(runs, settings, why_not)
    ended, running = [], []
    for row in those.runs:
        if row.run is None:
            continue
        if row.run.running:
            its = gpus.get(row.run.run_id, ())
            running.append(_running(row, row.run, its, settings, now_epoch_s))
        else:
            ended.append(_ended(row, uncut.get(row.run.run_id, row), row.run, settings))
    found = (("ended", ended), ("running", running))
    entries = [
        _entry(kind, its)
        for kind, some in found
        for its in by_array((one.run, one) for one in some if one is not None)
    ]
    kept, below = heaviest(entries, settings)
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


def _not_now(run: RunRow | None, settings: AuditConfig, now_epoch_s: float | None) -> LeftOut | None:
    """Why nothing is said of a run that goes on: its latest figures are too old."""
    if run is None or not run.running or run.end_epoch_s is None or now_epoch_s is None:
        return None
    return "stale" if now_epoch_s - run.end_epoch_s > settings.idle_seconds else None


def _running(
    row: UsageRow,
    run: RunRow,
    gpus: Sequence[RunGpu],
    settings: AuditConfig,
    now_epoch_s: float | None,
) -> _Idle | None:
    as_of = _last_word_of_all(run, gpus)
    if as_of is not None and now_epoch_s is not None and now_epoch_s - as_of > settings.idle_seconds:
        return None
    tail = tail_seconds(gpus, row.sums.gpu_count)
    suspended = run.suspended_seconds or 0.0  # maybe all of it in that stretch
    if tail is None or tail - suspended < settings.idle_seconds:
        return None
    own = math.fsum(gpu.totals.idle_tail_seconds or 0.0 for gpu in gpus)
    tail, at_stake = tail - suspended, own * (tail - suspended) / tail
    return _Idle(row=row, run=run, at_stake_seconds=at_stake, tail_seconds=tail, as_of_epoch_s=as_of)


def _last_word_of_all(run: RunRow, gpus: Sequence[RunGpu]) -> float | None:
    """Until when something is known of every GPU: a node may have fallen silent while others went on."""
    held = [
        gpu.totals.allocated_seconds / gpu.totals.sm_share_ratio
        for gpu in gpus
        if gpu.totals.allocated_seconds is not None
    ]
    return None if run.end_epoch_s is None else run.end_epoch_s - (max(held) - min(held) if held else 0.0)


def _ended(row: UsageRow, whole: UsageRow, run: RunRow, settings: AuditConfig) -> _Idle | None:
    seconds = whole.sums.idle_seconds
    if seconds is None or seconds < settings.idle_ratio * whole.sums.idle_covered_seconds:
        return None
    return _Idle(row=whole, run=run, at_stake_seconds=row.sums.idle_seconds or 0.0)


def _entry(kind: str, those: Sequence[_Idle]) -> AuditEntry:
    sums = pool(one.row.sums for one in those)
    its = figures(sums)
    weighed = [(one.at_stake_seconds, one.row) for one in those]
    at_stake = math.fsum(seconds for seconds, _ in weighed) / _HOUR
    values: dict[str, AuditValue] = {
        "idle_gpu_hours": its.idle_gpu_hours,
        "idle_judged_gpu_hours": its.idle_judged_gpu_hours,
        "idle_ratio": _share(sums),
        **(_as_of(those) if kind == "running" else {}),
        "gpu_count": its.gpu_count,
        "gpu_hours": its.gpu_hours,
        "ofu_ratio": its.ofu_ratio,
        "ofu_error_pp": its.ofu_error_pp,
        "coverage_ratio": its.coverage_ratio,
        "runtime_seconds": runtime_seconds(those[0].run) if len(those) == 1 else None,
        "run_count": len(those),
    }
    return replace(array_entry("idle", kind, weighed, at_stake), figures=values)


def _as_of(those: Sequence[_Idle]) -> dict[str, AuditValue]:
    """For how long all of them have been idle, at least, and as of when."""
    tails = [one.tail_seconds for one in those if one.tail_seconds is not None]
    ends = [one.as_of_epoch_s for one in those if one.as_of_epoch_s is not None]
    return {
        "idle_tail_seconds": min(tails, default=None),
        "as_of_epoch_s": min(ends, default=None),
    }


def _share(sums: UsageSums) -> float | None:
    covered = sums.idle_covered_seconds
    return None if sums.idle_seconds is None or covered <= 0 else sums.idle_seconds / covered


def _summary(runs: Sequence[UsageRow]) -> dict[str, AuditValue]:
    idle_hours = math.fsum(row.sums.idle_seconds or 0.0 for row in runs) / _HOUR
    known_hours = math.fsum(row.sums.idle_covered_seconds for row in runs) / _HOUR
    return {
        "idle_gpu_hours": idle_hours if runs else None,
        "idle_judged_gpu_hours": known_hours if runs else None,
        "idle_ratio": idle_hours / known_hours if known_hours > 0 else None,
    }
