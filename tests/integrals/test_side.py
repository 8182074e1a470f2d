"""The figures beside OFU, each with its own coverage."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.integrals.side import SideSums
from tests.integrals.examples import near, reading


def summed(*steps: tuple[float, dict[str, Any]]) -> SideSums:
    """Readings every ten seconds or so, each averaged since the one before."""
    sums, before = SideSums.empty(), None
    for at, values in steps:
        sums.add(replace(reading(before, at), **values))
        before = at
    return sums


def test_nothing_is_known_at_first() -> None:
    """A numerator is None where nothing was measured."""
    its = summed((0, {"power_watts": 700.0, "sm_active_ratio": 1.0, "energy_joules": 5.0}))
    assert (None, None, None, 0.0) == (
        its.power.known_total,
        its.sm_active.known_total,
        its.energy_joules,
        its.power.seconds,
    )


def test_instantaneous_values_stand_for_the_time_before_them() -> None:
    """Power readings are integrated over the time since the reading before."""
    its = summed((0, {}), (10, {"power_watts": 700.0}), (30, {"power_watts": 100.0}))
    assert (9000.0, 30.0) == (its.power.known_total, its.power.seconds)


def test_no_time_counts_twice() -> None:
    """A failed reading may have SM activity since the last good one; the next has it again."""
    sums = SideSums.empty()
    for at in (10, 20, 30, 40):
        failed = reading(0, at, None)
        sums.add(replace(failed, sm_active_ratio=0.8, dram_active_ratio=0.8, power_watts=100.0))
    sums.add(replace(reading(0, 50), sm_active_ratio=0.6, dram_active_ratio=0.4, power_watts=100.0))
    assert (near(30.0), 50.0) == (sums.sm_active.known_total, sums.sm_active.seconds)
    assert (near(20.0), 50.0) == (sums.dram_active.known_total, sums.dram_active.seconds)
    assert (4000.0, 40.0) == (sums.power.known_total, sums.power.seconds)


def test_each_figure_has_its_own_coverage() -> None:
    """A missing value counts for nothing, neither in the numerator nor in the denominator."""
    its = summed(
        (0, {}),
        (10, {"sm_active_ratio": 0.5, "dram_active_ratio": None}),
        (20, {"sm_active_ratio": None, "dram_active_ratio": 0.2}),
        (30, {"sm_active_ratio": 0.0, "dram_active_ratio": 0.4}),
    )
    assert (5.0, 20.0) == (its.sm_active.known_total, its.sm_active.seconds)
    assert (near(6.0), 20.0) == (its.dram_active.known_total, its.dram_active.seconds)


def test_energy_counter_that_starts_anew() -> None:
    """A decrease of the energy counter adds nothing and loses nothing."""
    steps = [(at, {"energy_joules": value}) for at, value in enumerate((100.0, 150.0, 20.0, 50.0))]
    assert 80.0 == summed(*steps).energy_joules


def test_energy_survives_a_missing_value() -> None:
    """Energy is a cumulative counter: a tick without it loses nothing."""
    steps: list[tuple[float, dict[str, Any]]] = [
        (0, {"energy_joules": 0.0}),
        (1, {"energy_joules": None}),
        (2, {"energy_joules": 300.0}),
    ]
    assert 300.0 == summed(*steps).energy_joules


def test_memory_is_a_maximum() -> None:
    """The most memory that was in use at any reading; zero bytes is a value."""
    assert None is summed((0, {})).memory_max_bytes
    assert 0 == summed((0, {"memory_used_bytes": 0})).memory_max_bytes
    its = summed((0, {"memory_used_bytes": 7}), (1, {"memory_used_bytes": 9}), (2, {"memory_used_bytes": 2}))
    assert 9 == its.memory_max_bytes


@pytest.mark.parametrize(
    ("mask", "power", "thermal"),
    [(0x0, 0.0, 0.0), (0x4, 10.0, 0.0), (0x80, 10.0, 0.0), (0x20, 0.0, 10.0), (0x40, 0.0, 10.0), (0x1, 0, 0)],
)
def test_throttling_by_cause(mask: int, power: float, thermal: float) -> None:
    """Power caps (0x04, 0x80) and thermal slowdown (0x20, 0x40) are told apart; being idle is neither."""
    its = summed((0, {}), (10, {"throttle_mask": mask}))
    assert (power, thermal) == (its.throttled_power.known_total, its.throttled_thermal.known_total)
