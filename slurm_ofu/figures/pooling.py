"""Sums of sums: what many GPUs, runs or groups add up to. Numerators and denominators, no ratios."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slurm_ofu.values import GpuTotals, UsageSums

#: (variance, sum of squared variances over their degrees), both None where the error is unknown
Variance = tuple[float | None, float | None]


def pool(members: Iterable[UsageSums]) -> UsageSums:
    """The sums over distinct runs or groups: their errors are independent and add in quadrature."""
    return _pool(tuple(members), _independent)


def pool_gpus(members: Iterable[GpuTotals]) -> UsageSums:
    """The sums over GPUs of one run: they swing together, so their errors add linearly."""
    sums = _pool(tuple(sums_of_gpu(gpu) for gpu in members), _in_step)
    return replace(sums, run_count=min(1, sums.run_count))


def sums_of_gpu(gpu: GpuTotals) -> UsageSums:
    """One GPU of one run as sums."""
    has_ofu = gpu.tensor_ref_seconds is not None
    variance = None if gpu.tensor_ref_error_seconds is None else gpu.tensor_ref_error_seconds**2
    return UsageSums(
        run_count=1,
        gpu_count=1.0,
        gpu_count_unknown_time=1.0 if gpu.allocated_seconds is None else 0.0,
        allocated_seconds=gpu.allocated_seconds,
        covered_seconds=gpu.covered_seconds,
        ofu_covered_seconds=gpu.covered_seconds if has_ofu else 0.0,
        ofu_tensor_active_seconds=gpu.tensor_active_seconds if has_ofu else None,
        tensor_active_seconds=gpu.tensor_active_seconds,
        tensor_ref_seconds=gpu.tensor_ref_seconds,
        tensor_ref_variance=variance,
        tensor_ref_variance_per_degree=_per_degree(variance, gpu.error_degrees),
        tpa_covered_seconds=0.0 if gpu.tensor_active_seconds is None else gpu.covered_seconds,
        sm_active_seconds=gpu.sm_active_seconds,
        sm_active_covered_seconds=gpu.sm_active_covered_seconds,
        energy_joules=gpu.energy_joules,
        estimators=() if gpu.estimator is None else (gpu.estimator,),
        reasons=(gpu.reason,),
        gpu_models=() if gpu.gpu_model is None else (gpu.gpu_model,),
    )


def degrees_of_freedom(variance: float, per_degree: float | None) -> float:
    """Welch and Satterthwaite's: squared variance over the sum of squared variances per degree."""
    if per_degree is None or per_degree <= 0:
        return math.inf
    return variance / per_degree * variance


def _pool(members: Sequence[UsageSums], variance_of: Callable[[Sequence[UsageSums]], Variance]) -> UsageSums:
    variance, per_degree = variance_of([sums for sums in members if sums.tensor_ref_seconds is not None])
    return UsageSums(
        run_count=sum(sums.run_count for sums in members),
        gpu_count=math.fsum(sums.gpu_count for sums in members),
        gpu_count_unknown_time=math.fsum(sums.gpu_count_unknown_time for sums in members),
        allocated_seconds=_add(sums.allocated_seconds for sums in members),
        covered_seconds=math.fsum(sums.covered_seconds for sums in members),
        ofu_covered_seconds=math.fsum(sums.ofu_covered_seconds for sums in members),
        ofu_tensor_active_seconds=_add(sums.ofu_tensor_active_seconds for sums in members),
        tensor_active_seconds=_add(sums.tensor_active_seconds for sums in members),
        tensor_ref_seconds=_add(sums.tensor_ref_seconds for sums in members),
        tensor_ref_variance=variance,
        tensor_ref_variance_per_degree=per_degree,
        tpa_covered_seconds=math.fsum(sums.tpa_covered_seconds for sums in members),
        sm_active_seconds=_add(sums.sm_active_seconds for sums in members),
        sm_active_covered_seconds=math.fsum(sums.sm_active_covered_seconds for sums in members),
        energy_joules=_add(sums.energy_joules for sums in members),
        estimators=_union(sums.estimators for sums in members),
        reasons=_union(sums.reasons for sums in members),
        gpu_models=_union(sums.gpu_models for sums in members),
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
