"""Is the truth within the bar when DCGM speaks? The workloads of ``integrals.test_coverage``, as dmon shows
them: host engine and dmon each at their own pace, rows rounded and unstamped, looks at random instants."""

from bisect import bisect_left
from dataclasses import dataclass
from random import Random

import pytest

from slurm_ofu.counters.dcgm import DELAY_SECONDS
from slurm_ofu.counters.dcgm_course import Course
from slurm_ofu.counters.dcgm_rows import SM_CLOCK, TENSOR_ACTIVE, Entity, Row
from slurm_ofu.counters.pattern import Pattern
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import Reading, Sample
from tests.integrals.coverage import (
    INTERVALS,
    READINGS,
    RUNS,
    SCHEDULE,
    WIDTH_S,
    Outcome,
    activity,
    drawn,
    outcome,
)
from tests.integrals.examples import SECOND
from tests.integrals.workloads import FAMILIES, Workload

pytestmark = pytest.mark.property
LEAST = 930
ROUNDING_PP = 0.05  # of three printed decimals
DMON_DRIFT_S = 0.003  # of each row, for its questions and its printing


@dataclass(frozen=True, slots=True)
class Printed:
    """A row, and when it was really printed."""

    at_s: float
    row: Row


def printed(pattern: Pattern, delay_s: float, random: Random) -> list[Printed]:
    """What dmon prints during a run: the engine's latest value each time."""
    engine_s, at_s = random.random() * delay_s, random.random() * delay_s
    rows = []
    while at_s < INTERVALS * WIDTH_S:
        updated = engine_s + (at_s - engine_s) // delay_s * delay_s
        if updated >= delay_s:
            values = {
                TENSOR_ACTIVE: round(activity(pattern, updated - delay_s, updated), 3),
                SM_CLOCK: pattern.at(updated).sm_clock_mhz,
            }
            rows.append(Printed(at_s, Row(entity=Entity(kind="GPU", number=0), values=values)))
        at_s += delay_s + DMON_DRIFT_S
    return rows


def by_dcgm(workload: Workload, random: Random, delay_s: float) -> Outcome:
    """Ten intervals of 10 s of rows, with ten clock readings each."""
    pattern = workload(random, WIDTH_S / READINGS, INTERVALS * WIDTH_S)
    rows = printed(pattern, delay_s, random)
    times = [row.at_s for row in rows]
    course = Course(delay_ns=round(delay_s * SECOND))
    fold = GpuFold.start(0, WIDTH_S)
    before: float | None = None
    clocks: list[float] = []
    looked_ns, start_ns, end_ns = 0, None, 0

    def look(at_ns: int) -> None:
        nonlocal looked_ns
        for place in range(bisect_left(times, looked_ns / SECOND), bisect_left(times, at_ns / SECOND)):
            course.add(rows[place].row, looked_ns, at_ns)
        looked_ns = at_ns

    for interval in range(INTERVALS):
        for instant in drawn(interval, random):
            look(instant)
            clocks.append(pattern.at(instant / SECOND).sm_clock_mhz)
            fold.clock_after(clocks[-1])
        look(SCHEDULE.deadline_ns(interval))
        stretch = course.take()
        if stretch is None:
            continue
        assert stretch.since_ns is not None
        reading = Reading(
            since_ns=stretch.since_ns,
            taken_ns=stretch.until_ns,
            tensor_active_ratio=stretch.tensor_active_ratio,
        )
        fold.add(Sample(reading=reading, clocks_mhz=tuple(clocks), clock_before_mhz=before), 0)
        before, clocks, end_ns = clocks[-1], [], stretch.until_ns
        start_ns = stretch.since_ns if start_ns is None else start_ns
    assert start_ns is not None
    # Clocks are of that time and activity of up to a delay before: the figure is of either.
    start_s, end_s = start_ns / SECOND, end_ns / SECOND
    found = [
        outcome(fold, pattern, start_s - shift_s, end_s - shift_s) for shift_s in (0.0, delay_s / 2, delay_s)
    ]
    return min(found, key=lambda one: one.error_pp)


def covered(workload: Workload, delay_s: float, runs: int) -> int:
    """How many of so many runs have the truth within their bar."""
    randoms = (Random(f"dcgm {workload.__name__} {run}") for run in range(runs))
    found = (by_dcgm(workload, random, delay_s) for random in randoms)
    return sum(one.error_pp <= one.half_width_pp + ROUNDING_PP for one in found)


@pytest.mark.parametrize("workload", FAMILIES, ids=lambda its: its.__name__)
def test_truth_lies_within_the_bar(workload: Workload) -> None:
    """Over DCGM too: per workload family, fixed seeds, at least 930 of 1,000."""
    assert LEAST <= covered(workload, DELAY_SECONDS, RUNS)
