"""The cycle counters: deltas, resets and their scale."""

from dataclasses import replace

import pytest

from slurm_ofu.integrals.cycles import CycleCounter, counter_scale
from slurm_ofu.values import Interval, Reading
from tests.integrals.examples import SECOND, reading


def counted(at_s: float, sm: float | None, mma: float | None) -> Reading:
    """A reading with cumulative counters."""
    return replace(reading(0.0, at_s), sm_cycles=sm, mma_cycles=mma)


def advanced(*readings: Reading) -> tuple[CycleCounter, list[Interval | None]]:
    """A counter that saw them all, and what it made of each."""
    counter = CycleCounter()
    return counter, [counter.advance(one) for one in readings]


def test_an_interval_is_the_growth_of_both_counters() -> None:
    """tensor_ref_seconds = Δ250 / (n · f_ref · 1e6), formed per tick."""
    _, (first, second) = advanced(counted(10, 5e9, 1e9), counted(20, 5e9 + 2e10, 1e9 + 5e9))
    assert None is first
    expected = Interval(
        start_ns=10 * SECOND, end_ns=20 * SECOND, tensor_active_ratio=0.25, tensor_megacycles=5000.0
    )
    assert expected == second


@pytest.mark.parametrize(("sm", "mma"), [(0.0, 2e9), (3e10, 0.0), (0.0, 0.0)])
def test_a_decrease_is_a_reset(sm: float, mma: float) -> None:
    """A decrease means reset: keep the sum up to it, drop that interval, record the gap."""
    after = counted(30, sm + 2e10, mma + 1e9)
    counter, found = advanced(counted(10, 1e10, 1e9), counted(20, sm, mma), after)
    assert (1, None) == (counter.reset_count, found[1])
    assert found[2] is not None
    assert (1000.0, 0.05, 20 * SECOND) == (
        found[2].tensor_megacycles,
        found[2].tensor_active_ratio,
        found[2].start_ns,
    )


def test_more_active_than_elapsed_cycles_are_a_reset() -> None:
    """Counters that restarted and passed their old values again are known by what cannot be."""
    counter, found = advanced(counted(10, 1e10, 1e9), counted(20, 1.1e10, 3e9), counted(30, 3.1e10, 4e9))
    assert (1, None) == (counter.reset_count, found[1])
    assert found[2] is not None
    assert 0.05 == found[2].tensor_active_ratio


def test_an_activity_is_never_above_one() -> None:
    """The counters are not read at the very same instant: a little more than all of the cycles is all."""
    counter, (_, found) = advanced(counted(10, 1e10, 1e9), counted(20, 2e10, 1.1005e10))
    assert (0, 1.0, 10005.0) == (
        counter.reset_count,
        found and found.tensor_active_ratio,
        found and found.tensor_megacycles,
    )


def test_a_missing_counter_makes_one_long_interval() -> None:
    """A tick without counters loses nothing: the next one spans both."""
    _, found = advanced(counted(10, 0.0, 0.0), counted(20, None, 1e9), counted(30, 4e10, 2e10))
    assert None is found[1]
    assert found[2] is not None
    assert (20.0, 20000.0) == (found[2].seconds, found[2].tensor_megacycles)


def test_counters_that_stand_still_are_a_zero() -> None:
    """An idle GPU whose counters stand still has activity 0, which is a value."""
    _, found = advanced(counted(10, 1e10, 1e9), counted(20, 1e10, 1e9))
    assert found[1] is not None
    assert (0.0, 0.0) == (found[1].tensor_active_ratio, found[1].tensor_megacycles)


def test_no_time_no_interval() -> None:
    """Two readings at one instant say nothing."""
    _, found = advanced(counted(10, 1e10, 1e9), counted(10, 2e10, 2e9))
    assert [None, None] == found


@pytest.mark.parametrize(
    ("seen", "sm_count", "expected"),
    [
        (1.0, 132, 1.0),
        (0.6, 132, 1.0),
        (1.9, 132, 1.0),
        (132.0, 132, 132.0),
        (80.0, 132, 132.0),
        (250.0, 132, 132.0),
        (12.0, 132, None),
        (0.01, 132, None),
        (132.0, None, None),
        (1.0, None, 1.0),
    ],
)
def test_scale_is_one_or_the_number_of_sms(seen: float, sm_count: int | None, expected: float | None) -> None:
    """n = 1 or the number of SMs: a factor of two or more tells which, nothing finer."""
    assert expected == counter_scale(seen * 1830.0, 1830.0, sm_count)


def test_no_clock_no_scale() -> None:
    """Without a clock to hold the counters against there is no scale."""
    assert None is counter_scale(1830.0, 0.0, 132)
