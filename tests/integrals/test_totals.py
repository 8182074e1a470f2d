"""A finished fold → totals: which estimator speaks, in which scale, for what reason."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.figures.student import NORMAL_QUANTILE, t_quantile
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.quarters import quarter_sums
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.values import GpuModel, GpuTotals
from tests.integrals.examples import H100, RULES, SECOND, counted_fold, near, sample, totals

MINUTE_OFFSET = 1_764_424_800 * SECOND  # a quarter hour at boottime 0
ALLOCATION = Allocation(position=0, allocated_seconds=None, uuid=None, gpu_model=None, mapped_by=None)


def sampled_fold(
    intervals: int = 7, *, tensor: float = 0.5, mhz: float = 1830.0, wall_offset_ns: int = 0
) -> GpuFold:
    """Steady intervals without cycle counters."""
    fold = GpuFold.start(0, 10.0)
    for number in range(intervals):
        one = sample(number * 10, number * 10 + 10, tensor=tensor, clocks=[mhz] * 10, before=mhz)
        fold.add(one, wall_offset_ns)
    fold.clock_after(mhz)
    return fold


def ofu(its: GpuTotals) -> float | None:
    """The OFU of some totals."""
    return None if its.tensor_ref_seconds is None else its.tensor_ref_seconds / its.covered_seconds


# --------------------------------------------------------------- which estimator


@pytest.mark.parametrize("scale", [1.0, 132.0])
@pytest.mark.parametrize("tensor", [0.0, 0.37, 1.0])
def test_counters_that_agree_are_used_in_their_scale(scale: float, tensor: float) -> None:
    """tensor_ref_seconds = Δ250 / (n · f_ref · 1e6), n = 1 or the number of SMs."""
    its = totals(counted_fold(tensor=tensor, mhz=1755.0, scale=scale))
    assert ("cycles", None, "ok") == (its.estimator, its.disagreement_ratio, its.reason)
    assert tensor * 1755 / 1830 == pytest.approx(ofu(its))


def test_the_bar_of_cycles_is_their_refresh_time() -> None:
    """For cycles the bar is the counters' refresh time over T: here 0.1 s, whatever the activity."""
    its = totals(counted_fold(tensor=0.25))
    assert its.tensor_ref_error_seconds is not None
    assert 0.1 == pytest.approx(its.tensor_ref_error_seconds * NORMAL_QUANTILE)
    assert None is its.error_degrees


def test_disagreement_over_a_minute_is_settled_for_sampled() -> None:
    """If over 60 s or more the result disagrees with the sampled estimate by more than both bars
    allow, sampled is used and the disagreement recorded."""
    its = totals(counted_fold(tensor=0.5, counted_tensor=0.4, intervals=6))
    assert ("sampled", near(-0.1)) == (its.estimator, its.disagreement_ratio)
    assert 0.5 == pytest.approx(ofu(its))


def test_disagreement_is_not_judged_under_a_minute() -> None:
    """Under 60 s the two are not held against each other."""
    its = totals(counted_fold(tensor=0.5, counted_tensor=0.4, intervals=5))
    assert ("cycles", None) == (its.estimator, its.disagreement_ratio)
    assert 0.4 == pytest.approx(ofu(its))


@pytest.mark.parametrize(("share", "expected"), [(0.99, "cycles"), (1.01, "sampled")])
def test_disagreement_is_measured_by_both_bars(share: float, expected: str) -> None:
    """Just within the sum of both half-widths is agreement, just outside is not."""
    seconds, tensor = 70.0, 0.5
    sampled = counted_fold(tensor=tensor).sampled
    bars = t_quantile(sampled.degrees) * sampled.variance**0.5 / 1830 / seconds + 0.1 / seconds
    assert expected == totals(counted_fold(tensor=tensor, counted_tensor=tensor + share * bars)).estimator


@pytest.mark.parametrize(("counted", "expected"), [(6, "cycles"), (4, "sampled")])
def test_counters_that_fell_silent_do_not_speak_for_the_run(counted: int, expected: str) -> None:
    """Of ten sampled intervals the cycle counters must have been there in half, or `sampled` is used."""
    fold = counted_fold(intervals=counted)
    for number in range(counted, 10):
        fold.add(sample(number * 10, number * 10 + 10, before=1830.0), 0)
    fold.clock_after(1830.0)
    its = totals(fold)
    assert (expected, None) == (its.estimator, its.disagreement_ratio)
    assert (10 if expected == "sampled" else counted) == its.interval_count


