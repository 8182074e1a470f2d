"""Where a series of levels changes for good: logarithms of one figure, in the order of time.

A series is cut into stretches of one level each (optimal partitioning of its running medians of three, so
that a lone outlier is no stretch), and a cut stands only where the levels on its two sides differ by the
factor and by ``STANDARD_ERRORS``. The last one or two values, too few for a stretch, are held against the
last stretch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from slurm_ofu.figures.student import upper_tail

#: How far two levels lie apart at least, in standard errors: what keeps false alarms below 1 per 1,000 series
#: also where the values' spread has heavy tails.
STANDARD_ERRORS: Final = 5.6
#: The same of a lone last value, of which there is but one place.
LONE_STANDARD_ERRORS: Final = 5.2
#: A lone last value must lie off by this power of the factor.
LONE_POWER: Final = 1.5
#: How likely it may be that values after a change are but outliers, such as there were before it.
OUTLIERS_RATIO: Final = 0.001
#: What is known of the spread before the series was seen: as much as so many values say.
PRIOR_DEGREES: Final = 8.0
LEAST_STRETCH: Final = 3  # values of a stretch that is not the last
LONGEST: Final = 200  # values of a series that are looked at, the latest
_OUTLIER_REACH: Final = 0.5  # of the step: values before it that lie farther off that way are outliers
_PENALTY: Final = 3.0  # of a cut: times the variance and the logarithm of the series' length
_LEAST_FOR_SPREAD: Final = 10  # values
_AGREEING_RATIO: Final = 0.75  # of the values after a change that lie beyond it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What counts as a change. ``spread``: one sigma of the values that is usual, and the least believed."""

    factor: float = 1.5
    least_before: int = 5
    spread: float = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change from the values ``before`` to those ``after``, both half-open ranges of positions."""

    before: range
    after: range
    log_ratio: float  # level after minus level before: below 0 a drop
    standard_errors: float  # by which the levels lie apart
    chance_ratio: float  # probability of one such or greater, anywhere in the series, by chance


def changes(values: Sequence[float], rule: Rule) -> tuple[Change, ...]:
    """The changes of a series, the earliest first; of a long series those of its latest part."""
    skipped = max(0, len(values) - LONGEST)
    recent = values[skipped:]
    if len(recent) <= rule.least_before:
        return ()
    stretches = _standing(recent, _stretches(recent, rule), rule)
    stretches = _with_end(recent, stretches, rule)
    found = (_change(recent, before, after, rule) for before, after in pairwise(stretches))
    return tuple(_moved(change, skipped) for change in found)


def spread_of(values: Sequence[float]) -> float | None:
    """One sigma of a series by its steps, of which a few changes are no part; ``None``: too short."""
    if len(values) < _LEAST_FOR_SPREAD:
        return None
    steps = [abs(after - before) for before, after in pairwise(values)]
    return median(steps) / (0.6745 * math.sqrt(2))


def _stretches(values: Sequence[float], rule: Rule) -> list[range]:
    """The series cut where its running medians say so; whole where they nowhere differ by the factor."""
    smooth = _medians_of_three(values)
    if len(smooth) < 2 * LEAST_STRETCH or max(smooth) - min(smooth) < math.log(rule.factor):
        return [range(len(values))]
    sigma = max(rule.spread, spread_of(values) or 0.0)
    return _partition(smooth, _PENALTY * sigma**2 * math.log(len(values)))


def _medians_of_three(values: Sequence[float]) -> list[float]:
    inner = [
        a + b + c - min(a, b, c) - max(a, b, c)
        for a, b, c in zip(values, values[1:], values[2:], strict=False)
    ]
    return [inner[0], *inner, inner[-1]]


def _partition(values: Sequence[float], penalty: float) -> list[range]:
    """The cuts with the least sum of squares within stretches plus the penalty of each (dynamic programming,
    pruned: Killick, Fearnhead and Eckley 2012)."""
    sums = [0.0, *accumulate(values)]
    squares = [0.0, *accumulate(value * value for value in values)]
    count = len(values)
    best = [-penalty, *([math.inf] * count)]
    last_cut = [0] * (count + 1)
    starts = [0]
    for end in range(LEAST_STRETCH, count + 1):
        costs = [
            best[start]
            + squares[end]
            - squares[start]
            - (sums[end] - sums[start]) ** 2 / (end - start)
            for start in starts
        ]  # fmt: skip
        least = min(costs)
        best[end] = least + penalty
        last_cut[end] = starts[costs.index(least)]
        starts = [start for start, cost in zip(starts, costs, strict=True) if cost <= best[end]]
        if math.isfinite(best[end - LEAST_STRETCH + 1]):
            starts.append(end - LEAST_STRETCH + 1)
    ranges = []
    end = count
    while end > 0:
        ranges.append(range(last_cut[end], end))
        end = last_cut[end]
    return ranges[::-1]


def _standing(values: Sequence[float], stretches: list[range], rule: Rule) -> list[range]:
    """The stretches with the weakest cut taken away, one by one, until all stand; and without the first,
    while that is too short to compare to."""
    while len(stretches) > 1:
        margins = [_margin(values, before, after, rule) for before, after in pairwise(stretches)]
        weakest = min(range(len(margins)), key=margins.__getitem__)
        if margins[weakest] < 0:
            joined = range(stretches[weakest].start, stretches[weakest + 1].stop)
            stretches = [*stretches[:weakest], joined, *stretches[weakest + 2 :]]
        elif len(stretches[0]) < rule.least_before:
            stretches = stretches[1:]
        else:
            break
    return stretches


def _with_end(values: Sequence[float], stretches: list[range], rule: Rule) -> list[range]:
    """The last one or two values as a stretch of their own, where they differ from the last stretch."""
    last = stretches[-1]
    least = rule.least_before if len(stretches) == 1 else LEAST_STRETCH
    for count in (1, 2):
        before, after = range(last.start, last.stop - count), range(last.stop - count, last.stop)
        if len(before) >= least and _margin(values, before, after, rule) >= 0:
            return [*stretches[:-1], before, after]
    return stretches


def _margin(values: Sequence[float], before: range, after: range, rule: Rule) -> float:
    """How far beyond what is asked for the two levels lie apart; below 0: there is no change."""
    level = median(values[before.start : before.stop])
    step = median(values[after.start : after.stop]) - level
    sign = math.copysign(1.0, step)
    off = sorted(sign * (values[position] - level) for position in after)
    agreed = off[len(off) - math.ceil(_AGREEING_RATIO * len(off))] if len(off) < 8 else abs(step)
    outliers = sum(sign * (values[position] - level) > _OUTLIER_REACH * agreed for position in before)
    if outliers and len(values) * ((outliers + 1) / (len(before) + 1)) ** len(after) > OUTLIERS_RATIO:
        return -math.inf
    error, _ = _standard_error(values, before, after, rule)
    factor, errors = math.log(rule.factor), STANDARD_ERRORS
    if len(after) == 1:
        factor, errors = LONE_POWER * factor, LONE_STANDARD_ERRORS
    return agreed - max(factor, errors * error)


def _standard_error(values: Sequence[float], before: range, after: range, rule: Rule) -> tuple[float, float]:
    """One sigma of the difference of two levels, and the degrees of freedom behind it."""
    squares = 0.0
    for side in (before, after):
        own = values[side.start : side.stop]
        middle = math.fsum(own) / len(own)
        squares += math.fsum((value - middle) ** 2 for value in own)
    degrees = PRIOR_DEGREES + len(before) + len(after) - 2
    variance = (PRIOR_DEGREES * rule.spread**2 + squares) / degrees
    sigma = max(rule.spread, math.sqrt(variance))
    return sigma * math.sqrt(1 / len(before) + 1 / len(after)), degrees


def _change(values: Sequence[float], before: range, after: range, rule: Rule) -> Change:
    step = median(values[after.start : after.stop]) - median(values[before.start : before.stop])
    error, degrees = _standard_error(values, before, after, rule)
    return Change(
        before=before,
        after=after,
        log_ratio=step,
        standard_errors=abs(step) / error,
        chance_ratio=min(1.0, 2 * len(values) * upper_tail(abs(step) / error, degrees)),
    )


def _moved(change: Change, by: int) -> Change:
    return Change(
        before=range(change.before.start + by, change.before.stop + by),
        after=range(change.after.start + by, change.after.stop + by),
        log_ratio=change.log_ratio,
        standard_errors=change.standard_errors,
        chance_ratio=change.chance_ratio,
    )
