"""Changes of level in a series, and how often one is seen where there is none."""

import math
import random
from collections.abc import Callable
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures.changes import Change, Rule, changes, spread_of
from slurm_ofu.figures.student import t_quantile, upper_tail

RULE = Rule()
SPREAD = 0.10
Draw = Callable[[], float]


def normal(chance: random.Random, sigma: float = SPREAD) -> Draw:
    return lambda: chance.gauss(0, sigma)


def student(chance: random.Random, degrees: int) -> Draw:
    """Heavy tails, of the same standard deviation as the normal one's."""
    scale = SPREAD / math.sqrt(degrees / (degrees - 2))
    return lambda: scale * chance.gauss(0, 1) / math.sqrt(chance.gammavariate(degrees / 2, 2) / degrees)


def is_drop(change: Change) -> bool:
    return change.log_ratio < 0


def false_alarms(draw: Draw, length: int, series_count: int, rule: Rule = RULE) -> int:
    """In how many series without a change a drop is seen, wherever in it."""
    return sum(
        any(is_drop(change) for change in changes([draw() for _ in range(length)], rule))
        for _ in range(series_count)
    )


def found(before: int, after: int, factor: float, series_count: int, sigma: float = SPREAD) -> float:
    """The share of series with one drop in which it is seen, within one position of where it is."""
    chance = random.Random(20260412)
    seen = 0
    for _ in range(series_count):
        values = [chance.gauss(0, sigma) for _ in range(before)]
        values += [chance.gauss(-math.log(factor), sigma) for _ in range(after)]
        drops = [change for change in changes(values, RULE) if is_drop(change)]
        seen += len(drops) == 1 and abs(drops[0].after.start - before) <= 1
    return seen / series_count


@pytest.mark.parametrize(("after", "series_count", "least"), [(1, 10_000, 0.99), (3, 5_000, 0.995)])
def test_a_drop_of_two_and_a_half_is_found_after_one_run(after: int, series_count: int, least: float) -> None:
    """Five runs with a spread of 10 % and one at 1/2.5 of their level: found in 99 of 100, later in more."""
    assert found(5, after, 2.5, series_count) >= least


def test_a_smaller_drop_is_found_with_more_runs() -> None:
    """A drop of 1.8 is found after five runs in 96 of 100, of 1.6 after 50 in 99 of 100."""
    assert found(20, 5, 1.8, 1_000) >= 0.96
    assert found(100, 50, 1.6, 500) >= 0.99


@pytest.mark.parametrize(
    ("draw", "length", "series_count", "most_per_thousand"),
    [
        *((normal(random.Random(1)), length, 10_000, 0.1) for length in (6, 8, 12, 30)),
        (normal(random.Random(2)), 200, 500, 1.0),
        *((student(random.Random(3), 4), length, 10_000, 1.0) for length in (6, 8, 12, 30)),
        (student(random.Random(4), 4), 200, 2_000, 1.0),
        (student(random.Random(5), 3), 6, 10_000, 1.5),
        *((normal(random.Random(6), 0.2), length, 10_000, 1.5) for length in (6, 8, 12)),
        (normal(random.Random(7), 0.3), 6, 10_000, 6.0),
        (normal(random.Random(8), 0.3), 30, 5_000, 1.5),
    ],
    ids=[
        *(f"{kind}-{length}" for kind in ("10%", "10%-t4") for length in (6, 8, 12, 30, 200)),
        *("10%-t3-6", "20%-6", "20%-8", "20%-12", "30%-6", "30%-30"),
    ],
)
def test_false_alarms(draw: Draw, length: int, series_count: int, most_per_thousand: float) -> None:
    """A series without a change, looked at wherever a change may be, gives a false alarm in at most 1 of
    1,000, also where its tails are heavy (Student's t with 4 degrees); in somewhat more where they are
    heavier still, or where it is short and far wider than is usual."""
    assert false_alarms(draw, length, series_count) <= most_per_thousand * series_count / 1000


def test_a_known_wide_spread_gives_no_false_alarms() -> None:
    """Where a spread of 30 % is usual, a short series gives a false alarm in at most 1 of 1,000."""
    rule = Rule(spread=0.3)
    assert false_alarms(normal(random.Random(9), 0.3), 6, 10_000, rule) <= 10