def test_only_what_both_saw_is_held_against_each_other() -> None:
    """Time in which the clock was not read, with more work than there was else, is no disagreement."""
    fold = GpuFold.start(0, 10.0)
    active = 0.0
    for number in range(31):
        tensor, clocks = (0.9, ()) if 10 < number <= 20 else (0.3, (1830.0,) * 10)
        active += tensor * 18.3e9 if number else 0.0
        since, counters = (number * 10 - 10 if number else None), (18.3e9 * number, active)
        one = sample(since, number * 10, tensor=tensor, clocks=clocks, before=1830.0, cycles=counters)
        fold.add(one, 0)
    fold.clock_after(1830.0)
    its = totals(GpuFold.from_state(fold.state()))
    assert ("cycles", None, near(300.0)) == (its.estimator, its.disagreement_ratio, its.covered_seconds)
    assert near(0.5 * 300.0) == its.tensor_ref_seconds


def test_a_scale_that_fits_nothing_is_sampled() -> None:
    """Counters that are neither per SM nor summed over the SMs are not used."""
    its = totals(counted_fold(tensor=0.5, scale=12.0))
    assert ("sampled", near(0.5)) == (its.estimator, ofu(its))


def test_an_idle_gpu_may_stop_its_counters() -> None:
    """Zero is zero in any scale: an idle GPU whose counters stand still has OFU 0, by cycles."""
    fold = GpuFold.start(0, 10.0)
    for number in range(8):
        since = number * 10 - 10 if number else None
        fold.add(sample(since, number * 10, tensor=0.0, clocks=[345.0] * 10, cycles=(7e15, 3e15)), 0)
    its = totals(fold)
    assert ("cycles", "ok", 0.0, 70.0) == (its.estimator, its.reason, ofu(its), its.covered_seconds)


def test_counters_that_stand_still_under_work_are_not_believed() -> None:
    """Counters that stand still while the tensor pipe is active are not used."""
    fold = GpuFold.start(0, 10.0)
    for number in range(8):
        since = number * 10 - 10 if number else None
        fold.add(sample(since, number * 10, tensor=0.6, cycles=(7e15, 3e15)), 0)
    its = totals(fold)
    assert ("sampled", near(0.6)) == (its.estimator, ofu(its))


def test_a_reset_costs_one_interval() -> None:
    """A decrease means reset: keep the sum up to it, drop that interval."""
    fold = GpuFold.start(0, 10.0)
    for number in range(9):
        at = number * 10.0
        cycles = (1830e6 * (at if number < 5 else at - 45), 915e6 * (at if number < 5 else at - 45))
        fold.add(sample(at - 10 if number else None, at, cycles=cycles), 0)
    its = totals(fold)
    assert ("cycles", 70.0, 7, 1) == (
        its.estimator,
        its.covered_seconds,
        its.interval_count,
        fold.counter.reset_count,
    )
    assert 0.5 == pytest.approx(ofu(its))


def test_sampled_carries_its_variance_and_degrees() -> None:
    """Rows store one sigma in seconds at the reference clock, and the degrees of freedom behind it."""
    its = totals(sampled_fold(10, tensor=0.5))
    assert its.tensor_ref_error_seconds is not None
    assert (10 * 5.0**2 * 18.75 / 10) ** 0.5 / 1830 == pytest.approx(its.tensor_ref_error_seconds)
    assert 90.0 == pytest.approx(its.error_degrees)
    assert ("sampled", 10) == (its.estimator, its.interval_count)


def test_scraped_never_comes_from_a_fold() -> None:
    """Without any source OFU is absent, never replaced by GPU utilisation."""
    fold = GpuFold.start(0, 10.0)
    for number in range(1, 4):
        one = sample(None, number * 10, tensor=None)
        busy = replace(one.reading, utilisation_ratio=1.0, power_watts=600.0, fault="no_source")
        fold.add(replace(one, reading=busy), 0)
    its = totals(fold)
    assert ("no_source", None, None, None) == (
        its.reason,
        its.estimator,
        its.tensor_ref_seconds,
        its.tensor_active_seconds,
    )
    assert (20.0, 12000.0) == (its.utilisation_seconds, its.power_joules)


