"""From sums to ratios."""

import math
from dataclasses import astuple, replace

import pytest

from slurm_ofu.figures import figures, gpu_figures
from slurm_ofu.values import UsageSums
from tests.figures.examples import BY_MINUTES, HOUR, gpu, measured, silent_gpu, unmeasured


def test_ofu_is_its_two_factors_multiplied() -> None:
    """OFU = tensor reference seconds over covered seconds = mean tensor activity x active clock."""
    its = figures(measured())
    assert (0.4, 0.5, 0.8) == pytest.approx((its.ofu_ratio, its.tpa_mean_ratio, its.active_clock_ratio))


@pytest.mark.parametrize(("reference_mhz", "expected"), [(1830.0, 0.856), (1980.0, 0.791)])
def test_reference_clock_example(reference_mhz: float, expected: float) -> None:
    """H100 SXM with tensor activity 0.90 at 1740 MHz: 0.856 by the reference clock 1830, not 0.791."""
    its = gpu_figures(gpu(tensor=0.90, clock=1740 / reference_mhz))
    assert expected == pytest.approx(its.ofu_ratio, abs=5e-4)


def test_ofu_above_one_is_kept() -> None:
    """OFU may exceed 1 where the clock exceeds the reference clock, and is never clipped."""
    its = gpu_figures(gpu(tensor=1.0, clock=1980 / 1830))
    assert pytest.approx(1980 / 1830) == its.ofu_ratio


def test_what_is_charged_no_time_says_so() -> None:
    """Measured, and without weight: there is no figure, and the reason is neither "ok" nor nothing."""
    nothing = measured(allocated_seconds=0.0, covered_seconds=0.0, ofu_covered_seconds=0.0)
    assert (None, "not_charged") == (figures(nothing).ofu_ratio, figures(nothing).reason)
    assert "no_source" == figures(unmeasured(allocated_seconds=0.0)).reason
    assert "ok" == figures(measured()).reason


def test_unmeasured_gpus_count_as_allocated() -> None:
    """A job with 8 GPUs of which 4 were measured has coverage 0.5 and keeps its 8-GPU hours."""
    half = 8 * HOUR
    sums = measured(
        covered_seconds=half,
        ofu_covered_seconds=half,
        tpa_covered_seconds=half,
        tensor_active_seconds=0.5 * half,
        tensor_ref_seconds=0.4 * half,
        reasons=("not_delivered", "ok"),
    )
    its = figures(sums)
    assert (0.5, 16.0, 8.0, 8.0) == (
        its.coverage_ratio,
        its.gpu_hours,
        its.gpu_hours_measured,
        its.gpu_hours_unmeasured,
    )
    assert 0.4 == pytest.approx(its.ofu_ratio)
    assert "not_delivered" == its.reason


def test_nothing_measured_is_no_figure() -> None:
    """Where nothing was measured every figure is absent, coverage is 0, and the reason is said."""
    its = figures(unmeasured())
    assert (None, None, None, None, None) == (
        its.ofu_ratio,
        its.ofu_error_pp,
        its.tpa_mean_ratio,
        its.active_clock_ratio,
        its.sm_active_ratio,
    )
    assert (0.0, 16.0, 0.0, "no_source") == (
        its.coverage_ratio,
        its.gpu_hours,
        its.gpu_hours_measured,
        its.reason,
    )


def test_zero_is_a_measurement() -> None:
    """A measured zero stays 0 with its error bar, and has no clock to weigh with it."""
    its = figures(
        measured(
            tensor_active_seconds=0.0, tensor_ref_seconds=0.0, tensor_ref_variance=0.0, energy_joules=0.0
        )
    )
    assert (0.0, 0.0, 0.0, None, 0.0) == (
        its.ofu_ratio,
        its.ofu_error_pp,
        its.tpa_mean_ratio,
        its.active_clock_ratio,
        its.energy_joules,
    )


def test_unknown_allocation_is_not_zero() -> None:
    """Where no prolog ran, hours and coverage are unknown."""
    its = figures(unmeasured(allocated_seconds=None))
    assert (None, None, None) == (its.gpu_hours, its.gpu_hours_unmeasured, its.coverage_ratio)


