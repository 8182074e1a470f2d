"""What kind of work a run did, and what it lost against its partition's goal (metric.md 7)."""

from typing import Final, Literal

from slurm_ofu.values import UsageSums

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


def work_kind(run: UsageSums) -> WorkKind:
    """The kind of one run's work, from its sums. ``store.queries`` says the same in SQL."""
    if run.tensor_ref_seconds is None or run.ofu_covered_seconds <= 0:
        return "unmeasured"
    if run.non_tensor_covered_seconds < LEAST_JUDGED_RATIO * run.ofu_covered_seconds:
        return "unknown"
    busy_seconds = run.non_tensor_covered_seconds - (run.idle_seconds or 0.0)
    if busy_seconds <= 0:
        return "idle"
    return "non_tensor" if (run.non_tensor_seconds or 0.0) > busy_seconds / 2 else "tensor"


def lost_seconds(covered_seconds: float, tensor_ref_seconds: float, goal_ratio: float) -> float:
    """Measured GPU-seconds of one GPU of one ranked run below the goal: covered · max(0, 1 − OFU/goal)."""
    return max(0.0, covered_seconds - tensor_ref_seconds / goal_ratio)
