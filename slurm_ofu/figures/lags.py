"""Whether one of several that should be alike lags the others, again and again."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from slurm_ofu.values import GpuTotals

#: How often a lag of half the threshold is to be expected of what is healthy: a quarter of all times is much
#: more than measurements scatter, and allows for jobs whose work is uneven.
HEALTHY_RATIO: Final = 0.25
#: The most that chance may do, where a lag is called lasting.
CHANCE_RATIO: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A lasting lag. ``lag_ratio``: the median of 1 − own figure over that of the others."""

    lag_ratio: float
    lagging_count: int  # times that it lagged by half the threshold, at least
    count: int  # of so many
    chance_ratio: float  # that something healthy does so as often


def lags(values: Sequence[float]) -> list[float]:
    """How far each of several (at least two, above 0) is behind the median of the others; below 0: ahead."""
    ascending = sorted(values)
    return [1 - value / _median_of_others(ascending, value) for value in values]


def excesses(values: Sequence[float]) -> list[float]:
    """How far each of several (at least two) lies above the median of the others."""
    ascending = sorted(values)
    return [value - _median_of_others(ascending, value) for value in values]


def lasting_lag(series: Sequence[float], least_ratio: float, least_count: int) -> Lag | None:
    """The lag of a series of lags; ``None``: it is too short, too small, or may be chance."""
    if len(series) < least_count or (usual := median(series)) < least_ratio:
        return None
    lagging = sum(lag >= least_ratio / 2 for lag in series)
    chance = _at_least(lagging, len(series), HEALTHY_RATIO)
    if chance > CHANCE_RATIO:
        return None
    return Lag(lag_ratio=usual, lagging_count=lagging, count=len(series), chance_ratio=chance)


def clock_ratio(gpu: GpuTotals) -> float | None:
    """The clock while computing, by the reference clock."""
    return _ratio(gpu.tensor_ref_seconds, gpu.tensor_active_seconds)


def tensor_ratio(gpu: GpuTotals) -> float | None:
    """Tensor activity."""
    return _ratio(gpu.tensor_active_seconds, gpu.covered_seconds)


def thermal_ratio(gpu: GpuTotals) -> float | None:
    """The share of the time in which heat slowed it down."""
    return _ratio(gpu.throttled_thermal_seconds, gpu.throttle_covered_seconds)


def gpu_ofu_ratio(gpu: GpuTotals) -> float | None:
    """The OFU of one GPU."""
    return _ratio(gpu.tensor_ref_seconds, gpu.covered_seconds)


def pooled_ratio(parts: Iterable[tuple[float | None, float]]) -> float | None:
    """Numerators over denominators, of those that are known."""
    known = [(numerator, denominator) for numerator, denominator in parts if numerator is not None]
    return _ratio(math.fsum(n for n, _ in known), math.fsum(d for _, d in known)) if known else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    if numerator is None or denominator is None or denominator <= 0:
        return None
    return numerator / denominator


def _median_of_others(ascending: Sequence[float], own: float) -> float:
    at, others = bisect_left(ascending, own), len(ascending) - 1
    low, high = (others - 1) // 2, others // 2
    return (ascending[low + (low >= at)] + ascending[high + (high >= at)]) / 2


def _at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of that many successes or more (the binomial distribution's tail)."""
    log_yes, log_no, whole = math.log(probability), math.log1p(-probability), math.lgamma(trials + 1)
    terms = (
        math.exp(
            whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_yes + (trials - k) * log_no
        )
        for k in range(successes, trials + 1)
    )
    return min(1.0, math.fsum(terms))
