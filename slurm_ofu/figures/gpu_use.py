"""What GPUs of a run were used for, as ratios: how long idle, and what they did while they were not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ofu.figures.pooling import pool_gpus
from slurm_ofu.figures.ratios import figures
from slurm_ofu.figures.work import LEAST_JUDGED_RATIO
from slurm_ofu.values import Figures, GpuTotals, UsageSums


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """Of one GPU or several. ``busy_…``: over the time that was not idle. ``None``: not known, or
    for too little of the time that was judged for idleness (metric.md 7)."""

    figures: Figures
    judged_seconds: float  # GPU-seconds of which it is known whether they were idle
    judged_ratio: float | None  # of those allocated
    idle_ratio: float | None
    busy_sm_ratio: float | None
    busy_tensor_ratio: float | None
    busy_memory_ratio: float | None
    non_tensor_ratio: float | None  # of the busy time, that without tensor work
    throttled_power_ratio: float | None
    throttled_thermal_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSide:
    """What GPUs took besides: mean power of one of them, and the most memory that was in use on any."""

    power_watts: float | None
    memory_max_bytes: int | None


def use_of_gpus(gpus: Sequence[GpuTotals]) -> GpuUse:
    """Of these GPUs together. What the counters of a suspect one said is not believed."""
    believed = [gpu for gpu in gpus if gpu.reason != "suspect" and gpu.dram_active_seconds is not None]
    active = math.fsum(gpu.dram_active_seconds or 0.0 for gpu in believed)
    covered = math.fsum(gpu.dram_active_covered_seconds for gpu in believed)
    return _use(pool_gpus(gpus), (active, covered))


def use_of_sums(sums: UsageSums) -> GpuUse:
    """Of a run whose single GPUs are not known. Sums do not hold what its memory did."""
    return _use(sums, None)


def side_of_gpus(gpus: Sequence[GpuTotals]) -> GpuSide:
    """Power and memory of these GPUs, for what is known of them."""
    known = [gpu for gpu in gpus if gpu.power_joules is not None]
    seconds = math.fsum(gpu.power_covered_seconds for gpu in known)
    return GpuSide(
        power_watts=math.fsum(gpu.power_joules or 0.0 for gpu in known) / seconds if seconds > 0 else None,
        memory_max_bytes=max(
            (gpu.memory_max_bytes for gpu in gpus if gpu.memory_max_bytes is not None), default=None
        ),
    )


def tail_on_the_clock(gpu: GpuTotals, held_seconds: float | None) -> float | None:
    """For how long a GPU was idle at the run's end. Rows hold a run's part of a shared GPU or of a MIG slice;
    ``held_seconds`` is how long its node was held."""
    tail, own = gpu.idle_tail_seconds, gpu.allocated_seconds
    if tail is None or gpu.reason == "suspect":
        return None
    if not own or held_seconds is None or held_seconds <= own:
        return tail
    return tail * held_seconds / own if gpu.reason == "shared" or gpu.sm_share_ratio < 1 else tail


def tail_ratio(gpu: GpuTotals) -> float | None:
    """The part of its time for which a GPU was idle at the run's end."""
    return None if gpu.reason == "suspect" else _share(gpu.idle_tail_seconds, gpu.allocated_seconds)


def _use(sums: UsageSums, memory: tuple[float, float] | None) -> GpuUse:
    idle = None if sums.idle_seconds is None else _share(sums.idle_seconds, sums.idle_covered_seconds)
    judged = 0.0 if idle is None else sums.idle_covered_seconds

    def share(part: float | None, covered_seconds: float) -> float | None:
        return _share(part, covered_seconds) if covered_seconds >= LEAST_JUDGED_RATIO * judged else None

    def busy(part: float | None, covered_seconds: float) -> float | None:
        ratio = share(part, covered_seconds)
        return None if idle is None else _share(ratio, 1 - idle)

    known_seconds = sums.throttle_covered_seconds
    return GpuUse(
        figures=figures(sums),
        judged_seconds=judged,
        judged_ratio=_share(judged, sums.allocated_seconds),
        idle_ratio=idle,
        busy_sm_ratio=busy(sums.sm_active_seconds, sums.sm_active_covered_seconds),
        busy_tensor_ratio=busy(sums.tensor_active_seconds, sums.tpa_covered_seconds),
        busy_memory_ratio=None if memory is None else busy(*memory),
        non_tensor_ratio=busy(sums.non_tensor_seconds, sums.non_tensor_covered_seconds),
        throttled_power_ratio=share(sums.throttled_power_seconds, known_seconds),
        throttled_thermal_ratio=share(sums.throttled_thermal_seconds, known_seconds),
    )


def _share(part: float | None, whole: float | None) -> float | None:
    if part is None or whole is None or whole <= 0:
        return None
    ratio = part / whole
    return min(1.0, ratio) if math.isfinite(ratio) else None
