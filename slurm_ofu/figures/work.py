"""What kind of work a run did, and what it lost against its partition's goal (metric.md 7)."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

from slurm_ofu.figures.bands import BAND_COUNT, band_of
from slurm_ofu.values import GpuTotals, UsageSums

WorkKind = Literal[
    "tensor",  # some of it on tensor cores
    "idle",  # nothing of it was busy
    "non_tensor",  # busy, most of that time without tensor work: neither idle nor wasteful
    "unknown",  # SM activity is not known: that might be either
    "unmeasured",  # no OFU
]
#: Runs whose loss is counted, and that a worst list may hold.
RANKED: Final = ("tensor", "idle")
#: The part of the measured time of which it must be known whether it was busy without tensor work.
LEAST_JUDGED_RATIO: Final = 0.5
_ALL: Final = 1 - 1e-9  # but for the dust of adding up


def work_kind(run: UsageSums) -> WorkKind:
    """The kind of one run's work, from its sums. ``store.queries`` says the same in SQL."""
    if run.tensor_ref_seconds is None or run.ofu_covered_seconds <= 0:
        return "unmeasured"
    if run.non_tensor_covered_seconds < LEAST_JUDGED_RATIO * run.ofu_covered_seconds:
        return "unknown"
    # Idle minutes may be known by utilisation alone, where SM activity is not: then they say nothing
    # against the minutes that were seen busy without tensor work.
    busy_seconds = max(0.0, run.non_tensor_covered_seconds - (run.idle_seconds or 0.0))
    if (run.non_tensor_seconds or 0.0) > busy_seconds / 2:
        return "non_tensor"
    return "tensor" if busy_seconds > 0 else "idle"


def pooled_work_kind(sums: UsageSums) -> WorkKind | Literal["mixed"] | None:
    """The kind of all these runs, ``None`` for none of them; "mixed" where they differ, or may."""
    if sums.run_count <= 1:
        return work_kind(sums) if sums.run_count else None
    if sums.unmeasured_run_count == sums.run_count:
        return "unmeasured"
    if sums.non_tensor_run_count == sums.run_count:
        return "non_tensor"
    if sum(sums.band_run_counts) < sums.run_count:
        return "mixed"
    if sums.ranked_seconds <= 0:
        return "unknown"
    if sums.ranked_seconds < _ALL * sums.ofu_covered_seconds:
        return "mixed"
    if (sums.idle_seconds or 0.0) <= 0 or sums.band_run_counts[0] == 0:
        return "tensor"
    return "idle" if (sums.idle_seconds or 0.0) >= _ALL * sums.idle_covered_seconds else "mixed"


def with_counts(run: UsageSums) -> UsageSums:
    """The sums of one run with its place among the counts of runs: its band of OFU, or why it is in none."""
    kind = work_kind(run)
    if kind == "unmeasured" or run.tensor_ref_seconds is None:
        return replace(run, unmeasured_run_count=1, band_run_counts=())
    if kind == "non_tensor":
        return replace(run, non_tensor_run_count=1, band_run_counts=())
    band = band_of(run.tensor_ref_seconds / run.ofu_covered_seconds)
    return replace(run, band_run_counts=tuple(int(at == band) for at in range(BAND_COUNT)))


def with_lost(run: UsageSums, gpus: Iterable[GpuTotals], goal_ratio: float) -> UsageSums:
    """The sums of one run with what its GPUs lost; those of which nothing was measured lose nothing."""
    if work_kind(run) not in RANKED:
        return replace(run, lost_seconds=None, ranked_seconds=0.0)
    lost = math.fsum(
        lost_seconds(gpu.covered_seconds, gpu.tensor_ref_seconds, goal_ratio)
        for gpu in gpus
        if gpu.reason != "suspect" and gpu.tensor_ref_seconds is not None
    )
    return replace(run, lost_seconds=lost, ranked_seconds=run.ofu_covered_seconds)


def lost_seconds(covered_seconds: float, tensor_ref_seconds: float, goal_ratio: float) -> float:
    """Measured GPU-seconds of one GPU of one ranked run below the goal: covered · max(0, 1 − OFU/goal)."""
    return max(0.0, covered_seconds - tensor_ref_seconds / goal_ratio)