# --------------------------------------------------------------- for what reason


def test_unknown_model_keeps_tensor_activity() -> None:
    """unknown_model (no reference clock): TPA is still kept, OFU is absent."""
    for fold in (sampled_fold(), counted_fold()):
        its = totals(fold, model=None)
        assert ("unknown_model", None, None, None) == (
            its.reason,
            its.tensor_ref_seconds,
            its.tensor_ref_error_seconds,
            its.reference_clock_mhz,
        )
        assert (near(35.0), 70.0) == (its.tensor_active_seconds, its.covered_seconds)
        assert its.timeline is not None
        assert {None} == {reference for reference, _ in its.timeline.buckets}


@pytest.mark.parametrize(("intervals", "expected"), [(1, "short"), (2, "ok")])
def test_short_is_under_two_intervals(intervals: int, expected: str) -> None:
    """short (under two intervals) is measured all the same."""
    its = totals(sampled_fold(intervals))
    assert (expected, near(0.5)) == (its.reason, ofu(its))


def test_nothing_measured_yet_is_short() -> None:
    """A run that ended before the second reading is short, and its figures are absent."""
    its = totals(GpuFold.start(0, 10.0))
    assert ("short", None, 0.0, None) == (its.reason, its.estimator, its.covered_seconds, its.timeline)


def test_a_clock_that_never_answered_is_no_short_run() -> None:
    """Two intervals and more without a figure are not short: the source was lost."""
    fold = GpuFold.start(0, 10.0)
    for number in range(1, 5):
        one = sample(number * 10, number * 10 + 10, clocks=())
        fold.add(replace(one, reading=replace(one.reading, sm_active_ratio=0.9)), 0)
    its = totals(fold)
    assert ("source_lost", None) == (its.reason, its.tensor_ref_seconds)


@pytest.mark.parametrize(("mhz", "expected"), [(1980.0, "ok"), (2010.0, "ok"), (2025.0, "suspect")])
def test_above_the_maximum_clock_is_suspect_and_never_clamped(mhz: float, expected: str) -> None:
    """OFU may legally exceed 1 up to f_max/f_ref. Never clamp; a value above that bound is flagged."""
    its = totals(sampled_fold(tensor=1.0, mhz=mhz))
    assert (expected, near(mhz / 1830)) == (its.reason, ofu(its))


def test_errors_until_the_end_are_source_lost() -> None:
    """source_lost (errors until the end): what was measured before stays."""
    fold = sampled_fold(5)
    fold.add(sample(50, 60, tensor=None), 0)
    assert "ok" == totals(fold).reason  # a single failure at the end is a gap like any other
    fold.add(sample(50, 70, tensor=None), 0)
    its = totals(fold)
    assert ("source_lost", 50.0, near(0.5)) == (its.reason, its.covered_seconds, ofu(its))


def test_counters_that_stand_still_under_load_are_suspect() -> None:
    """suspect: profiling counters say 0 while utilisation >= 50 % and power is high; SM activity without
    tensor work is not, and neither is an idle GPU."""

    def reason(*, sm_active: float, utilisation: float, watts: float) -> str:
        fold = sampled_fold(0)
        for start in range(0, 70, 10):
            one = sample(start, start + 10, tensor=0.0)
            seen = replace(
                one.reading, sm_active_ratio=sm_active, utilisation_ratio=utilisation, power_watts=watts
            )
            fold.add(replace(one, reading=seen), 0)
        return totals(fold).reason

    assert "suspect" == reason(sm_active=0.0, utilisation=0.99, watts=640.0)
    assert "ok" == reason(sm_active=0.93, utilisation=0.99, watts=640.0)
    assert "ok" == reason(sm_active=0.0, utilisation=0.0, watts=70.0)
    assert "ok" == reason(sm_active=0.0, utilisation=0.99, watts=70.0)


