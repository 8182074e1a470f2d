"""Sums of sums: what many GPUs, runs or groups add up to. Numerators and denominators, no ratios."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from slurm_ofu.figures.bands import added_counts
from slurm_ofu.values import GpuTotals, UsageSums

#: (variance, sum of squared variances over their degrees), both None where the error is unknown
Variance = tuple[float | None, float | None]

# What is simply added, by its names in UsageSums: what may be unknown, and what is 0 then.
_NUMERATORS = (
    *("allocated_seconds", "ofu_tensor_active_seconds", "tensor_active_seconds", "tensor_ref_seconds"),
    *("sm_active_seconds", "energy_joules", "idle_seconds", "idle_tail_seconds", "non_tensor_seconds"),
    *("peak_tensor_ref_seconds", "throttled_power_seconds", "throttled_thermal_seconds"),
    *("held_suspended_seconds", "lost_seconds"),
)
_DENOMINATORS = (
    *("gpu_count", "gpu_count_unknown_time", "covered_seconds", "ofu_covered_seconds"),
    *("tpa_covered_seconds", "sm_active_covered_seconds", "idle_covered_seconds"),
    *("non_tensor_covered_seconds", "peak_covered_seconds", "throttle_covered_seconds"),
    "ranked_seconds",
)
_COUNTS = (
    *("run_count", "non_tensor_run_count", "unmeasured_run_count"),
    *("running_run_count", "prorated_run_count"),
)
_OF_WHOLE_RUNS = (
    *("gpu_count", "gpu_count_unknown_time", "peak_tensor_ref_seconds", "peak_covered_seconds"),
)
_LABELS = ("estimators", "reasons", "gpu_models")
_GPU_FIELDS = {field.name for field in fields(GpuTotals)}
_OF_A_GPU = tuple(name for name in (*_NUMERATORS, *_DENOMINATORS) if name in _GPU_FIELDS)
# What profiling counters say of a GPU, by its names in GpuTotals, when they say nothing.
_UNMEASURED: dict[str, Any] = {
    **dict.fromkeys(("tensor_active_seconds", "tensor_ref_seconds", "tensor_ref_error_seconds")),
    **dict.fromkeys(("sm_active_seconds", "idle_seconds", "idle_tail_seconds", "non_tensor_seconds")),
    **dict.fromkeys(("peak_tensor_ref_seconds", "error_degrees")),
    **dict.fromkeys(("covered_seconds", "sm_active_covered_seconds", "idle_covered_seconds"), 0.0),
    **dict.fromkeys(("non_tensor_covered_seconds", "peak_covered_seconds"), 0.0),
}


def pool(members: Iterable[UsageSums]) -> UsageSums:
    """The sums over distinct runs or groups: their errors are independent and add in quadrature."""
    return _pool(tuple(members), _independent)


def pool_gpus(members: Iterable[GpuTotals]) -> UsageSums:
    """The sums over GPUs of one run: they swing together, so their errors add linearly."""
    sums = _pool(tuple(sums_of_gpu(gpu) for gpu in members), _in_step)
    return replace(sums, run_count=min(1, sums.run_count))  # of one run there is no more to count


def part_in_time(run: UsageSums, ratio: float) -> UsageSums:
    """The part of one run's sums in a part of its time, where nothing is known of when it did what: evenly.
    The busiest five minutes are known of whole runs alone."""
    names = (*_NUMERATORS, *_DENOMINATORS, "tensor_ref_variance", "tensor_ref_variance_per_degree")
    parts: dict[str, Any] = {
        name: None if (value := getattr(run, name)) is None else value * ratio
        for name in names
        if name not in _OF_WHOLE_RUNS
    }
    measured = run.covered_seconds > 0  # else even is exact
    return replace(
        run, **parts, peak_tensor_ref_seconds=None, peak_covered_seconds=0.0, prorated_run_count=int(measured)
    )


def sums_of_gpu(gpu: GpuTotals) -> UsageSums:
    """One GPU of one run as sums. What the counters of a suspect one said is not believed: not measured."""
    if gpu.reason == "suspect":
        gpu = replace(gpu, **_UNMEASURED)
    has_ofu = gpu.tensor_ref_seconds is not None
    variance = None if gpu.tensor_ref_error_seconds is None else gpu.tensor_ref_error_seconds**2
    same: dict[str, Any] = {name: getattr(gpu, name) for name in _OF_A_GPU}
    return UsageSums(
        run_count=1,
        gpu_count=1.0,
        gpu_count_unknown_time=1.0 if gpu.allocated_seconds is None else 0.0,
        ofu_covered_seconds=gpu.covered_seconds if has_ofu else 0.0,
        ofu_tensor_active_seconds=gpu.tensor_active_seconds if has_ofu else None,
        tensor_ref_variance=variance,
        tensor_ref_variance_per_degree=_per_degree(variance, gpu.error_degrees),
        tpa_covered_seconds=0.0 if gpu.tensor_active_seconds is None else gpu.covered_seconds,
        estimators=() if gpu.estimator is None else (gpu.estimator,),
        reasons=(gpu.reason,),
        gpu_models=() if gpu.gpu_model is None else (gpu.gpu_model,),
        **same,
    )


def degrees_of_freedom(variance: float, per_degree: float | None) -> float:
    """Welch and Satterthwaite's: squared variance over the sum of squared variances per degree."""
    if per_degree is None or per_degree <= 0:
        return math.inf
    return variance / per_degree * variance


def _pool(members: Sequence[UsageSums], variance_of: Callable[[Sequence[UsageSums]], Variance]) -> UsageSums:
    variance, per_degree = variance_of([sums for sums in members if sums.tensor_ref_seconds is not None])
    added: dict[str, Any] = {
        **{name: _add(getattr(sums, name) for sums in members) for name in _NUMERATORS},
        **{name: math.fsum(getattr(sums, name) for sums in members) for name in _DENOMINATORS},
        **{name: sum(getattr(sums, name) for sums in members) for name in _COUNTS},
        **{name: _union(getattr(sums, name) for sums in members) for name in _LABELS},
    }
    return UsageSums(
        band_run_counts=added_counts([sums.band_run_counts for sums in members]),
        tensor_ref_variance=variance,
        tensor_ref_variance_per_degree=per_degree,
        **added,
    )


def _independent(measured: Sequence[UsageSums]) -> Variance:
    variances = [sums.tensor_ref_variance for sums in measured]
    if not variances or None in variances:
        return None, None
    return _add(variances), _add(sums.tensor_ref_variance_per_degree for sums in measured)


def _in_step(measured: Sequence[UsageSums]) -> Variance:
    """One common swing has no more degrees of freedom than its least known part."""
    variances = [sums.tensor_ref_variance for sums in measured]
    if not variances or None in variances:
        return None, None
    variance = math.fsum(math.sqrt(v) for v in variances if v is not None) ** 2
    degrees = min(
        degrees_of_freedom(sums.tensor_ref_variance or 0.0, sums.tensor_ref_variance_per_degree)
        for sums in measured
    )
    return variance, _per_degree(variance, degrees)


def _per_degree(variance: float | None, degrees: float | None) -> float | None:
    if variance is None or degrees is None or degrees <= 0 or math.isinf(degrees):
        return None if variance is None else 0.0
    return variance / degrees * variance


def _add(values: Iterable[float | None]) -> float | None:
    """The sum of what is known, the same in any order; ``None`` only where nothing is known."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _union(values: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({value for some in values for value in some}))