def test_a_site_of_many_kinds_of_series_gives_few_false_alarms() -> None:
    """Series of 6 to 200 values with spreads of 5 to 20 % and heavy tails, by the spread that is usual among
    them: false alarms in at most 2 of 1,000."""
    chance = random.Random(15)
    site = []
    for _ in range(4_000):
        draw, wide = student(chance, 4), chance.uniform(0.05, 0.2) / SPREAD
        site.append([wide * draw() for _ in range(min(200, 6 + int(chance.expovariate(1 / 20))))])
    spreads = [spread for values in site if (spread := spread_of(values)) is not None]
    rule = Rule(spread=max(SPREAD, median(spreads)))
    assert sum(any(is_drop(change) for change in changes(values, rule)) for values in site) <= 8


def test_a_drop_and_its_recovery_are_two_changes() -> None:
    """Of a series that drops in its middle and comes back both changes are found, where they are."""
    chance = random.Random(10)
    levels = [0.0] * 12 + [-1.0] * 6 + [0.0] * 9
    both = 0
    for _ in range(300):
        cuts = [
            (change.after.start, is_drop(change))
            for change in changes([level + chance.gauss(0, SPREAD) for level in levels], RULE)
        ]
        both += cuts == [(12, True), (18, False)]
    assert both >= 297


def test_a_lone_outlier_is_no_change() -> None:
    """One low value that good ones follow is no change; as the last one it is, and says how sure that is."""
    assert () == changes([0.0] * 8 + [-1.0] + [0.0] * 8, RULE)
    (change,) = changes([0.0] * 8 + [-1.0], RULE)
    assert (range(8), range(8, 9), -1.0) == (change.before, change.after, change.log_ratio)
    assert pytest.approx(1.0 / (SPREAD * math.sqrt(1 + 1 / 8))) == change.standard_errors
    assert 0 < change.chance_ratio < 1e-4


def test_where_lone_outliers_are_known_one_more_says_nothing() -> None:
    """After a series with outliers a last value that is another one is no change; a stretch of them is."""
    with_outliers = ([0.0] * 9 + [-1.0]) * 3
    assert () == changes([*with_outliers, 0.0, -1.0], RULE)
    assert [32] == [change.after.start for change in changes([*with_outliers, 0.0, 0.0, *([-1.0] * 8)], RULE)]


def test_a_short_series_says_nothing() -> None:
    """With fewer values before than are asked for there is no change, however great; nor in an empty
    series."""
    assert () == changes([], RULE)
    assert () == changes([0.0] * 4 + [-3.0], RULE)
    assert () == changes([0.0] * 4 + [-3.0] * 6, RULE)
    assert 1 == len(changes([0.0] * 5 + [-3.0] * 6, RULE))


def test_what_lies_before_a_short_beginning_is_not_mixed_in() -> None:
    """Four values at another level at the beginning are no level to compare to, nor part of the next."""
    (change,) = changes([-1.0] * 4 + [0.0] * 10 + [-0.7] * 5, RULE)
    assert (range(4, 14), range(14, 19)) == (change.before, change.after)


def test_of_a_long_series_the_latest_part_is_looked_at() -> None:
    """Positions are those of the whole series, also where its beginning is not looked at."""
    (change,) = changes([0.0] * 400 + [-1.0] * 20, RULE)
    assert (400, 420) == (change.after.start, change.after.stop)


def test_spread_does_not_take_changes_for_spread() -> None:
    """The spread is that around the level, whatever the level does; too few values have none."""
    chance = random.Random(11)
    values = [chance.gauss(-(number // 100), SPREAD) for number in range(400)]
    assert pytest.approx(SPREAD, rel=0.15) == spread_of(values)
    assert None is spread_of(values[:9])


@pytest.mark.property
@given(st.lists(st.integers(-24, 4), max_size=60), st.integers(-3, 3))
def test_changes_are_in_order_and_do_not_depend_on_the_level(quarters: list[int], shift: int) -> None:
    """Changes follow each other without gap or overlap, differ by the factor, and are the same for a series
    that lies higher or lower as a whole."""
    values = [quarter / 4 for quarter in quarters]
    cuts = changes(values, RULE)
    assert [cut.after for cut in cuts[:-1]] == [cut.before for cut in cuts[1:]]
    assert all(cut.before.stop == cut.after.start for cut in cuts)
    assert all(abs(cut.log_ratio) >= math.log(RULE.factor) for cut in cuts)
    assert all(0 <= cut.chance_ratio <= 1 for cut in cuts)
    assert [cut.after for cut in cuts] == [
        cut.after for cut in changes([value + shift for value in values], RULE)
    ]


def test_upper_tail_belongs_to_the_quantile() -> None:
    """Above t(0.975) lie 2.5 %, with few degrees of freedom and with many."""
    for degrees in (1.0, 4.0, 12.0, 200.0):
        assert pytest.approx(0.025, rel=1e-6) == upper_tail(t_quantile(degrees), degrees)
