"""The loop, in a world without time, on GPUs whose truth is known."""

from collections.abc import Mapping
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.figures.student import NORMAL_QUANTILE, t_quantile
from slurm_ofu.samples.ticks import Rounds
from slurm_ofu.values import GpuTotals, Sample
from tests.integrals.examples import near, totals
from tests.samples.fake_clock import (
    BURSTY,
    EPOCH_NS,
    NASTY,
    SECOND,
    START_NS,
    STEADY,
    FakeClock,
    Trial,
    pattern,
)

PATTERNS = {"steady": STEADY, "nasty": NASTY, "bursty": BURSTY}


def half_width(its: GpuTotals) -> float:
    """Of the 95 % interval of tensor_ref_seconds."""
    assert its.tensor_ref_error_seconds is not None
    return t_quantile(its.error_degrees or float("inf")) * its.tensor_ref_error_seconds


def is_within(its: GpuTotals, pattern: Pattern, end_ns: int) -> bool:
    """Whether the truth over the covered seconds, which end at ``end_ns``, lies within the bar."""
    end = end_ns / SECOND
    truth = pattern.ofu_ratio(end - its.covered_seconds, end, 1830.0) * its.covered_seconds
    assert its.tensor_ref_seconds is not None
    return abs(its.tensor_ref_seconds - truth) <= half_width(its)


# --------------------------------------------------------------- the figure


@pytest.mark.parametrize("name", PATTERNS)
def test_measured_ofu_is_the_truth_within_its_bar(name: str) -> None:
    """sampled: the truth lies within the 95 % bar, in at least 36 of 40 runs."""
    good = 0
    for seed in range(40):
        trial = Trial({0: PATTERNS[name]}, seed=seed)
        trial.run(123.4)
        good += is_within(totals(trial.folds[0]), PATTERNS[name], trial.clock.now_ns)
    assert 36 <= good


@pytest.mark.parametrize("name", PATTERNS)
def test_cycles_are_exact_within_their_refresh(name: str) -> None:
    """For cycles the bar is the counters' refresh time over T."""
    trial = Trial({0: PATTERNS[name]}, cycles=True, width_s=15.0)
    trial.run(123.4)
    its = totals(trial.folds[0])
    assert ("cycles", None) == (its.estimator, its.disagreement_ratio)
    end = trial.clock.now_ns / SECOND
    truth = PATTERNS[name].ofu_ratio(end - its.covered_seconds, end, 1830.0) * its.covered_seconds
    assert truth == pytest.approx(its.tensor_ref_seconds, abs=0.1)
    assert 0.1 == pytest.approx(half_width(its))
    assert half_width(its) == pytest.approx(NORMAL_QUANTILE * (its.tensor_ref_error_seconds or 0.0))


def test_side_figures_come_along() -> None:
    """Activity and energy are integrated beside OFU, each over its own covered seconds."""
    trial = Trial({0: STEADY})
    trial.run(100.0)
    its = totals(trial.folds[0])
    assert (its.covered_seconds, its.covered_seconds) == pytest.approx(
        (its.sm_active_seconds, its.sm_active_covered_seconds)
    )
    assert 400.0 * its.power_covered_seconds == pytest.approx(its.energy_joules)
    assert 0.0 == its.throttled_power_seconds


# --------------------------------------------------------------- when


def test_deadlines_are_absolute() -> None:
    """Readings that take long do not shift the readings after them."""
    trial = Trial({0: STEADY, 1: STEADY, 2: STEADY})
    trial.source.read_cost_ns = lambda gpu: 2 * SECOND
    trial.run(300.0)
    ticks = [at for gpu, at in trial.source.reads if gpu == 0][2:-1]
    assert [ticks[0] + number * 10 * SECOND for number in range(len(ticks))] == ticks
    assert (len(ticks), 0) == (trial.sampler.tick_count, trial.sampler.missed_ticks)