def test_a_factor_of_two_between_the_estimators_is_seen_in_short_runs_too() -> None:
    """Below 60 s only a scale that was taken wrongly is found: a factor of two or more."""
    wrong = totals(counted_fold(intervals=5, tensor=0.1, counted_tensor=0.6))
    assert ("sampled", near(0.5)) == (wrong.estimator, wrong.disagreement_ratio)
    near_enough = totals(counted_fold(intervals=5, tensor=0.4, counted_tensor=0.6))
    assert ("cycles", None) == (near_enough.estimator, near_enough.disagreement_ratio)


def test_a_sampler_that_died_says_so_whatever_it_measured() -> None:
    """sampler_died goes before every other reason but suspect, and keeps the figures."""
    its = totals(sampled_fold(5), died=True)
    assert ("sampler_died", near(0.5)) == (its.reason, ofu(its))


def test_a_model_without_a_maximum_clock_is_never_suspect() -> None:
    """Where no maximum clock is known there is no bound to exceed."""
    its = totals(sampled_fold(tensor=1.0, mhz=3000.0), model=replace(H100, max_clock_mhz=None))
    assert "ok" == its.reason


def test_covered_never_exceeds_allocated() -> None:
    """coverage_ratio never exceeds 1: the last reading may come a moment after the epilog's clock."""
    assert 70.0 == totals(sampled_fold(), allocated=69.9).allocated_seconds
    assert 70.0 == totals(sampled_fold(), allocated=None).allocated_seconds  # held at least that long


# --------------------------------------------------------------- time-line and quarters


def test_time_line_adds_up_to_the_totals() -> None:
    """The time-line's buckets add up to the totals, in seconds at the reference clock."""
    its = totals(counted_fold(tensor=0.3, mhz=1755.0, scale=132.0))
    assert its.timeline is not None
    parts, seconds = zip(*its.timeline.buckets, strict=True)
    assert its.tensor_ref_seconds == pytest.approx(sum(parts))
    assert its.covered_seconds == pytest.approx(sum(seconds))


@pytest.mark.parametrize("model", [H100, None])
def test_the_time_line_of_a_part_is_of_that_part(model: GpuModel | None) -> None:
    """Of a shared GPU, and of a MIG slice, the time-line adds up to the part that the totals are."""
    given = replace(ALLOCATION, sharers=2, sm_share_ratio=0.25)
    its = gpu_totals(counted_fold(), given, model, RULES, died=False, wall_offset_ns=0)
    assert its.timeline is not None
    parts, seconds = zip(*its.timeline.buckets, strict=True)
    assert (near(70.0 / 8), near(70.0 / 8)) == (its.covered_seconds, sum(seconds))
    if model is None:
        assert {None} == set(parts)
    else:
        assert its.tensor_ref_seconds == near(sum(parts))


@pytest.mark.property
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 100), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 900),
)
def test_quarters_add_up_over_gpus(gpus: list[tuple[float, int, bool]], begin_s: int) -> None:
    """Per UTC quarter hour the sums of a node's GPUs of one model are kept, and add up to their totals."""
    folds = []
    for tensor, intervals, counted in gpus:
        fold = counted_fold(tensor=tensor, intervals=intervals) if counted else GpuFold.start(0, 10.0)
        for number in range(0 if counted else intervals):
            fold.add(sample(number * 10, number * 10 + 10, tensor=tensor), begin_s * SECOND)
        fold.clock_after(1830.0)
        folds.append((fold, ALLOCATION))
    rows = quarter_sums(folds, H100, "H100", 0.1, {})
    each = [totals(fold, sm_count=None) for fold, _ in folds]
    for name in ("covered_seconds", "tensor_active_seconds", "tensor_ref_seconds"):
        in_all = sum(getattr(one, name) or 0.0 for one in each)
        assert in_all == pytest.approx(sum(getattr(row, name) for row in rows)), name


def test_quarters_know_what_was_allocated_and_not_measured() -> None:
    """A quarter hour in which nothing was measured keeps its allocated seconds, and has no OFU."""
    fold = sampled_fold(3, wall_offset_ns=MINUTE_OFFSET)
    quarter = 1_764_424_800 // 900
    rows = quarter_sums(
        [(fold, ALLOCATION), (None, ALLOCATION)], H100, "H100", 0.1, {quarter: 900.0, quarter + 1: 60.0}
    )
    seen = [
        (row.start_epoch_s, row.allocated_seconds, row.covered_seconds, row.tensor_ref_seconds)
        for row in rows
    ]
    assert [
        (quarter * 900, 1800.0, 30.0, near(15.0)),
        (quarter * 900 + 900, 120.0, 0.0, None),
    ] == seen


