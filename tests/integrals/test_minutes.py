"""What is judged by the minute (metric.md 7)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.pattern import Segment
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.minutes import Minutes
from slurm_ofu.integrals.quarters import quarter_sums
from slurm_ofu.integrals.side import SideSums
from slurm_ofu.integrals.totals import Allocation, part_of
from slurm_ofu.values import Estimator, GpuTotals, Reading, Reason
from tests.integrals.examples import H100, SECOND, counted_fold, near, sample, totals
from tests.integrals.simulated import ESTIMATORS, MINUTE, Course, folded, idling, measured, stretch

KINDS: dict[str, Callable[[float], Segment]] = {
    "idle": idling,
    "fp64": lambda minutes: stretch(minutes, 0.0, sm=0.9),
    "tensor": lambda minutes: stretch(minutes, 0.5),
    "light": lambda minutes: stretch(minutes, 0.002, sm=0.05),
}


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Stretches of 1 s to 7 min, whole seconds long, readings that fail for a while among them."""
    parts: list[Segment] = [
        KINDS[draw(st.sampled_from(sorted(KINDS)))](draw(st.integers(1, 420)) / MINUTE)
        for _ in range(draw(st.integers(1, 6)))
    ]
    begin, length = draw(st.integers(0, 20)), draw(st.sampled_from((0, 0, 1, 7)))
    return Course(
        segments=tuple(parts),
        failing=(begin, begin + length),
        sm_known=draw(st.booleans()),
        utilisation_known=draw(st.booleans()),
    )


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(courses(), st.sampled_from(ESTIMATORS), st.integers(2, 90))
def test_the_parts_are_no_more_than_the_whole(course: Course, estimator: Estimator, interval_s: int) -> None:
    """Idle and non-tensor minutes together are no more than the judged ones, those no more than what was
    covered, a tail no more than the idle ones, and a peak no more than five minutes and the whole."""
    its = measured(course, estimator, float(interval_s))
    idle, busy = its.idle_seconds or 0.0, its.non_tensor_seconds or 0.0
    dust = 1e-6
    assert idle + busy <= its.idle_covered_seconds + dust
    assert busy <= its.non_tensor_covered_seconds + dust
    assert its.non_tensor_covered_seconds <= its.idle_covered_seconds + dust
    assert its.idle_covered_seconds <= its.covered_seconds + dust
    assert (its.idle_tail_seconds or 0.0) <= idle + dust
    assert its.peak_covered_seconds <= min(300.0, its.covered_seconds) + dust
    assert (its.peak_tensor_ref_seconds or 0.0) <= (its.tensor_ref_seconds or 0.0) + dust


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(courses(), st.sampled_from(ESTIMATORS), st.integers(2, 60))
def test_the_interval_moves_no_more_than_edges(course: Course, estimator: Estimator, interval_s: int) -> None:
    """Idle and non-tensor time are the same for every interval but for the minutes at their edges."""
    course = replace(course, failing=(0.0, 0.0), sm_known=True)
    assume(course.seconds >= 2 * interval_s)
    one, other = measured(course, estimator, 1.0), measured(course, estimator, float(interval_s))
    edges = 2 * MINUTE * len(course.segments)
    for name in ("idle_seconds", "non_tensor_seconds", "idle_covered_seconds"):
        assert near(getattr(one, name), within=edges) == getattr(other, name), name
    assert near(one.peak_tensor_ref_seconds or 0.0, within=edges) == other.peak_tensor_ref_seconds


def fold_of(*readings: Reading) -> GpuFold:
    """A fold of readings with a clock of 1830 MHz."""
    fold = GpuFold.start(0, 10.0)
    for one in readings:
        fold.add(replace(sample(0, 10, before=1830.0), reading=one), 0)
    fold.clock_after(1830.0)
    return fold


def at(
    since_s: float,
    taken_s: float,
    *,
    tensor: float | None = 0.0,
    sm: float | None = 0.0,
    utilisation: float | None = None,
    watts: float | None = None,
    waiting: bool = False,
) -> Reading:
    """A reading of an idle GPU, unless told otherwise."""
    return Reading(
        since_ns=round(since_s * SECOND),
        taken_ns=round(taken_s * SECOND),
        tensor_active_ratio=tensor,
        sm_active_ratio=sm,
        utilisation_ratio=utilisation,
        power_watts=watts,
        fault="source_lost" if tensor is None and not waiting else None,
        waiting=waiting,
    )


