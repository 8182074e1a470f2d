"""Sums over a run: in all, along its life, and per UTC quarter hour."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.integrals.series import QUARTER_NS, BucketLine, Series, spread
from slurm_ofu.values import Interval
from tests.integrals.examples import SECOND, interval

QUICK = settings(deadline=None, max_examples=60)


@st.composite
def intervals(draw: st.DrawFn) -> list[Interval]:
    """Intervals in order of time, with gaps, from milliseconds to an hour."""
    at, result = 0, []
    for _ in range(draw(st.integers(1, 40))):
        at += draw(st.one_of(st.just(0), st.integers(1, 3600 * SECOND)))
        end = at + draw(st.integers(10**6, 3600 * SECOND))
        ratio = draw(st.floats(0.0, 1.0))
        result.append(
            Interval(
                start_ns=at,
                end_ns=end,
                tensor_active_ratio=ratio,
                tensor_megacycles=ratio * draw(st.floats(345.0, 1980.0)) * (end - at) / SECOND,
                variance=draw(st.floats(0.0, 1e6)),
                degrees=draw(st.floats(1.0, 50.0)),
            )
        )
        at = end
    return result


def series_of(its: Sequence[Interval], wall_offset_ns: int = 0, width_ns: int = 10 * SECOND) -> Series:
    """All of them added up."""
    series = Series(BucketLine(0, width_ns))
    for one in its:
        series.add(one, wall_offset_ns)
    return series


def test_the_product_is_taken_before_summing() -> None:
    """The product is taken per interval, before summing: a product of means is wrong (idle clock 345 MHz)."""
    series = series_of([interval(0, 10, tensor=0.9, mhz=1755.0), interval(10, 20, tensor=0.0, mhz=345.0)])
    right = (0.9 * 1755 * 10 + 0.0 * 345 * 10) / 1830 / 20
    product_of_means = (0.9 / 2) * (1755 + 345) / 2 / 1830
    assert right == pytest.approx(series.tensor_megacycles / 1830 / series.covered_seconds)
    assert 0.17 < right - product_of_means


def test_ofu_factors_exactly() -> None:
    """OFU factors exactly into tpa_mean_ratio and the activity-weighted clock."""
    series = series_of([interval(0, 10, tensor=0.9, mhz=1500.0), interval(10, 40, tensor=0.3, mhz=1980.0)])
    ofu = series.tensor_megacycles / 1830 / series.covered_seconds
    tpa = series.tensor_active_seconds / series.covered_seconds
    clock = (0.9 * 10 * 1500 + 0.3 * 30 * 1980) / (0.9 * 10 + 0.3 * 30) / 1830
    assert (0.45, ofu) == pytest.approx((tpa, tpa * clock))


def test_variances_add_and_degrees_are_welch_satterthwaite() -> None:
    """Var = Σ over intervals, ν by Welch–Satterthwaite: (Σ v)² / Σ (v² / ν_k)."""
    parts = [(4.0, 9.0), (25.0, 4.0), (1.0, 1.0)]
    its = [
        Interval(
            start_ns=number,
            end_ns=number + 1,
            tensor_active_ratio=0.5,
            tensor_megacycles=1.0,
            variance=variance,
            degrees=degrees,
        )
        for number, (variance, degrees) in enumerate(parts)
    ]
    series = series_of(its)
    assert 30.0 == pytest.approx(series.variance)
    assert 30.0**2 / (4**2 / 9 + 25**2 / 4 + 1) == pytest.approx(series.degrees)


def test_equal_intervals_add_their_degrees() -> None:
    """k equal intervals of ν degrees each have kν together."""
    series = series_of([interval(at, at + 1, variance=7.0) for at in range(12)])
    assert 12 * 9.0 == pytest.approx(series.degrees)


def test_without_variance_degrees_are_infinite() -> None:
    """An exact sum has infinitely many degrees of freedom."""
    assert math.inf == series_of([interval(0, 1)]).degrees


@pytest.mark.property
@QUICK
@given(intervals(), st.integers(1, 100 * SECOND))
def test_time_line_has_at_most_128_buckets_and_loses_nothing(its: list[Interval], width_ns: int) -> None:
    """A time-line has at most 128 buckets, and merging pairs of them conserves both sums."""
    line = BucketLine(0, width_ns)
    for one in its:
        line.add(one)
        assert 128 >= len(line.megacycles) == len(line.covered_seconds)
    assert math.fsum(one.seconds for one in its) == pytest.approx(math.fsum(line.covered_seconds))
    assert math.fsum(one.tensor_megacycles for one in its) == pytest.approx(math.fsum(line.megacycles))


@pytest.mark.property
@QUICK
@given(intervals())
def test_merging_gives_what_wide_buckets_would_have_given(its: list[Interval]) -> None:
    """A merged time-line equals one that had the wide buckets from the start."""
    merged = BucketLine(0, 10 * SECOND)
    for one in its:
        merged.add(one)
    wide = BucketLine(0, merged.width_ns)
    for one in its:
        wide.add(one)
    assert merged.width_ns == wide.width_ns
    assert wide.covered_seconds == pytest.approx(merged.covered_seconds)
    assert wide.megacycles == pytest.approx(merged.megacycles)


@pytest.mark.property
@QUICK
@given(intervals())
def test_no_bucket_covers_more_than_its_width(its: list[Interval]) -> None:
    """A bucket covers at most its own width."""
    line = series_of(its).line
    assert all(seconds <= line.width_ns / SECOND * (1 + 1e-9) for seconds in line.covered_seconds)


def test_the_129th_bucket_merges_pairs() -> None:
    """128 intervals of a bucket each fill the time-line; the next one makes 65 of double width."""
    its = [interval(at * 10, at * 10 + 10) for at in range(129)]
    full, merged = series_of(its[:128]).line, series_of(its).line
    assert (128, 10 * SECOND) == (len(full.megacycles), full.width_ns)
    assert (65, 20 * SECOND) == (len(merged.megacycles), merged.width_ns)
    assert [*[20.0] * 64, 10.0] == merged.covered_seconds


def test_a_gap_is_not_covered() -> None:
    """A bucket in which nothing was measured has 0 covered seconds, and does not average its neighbours."""
    line = series_of([interval(0, 10), interval(30, 40)]).line
    assert [10.0, 0.0, 0.0, 10.0] == line.covered_seconds


@pytest.mark.property
@QUICK
@given(intervals(), st.integers(0, 2**61))
def test_quarters_add_up_to_the_totals(its: list[Interval], wall_offset_ns: int) -> None:
    """Per UTC quarter hour the sums are kept: over all quarters they are the totals."""
    series = series_of(its, wall_offset_ns)
    quarters = series.quarters.values()
    for name in ("covered_seconds", "tensor_active_seconds", "tensor_megacycles", "variance"):
        in_all = math.fsum(getattr(quarter, name) for quarter in quarters)
        assert getattr(series, name) == pytest.approx(in_all), name


@pytest.mark.property
@QUICK
@given(st.integers(0, 10**13), st.integers(1, 10**13), st.integers(0, 2**61))
def test_quarters_cut_at_utc_quarter_hours(start: int, length: int, wall_offset_ns: int) -> None:
    """Each quarter gets exactly what of an interval lies between two multiples of 900 s of wall time."""
    one = Interval(start_ns=start, end_ns=start + length, tensor_active_ratio=0.5, tensor_megacycles=1.0)
    begin, end = start + wall_offset_ns, start + length + wall_offset_ns
    for index, sums in series_of([one], wall_offset_ns).quarters.items():
        inside = min(end, (index + 1) * QUARTER_NS) - max(begin, index * QUARTER_NS)
        assert inside / SECOND == pytest.approx(sums.covered_seconds)
        assert 0 < inside <= QUARTER_NS


def test_quarter_example() -> None:
    """20 s from 10 s before a quarter hour: half in either quarter, at whatever boottime that was."""
    boottime_s = 123.0
    offset = (1_764_424_800 - 10) * SECOND - round(boottime_s * SECOND)
    series = series_of([interval(boottime_s, boottime_s + 20)], offset)
    quarter = 1_764_424_800 // 900
    assert [quarter - 1, quarter] == sorted(series.quarters)
    assert [10.0, 10.0] == [series.quarters[index].covered_seconds for index in sorted(series.quarters)]


@pytest.mark.property
@QUICK
@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(10**9, 10**12))
def test_shares_add_to_one(start: int, length: int, width: int) -> None:
    """The shares of an interval over a grid are positive and add to 1; no time has no share."""
    shares = list(spread(start, start + length, width))
    assert all(share > 0 for _, share in shares)
    assert (1.0 if length else 0.0) == pytest.approx(math.fsum(share for _, share in shares))