def test_lateness_is_recorded() -> None:
    """A clock reading that takes long makes its tick late, by so much, and no tick after it."""
    trial = Trial({0: STEADY})
    slow_from = START_NS + 55 * SECOND

    def cost(gpu: int) -> int:
        return 3 * SECOND if slow_from <= trial.clock.now_ns < slow_from + 5 * SECOND else 0

    trial.source.clock_cost_ns = cost
    trial.run(200.0)
    health = trial.sampler.health("own scope")
    assert 0.0 < health.late_max_seconds < 6.0
    assert ("own scope", "slow", 0) == (health.placement, health.source, health.missed_ticks)


def test_missed_ticks_are_recorded_and_their_clock_is_not_invented() -> None:
    """A reading that takes 25 s makes the next two deadlines pass: they are counted, and what the clock
    did meanwhile is unknown, so that the interval around them is not covered."""
    trial = Trial({0: STEADY})
    stuck_at = START_NS + 42 * SECOND

    def cost(gpu: int) -> int:
        return 25 * SECOND if trial.clock.now_ns in range(stuck_at, stuck_at + 10 * SECOND) else 0

    trial.source.read_cost_ns = cost
    trial.run(200.0)
    assert 2 == trial.sampler.health(None).missed_ticks
    assert 160.0 <= totals(trial.folds[0]).covered_seconds <= 175.0


def test_clock_readings_that_come_too_late_are_no_sample_of_their_slice() -> None:
    """Readings that stall for most of each interval leave no unsampled clock in the figure: OFU stays
    within its bar or is not measured there."""
    swing = [
        Segment(seconds=10.0, tensor_active_ratio=0.6, sm_clock_mhz=1980.0),
        Segment(seconds=7.0, tensor_active_ratio=0.2, sm_clock_mhz=1200.0),
    ]
    trial = Trial({0: Pattern(swing)})
    trial.source.read_cost_ns = lambda gpu: round(9.6 * SECOND)
    trial.run(400.0)
    its = totals(trial.folds[0])
    assert its.covered_seconds <= 40.0
    assert trial.sampler.health(None).late_max_seconds > 9.0


@pytest.mark.property
@settings(deadline=None, max_examples=60)
@given(st.floats(0.0, 400.0), st.sampled_from([2.0, 10.0, 15.0]))
def test_the_last_reading_is_at_the_stop(seconds: float, width_s: float) -> None:
    """The last reading comes at the stop, at most the source's least interval later."""
    trial = Trial({0: STEADY}, width_s=width_s)
    trial.run(seconds)
    covered = totals(trial.folds[0]).covered_seconds
    assert seconds - 1e-6 <= covered <= max(seconds, 0.12) + 0.12 + 1e-6


@pytest.mark.property
@settings(deadline=None, max_examples=60)
@given(st.floats(0.0, 400.0))
def test_readings_keep_their_distance(seconds: float) -> None:
    """Two readings of a GPU are never closer than the source can tell apart."""
    trial = Trial({0: STEADY})
    trial.run(seconds)
    times = [at for _, at in trial.source.reads]
    assert all(later - earlier >= 0.12 * SECOND for earlier, later in pairwise(times))


def test_each_interval_has_its_clock_readings() -> None:
    """m readings of every GPU's clock between two readings of its counters."""
    trial = Trial({0: STEADY, 1: BURSTY}, readings=7)
    trial.run(100.0)
    for gpu in (0, 1):
        ticks = [at for its, at in trial.source.reads if its == gpu][1:]
        clocks = [at for its, at in trial.source.clock_reads if its == gpu]
        for begin, end in pairwise(ticks[:-1]):
            assert 7 == sum(begin < at < end for at in clocks)