def judged(*readings: Reading) -> tuple[float | None, float, float | None]:
    """(idle seconds, judged seconds, tail) of these readings."""
    its = totals(fold_of(*readings))
    return its.idle_seconds, its.idle_covered_seconds, its.idle_tail_seconds


# --------------------------------------------------------------- which minutes are judged


def test_a_minute_is_judged_by_what_it_is_in_all() -> None:
    """A burst of 1 s makes a minute of 60 s busy, and leaves the next one idle."""
    readings = [at(s, s + 1, sm=float(s == 30), tensor=float(s == 30)) for s in range(120)]
    assert (60.0, 120.0, 60.0) == judged(*readings)


@pytest.mark.parametrize(
    ("sm", "tensor", "idle", "non_tensor"),
    [
        (0.0, 0.0, 60.0, 0.0),
        (0.0099, 0.0, 60.0, 0.0),
        (0.01, 0.0, 0.0, 60.0),
        (0.005, 0.002, 0.0, 0.0),  # next to nothing, but with tensor work
        (0.9, 0.0049, 0.0, 60.0),
        (0.9, 0.005, 0.0, 0.0),
    ],
)
def test_where_the_lines_are(sm: float, tensor: float, idle: float, non_tensor: float) -> None:
    """Idle: SM activity < 1 % and no tensor work. Non-tensor: SM activity >= 1 % while TPA < 0.5 %."""
    its = totals(fold_of(at(0, 60, sm=sm, tensor=tensor)))
    assert (idle, non_tensor) == (its.idle_seconds, its.non_tensor_seconds)


@pytest.mark.parametrize(
    ("utilisation", "tensor", "expected"),
    [
        (0.0, 0.0, (60.0, 120.0)),
        (0.3, 0.0, (0.0, 120.0)),
        (0.0, 0.1, (0.0, 120.0)),
        (None, 0.0, (None, 0.0)),
        (None, 0.5, (None, 0.0)),
    ],
)
def test_without_sm_activity(
    utilisation: float | None, tensor: float, expected: tuple[float | None, float]
) -> None:
    """Where SM activity is unknown: no tensor work and utilisation 0; if neither is known, not judged. What
    was busy without tensor cores is never known then."""
    busy = at(60, 120, sm=None, utilisation=None if utilisation is None else 0.8, tensor=0.5)
    readings = [at(s, s + 10, sm=None, utilisation=utilisation, tensor=tensor) for s in range(0, 60, 10)]
    its = totals(fold_of(at(-0.1, 0, sm=None), *readings, busy))
    assert (*expected, None, 0.0) == (
        *(its.idle_seconds, its.idle_covered_seconds),
        *(its.non_tensor_seconds, its.non_tensor_covered_seconds),
    )


def test_minutes_begin_where_the_intervals_do() -> None:
    """The sampler's first reading covers the moment since it was primed: the minutes begin after it, so that
    no later interval lies across the edge of one. A source at its own pace may begin with more."""
    busy = [at(s, s + 10, tensor=0.5, sm=0.9) for s in range(0, 60, 10)]
    idle = [at(s, s + 10) for s in range(60, 180, 10)]
    assert (120.0, 180.0, 120.0) == judged(at(-0.12, 0, sm=0.9, tensor=0.5), *busy, *idle)
    assert (90.0, 90.0, 90.0) == judged(at(-30, 0), at(0, 60))


def test_missing_is_not_idle() -> None:
    """A minute that was covered for less than half is not judged, and ends the stretch before it."""
    assert (211.0, 211.0, 211.0) == judged(at(0, 120), at(149, 180), at(180, 240))
    assert (180.0, 180.0, 60.0) == judged(at(0, 120), at(151, 180), at(180, 240))


def test_a_mean_over_long_says_nothing_of_minutes() -> None:
    """A reading that covers more than five minutes, after others failed, counts, and judges none."""
    assert (60.0, 60.0, None) == judged(at(0, 60), at(60, 361))
    assert (360.0, 360.0, 360.0) == judged(at(0, 60), at(60, 360))


def test_utilisation_counts_for_the_time_that_tensor_activity_does() -> None:
    """Readings without tensor activity in between leave nothing out: what they said belongs to the next."""
    readings = [
        at(-0.1, 0, sm=None, utilisation=0.0),
        at(0, 30, sm=None, tensor=None, utilisation=0.9),
        at(0, 45, sm=None, tensor=None, utilisation=0.9, waiting=True),
        at(0, 60, sm=None, utilisation=0.0),
    ]
    assert (0.0, 60.0, 0.0) == judged(*readings)


