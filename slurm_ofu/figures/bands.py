"""Bands of OFU: how many runs lie in each. A mean hides that there are often two kinds of runs."""

from collections.abc import Sequence
from typing import Final

#: Where one band ends and the next begins, ratios. Good LLM training lies at 0.35 to 0.50.
BAND_EDGES: Final = (0.02, 0.10, 0.20, 0.40)
BAND_COUNT: Final = len(BAND_EDGES) + 1
#: What a report calls them, in per cent.
BAND_NAMES: Final = ("<2", "2-10", "10-20", "20-40", ">=40")


def band_of(ofu_ratio: float) -> int:
    """The number of the band that an OFU lies in; an edge belongs to the band above it."""
    return sum(ofu_ratio >= edge for edge in BAND_EDGES)


def added_counts(counts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Counts by band added; () stands for none in any."""
    known = [count for count in counts if count]
    return tuple(sum(column) for column in zip(*known, strict=True))
