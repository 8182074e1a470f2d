"""From sums to ratios: OFU, its two factors, its error and its coverage."""

import math
from collections.abc import Sequence

from slurm_ofu.figures.bands import BAND_COUNT
from slurm_ofu.figures.pooling import degrees_of_freedom, sums_of_gpu
from slurm_ofu.figures.reasons import NOT_CHARGED, by_severity, dominating_reason
from slurm_ofu.figures.student import t_quantile
from slurm_ofu.figures.work import pooled_work_kind
from slurm_ofu.values import Figures, GpuTotals, UsageSums

_SECONDS_PER_HOUR = 3600.0


def figures(sums: UsageSums) -> Figures:
    """What a report shows of ``sums``. What was not measured stays ``None``, and a true zero stays 0."""
    ofu = _ratio(sums.tensor_ref_seconds, sums.ofu_covered_seconds)
    tpa = _tpa(sums, ofu)
    return Figures(
        run_count=sums.run_count,
        gpu_count=sums.gpu_count,
        gpu_count_unknown_time=sums.gpu_count_unknown_time,
        gpu_hours=_hours(sums.allocated_seconds),
        gpu_hours_measured=sums.ofu_covered_seconds / _SECONDS_PER_HOUR,
        gpu_hours_unmeasured=_unmeasured_hours(sums),
        ofu_ratio=ofu,
        ofu_error_pp=None if ofu is None else _error_pp(sums),
        tpa_mean_ratio=tpa,
        active_clock_ratio=_active_clock_ratio(ofu, tpa),
        coverage_ratio=_coverage_ratio(sums, ofu),
        sm_active_ratio=_ratio(sums.sm_active_seconds, sums.sm_active_covered_seconds),
        energy_joules=sums.energy_joules,
        estimator=_one_or_mixed(sums.estimators),
        reason=_reason(sums, ofu),
        reasons=by_severity(sums.reasons),
        gpu_model=_one_or_mixed(sums.gpu_models),
        idle_gpu_hours=_hours(sums.idle_seconds),
        idle_judged_gpu_hours=sums.idle_covered_seconds / _SECONDS_PER_HOUR,
        idle_tail_gpu_hours=_hours(sums.idle_tail_seconds),
        non_tensor_gpu_hours=_hours(sums.non_tensor_seconds),
        non_tensor_judged_gpu_hours=sums.non_tensor_covered_seconds / _SECONDS_PER_HOUR,
        peak_ofu_ratio=_ratio(sums.peak_tensor_ref_seconds, sums.peak_covered_seconds),
        throttled_power_gpu_hours=_hours(sums.throttled_power_seconds),
        throttled_thermal_gpu_hours=_hours(sums.throttled_thermal_seconds),
        throttle_known_gpu_hours=sums.throttle_covered_seconds / _SECONDS_PER_HOUR,
        held_suspended_gpu_hours=_hours(sums.held_suspended_seconds),
        lost_gpu_hours=_hours(sums.lost_seconds),
        ranked_gpu_hours=sums.ranked_seconds / _SECONDS_PER_HOUR,
        band_run_counts=sums.band_run_counts or (0,) * BAND_COUNT,
        non_tensor_run_count=sums.non_tensor_run_count,
        unmeasured_run_count=sums.unmeasured_run_count,
        running_run_count=sums.running_run_count,
        prorated_run_count=sums.prorated_run_count,
        work_kind=pooled_work_kind(sums),
    )


def gpu_figures(gpu: GpuTotals) -> Figures:
    """The figures of one GPU of one run."""
    return figures(sums_of_gpu(gpu))


def ofu_ratio(sums: UsageSums) -> float | None:
    """The OFU alone, for those that need it of very many runs."""
    return _ratio(sums.tensor_ref_seconds, sums.ofu_covered_seconds)


def relative_error_ratio(sums: UsageSums) -> float | None:
    """One sigma of the OFU by the OFU; ``None`` where it is not known."""
    if sums.tensor_ref_variance is None:
        return None
    return _ratio(math.sqrt(max(0.0, sums.tensor_ref_variance)), sums.tensor_ref_seconds)


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    if numerator is None or denominator is None or denominator <= 0:
        return None
    ratio = numerator / denominator
    return ratio if math.isfinite(ratio) else None


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / _SECONDS_PER_HOUR


def _unmeasured_hours(sums: UsageSums) -> float | None:
    if sums.allocated_seconds is None:
        return None
    return max(0.0, sums.allocated_seconds - sums.ofu_covered_seconds) / _SECONDS_PER_HOUR


def _error_pp(sums: UsageSums) -> float | None:
    """Half-width of the 95 % interval in percentage points; 0 only where the variance is 0."""
    variance = sums.tensor_ref_variance
    if variance is None:
        return None
    if variance <= 0:
        return 0.0
    quantile = t_quantile(degrees_of_freedom(variance, sums.tensor_ref_variance_per_degree))
    return _ratio(100 * quantile * math.sqrt(variance), sums.ofu_covered_seconds)


def _reason(sums: UsageSums, ofu: float | None) -> str | None:
    """Why there is no figure, or what qualifies it. What is charged no time weighs nothing."""
    reason = dominating_reason(sums.reasons, has_figure=ofu is not None)
    if reason is None and sums.allocated_seconds == 0 and sums.gpu_count > 0:
        return NOT_CHARGED
    return reason


def _tpa(sums: UsageSums, ofu: float | None) -> float | None:
    """Tensor activity of the GPUs that the OFU is about; where none has an OFU, of all that have any."""
    if ofu is None:
        return _ratio(sums.tensor_active_seconds, sums.tpa_covered_seconds)
    return _ratio(sums.ofu_tensor_active_seconds, sums.ofu_covered_seconds)


def _active_clock_ratio(ofu: float | None, tpa: float | None) -> float | None:
    """OFU over TPA, both about the same GPUs; without tensor work there is no such clock."""
    return None if ofu is None or tpa is None else _ratio(ofu, tpa)


def _coverage_ratio(sums: UsageSums, ofu: float | None) -> float | None:
    """The share of allocated GPU time that the OFU speaks for; without an OFU, that was measured at all.

    Two clocks are involved, so it may come out above 1 by their noise: it never exceeds 1.
    """
    covered = sums.covered_seconds if ofu is None else sums.ofu_covered_seconds
    coverage = _ratio(covered, sums.allocated_seconds)
    return None if coverage is None else min(1.0, coverage)


def _one_or_mixed(names: Sequence[str]) -> str | None:
    distinct = set(names)
    if len(distinct) > 1:
        return "mixed"
    return next(iter(distinct), None)
