"""The fold of one GPU: both estimators side by side, and its state on disk."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import Reading, Sample
from tests.integrals.examples import SECOND, counted_fold, near, sample, totals

RATIO = st.floats(0.0, 1.0)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The value or None."""
    return st.one_of(st.none(), strategy)


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    """What a sampler may hand over: gaps, faults, missing figures, counters with resets."""
    at, since, result = draw(st.integers(0, 10**15)), None, []
    for _ in range(draw(st.integers(0, 12))):
        at += draw(st.one_of(st.integers(1, 90 * SECOND), st.integers(1, 4000 * SECOND)))
        failed = draw(st.booleans())
        result.append(
            Sample(
                reading=Reading(
                    since_ns=since,
                    taken_ns=at,
                    tensor_active_ratio=None if failed or since is None else draw(RATIO),
                    sm_active_ratio=draw(maybe(RATIO)),
                    dram_active_ratio=draw(maybe(RATIO)),
                    sm_cycles=draw(maybe(st.floats(0.0, 1e18))),
                    mma_cycles=draw(maybe(st.floats(0.0, 1e18))),
                    utilisation_ratio=draw(maybe(RATIO)),
                    power_watts=draw(maybe(st.floats(0.0, 1500.0))),
                    energy_joules=draw(maybe(st.floats(0.0, 1e12))),
                    memory_used_bytes=draw(maybe(st.integers(0, 2**40))),
                    throttle_mask=draw(maybe(st.integers(0, 2**9))),
                    fault="source_lost" if failed else None,
                ),
                clocks_mhz=tuple(draw(st.lists(st.floats(200.0, 2600.0), max_size=4))),
                clock_before_mhz=draw(maybe(st.floats(200.0, 2600.0))),
            )
        )
        since = since if failed else at
    return result


@pytest.mark.property
@settings(deadline=None, max_examples=80)
@given(samples(), st.integers(0, 2**60), st.integers(1, 100 * SECOND))
def test_a_checkpoint_loses_nothing(its: list[Sample], wall_offset_ns: int, width_ns: int) -> None:
    """state() through JSON and from_state() give the same fold, the pending sample summed."""
    fold = GpuFold.start(0, width_ns / SECOND)
    for one in its:
        fold.add(one, wall_offset_ns)
    restored = GpuFold.from_state(json.loads(json.dumps(fold.state(), allow_nan=False)))
    fold.clock_after(None)
    assert fold.state() == restored.state()


@pytest.mark.property
@settings(deadline=None, max_examples=40)
@given(samples(), samples())
def test_a_restored_fold_goes_on_as_the_old_one(before: list[Sample], after: list[Sample]) -> None:
    """What is added after a checkpoint comes out as if there had been none."""
    fold = GpuFold.start(0, 10.0)
    for one in before:
        fold.add(one, 0)
    restored = GpuFold.from_state(json.loads(json.dumps(fold.state())))
    for one in after:
        fold.add(one, 0)
        restored.add(one, 0)
    fold.clock_after(None)
    restored.clock_after(None)
    assert fold.state() == restored.state()


def test_an_earlier_versions_checkpoint_is_read() -> None:
    """A state without minutes, peaks and standstills gives every other figure, and says of those nothing."""
    fold = counted_fold(intervals=12)
    state = json.loads(json.dumps(fold.state()))
    del state["minutes"], state["sampled"]["peak"], state["cycles"]["peak"]
    for name in [name for name in state if name.startswith(("both_", "pending_counted"))]:
        del state[name]
    del state["sampled"]["quarters"]["standstill_seconds"], state["cycles"]["quarters"]["standstill_seconds"]
    before, after = totals(fold), totals(GpuFold.from_state(state))
    assert (None, None, None, 0.0, 0.0) == (
        *(after.idle_seconds, after.idle_tail_seconds, after.peak_tensor_ref_seconds),
        *(after.idle_covered_seconds, after.peak_covered_seconds),
    )
    assert (before.reason, before.tensor_ref_seconds) == (after.reason, after.tensor_ref_seconds)


def test_state_is_a_copy() -> None:
    """A state that was taken does not change when the fold goes on."""
    fold = counted_fold(intervals=3)
    state = fold.state()
    text = json.dumps(state)
    fold.add(sample(30, 40), 0)
    assert text == json.dumps(state)


def test_the_first_clock_after_an_interval_widens_its_bar() -> None:
    """A sample waits for the first clock reading after its interval, then it is summed once."""
    fold = GpuFold.start(0, 10.0)
    fold.add(sample(0, 10, clocks=[1800.0] * 10), 0)
    assert 0 == fold.sampled.interval_count
    fold.clock_after(345.0)
    steady = (5.0**2) * 18.75 / 10
    assert steady < fold.sampled.variance
    fold.clock_after(1980.0)
    assert 1 == fold.sampled.interval_count


def test_a_clock_that_never_comes_holds_nothing_up() -> None:
    """The next sample sums the one before it, with what is known."""
    fold = GpuFold.start(0, 10.0)
    fold.add(sample(0, 10), 0)
    fold.add(sample(10, 20), 0)
    fold.clock_after(None)
    assert (2, 20.0) == (fold.sampled.interval_count, fold.sampled.covered_seconds)


def test_a_failed_reading_costs_no_time() -> None:
    """After a failed reading the next good one covers the time since the last good one."""
    fold = GpuFold.start(0, 10.0)
    for one in (sample(0, 10), sample(10, 20, tensor=None), sample(10, 30)):
        fold.add(one, 0)
    fold.clock_after(None)
    assert (30.0, 2, None) == (fold.sampled.covered_seconds, fold.sampled.interval_count, fold.fault)


def test_the_latest_fault_is_remembered() -> None:
    """The fault is that of the latest reading."""
    fold = GpuFold.start(0, 10.0)
    fold.add(sample(0, 10, tensor=None), 0)
    assert "source_lost" == fold.fault
    fold.add(sample(0, 20), 0)
    assert None is fold.fault


def test_both_estimators_see_the_same_run() -> None:
    """cycles and sampled run side by side over the same intervals."""
    fold = counted_fold(tensor=0.4, intervals=6)
    assert (60.0, 60.0) == (fold.sampled.covered_seconds, fold.cycles.covered_seconds)
    assert fold.sampled.tensor_megacycles == pytest.approx(fold.cycles.tensor_megacycles)


def test_a_published_clock_has_its_neighbours() -> None:
    """scraped: one clock for an interval, and those before and after it widen its bar."""
    fold = GpuFold.start(0, 10.0)
    for number, mhz in enumerate((1500.0, 1500.0, 1200.0)):
        one = sample(number * 10, number * 10 + 10, clocks=())
        fold.add(replace(one, reading=replace(one.reading, published_clock_mhz=mhz)), 0)
    steps = 2 * 15.0**2 / 12
    assert (2, near(25.0 * (30_000.0 + steps))) == (fold.sampled.interval_count, fold.sampled.variance)
