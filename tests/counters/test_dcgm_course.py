"""Rows without time stamps → means over time, for what was measured and nothing else."""

from typing import Any

import pytest

from slurm_ofu.counters.dcgm_course import Course, Stretch
from slurm_ofu.counters.dcgm_rows import DRAM_ACTIVE, SM_ACTIVE, SM_CLOCK, TENSOR_ACTIVE, Entity, Row
from tests.integrals.examples import SECOND, near


def row(tensor: float | None = 0.5, mhz: float | None = 1410.0, **more: float) -> Row:
    """A row of the one GPU."""
    named = {"sm": SM_ACTIVE, "dram": DRAM_ACTIVE}
    values = {TENSOR_ACTIVE: tensor, SM_CLOCK: mhz, **{named[name]: value for name, value in more.items()}}
    known = {field_id: value for field_id, value in values.items() if value is not None}
    return Row(entity=Entity(kind="GPU", number=0), values=known)


def course(*rows: tuple[float, Row], delay_s: float = 1.0) -> Course:
    """Rows that came at these seconds, each looked for at once."""
    its = Course(delay_ns=round(delay_s * SECOND))
    for at_s, one in rows:
        its.add(one, round(at_s * SECOND), round(at_s * SECOND))
    return its


def taken(its: Course) -> tuple[Any, ...] | None:
    """Start and end in seconds, and tensor activity."""
    stretch = its.take()
    if stretch is None:
        return None
    since_s = None if stretch.since_ns is None else stretch.since_ns / SECOND
    return since_s, stretch.until_ns / SECOND, stretch.tensor_active_ratio


def test_the_first_row_only_opens_the_series() -> None:
    """It says nothing of time that we know: somebody else may have asked for it."""
    its = course((1, row(0.9)))
    assert taken(its) is None
    its.add(row(0.2), 2 * SECOND, 2 * SECOND)
    assert (1.0, 2.0, 0.2) == taken(its)
    assert taken(its) is None


def test_stretches_follow_each_other() -> None:
    """Each begins where the one before ended."""
    its = course(*((at, row(at / 10)) for at in range(1, 4)))
    assert (1.0, 3.0, near(0.25)) == taken(its)
    its.add(row(0.4), 4 * SECOND, 4 * SECOND)
    assert (3.0, 4.0, near(0.4)) == taken(its)


def test_activity_is_weighted_by_cycles() -> None:
    """Over several rows tensor activity stays a share of cycles; DRAM activity is one of time."""
    its = course(
        (0, row(0.8, 1400)),
        (1, row(0.8, 1400, sm=0.9, dram=0.6)),
        (2, row(0.0, 350, sm=0.1, dram=0.0)),
        (3, row(0.0, 350, sm=0.1, dram=0.0)),
    )
    stretch = its.take()
    assert isinstance(stretch, Stretch)
    # The middle row is all like the one after it, so its clock is that one's: 1400, 350, 350.
    assert near(0.8 * 1400 / 2100) == stretch.tensor_active_ratio
    assert near((0.9 * 1400 + 0.1 * 700) / 2100) == stretch.sm_active_ratio
    assert near(0.2) == stretch.dram_active_ratio
    assert near(700) == stretch.clock_mhz


def test_a_change_inside_a_row_is_found_by_its_activity() -> None:
    """A row between busy at 1400 MHz and free at 700 MHz: half its time each is 2/3 of its cycles."""
    its = course((0, row(0.9, 1400)), (1, row(0.9, 1400)), (2, row(0.6, 700)), (3, row(0.0, 700)))
    stretch = its.take()
    assert isinstance(stretch, Stretch)
    assert near((0.9 * 1400 + 0.6 * 1050) / (1400 + 1050 + 700)) == stretch.tensor_active_ratio


def test_a_field_that_a_row_lacks_is_missing() -> None:
    """A mean over rows of which one has no value is none."""
    stretch = course((0, row()), (1, row(sm=0.5, dram=0.5)), (2, row(sm=0.5))).take()
    assert isinstance(stretch, Stretch)
    assert (near(0.5), None) == (stretch.sm_active_ratio, stretch.dram_active_ratio)


def test_a_blank_among_values_costs_its_own_time() -> None:
    """Two rows of which one is blank cover one row's time; their figure is not halved."""
    its = course((0, row()), (1, row(0.28)), (2, row(None)), (3, row(0.3)))
    assert (1.0, 3.0, near(0.29)) == taken(its)


@pytest.mark.parametrize("blank", [row(None), row(0.5, None)])
def test_a_row_without_clock_or_activity_has_no_figure(blank: Row) -> None:
    """Both are needed: an average over several rows weighs by clocks."""
    its = course((0, row()), (1, blank))
    assert taken(its) is None
    assert 1 == its.empty_count


def test_nvmls_clock_stands_in() -> None:
    """MIG slices may have no clock of their own in a row."""
    its = course((0, row()))
    its.add(row(0.5, None), SECOND, SECOND, 1200.0)
    stretch = its.take()
    assert isinstance(stretch, Stretch)
    assert near((1410 + 1200) / 2) == stretch.clock_mhz


def test_a_gap_is_not_stretched_over() -> None:
    """A row that comes late stands for a delay and a half at most; what is before is lost."""
    its = course((0, row()), (1, row(0.2)))
    assert (0.0, 1.0, 0.2) == taken(its)
    for at_s in (5, 6, 7, 8):
        its.add(row(0.4), at_s * SECOND, at_s * SECOND)
    assert (near(3.5), 8.0, near(0.4)) == taken(its)


def test_a_stretch_mostly_lost_is_lost() -> None:
    """With less than half of it measured, the sampler's clocks would be of another time: begin anew."""
    its = course((0, row()), (1, row(0.2)))
    taken(its)
    for at_s in (9, 10):
        its.add(row(0.4), at_s * SECOND, at_s * SECOND)
    assert (None, 10.0, None) == taken(its)
    its.add(row(0.6), 11 * SECOND, 11 * SECOND)
    assert (10.0, 11.0, near(0.6)) == taken(its)


def test_a_new_child_opens_a_new_series() -> None:
    """The time between the last row of one child and the first of the next was not measured."""
    its = course((0, row()), (1, row()), (2, row()))
    its.begin()
    for at_s in (3.5, 4.5):
        its.add(row(0.9), round(at_s * SECOND), round(at_s * SECOND))
    assert (near(1.5), 4.5, near(0.5 * 2 / 3 + 0.9 / 3)) == taken(its)


def test_arrivals_follow_the_delay_within_what_was_seen() -> None:
    """Rows found together came one after the other; one found early came before its time."""
    its = Course(delay_ns=SECOND)
    its.add(row(), 0, 10 * SECOND)
    assert 10 * SECOND == its.row_ns
    for _ in range(3):
        its.add(row(), 10 * SECOND, 20 * SECOND)
    assert 13 * SECOND == its.row_ns
    its.add(row(), 20 * SECOND, 21 * SECOND)
    assert 20 * SECOND == its.row_ns
    its.add(row(), 20 * SECOND, round(20.5 * SECOND))
    assert round(20.5 * SECOND) == its.row_ns