def test_no_gpu_at_all_divides_by_nothing() -> None:
    """A job without GPU time has hours 0 and no ratio, not an error."""
    its = figures(unmeasured(gpu_count=0.0, allocated_seconds=0.0))
    assert (0.0, None, None) == (its.gpu_hours, its.coverage_ratio, its.ofu_ratio)


def test_coverage_never_exceeds_one() -> None:
    """Covered seconds that exceed the allocated ones by clock noise are coverage 1."""
    assert 1.0 == figures(measured(ofu_covered_seconds=16 * HOUR + 0.2)).coverage_ratio


def test_both_factors_are_about_the_gpus_of_the_ofu() -> None:
    """With a GPU of an unknown model among them, tensor activity and clock are those of the others."""
    its = figures(
        measured(
            tpa_covered_seconds=32 * HOUR, tensor_active_seconds=24 * HOUR, ofu_tensor_active_seconds=8 * HOUR
        )
    )
    assert (0.4, 0.5, 0.8) == pytest.approx((its.ofu_ratio, its.tpa_mean_ratio, its.active_clock_ratio))


def test_without_an_ofu_tensor_activity_is_over_what_there_is() -> None:
    """Where no GPU has an OFU, tensor activity is that of all GPUs that have any."""
    its = figures(unmeasured(tensor_active_seconds=4 * HOUR, tpa_covered_seconds=16 * HOUR))
    assert (None, 0.25, None) == (its.ofu_ratio, its.tpa_mean_ratio, its.active_clock_ratio)


@pytest.mark.parametrize("covered", [0.0, 0.001, 4.0, 16.0])
def test_measured_hours_over_all_hours_are_the_coverage(covered: float) -> None:
    """Measured hours are those that the OFU speaks for, and with the others they are all there are."""
    its = figures(measured(ofu_covered_seconds=covered * HOUR, covered_seconds=covered * HOUR))
    assert (covered, 16.0 - covered) == pytest.approx((its.gpu_hours_measured, its.gpu_hours_unmeasured))
    assert its.gpu_hours_measured / 16.0 == pytest.approx(its.coverage_ratio)


def test_unmeasured_hours_are_never_negative() -> None:
    """Where more was covered than allocated, by the noise of two clocks, no hour is left unmeasured."""
    assert 0.0 == figures(measured(ofu_covered_seconds=16 * HOUR + 0.2)).gpu_hours_unmeasured


def test_all_reasons_are_kept() -> None:
    """Every reason that occurs is there once, the most telling first."""
    its = figures(measured(reasons=("ok", "no_source", "short", "suspect", "no_source")))
    assert ("suspect", "no_source", "short", "ok") == its.reasons


def test_coverage_beside_an_ofu_is_that_of_the_ofu() -> None:
    """GPUs without a reference clock are measured, but the OFU does not speak for them."""
    its = figures(measured(allocated_seconds=32 * HOUR, covered_seconds=32 * HOUR))
    assert 0.5 == its.coverage_ratio


def test_unknown_gpu_model_keeps_its_tensor_activity() -> None:
    """Without a reference clock OFU is absent, while tensor activity and coverage are there."""
    its = gpu_figures(gpu(reason="unknown_model", tensor_ref_seconds=None, tensor_ref_error_seconds=None))
    assert (None, 0.5, 1.0, "unknown_model") == (
        its.ofu_ratio,
        its.tpa_mean_ratio,
        its.coverage_ratio,
        its.reason,
    )


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(None, 1.959964), (9.0, 2.262157), (1.0, 12.706205), (1e12, 1.959964), (0.0, 1.959964)],
)
def test_error_is_the_95_percent_interval(degrees: float | None, quantile: float) -> None:
    """The half-width is t(0.975, degrees) sigmas, in percentage points."""
    its = gpu_figures(gpu(error_degrees=degrees))
    assert 100 * quantile * 0.001 == pytest.approx(its.ofu_error_pp, rel=1e-6)


