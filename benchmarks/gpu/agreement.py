"""OFU against the share of the peak that was reached: pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from slurm_ofu.errors import UsageError
from slurm_ofu.figures.student import t_quantile
from slurm_ofu.figures.tile_names import parse_kernel, parse_tile
from slurm_ofu.figures.tiles import Gemm, useful_ratio

Marks = Sequence[Sequence[int]]
#: The two bands of the comparison, in percentage points.
NARROW_PP, WIDE_PP = 2.0, 5.0
LEAST_SPREAD = 0.01


def done_at(marks: Marks, at_ns: int) -> float | None:
    """How many products were done at an instant, between two marks in proportion; ``None`` outside."""
    for (count, then), (next_count, next_then) in pairwise(marks):
        if then <= at_ns <= next_then and next_then > then:
            return count + (next_count - count) * (at_ns - then) / (next_then - then)
    return None


def rate(marks: Marks, start_ns: int | None, end_ns: int | None) -> float | None:
    """Products per second over a stretch that the marks enclose."""
    if start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    before, after = done_at(marks, start_ns), done_at(marks, end_ns)
    return None if before is None or after is None else (after - before) / ((end_ns - start_ns) / 1e9)


def tile_useful_ratio(
    m: int, n: int, k: int, name: str | None, traced: str | None
) -> tuple[float, str] | None:
    """The product's own share of the work with padding, and the tile; by the kernel's name, else by
    cuBLASLt's trace. Both count M and N as the library does, and so does the product."""
    for text, parse in ((name, lambda text: parse_kernel(text).tile), (traced, parse_tile)):
        if text is None:
            continue
        try:
            tile = parse(text)
        except UsageError:
            continue
        return useful_ratio(Gemm(m=m, n=n, k=k), tile), f"{tile.m}x{tile.n}x{tile.k}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far OFU lies from the share of the peak, over many products."""

    count: int
    mean_absolute_pp: float
    mean_pp: float  # with its sign
    largest_pp: float
    narrow_ratio: float  # within NARROW_PP
    wide_ratio: float
    correlation: float | None

    def plain(self) -> dict[str, Any]:
        """For the result file."""
        return {name: getattr(self, name) for name in self.__slots__}


def agreement(pairs: Sequence[tuple[float, float]]) -> Agreement | None:
    """Of (OFU, share of the peak), both as ratios; ``None`` without any."""
    if not pairs:
        return None
    errors = [100 * (ofu - reached) for ofu, reached in pairs]
    count = len(errors)
    return Agreement(
        count=count,
        mean_absolute_pp=sum(map(abs, errors)) / count,
        mean_pp=sum(errors) / count,
        largest_pp=max(errors, key=abs),
        narrow_ratio=sum(abs(error) <= NARROW_PP for error in errors) / count,
        wide_ratio=sum(abs(error) <= WIDE_PP for error in errors) / count,
        correlation=_correlation(pairs),
    )


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's; ``None`` where there are too few, or hardly any differences to correlate."""
    columns = [list(values) for values in zip(*pairs, strict=True)]
    if len(pairs) < 3 or min(max(values) - min(values) for values in columns) < LEAST_SPREAD:
        return None
    means = [sum(values) / len(values) for values in columns]
    deviations = [(x - means[0], y - means[1]) for x, y in pairs]
    squares = sum(x * x for x, _ in deviations) * sum(y * y for _, y in deviations)
    return float(sum(x * y for x, y in deviations) / squares**0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """By how much sampling slows a GEMM, as ratios; ``low`` and ``high`` enclose the mean with 95 %."""

    pairs: int
    median_ratio: float
    mean_ratio: float
    low_ratio: float | None
    high_ratio: float | None


def slowdown(quiet: Sequence[float], sampled: Sequence[float]) -> Slowdown | None:
    """Of the rates in turns: quiet, sampled, quiet, … , quiet. Each sampled one is held against the mean
    of the quiet ones beside it, so that a steady drift drops out."""
    losses = [
        1 - rate / ((before + after) / 2)
        for rate, (before, after) in zip(sampled, pairwise(quiet), strict=False)
    ]
    if not losses:
        return None
    count, mean = len(losses), sum(losses) / len(losses)
    low = high = None
    if count > 1:
        sigma = (sum((loss - mean) ** 2 for loss in losses) / (count - 1) / count) ** 0.5
        half = t_quantile(count - 1) * sigma
        low, high = mean - half, mean + half
    return Slowdown(pairs=count, median_ratio=median(losses), mean_ratio=mean, low_ratio=low, high_ratio=high)
