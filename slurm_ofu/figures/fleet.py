"""How much of a fleet's GPU time has an OFU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ofu.values import CoveredRuns

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCoverage:
    """Runs and GPU-hours with and without OFU; ``share_ratio`` is None where no time is known."""

    run_count: int
    run_count_with_ofu: int
    gpu_hours_with_ofu: float
    gpu_hours_without: float
    share_ratio: float | None
    gpu_count_unknown_time: float  # GPUs whose time is in no GPU-hours


def fleet_coverage(rows: Sequence[CoveredRuns]) -> FleetCoverage:
    """The rows pooled."""
    covered = math.fsum(row.ofu_covered_seconds for row in rows)
    without = math.fsum(row.unmeasured_seconds for row in rows)
    whole = covered + without
    return FleetCoverage(
        run_count=sum(row.run_count for row in rows),
        run_count_with_ofu=sum(row.run_count_with_ofu for row in rows),
        gpu_hours_with_ofu=covered / _SECONDS_PER_HOUR,
        gpu_hours_without=without / _SECONDS_PER_HOUR,
        share_ratio=covered / whole if whole > 0 else None,
        gpu_count_unknown_time=math.fsum(row.gpu_count_unknown_time for row in rows),
    )


def gpu_hours(gpu_seconds: float | None) -> float | None:
    """GPU-seconds as GPU-hours."""
    return None if gpu_seconds is None else gpu_seconds / _SECONDS_PER_HOUR