def test_quarters_hold_the_runs_part() -> None:
    """Of shared GPUs and of MIG slices every sum of a quarter hour is the run's part, its bar included."""
    fold = sampled_fold(6, wall_offset_ns=MINUTE_OFFSET)
    quarter = 1_764_424_800 // 900

    def row(*given: Allocation) -> tuple[float | None, ...]:
        (its,) = quarter_sums([(fold, one) for one in given], H100, "H100", 0.1, {quarter: 900.0})
        return (
            *(its.allocated_seconds, its.covered_seconds, its.tensor_active_seconds),
            *(its.tensor_ref_seconds, its.tensor_ref_error_seconds),
        )

    whole, shared, mig = ALLOCATION, replace(ALLOCATION, sharers=2), replace(ALLOCATION, sm_share_ratio=0.125)
    assert (900.0, 60.0, 30.0, near(30.0)) == row(whole)[:4]
    assert [near((value or 0.0) * 0.625) for value in row(whole)] == list(row(shared, mig))


def test_every_sum_of_a_part_is_of_that_part() -> None:
    """Every second and joule of a part of a GPU counts by its weight; what is no sum stays as it is."""
    fold = GpuFold.start(0, 10.0)
    for number in range(8):
        one = sample(number * 10, number * 10 + 10, before=1830.0)
        its = replace(
            one.reading,
            sm_active_ratio=0.5,
            dram_active_ratio=0.5,
            utilisation_ratio=1.0,
            power_watts=500.0,
            energy_joules=5e3 * number,
            memory_used_bytes=7,
            throttle_mask=4 | 32,
        )
        fold.add(replace(one, reading=its), 0)
    fold.clock_after(1830.0)
    given = replace(ALLOCATION, allocated_seconds=100.0)
    whole, part = (
        gpu_totals(fold, one, H100, RULES, died=False, wall_offset_ns=0)
        for one in (given, replace(given, sm_share_ratio=0.25))
    )
    for field in fields(GpuTotals):
        value, of_part = getattr(whole, field.name), getattr(part, field.name)
        if field.name.endswith(("_seconds", "_joules")) and value:
            assert value * 0.25 == near(of_part), field.name
        elif field.name not in ("timeline", "sm_share_ratio"):
            assert value == of_part, field.name
    assert 2 == sum(1 for field in fields(GpuTotals) if field.name.endswith("_joules"))
    assert near(35e3 / 4) == part.energy_joules


def test_quarters_never_cover_more_than_was_allocated() -> None:
    """coverage_ratio never exceeds 1, in a quarter hour neither."""
    fold = sampled_fold(3, wall_offset_ns=MINUTE_OFFSET)
    quarter = 1_764_424_800 // 900
    (row,) = quarter_sums([(fold, ALLOCATION)], H100, "H100", 0.1, {quarter: 29.5})
    assert 30.0 == row.covered_seconds == row.allocated_seconds


def test_an_unknown_model_has_quarters_without_ofu() -> None:
    """Without a reference clock a quarter keeps its tensor activity."""
    (row,) = quarter_sums([(sampled_fold(3), ALLOCATION)], None, None, 0.1, {})
    assert (None, None, near(15.0)) == (
        row.tensor_ref_seconds,
        row.tensor_ref_error_seconds,
        row.tensor_active_seconds,
    )


def test_errors_of_gpus_of_one_run_add_linearly() -> None:
    """GPUs of one run add linearly (they swing together)."""
    one = quarter_sums([(sampled_fold(5), ALLOCATION)], H100, "H100", 0.1, {})
    two = quarter_sums([(sampled_fold(5), ALLOCATION)] * 2, H100, "H100", 0.1, {})
    assert one[0].tensor_ref_error_seconds is not None
    assert 2 * one[0].tensor_ref_error_seconds == pytest.approx(two[0].tensor_ref_error_seconds)


def test_rules_come_from_the_run() -> None:
    """The interval that makes a run short is the one that it was sampled with."""
    long = Rules(interval_seconds=60.0, refresh_seconds=RULES.refresh_seconds)
    assert "short" == totals(sampled_fold(), rules=long).reason