def test_a_minutes_utilisation_is_its_own() -> None:
    """What was read in the minutes before says nothing of the next."""
    busy = [at(s, s + 10, sm=None, utilisation=0.9) for s in range(0, 60, 10)]
    idle = [at(s, s + 10, sm=None, utilisation=0.0) for s in range(60, 180, 10)]
    assert (120.0, 180.0, 120.0) == judged(at(-0.1, 0, sm=None), *busy, *idle)


# --------------------------------------------------------------- the end


def test_the_last_minute_is_judged_over_the_time_it_had() -> None:
    """A run is over in mid-minute: the rest is judged too, and the tail reaches up to it."""
    assert (75.0, 75.0, 75.0) == judged(at(0, 60), at(60, 75))
    assert (60.0, 75.0, 0.0) == judged(at(0, 60), at(60, 75, sm=0.5))


def test_an_end_that_nobody_saw_has_no_tail() -> None:
    """A single failed reading at the end is a gap of seconds, and a slow source's last figure may be as old
    as they lie apart; where more is missing the tail is not known."""
    seen = [at(0, 60), at(60, 120), at(120, 130)]
    assert (130.0, 130.0, 130.0) == judged(*seen, at(130, 160, tensor=None))
    assert (130.0, 130.0, None) == judged(*seen, at(130, 161, tensor=None))
    slow = [at(0, 60), at(60, 120), at(120, 180, tensor=None, waiting=True)]
    assert (120.0, 120.0, 120.0) == judged(*slow)
    assert (120.0, 120.0, None) == judged(*slow, at(120, 181, tensor=None, waiting=True))
    assert None is totals(fold_of(at(0, 120)), died=True).idle_tail_seconds
    assert 120.0 == totals(fold_of(at(0, 120)), died=True).idle_seconds


def test_looking_changes_nothing() -> None:
    """Totals may be taken in the middle, and again: the minute that is being filled goes on."""
    fold = fold_of(at(0, 60), at(60, 100, utilisation=0.9, watts=600))
    before = fold.state()
    assert totals(fold) == totals(fold)
    assert before == fold.state()


def test_the_state_does_not_grow() -> None:
    """Minutes and peak take the same room after a day as after ten minutes, but for a row of each quarter
    hour."""

    def size(minutes: int) -> int:
        fold, side = Minutes(), SideSums.empty()
        for number in range(minutes):
            one = at(number * 60, number * 60 + 60, sm=0.3, utilisation=0.4, watts=333.3)
            side.add(one)
            fold.add(one, side)
        assert len(fold.quarters) <= minutes / 15 + 1
        return len(repr(replace(fold, quarters={})))

    assert size(1440) < size(10) + 50


# --------------------------------------------------------------- counters that stand still


def still(minutes: float, of: float = 120.0, *, watts: float | None = 640.0, **changes: object) -> GpuTotals:
    """A run of so many minutes at work, whose counters say 0 in its middle."""
    course = Course(
        segments=(stretch(of, 0.5, utilisation=0.99, watts=watts or 0.0),),
        stuck=(30.0, 30.0 + minutes),
    )
    return measured(replace(course, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("minutes", "of", "reason"),
    [(4, 120, "ok"), (5, 120, "suspect"), (3, 35, "ok"), (4, 35, "suspect"), (90, 120, "suspect")],
)
def test_how_much_standstill_spoils_a_run(minutes: float, of: float, reason: Reason) -> None:
    """Five minutes in a row, or a tenth of the run. Less than that was not measured, and is not idle."""
    its = still(minutes, of)
    assert (reason, 0.0, near((of - minutes) * MINUTE)) == (
        *(its.reason, its.idle_seconds, its.idle_covered_seconds),
    )  # fmt: skip
    if reason == "ok":
        assert near((of - minutes) * MINUTE) == its.covered_seconds
        assert near(0.5 * 1755 / 1830) == (its.tensor_ref_seconds or 0.0) / its.covered_seconds


def test_standstills_apart_are_no_stretch() -> None:
    """Two standstills of four minutes, with one of work or of nothing known between them, are short."""

    def minute(number: int, **its: Any) -> Reading:
        return at(60 * number, 60 * number + 60, **{"sm": 0.9, "tensor": 0.5, "watts": 600.0, **its})

    stuck = {"sm": 0.0, "tensor": 0.0, "utilisation": 0.99}
    work = [minute(number) for number in range(100)]
    between: list[dict[str, Any]] = [{}, {"sm": None}, stuck]
    for it, reason in zip(between, ("ok", "ok", "suspect"), strict=True):
        middle = [stuck, stuck, stuck, stuck, it, stuck, stuck, stuck, stuck]
        readings = [*work, *(minute(100 + number, **one) for number, one in enumerate(middle))]
        assert reason == totals(fold_of(*readings)).reason


@pytest.mark.parametrize(
    ("sm_count", "watts", "reason"),
    [
        (132, 640, "suspect"),
        (132, 120, "ok"),  # at rest, with a context
        (58, 68, "suspect"),  # a board of 72 W
        (58, 20, "ok"),
        (40, 55, "suspect"),  # a board of 70 W
        (None, 160, "suspect"),
        (None, 140, "ok"),
    ],
)
def test_power_is_high_for_the_gpu(sm_count: int | None, watts: float, reason: Reason) -> None:
    """Power is high from 1 W per SM on. Below that the standstill is no fault, and no idle time either."""
    course = Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=watts),), stuck=(0, 60))
    its = measured(replace(course, sm_count=sm_count))  # type: ignore[arg-type]
    assert (reason, None, 0.0) == (its.reason, its.idle_seconds, its.idle_covered_seconds)


