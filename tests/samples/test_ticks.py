"""When to look: absolute deadlines, random instants."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.samples.ticks import Rounds, Schedule

QUICK = settings(deadline=None, max_examples=60)
SCHEDULES = st.builds(
    Schedule,
    start_ns=st.integers(0, 10**18),
    width_ns=st.integers(10**8, 10**11),
    readings=st.integers(2, 30),
)


@pytest.mark.property
@QUICK
@given(SCHEDULES, st.integers(0, 10**5), st.integers(1, 8), st.integers(0, 1000))
def test_one_instant_per_stratum_and_gpu(plan: Schedule, interval: int, gpus: int, seed: int) -> None:
    """m equal strata with one uniformly random reading in each, for every GPU, in the order of time."""
    instants = plan.clock_instants(interval, range(gpus), Random(seed))
    assert sorted(instants) == instants
    begin = plan.start_ns + interval * plan.width_ns
    for gpu in range(gpus):
        own = [instant - begin for instant, its in instants if its == gpu]
        assert plan.readings == len(own)
        for stratum, offset in enumerate(own):
            low, high = (plan.width_ns * part / plan.readings for part in (stratum, stratum + 1))
            assert low - 1 <= offset <= high


@pytest.mark.property
@QUICK
@given(SCHEDULES, st.integers(0, 10**5), st.integers(0, 1000))
def test_instants_lie_inside_their_interval(plan: Schedule, interval: int, seed: int) -> None:
    """Clock readings of an interval lie between its two deadlines."""
    instants = [instant for instant, _ in plan.clock_instants(interval, (0, 1), Random(seed))]
    assert plan.deadline_ns(interval) - plan.width_ns <= min(instants)
    assert max(instants) <= plan.deadline_ns(interval)


def test_instants_are_uniform_in_their_stratum() -> None:
    """Over many intervals the instants of one stratum fill it evenly: mean 1/2, variance 1/12."""
    plan, random = Schedule(start_ns=0, width_ns=10**10, readings=10), Random(5)
    places = [
        instant % 10**9 / 1e9
        for interval in range(500)
        for instant, _ in plan.clock_instants(interval, (0,), random)
    ]
    mean = sum(places) / len(places)
    assert 0.5 == pytest.approx(mean, abs=0.02)
    assert 1 / 12 == pytest.approx(sum((place - mean) ** 2 for place in places) / len(places), abs=0.005)


def test_gpus_have_instants_of_their_own() -> None:
    """Drawn independently per GPU: two GPUs of one run do not share an instant, nor their places."""
    plan, random = Schedule(start_ns=0, width_ns=10**10, readings=10), Random(5)
    pairs = []
    for interval in range(300):
        drawn = plan.clock_instants(interval, (0, 1), random)
        first, second = ([instant % 10**9 / 1e9 for instant, gpu in drawn if gpu == its] for its in (0, 1))
        pairs += list(zip(first, second, strict=True))
    covariance = sum((one - 0.5) * (other - 0.5) for one, other in pairs) / len(pairs)
    assert 0.0 == pytest.approx(covariance, abs=0.005)
    assert 0 == sum(one == other for one, other in pairs)


def test_a_seed_gives_the_same_instants() -> None:
    """Seeded: the same seed draws the same instants, another seed others."""
    plan = Schedule(start_ns=0, width_ns=10**10, readings=10)
    first, again, other = (plan.clock_instants(3, (0, 1), Random(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.property
@QUICK
@given(SCHEDULES, st.integers(0, 10**5))
def test_deadlines_are_equally_far_apart(plan: Schedule, interval: int) -> None:
    """Interval k ends at start + (k + 1) x width, whatever came before it."""
    deadlines = [plan.deadline_ns(interval + number) for number in range(5)]
    assert {plan.width_ns} == {later - earlier for earlier, later in pairwise(deadlines)}
    assert plan.start_ns + plan.width_ns == plan.deadline_ns(0)


@pytest.mark.property
@QUICK
@given(SCHEDULES, st.integers(0, 10**5), st.integers(0, 10**13))
def test_passed_deadlines_are_skipped(plan: Schedule, interval: int, late_ns: int) -> None:
    """The next interval is the first whose deadline is still to come."""
    now = plan.deadline_ns(interval) + late_ns
    following = plan.interval_after(interval, now)
    assert interval < following
    assert plan.deadline_ns(following) > now
    assert plan.deadline_ns(following - 1) <= now


@pytest.mark.property
@QUICK
@given(st.integers(0, 10**18), st.floats(0.5, 86_400.0), st.integers(0, 1000))
def test_rounds_begin_at_random_within_the_first(now_ns: int, every_seconds: float, seed: int) -> None:
    """Runs that start together do not speak together: the first time lies in (0, interval]."""
    its = Rounds.starting(now_ns, every_seconds, Random(seed))
    assert now_ns < its.next_ns <= now_ns + its.every_ns
    assert not its.is_due(now_ns)


def test_rounds_keep_their_pace() -> None:
    """Whenever it is asked: due once in each interval; those that passed are not made up for."""
    its = Rounds(next_ns=40, every_ns=100)
    asked = (0, 39, 40, 41, 139, 150, 239, 241, 700, 739, 740)
    assert [40, 150, 241, 700, 740] == [at for at in asked if its.is_due(at)]
