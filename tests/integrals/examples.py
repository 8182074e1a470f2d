"""Readings, samples and intervals: a test names only what it is about."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.values import GpuModel, GpuTotals, Interval, Reading, Sample

SECOND = 10**9
H100 = GpuModel(
    name="H100 80GB HBM3", sm_count=132, reference_clock_mhz=1830.0, max_clock_mhz=1980.0, status="verified"
)
RULES = Rules(interval_seconds=10.0, refresh_seconds=0.1)


def near(value: float, *, within: float | None = None) -> Any:
    """A number that may differ by rounding, or by ``within``; fits into a tuple of other things."""
    return pytest.approx(value, abs=within)


def reading(since_s: float | None, taken_s: float, tensor: float | None = 0.5) -> Reading:
    """A good reading; a reading without tensor activity is one whose source was lost."""
    return Reading(
        since_ns=None if since_s is None else round(since_s * SECOND),
        taken_ns=round(taken_s * SECOND),
        tensor_active_ratio=tensor if since_s is not None else None,
        fault="source_lost" if tensor is None else None,
    )


def sample(
    since_s: float | None,
    taken_s: float,
    *,
    tensor: float | None = 0.5,
    clocks: Sequence[float] = (1830.0,) * 10,
    before: float | None = None,
    cycles: tuple[float, float] | None = None,
) -> Sample:
    """A sample; ``cycles``: the cumulative counters 248 and 250."""
    its = reading(since_s, taken_s, tensor)
    if cycles is not None:
        its = replace(its, sm_cycles=cycles[0], mma_cycles=cycles[1])
    return Sample(reading=its, clocks_mhz=tuple(clocks), clock_before_mhz=before)


def interval(
    start_s: float, end_s: float, *, tensor: float = 0.5, mhz: float = 1830.0, variance: float = 0.0
) -> Interval:
    """An interval with steady activity and clock."""
    return Interval(
        start_ns=round(start_s * SECOND),
        end_ns=round(end_s * SECOND),
        tensor_active_ratio=tensor,
        tensor_megacycles=tensor * mhz * (end_s - start_s),
        variance=variance,
        degrees=9.0,
    )


def counted_fold(
    *,
    tensor: float = 0.5,
    counted_tensor: float | None = None,
    mhz: float = 1830.0,
    counted_mhz: float | None = None,
    intervals: int = 7,
    seconds: float = 10.0,
    scale: float = 1.0,
    start_s: float = 0.0,
    wall_offset_ns: int = 0,
) -> GpuFold:
    """A fold of steady intervals that both estimators saw; ``counted_*`` is what the counters say."""
    fold = GpuFold.start(round(start_s * SECOND), seconds)
    sm_hz = (mhz if counted_mhz is None else counted_mhz) * 1e6 * scale
    mma_hz = (tensor if counted_tensor is None else counted_tensor) * sm_hz
    for number in range(intervals + 1):
        at = start_s + number * seconds
        since = at - seconds if number else None
        counters = (sm_hz * at, mma_hz * at)
        one = sample(since, at, tensor=tensor, clocks=[mhz] * 10, before=mhz, cycles=counters)
        fold.add(one, wall_offset_ns)
    fold.clock_after(mhz)
    return fold


def totals(
    fold: GpuFold,
    *,
    model: GpuModel | None = H100,
    rules: Rules = RULES,
    sm_count: int | None = 132,
    allocated: float | None = 1000.0,
    died: bool = False,
) -> GpuTotals:
    """The totals of a fold on an H100, unless told otherwise."""
    given = Allocation(
        position=0,
        allocated_seconds=allocated,
        uuid="GPU-0",
        gpu_model=model.name if model else "Unheard-of GPU",
        mapped_by="plain_order",
        sm_count=sm_count,
    )
    return gpu_totals(fold, given, model, rules, died=died, wall_offset_ns=0)