def test_a_suspect_gpu_is_not_measured_in_quarter_hours() -> None:
    """Nothing that a suspect GPU's counters said is in the sums by quarter hour; its time is."""
    course = Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=640),))
    given = Allocation(position=0, allocated_seconds=None, uuid=None, gpu_model=None, mapped_by=None)
    good, wedged = (folded(its, "cycles", 10.0) for its in (course, replace(course, stuck=(0, 60))))
    rows = quarter_sums([(good, given), (wedged, given)], H100, "H100", 0.1, dict.fromkeys(range(4), 900.0))
    assert [(1800.0, near(900), near(0.5 * 900))] * 4 == [
        (row.allocated_seconds, row.covered_seconds, row.tensor_active_seconds) for row in rows
    ]


def test_a_standstill_is_not_measured_in_its_quarter_hour() -> None:
    """What is not covered in the whole is not covered in the quarter hours either: their ratios stay those of
    the time that was measured. At rest nothing is taken away."""
    course = Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=640),), stuck=(20, 23))
    given = Allocation(position=0, allocated_seconds=None, uuid=None, gpu_model=None, mapped_by=None)
    resting = replace(course, segments=(stretch(60, 0.5, utilisation=0.99, watts=60),))
    for its, missing in ((course, 180.0), (resting, 0.0)):
        fold = folded(its, "cycles", 10.0)
        rows = quarter_sums([(fold, given)], H100, "H100", 0.1, {})
        assert near(60 * MINUTE - missing, within=20.0) == sum(row.covered_seconds for row in rows)
        assert near(totals(fold).covered_seconds, within=1e-6) == sum(row.covered_seconds for row in rows)
        assert near(900 - missing, within=1e-6) == rows[1].covered_seconds


def test_a_run_too_short_for_a_minute_is_judged_as_a_whole() -> None:
    """A wedged module is seen in a run of seconds too, where everything contradicts it."""
    readings = [at(s, s + 5, utilisation=0.9, watts=600) for s in range(0, 20, 5)]
    assert "suspect" == totals(fold_of(*readings)).reason
    assert "ok" == totals(fold_of(*(replace(one, power_watts=70.0) for one in readings))).reason


def test_without_power_utilisation_decides() -> None:
    """Where the power is not known a standstill under work is suspect all the same."""
    readings = [at(s, s + 10, utilisation=0.9, watts=None) for s in range(0, 600, 10)]
    assert "suspect" == totals(fold_of(*readings)).reason


def test_suspect_goes_before_what_else_is_the_matter() -> None:
    """What cannot be believed is suspect, also where the model is not known or the sampler died."""
    for change in ({"model": None}, {"died_after": 110.0}, {"failing": (110.0, 120.0)}):
        assert "suspect" == still(30, **change).reason


def test_sm_activity_tells_work_from_a_standstill() -> None:
    """A real FP32 or FP64 job has tensor 0 but SM activity > 0, so it must not be flagged; neither where SM
    activity is not known, and a standstill of the last seconds decides nothing."""
    course = Course(segments=(stretch(60, 0.0, sm=0.93, utilisation=0.99, watts=640),))
    assert "ok" == measured(course).reason
    assert "ok" == measured(replace(course, sm_known=False)).reason
    odd = [at(s, s + 10, tensor=0.5, utilisation=0.9, watts=600) for s in range(0, 60, 10)]
    assert ("ok", 60.0) == (totals(fold_of(*odd)).reason, totals(fold_of(*odd)).idle_covered_seconds)
    busy = [at(s, s + 10, sm=0.9, tensor=0.5, utilisation=0.9, watts=600) for s in range(0, 60, 10)]
    end = at(60, 68, utilisation=0.9, watts=600)
    assert "ok" == totals(fold_of(*busy, end)).reason


