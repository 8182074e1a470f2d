"""One sample → one interval, and how sure it is."""

from dataclasses import replace
from statistics import fmean, variance

import pytest

from slurm_ofu.integrals.intervals import sampled_interval
from tests.integrals.examples import near, sample

CLOCKS = (1830.0, 1755.0, 1980.0, 1200.0, 345.0, 1740.0, 1725.0, 1830.0, 1905.0, 1500.0)


def test_variance_is_the_specified_formula() -> None:
    """v_k = (variance of the m readings, the last before and the first after included, + 15²/12) / m."""
    its = sampled_interval(sample(0.0, 10.0, tensor=0.4, clocks=CLOCKS, before=1995.0), 360.0)
    assert its is not None
    expected = (variance([*CLOCKS, 1995.0, 360.0]) + 15**2 / 12) / 10
    assert pytest.approx((0.4 * 10.0) ** 2 * expected) == its.variance
    assert 9.0 == its.degrees


def test_megacycles_use_only_the_readings_inside() -> None:
    """The clock of an interval is the mean of the readings inside it: neighbours only widen the bar."""
    its = sampled_interval(sample(0.0, 10.0, tensor=0.4, clocks=CLOCKS, before=1e5), 1e5)
    assert its is not None
    assert pytest.approx(0.4 * 10.0 * fmean(CLOCKS)) == its.tensor_megacycles


@pytest.mark.parametrize(("before", "after"), [(None, None), (1980.0, None), (None, 345.0)])
def test_missing_neighbours_are_left_out(before: float | None, after: float | None) -> None:
    """A neighbour that was not read does not count as a zero."""
    its = sampled_interval(sample(0.0, 10.0, tensor=1.0, clocks=CLOCKS, before=before), after)
    seen = [*CLOCKS, *(mhz for mhz in (before, after) if mhz is not None)]
    assert its is not None
    assert pytest.approx(100.0 * (variance(seen) + 18.75) / 10) == its.variance


def test_a_steady_clock_still_has_the_step_of_its_readings() -> None:
    """15²/12 MHz² stands in the bar even where every reading is the same."""
    its = sampled_interval(sample(0.0, 2.0, tensor=0.5, clocks=[1830.0] * 10, before=1830.0), 1830.0)
    assert its is not None
    assert pytest.approx(1.0**2 * 18.75 / 10) == its.variance


def test_zero_activity_is_a_value_with_a_bar_of_zero() -> None:
    """A value that was not measured is absent, never 0, and a true 0 is a value."""
    its = sampled_interval(sample(0.0, 10.0, tensor=0.0, clocks=CLOCKS), None)
    assert its is not None
    assert (0.0, 0.0, 0.0, 10.0) == (
        its.tensor_active_ratio,
        its.tensor_megacycles,
        its.variance,
        its.seconds,
    )


def test_no_activity_no_interval() -> None:
    """Without tensor activity, without a beginning or without a clock nothing was measured."""
    good = sample(0.0, 10.0)
    assert None is sampled_interval(sample(0.0, 10.0, tensor=None), 1830.0)
    assert None is sampled_interval(sample(None, 10.0), 1830.0)
    assert None is sampled_interval(replace(good, clocks_mhz=()), 1830.0)


def test_a_single_reading_has_no_spread() -> None:
    """A figure without an error bar is none; one neighbour gives it a bar of one degree of freedom."""
    assert None is sampled_interval(sample(0.0, 10.0, clocks=[1830.0]), None)
    its = sampled_interval(sample(0.0, 10.0, tensor=0.5, clocks=[1830.0]), 1800.0)
    assert its is not None
    assert (1.0, near(25.0 * (450.0 + 18.75))) == (its.degrees, its.variance)


def test_interval_lies_between_the_two_good_readings() -> None:
    """An interval spans the previous good reading to this one."""
    its = sampled_interval(sample(3.5, 13.25), 1830.0)
    assert its is not None
    assert (3_500_000_000, 13_250_000_000) == (its.start_ns, its.end_ns)