class Witness:
    """A fold that only remembers what it was given."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.clocks_after: list[float | None] = []

    def add(self, sample: Sample, wall_offset_ns: int) -> None:
        """Remember a sample."""
        self.samples.append(sample)

    def clock_after(self, mhz: float | None) -> None:
        """Remember a clock, and after how many samples it came."""
        assert len(self.clocks_after) == len(self.samples) - 1
        self.clocks_after.append(mhz)


def test_each_interval_knows_its_neighbours() -> None:
    """The last clock reading before an interval and the first after it come with it, from the readings
    themselves."""
    trial, witness = Trial({0: BURSTY}), Witness()
    (device,) = trial.source.devices()
    trial.sampler.folds = {0: (device, witness)}
    trial.clock.stop_at_ns = START_NS + 95 * SECOND
    trial.sampler.run()
    assert 11 == len(witness.samples) == len(witness.clocks_after)
    for earlier, later in pairwise(witness.samples):
        assert earlier.clocks_mhz[-1] == later.clock_before_mhz
    for after, later in zip(witness.clocks_after, witness.samples[1:], strict=False):
        assert after == later.clocks_mhz[0]
    assert {10} == {len(sample.clocks_mhz) for sample in witness.samples[1:-1]}


def test_the_source_says_how_often() -> None:
    """Whether the source has cycle counters decides the interval, asked when each was read twice."""
    asked = []

    def interval_seconds(has_cycles: bool) -> float:
        asked.append((has_cycles, len(trial.source.reads)))
        return 15.0

    trial = Trial({0: STEADY, 1: STEADY}, cycles=True)
    trial.sampler.interval_seconds = interval_seconds
    trial.run(31.0)
    assert [(True, 4)] == asked
    assert 2 == trial.sampler.tick_count


def test_a_stop_before_the_first_interval() -> None:
    """A job that ends at once still has a checkpoint and a last reading."""
    trial = Trial({0: STEADY})
    trial.run(0.0)
    assert (1, 0) == (len(trial.saved), trial.sampler.tick_count)
    assert totals(trial.folds[0]).tensor_ref_seconds is not None


# --------------------------------------------------------------- checkpoints


@pytest.mark.property
@settings(deadline=None, max_examples=120)
@given(
    st.floats(0.2, 500.0), st.sampled_from([2.0, 7.0, 10.0, 15.0, 60.0]), st.sampled_from([5.0, 30.0, 61.0])
)
def test_a_killed_sampler_loses_one_checkpoint_interval(
    seconds: float, width_s: float, checkpoint_s: float
) -> None:
    """Whenever it is killed, the last checkpoint lacks one checkpoint interval at most, or one reading's
    where that is longer."""
    trial = Trial({0: BURSTY}, width_s=width_s, checkpoint_s=checkpoint_s, readings=3)
    trial.die_after(seconds)
    kept = trial.last_saved()[0].sampled.covered_seconds
    assert kept <= seconds
    assert seconds - kept <= max(checkpoint_s, width_s) + 0.12 + 1e-6


def test_checkpoints_are_not_written_for_nothing() -> None:
    """As few checkpoints as that takes: 10 s apart, 30 s to lose, one in three readings."""
    trial = Trial({0: STEADY})
    trial.run(301.0)
    assert 1 + 10 == len(trial.saved)


def test_a_checkpoint_holds_every_gpu() -> None:
    """A checkpoint is of one instant for all GPUs of the run."""
    trial = Trial({0: STEADY, 1: NASTY})
    trial.die_after(100.0)
    assert {90.0} == {round(fold.sampled.covered_seconds) for fold in trial.last_saved().values()}


# --------------------------------------------------------------- wall clock


@pytest.mark.parametrize(("step_s", "recorded"), [(3600.0, 3600.0), (-7200.0, 7200.0), (0.9, 0.0)])
def test_a_wall_clock_step_is_recorded(step_s: float, recorded: float) -> None:
    """Wall time only labels; a wall-clock step of more than 1 s is recorded."""
    clock = FakeClock(wall_steps=((START_NS + 45 * SECOND, round(step_s * SECOND)),))
    trial = Trial({0: STEADY}, clock=clock)
    trial.run(100.0)
    assert recorded == trial.sampler.health(None).wall_step_seconds
    assert 100.0 == pytest.approx(totals(trial.folds[0]).covered_seconds)


def test_quarters_follow_the_wall_clock() -> None:
    """After a step the quarter hours are those of the new wall clock."""
    clock = FakeClock(wall_steps=((START_NS + 45 * SECOND, 3600 * SECOND),))
    trial = Trial({0: STEADY}, clock=clock)
    trial.run(100.0)
    first = (START_NS + EPOCH_NS) // SECOND // 900
    assert [first, first + 4] == sorted(trial.folds[0].sampled.quarters)


# --------------------------------------------------------------- sick GPUs


def measured(patterns: Mapping[int, Pattern], sick_until_s: float, seconds: float = 100.0) -> Trial:
    """A run in which GPU 1 is sick from 25 s on."""
    trial = Trial(patterns)
    sick = range(START_NS + 25 * SECOND, START_NS + round(sick_until_s * SECOND))
    trial.source.is_sick = lambda gpu, now_ns: gpu == 1 and now_ns in sick
    trial.run(seconds)
    return trial


def test_a_sick_gpu_does_not_disturb_the_others() -> None:
    """The fault says what happened, and the other GPUs go on."""
    trial = measured({0: STEADY, 1: STEADY, 2: STEADY}, sick_until_s=1e6)
    well, sick = totals(trial.folds[0]), totals(trial.folds[1])
    assert ("ok", near(100.0)) == (well.reason, well.covered_seconds)
    assert ("source_lost", near(20.12)) == (sick.reason, sick.covered_seconds)
    assert is_within(totals(trial.folds[2]), STEADY, trial.clock.now_ns)


def test_a_gpu_that_recovers_soon_has_no_gap() -> None:
    """The first good reading after a fault covers the time since the last good one, clocks and all."""
    trial = measured({0: STEADY, 1: STEADY}, sick_until_s=32.0)
    its = totals(trial.folds[1])
    assert ("ok", near(100.0)) == (its.reason, its.covered_seconds)
    assert is_within(its, STEADY, trial.clock.now_ns)


def test_a_clock_that_did_not_answer_is_not_invented() -> None:
    """Time for most of which the clock did not answer is not covered: the readings at its two ends are of
    another time."""
    trial = measured({0: STEADY, 1: STEADY}, sick_until_s=65.0)
    its = totals(trial.folds[1])
    assert ("ok", near(50.0)) == (its.reason, its.covered_seconds)


def test_a_fault_that_lasts_does_not_grow() -> None:
    """Of the clock readings of a very long interval a limited number is kept, early ones as likely as late
    ones: the truth lies within the bar."""
    drifting = pattern((20_000.0, 0.5, 1980.0), (20_000.0, 0.5, 990.0))
    trial = Trial({0: drifting}, checkpoint_s=1_000.0)
    trial.source.is_clock_sick = False
    sick = range(START_NS + 25 * SECOND, START_NS + 39_000 * SECOND)
    trial.source.is_sick = lambda gpu, now_ns: now_ns in sick
    trial.run(39_100.0)
    assert max(len(text) for _, text in trial.saved) < 20_000
    its = totals(trial.folds[0])
    assert ("ok", near(39_100.0)) == (its.reason, its.covered_seconds)
    assert is_within(its, drifting, trial.clock.now_ns)


# --------------------------------------------------------------- in between


def test_interim_records_come_when_they_should_and_delay_no_tick() -> None:
    """Each after a checkpoint, the first within an interval, then one in every interval; no tick is late."""
    trial = Trial({0: STEADY})
    rounds = Rounds.starting(START_NS, 900.0, Random(3))
    came: list[int] = []

    def save() -> None:
        trial.save()
        if rounds.is_due(trial.clock.now_ns):
            came.append(trial.clock.now_ns)

    trial.sampler.save = save
    trial.run(3 * 3600.0)
    assert 12 == len(came)
    late = 40 * SECOND  # a checkpoint is saved every 30 s, at a tick
    assert START_NS < came[0] <= START_NS + 900 * SECOND + late
    assert all(abs(later - sooner - 900 * SECOND) <= late for sooner, later in pairwise(came))
    assert (0, 0.0) == (trial.sampler.missed_ticks, trial.sampler.health(None).late_max_seconds)
