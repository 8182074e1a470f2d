"""Months, days and hours of a window, cut where the reader's clocks cut them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta, tzinfo
from typing import Final, Literal

from slurm_ofu.errors import UsageError
from slurm_ofu.values import UsageRow

SpanLength = Literal["month", "day", "hour"]
_MOST = 10_000


def span_edges(length: SpanLength, start_epoch_s: float, end_epoch_s: float, zone: tzinfo) -> list[float]:
    """The window's beginning, each local midnight (or first of a month, or full hour) within it, and its end.

    A day on which clocks change has 23 or 25 hours; of an hour that comes twice each is one of its own.
    Raises UsageError where there are too many.
    """
    following: Callable[[float, tzinfo], float] = _FOLLOWING[length]
    edges = [start_epoch_s]
    while (edge := following(edges[-1], zone)) < end_epoch_s:
        edges.append(edge)
        if len(edges) > _MOST:
            raise UsageError(f"--by {length}: over {_MOST} {length}s: ask for a shorter window (-S, -E)")
    return [*edges, end_epoch_s]


def labelled(
    rows: Sequence[UsageRow], edges: Sequence[float], length: SpanLength, zone: tzinfo
) -> list[UsageRow]:
    """The rows of a course with the local month or day, or the local hour with its offset, as their group."""
    begins = [datetime.fromtimestamp(edge, zone) for edge in edges[:-1]]
    names = [
        begin.isoformat(timespec="minutes") if length == "hour" else f"{begin:{_FORMATS[length]}}"
        for begin in begins
    ]
    return [replace(row, group=name) for row, name in zip(rows, names, strict=True)]


def hours_for_people(groups: Sequence[str]) -> list[str]:
    """Hours without their offset, but those that come twice."""
    plain = [group[:16].replace("T", " ") for group in groups]
    often = Counter(plain)
    return [
        f"{hour} UTC{group[16:]}" if often[hour] > 1 else hour
        for hour, group in zip(plain, groups, strict=True)
    ]


def _next_day(epoch_s: float, zone: tzinfo) -> float:
    """The next local midnight; one that the clocks skip is the moment at which they do."""
    day = datetime.fromtimestamp(epoch_s, zone).date()
    midnight = epoch_s
    while midnight <= epoch_s:
        day += timedelta(days=1)
        midnight = datetime.combine(day, time(), zone).timestamp()
    return midnight


def _next_month(epoch_s: float, zone: tzinfo) -> float:
    at = datetime.fromtimestamp(epoch_s, zone)
    year, month = divmod(12 * at.year + at.month, 12)  # months count from 1 here, from 0 there: the next one
    return datetime(year, month + 1, 1, tzinfo=zone).timestamp()


def _next_hour(epoch_s: float, zone: tzinfo) -> float:
    at = datetime.fromtimestamp(epoch_s, zone)
    rest = 3600.0 - (at.minute * 60 + at.second + epoch_s % 1)
    return round(epoch_s + rest, 3)


_FOLLOWING: Final[Mapping[SpanLength, Callable[[float, tzinfo], float]]] = {
    "month": _next_month,
    "day": _next_day,
    "hour": _next_hour,
}
_FORMATS: Final[Mapping[SpanLength, str]] = {"month": "%Y-%m", "day": "%Y-%m-%d"}
