"""A day of GPUs, folded: what a sampler holds in memory at the end of a long job.

The course of activity and clock is a fixed walk that no compression can foresee: phases of a minute to an
hour, each with its own activity, and a clock that wanders with the temperature.
"""

from functools import cache
from random import Random

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import Reading, Sample

DAY_SECONDS = 86_400
INTERVAL_SECONDS = 10
_SECOND = 10**9


def day_fold(
    start_ns: int, wall_offset_ns: int, *, seed: int = 0, cycles: bool = True, seconds: int = DAY_SECONDS
) -> GpuFold:
    """A fold of a sample every ten seconds from ``start_ns`` (boottime) on: 8,640 a day."""
    fold, draw = GpuFold.start(start_ns, INTERVAL_SECONDS), Random(seed)
    activity, mhz, left = 0.5, 1755.0, 0
    sm_cycles = mma_cycles = 0.0
    for number in range(seconds // INTERVAL_SECONDS + 1):
        if left == 0:
            activity, left = draw.random() * 0.7, draw.randrange(6, 360)
        left -= 1
        mhz = min(1980.0, max(1200.0, mhz + draw.gauss(0, 15)))
        tensor = min(1.0, max(0.0, activity + draw.gauss(0, 0.05)))
        sm_cycles += mhz * 1e6 * INTERVAL_SECONDS
        mma_cycles += tensor * mhz * 1e6 * INTERVAL_SECONDS
        at = start_ns + number * INTERVAL_SECONDS * _SECOND
        reading = Reading(
            since_ns=at - INTERVAL_SECONDS * _SECOND if number else None,
            taken_ns=at,
            tensor_active_ratio=tensor if number else None,
            sm_active_ratio=min(1.0, tensor + 0.2),
            dram_active_ratio=tensor / 2,
            sm_cycles=sm_cycles if cycles else None,
            mma_cycles=mma_cycles if cycles else None,
            utilisation_ratio=1.0,
            power_watts=300 + 400 * tensor,
            energy_joules=4000.0 * number,
            memory_used_bytes=70 * 2**30,
            throttle_mask=4 if draw.random() < 0.1 else 0,
        )
        clocks = tuple(round((mhz + draw.gauss(0, 30)) / 15) * 15.0 for _ in range(10))
        fold.add(Sample(reading=reading, clocks_mhz=clocks, clock_before_mhz=mhz), wall_offset_ns)
        fold.clock_after(mhz)
    return fold


@cache
def day_folds(
    gpu_count: int, start_ns: int, wall_offset_ns: int, cycles: bool, seconds: int
) -> tuple[GpuFold, ...]:
    """That many different ones."""
    return tuple(
        day_fold(start_ns, wall_offset_ns, seed=seed, cycles=cycles, seconds=seconds)
        for seed in range(gpu_count)
    )