# --------------------------------------------------------------- by quarter hour


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(courses(), st.sampled_from(ESTIMATORS), st.integers(2, 60), st.integers(1, 3))
def test_quarter_hours_add_up_to_what_was_judged(
    course: Course, estimator: Estimator, interval_s: int, sharers: int
) -> None:
    """Of a GPU that several runs share, too; and through a checkpoint."""
    fold = GpuFold.from_state(folded(course, estimator, float(interval_s)).state())
    whole = Allocation(
        position=0, allocated_seconds=9e3, uuid=None, gpu_model="x", mapped_by=None, sharers=sharers
    )
    its = part_of(totals(fold), whole)
    assume(its.reason != "suspect")
    rows = quarter_sums([(fold, whole)], H100, "x", 0.1, {})
    for name in ("idle_seconds", "idle_covered_seconds", "non_tensor_seconds", "non_tensor_covered_seconds"):
        assert near(getattr(its, name) or 0.0, within=1e-6) == sum(getattr(row, name) for row in rows)


def test_a_minute_in_two_quarter_hours_is_shared_by_time() -> None:
    """By the wall clock: the run began a quarter of a minute before a quarter hour did."""
    fold, side = Minutes(), SideSums.empty()
    for number in range(60):
        one = at(number * 60, number * 60 + 60, sm=0.0, utilisation=0.0)
        side.add(one)
        fold.add(one, side, (900 * 4 - 15) * SECOND)
    its = fold.finished(60 * 60 * SECOND).quarters
    assert {3: 15.0, 4: 900.0, 5: 900.0, 6: 900.0, 7: 885.0} == {
        quarter: near(sums.idle_seconds) for quarter, sums in its.items()
    }


# --------------------------------------------------------------- the busiest five minutes


def peak(*parts: tuple[float, float], interval_s: float = 10.0) -> tuple[float, float]:
    """(OFU at 1830 MHz, covered seconds) of the busiest five minutes of (minutes, tensor activity)."""
    segments = tuple(stretch(minutes, tensor, mhz=1830) for minutes, tensor in parts)
    its = measured(Course(segments=segments), interval_s=interval_s)
    assert its.peak_tensor_ref_seconds is not None
    return its.peak_tensor_ref_seconds / its.peak_covered_seconds, its.peak_covered_seconds


def test_the_peak_is_the_greatest_of_five_minutes_in_a_row() -> None:
    """Wherever it was: at the start, in the middle, at the end; and of work that was shorter, its share."""
    assert (near(0.9), near(300)) == peak((5, 0.9), (30, 0.1))
    assert (near(0.9), near(300)) == peak((30, 0.1), (5, 0.9), (30, 0.1))
    assert (near(0.9), near(300)) == peak((30, 0.1), (5, 0.9))
    assert (near(0.4), near(300)) == peak((30, 0.0), (2, 1.0), (30, 0.0))


def test_the_peak_of_a_shorter_run_is_all_of_it() -> None:
    """A run of three minutes has them as its busiest; one that did nothing has a peak of 0."""
    assert (near(0.5), near(180)) == peak((1, 0.7), (2, 0.4))
    assert (0.0, near(300)) == peak((20, 0.0))


def test_five_minutes_in_a_row_are_so_by_the_clock() -> None:
    """Minutes before and after a gap are not next to each other."""
    readings = [at(0, 120, tensor=0.8), at(600, 720, tensor=0.8)]
    its = totals(fold_of(*readings))
    assert (near(0.8 * 120), near(120)) == (its.peak_tensor_ref_seconds, its.peak_covered_seconds)


@pytest.mark.parametrize("scale", [1.0, 132.0])
def test_the_peak_is_in_the_counters_scale(scale: float) -> None:
    """Counters summed over the SMs give the same peak as counters per SM."""
    its = totals(counted_fold(tensor=0.4, scale=scale, intervals=60))
    assert (near(0.4 * 300), near(300)) == (its.peak_tensor_ref_seconds, its.peak_covered_seconds)


def test_no_reference_clock_no_peak() -> None:
    """Without a reference clock there is no OFU, of the busiest five minutes neither."""
    its = measured(Course(segments=(stretch(20, 0.5),), model=None))
    assert (None, 0.0) == (its.peak_tensor_ref_seconds, its.peak_covered_seconds)