def test_unknown_error_is_not_zero() -> None:
    """A figure whose variance is unknown has no error bar."""
    assert None is figures(measured(tensor_ref_variance=None)).ofu_error_pp


@pytest.mark.parametrize(
    ("estimators", "expected"), [((), None), (("cycles",), "cycles"), (("cycles", "sampled"), "mixed")]
)
def test_estimator(estimators: tuple[str, ...], expected: str | None) -> None:
    """Several estimators or GPU models are "mixed", none is unknown."""
    its = figures(measured(estimators=estimators, gpu_models=estimators))
    assert (expected, expected) == (its.estimator, its.gpu_model)


REASONS: list[tuple[tuple[str, ...], bool, str | None]] = [
    (("ok",), True, "ok"),
    (("ok",), False, None),
    ((), True, None),
    ((), False, None),
    (("ok", "short"), True, "short"),
    (("ok", "no_source"), True, "no_source"),
    (("no_source", "not_delivered"), False, "not_delivered"),
    (("suspect", "sampler_died", "ok"), True, "suspect"),
    (("opted_out", "ok"), True, "opted_out"),
    (("from_the_future", "suspect"), True, "from_the_future"),
]


@pytest.mark.parametrize(("reasons", "has_figure", "expected"), REASONS)
def test_worst_reason_dominates(reasons: tuple[str, ...], has_figure: bool, expected: str | None) -> None:
    """The worst reason is shown, whether there is a figure or not; "ok" does not explain an absent one."""
    sums = measured(reasons=reasons) if has_figure else unmeasured(reasons=reasons)
    assert expected == figures(sums).reason


def test_a_silent_gpu_is_explained() -> None:
    """A GPU without any reading keeps its hours and says why it has no figure."""
    its = gpu_figures(silent_gpu(reason="unmapped"))
    assert (None, 2.0, 0.0, 0.0, "unmapped") == (
        its.ofu_ratio,
        its.gpu_hours,
        its.gpu_hours_measured,
        its.coverage_ratio,
        its.reason,
    )


EXTREMES = [
    measured(tensor_ref_variance=1e-300, tensor_ref_variance_per_degree=1e-300),
    measured(tensor_ref_variance=5e-324, tensor_ref_variance_per_degree=5e-324),
    measured(tensor_ref_variance=1e300, tensor_ref_variance_per_degree=5e-324),
    measured(ofu_covered_seconds=5e-324, tensor_ref_seconds=1e300),
    replace(measured(), allocated_seconds=5e-324),
]


@pytest.mark.parametrize("sums", EXTREMES)
def test_never_nan_nor_infinite(sums: UsageSums) -> None:
    """Whatever the sums, a figure is finite or absent."""
    numbers = [value for value in astuple(figures(sums)) if isinstance(value, float)]
    assert [] == [value for value in numbers if not math.isfinite(value)]


def test_what_is_by_the_minute() -> None:
    """Idle and non-tensor GPU-hours stand beside the hours they are known over; a peak is a ratio."""
    its = gpu_figures(gpu(**BY_MINUTES))
    assert (0.5, 2.0, 0.5, 0.5, 2.0, 0.7) == pytest.approx(
        (
            *(its.idle_gpu_hours, its.idle_judged_gpu_hours, its.idle_tail_gpu_hours),
            *(its.non_tensor_gpu_hours, its.non_tensor_judged_gpu_hours, its.peak_ofu_ratio),
        )
    )
    assert (0.25, 0.0, 2.0) == (
        *(its.throttled_power_gpu_hours, its.throttled_thermal_gpu_hours, its.throttle_known_gpu_hours),
    )  # fmt: skip


def test_what_was_not_judged_is_not_zero() -> None:
    """Without minutes nothing is said of idle time, other work and peak."""
    its = gpu_figures(gpu())
    assert (None, None, None, None, None, None) == (
        *(its.idle_gpu_hours, its.idle_tail_gpu_hours, its.non_tensor_gpu_hours),
        *(its.peak_ofu_ratio, its.throttled_power_gpu_hours, its.held_suspended_gpu_hours),
    )
