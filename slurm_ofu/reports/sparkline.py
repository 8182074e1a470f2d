"""A timeline in one line of text."""

from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
GAP = "·"


def sparkline(ratios: Sequence[float | None], *, top: float) -> str:
    """One character per bucket, the highest level at ``top``; a bucket not measured is a gap, not a zero."""
    return "".join(GAP if ratio is None else _level(ratio, top) for ratio in ratios)


def _level(ratio: float, top: float) -> str:
    if top <= 0:
        return LEVELS[0]
    return LEVELS[min(len(LEVELS) - 1, int(ratio / top * len(LEVELS)))]
