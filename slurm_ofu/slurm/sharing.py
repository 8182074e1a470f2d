"""How many jobs shared a GPU: ``shard`` and ``mps`` jobs get the same position at the same time.

Nothing in a hook's environment says that a job shares its GPU (a shard job's is a whole GPU job's), but
the runs of a node that overlap in time and in positions do. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One run's hold on some positions of a node, in uptime seconds; still going on: end infinite."""

    positions: frozenset[int]
    start_seconds: float
    end_seconds: float


def sharers(run: Holding, others: Iterable[Holding]) -> Mapping[int, int]:
    """Position → the most runs that held it at once while ``run`` did, ``run`` itself included.

    With 1/sharers of a GPU's time counted for each run, the runs' sum never exceeds the GPU's time.
    """
    overlapping = [
        other
        for other in others
        if other.start_seconds < run.end_seconds and run.start_seconds < other.end_seconds
    ]
    return {
        position: 1 + _most_at_once([other for other in overlapping if position in other.positions])
        for position in run.positions
    }


def _most_at_once(holdings: Iterable[Holding]) -> int:
    # An end sorts before a beginning at the same instant: hand-over is not sharing.
    steps = sorted(
        step for holding in holdings for step in ((holding.start_seconds, 1), (holding.end_seconds, -1))
    )
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most
