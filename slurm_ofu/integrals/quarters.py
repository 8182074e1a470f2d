"""Finished folds → sums per UTC quarter hour, over the GPUs of one model on one node."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.series import JudgedQuarter, QuarterSeries
from slurm_ofu.integrals.standstill import standstill_seconds
from slurm_ofu.integrals.totals import Allocation, Choice, choose, is_suspect
from slurm_ofu.values import GpuModel, QuarterSums


def quarter_sums(
    folds: Sequence[tuple[GpuFold | None, Allocation]],
    model: GpuModel | None,
    gpu_model: str | None,
    refresh_seconds: float,
    allocated: dict[int, float],
) -> tuple[QuarterSums, ...]:
    """Sums per UTC quarter hour over the GPUs of one model on one node; a suspect one was not measured.

    ``allocated``: quarter (epoch // 900) → allocated seconds of one GPU in it.
    """
    shared = [
        _Shared(choice, given.weight, standstill_seconds(fold, given.sm_count) > 0, _judged(fold))
        for fold, given in folds
        if fold is not None
        and (choice := choose(fold, model, given.sm_count, refresh_seconds)) is not None
        and not is_suspect(fold, given.sm_count, choice, model)
    ]
    quarters = set(allocated).union(*(one.choice.series.quarters for one in shared))
    quarters = quarters.union(*(one.judged for one in shared))
    parts = sum(given.weight for _, given in folds)
    reference_mhz = model.reference_clock_mhz if model else None
    return tuple(
        _quarter(quarter, shared, gpu_model, reference_mhz, allocated.get(quarter, 0.0) * parts)
        for quarter in sorted(quarters)
    )


class _Shared(NamedTuple):
    """One GPU's part of the quarter hours."""

    choice: Choice
    weight: float
    still: bool
    judged: Mapping[int, JudgedQuarter]


def _judged(fold: GpuFold) -> Mapping[int, JudgedQuarter]:
    return fold.minutes.finished(None).quarters


def _quarter(
    quarter: int,
    shared: Sequence[_Shared],
    gpu_model: str | None,
    reference_mhz: float | None,
    allocated_seconds: float,
) -> QuarterSums:
    here = [
        (choice, choice.series.quarters[quarter], weight, still)
        for choice, weight, still, _ in shared
        if quarter in choice.series.quarters
    ]
    tensor_ref = tensor_ref_error = None
    if reference_mhz is not None and here:
        tensor_ref = (
            sum(sums.tensor_megacycles / choice.scale * weight for choice, sums, weight, _ in here)
            / reference_mhz
        )
        sigmas = (_quarter_sigma(choice, sums.variance) * weight for choice, sums, weight, _ in here)
        tensor_ref_error = sum(sigmas) / reference_mhz
    judged = [(one.judged[quarter], one.weight) for one in shared if quarter in one.judged]
    covered_seconds = sum(_measured_seconds(sums, still=still) * weight for _, sums, weight, still in here)
    return QuarterSums(
        gpu_model=gpu_model,
        start_epoch_s=quarter * 900,
        allocated_seconds=max(allocated_seconds, covered_seconds),  # as for the whole run
        covered_seconds=covered_seconds,
        tensor_active_seconds=sum(sums.tensor_active_seconds * weight for _, sums, weight, _ in here),
        tensor_ref_seconds=tensor_ref,
        tensor_ref_error_seconds=tensor_ref_error,
        idle_seconds=math.fsum(its.idle_seconds * weight for its, weight in judged),
        idle_covered_seconds=math.fsum(its.judged_seconds * weight for its, weight in judged),
        non_tensor_seconds=math.fsum(its.non_tensor_seconds * weight for its, weight in judged),
        non_tensor_covered_seconds=math.fsum(its.sm_judged_seconds * weight for its, weight in judged),
    )


def _measured_seconds(sums: QuarterSeries, *, still: bool) -> float:
    """As for the whole run: minutes in which the counters stood still under work were not measured."""
    return max(0.0, sums.covered_seconds - sums.standstill_seconds) if still else sums.covered_seconds


def _quarter_sigma(choice: Choice, variance: float) -> float:
    return choice.sigma_megacycles if choice.estimator == "cycles" else variance**0.5
