"""Runs that a window cuts: what of their sums lies between two edges. Pure.

A part is a run's GPUs of one model on one node. Each of its sums is shared out as the quarter hours say:
allocated time as theirs, covered time as theirs, and so on; within a quarter hour, and where none were kept,
evenly in time. So the pieces between edges that follow each other add up to the whole, on the time that
Slurm's accounting charges as on the nodes' own, and are exact where the edges are quarter hours.

Allocated time that was measured goes by the measured time, and the rest by the rest: a piece is never
covered for more than it had, also where Slurm charges less time than the nodes told of. Time that it charges
beyond the last word of a node that died lies behind that word.

By covered time goes what is not kept by quarter hours but was measured (SM activity, throttling, idle minutes
in earlier records), by allocated time the rest (energy, suspended time). The idle tail is the last of the
idle time. The busiest five minutes are known of whole runs alone. What a run lost is shared by covered time.

Errors: intervals are independent, so a piece has its part of the variance, and of the degrees of freedom;
counted cycles are off by their two ends, however short the piece: it has the whole's. GPUs add linearly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum, inf, sqrt
from typing import Any, Final, NamedTuple

from slurm_ofu.figures.bands import band_of
from slurm_ofu.store.queries import SUMMED
from slurm_ofu.store.ranking import BANDS, COUNTS

QUARTER_SECONDS: Final = 900
#: Quarter hours before and after a run, by Slurm's clock: its first and its last moment hold what they do.
BEFORE, AFTER = -2, -3
#: Those that hold more than this of a run are on another clock: of no use.
MOST_OUTSIDE_RATIO: Final = 0.05
_DUST_RATIO: Final = 1e-9
_SPLIT: Final = 1 << 40  # beyond: a quarter hour that an edge divides

Row = dict[str, Any]
#: (cell, start of a quarter hour in it, amounts in the order of queries.QUARTERS)
Cell = tuple[int, int, Sequence[float | None]]
PartKey = tuple[str, str | None]  # node name, GPU model

_PROFILE_COUNT: Final = 9
_UNCOVERED: Final = _PROFILE_COUNT  # beside those kept: what of the allocated time was not measured
_ALL_COUNT: Final = _PROFILE_COUNT + 1
_ALLOCATED, _COVERED, _ACTIVE, _TENSOR_REF, _VARIANCE = range(5)
_IDLE, _IDLE_COVERED, _NON_TENSOR, _NON_COVERED = range(5, _PROFILE_COUNT)
#: What stands in for a profile of which nothing was kept, in the order in which they are settled.
_INSTEAD: Final = (
    *((_COVERED, _ALLOCATED), (_ACTIVE, _COVERED), (_TENSOR_REF, _ACTIVE), (_VARIANCE, _COVERED)),
    *((_IDLE_COVERED, _COVERED), (_IDLE, _IDLE_COVERED), (_NON_COVERED, _COVERED)),
    *((_NON_TENSOR, _NON_COVERED), (_UNCOVERED, _ALLOCATED)),
)
#: Column → its profile, and the one that it is known over; ``None``: allocated time is always known.
_BY: Final[dict[str, tuple[int, int | None]]] = {
    "covered_seconds": (_COVERED, None),
    "ofu_covered_seconds": (_COVERED, None),
    "tpa_covered_seconds": (_COVERED, None),
    "ranked_seconds": (_COVERED, None),
    "lost_seconds": (_COVERED, _COVERED),
    "tensor_active_seconds": (_ACTIVE, _COVERED),
    "ofu_tensor_active_seconds": (_ACTIVE, _COVERED),
    "tensor_ref_seconds": (_TENSOR_REF, _COVERED),
    "sm_active_seconds": (_COVERED, _COVERED),
    "sm_active_covered_seconds": (_COVERED, None),
    "energy_joules": (_ALLOCATED, _ALLOCATED),
    "held_suspended_seconds": (_ALLOCATED, None),
    "idle_seconds": (_IDLE, _IDLE_COVERED),
    "idle_covered_seconds": (_IDLE_COVERED, None),
    "non_tensor_seconds": (_NON_TENSOR, _NON_COVERED),
    "non_tensor_covered_seconds": (_NON_COVERED, None),
    "throttled_power_seconds": (_COVERED, _COVERED),
    "throttled_thermal_seconds": (_COVERED, _COVERED),
    "throttle_covered_seconds": (_COVERED, None),
}
_WHOLE: Final = ("gpu_count", "gpu_count_unknown_time")


class Shares(NamedTuple):
    """Which part of each profile of one part of a run lies in a span."""

    ratios: tuple[float, ...]
    idle_before_ratio: float  # of the idle profile, what lies before the span
    prorated: bool


class _Part(NamedTuple):
    row: Row
    known: Sequence[tuple[str, float, int, int | None]]  # what is known of it: name, value, its two profiles
    shares: Mapping[int, Shares]


class Edges(NamedTuple):
    """Ascending instants; span number n lies between edges n and n + 1, -1 before all, the last after all."""

    at: tuple[float, ...]

    @property
    def span_count(self) -> int:
        """Spans between two edges."""
        return len(self.at) - 1

    def first(self, epoch_s: float) -> int:
        """The span that an instant lies in."""
        return bisect_right(self.at, epoch_s) - 1

    def last(self, begin: float, end: float) -> int:
        """The last span that begin <= t < end has a part in."""
        return max(self.first(begin), bisect_left(self.at, end) - 1)

    def cell(self, quarter: int, begin: float, end: float) -> int:
        """Which quarter hours of a run can be added up: those with the same number."""
        if quarter + QUARTER_SECONDS <= begin:
            return BEFORE
        if quarter >= end:
            return AFTER
        span = self.first(quarter)
        if span + 1 < len(self.at) and self.at[span + 1] < quarter + QUARTER_SECONDS:
            return _SPLIT + quarter // QUARTER_SECONDS
        return span

    def parts(self, begin: float, end: float) -> Iterator[tuple[int, float]]:
        """(span, share of begin..end in it)."""
        first, last = self.first(begin), self.last(begin, end)
        if first == last:
            yield first, 1.0
            return
        for span in range(first, last + 1):
            lower = self.at[span] if span >= 0 else -inf
            upper = self.at[span + 1] if span + 1 < len(self.at) else inf
            yield span, (min(end, upper) - max(begin, lower)) / (end - begin)


def add_pieces(
    total_of: Callable[[Any, int], Row],
    parts: Iterable[Row],
    cells: Mapping[PartKey, Sequence[Cell]],
    begin: float,
    end: float,
    edges: Edges,
) -> None:
    """Add what one run had of each group in each span to the sums that ``total_of`` gives for the two, named
    as those of usage_query."""
    bundles: dict[Any, list[Row]] = {}
    for part in parts:
        bundles.setdefault(part["grp"], []).append(part)
    first, last = max(0, edges.first(begin)), min(edges.span_count - 1, edges.last(begin, end))
    spans = [span for span in range(first, last + 1) if edges.at[span] < edges.at[span + 1]]
    for group, bundle in bundles.items():
        counts = _counts(bundle)
        shared = [
            _Part(
                part,
                [(name, part[name], *its) for name, its in _BY.items() if part[name] is not None],
                _shares(part, cells.get((part["node_name"], part["gpu_model"]), ()), begin, end, edges),
            )
            for part in bundle
        ]
        for span in spans:
            total = total_of(group, span)
            add_row(total, counts)
            _add_piece(total, shared, span)


def add_row(total: Row, piece: Row) -> None:
    """Add to some sums those of other runs; ``None`` is not known."""
    for name, value in piece.items():
        if value is not None:
            before = total.get(name)
            total[name] = value if before is None else before + value


def no_sums() -> Row:
    """The sums of no runs."""
    return dict.fromkeys(("run_count", "prorated_run_count", *COUNTS), 0) | dict.fromkeys(
        (*SUMMED, "lost_seconds", "ranked_seconds", "tensor_ref_variance", "tensor_ref_variance_per_degree")
    )


def _counts(bundle: Sequence[Row]) -> Row:
    """A run counts whole, in the band of what it did in all."""
    tensor_ref = _sum(part["tensor_ref_seconds"] for part in bundle)
    covered = _sum(part["ofu_covered_seconds"] for part in bundle)
    counts: Row = {"run_count": 1, "running_run_count": bundle[0]["running"]}
    if tensor_ref is None or not covered:
        return {**counts, "unmeasured_run_count": 1}
    if bundle[0]["kind"] == "non_tensor":
        return {**counts, "non_tensor_run_count": 1}
    return {**counts, BANDS[band_of(tensor_ref / covered)]: 1}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _add_piece(total: Row, bundle: Sequence[_Part], span: int) -> None:
    """Add what a run had of one group in one span."""
    sigma = whole_sigma = 0.0
    degrees, has_ofu, is_prorated = inf, False, False
    for part, known, spans in bundle:
        for name in _WHOLE:
            _add(total, name, part[name])
        shares = spans.get(span)
        if shares is None:
            continue
        ratios = shares.ratios
        for name, value, profile, known_by in known:
            if known_by is None or ratios[known_by] > 0:
                before, its = total[name], value * ratios[profile]
                total[name] = its if before is None else before + its
        _add(total, "allocated_seconds", _allocated(part, ratios))
        _add(total, "idle_tail_seconds", _tail(part, shares))
        is_prorated |= shares.prorated
        if part["error_degrees"] is not None:
            degrees = min(degrees, part["error_degrees"])
        has_ofu |= part["tensor_ref_seconds"] is not None and ratios[_COVERED] > 0
        if part["sigma_seconds"] is not None:
            whole_sigma += part["sigma_seconds"]
            if ratios[_COVERED] > 0:
                kept = 1.0 if part["has_cycles"] else sqrt(ratios[_VARIANCE])
                sigma += part["sigma_seconds"] * kept
    total["prorated_run_count"] = total.get("prorated_run_count", 0) + is_prorated
    if has_ofu:
        add_row(total, _variance(sigma, whole_sigma, degrees))


def _variance(sigma: float, whole_sigma: float, degrees: float) -> Row:
    variance, whole = sigma * sigma, whole_sigma * whole_sigma
    per_degree = variance / max(1.0, degrees * variance / whole) * variance if whole > 0 < degrees else None
    return {"tensor_ref_variance": variance, "tensor_ref_variance_per_degree": per_degree}


def _add(total: Row, name: str, value: float | None) -> None:
    if value is not None:
        before = total[name]
        total[name] = value if before is None else before + value


def _allocated(part: Row, ratios: Sequence[float]) -> float | None:
    allocated, covered = part["allocated_seconds"], part["covered_seconds"] or 0.0
    if allocated is None:
        return None
    return float(covered * ratios[_COVERED] + (allocated - covered) * ratios[_UNCOVERED])


def _tail(part: Row, shares: Shares) -> float | None:
    """The idle tail is the last of the idle time."""
    idle, tail = part["idle_seconds"], part["idle_tail_seconds"]
    ratio = shares.ratios[_IDLE]
    if tail is None or idle is None or shares.ratios[_IDLE_COVERED] <= 0:
        return None
    tail_ratio = min(1.0, tail / idle) if idle > 0 else 1.0
    if tail_ratio <= 0:
        return 0.0
    begin = max(shares.idle_before_ratio, 1.0 - tail_ratio)
    return float(tail) * max(0.0, shares.idle_before_ratio + ratio - begin) / tail_ratio


def _shares(part: Row, cells: Sequence[Cell], begin: float, end: float, edges: Edges) -> dict[int, Shares]:
    """Span → what of one part of a run lies in it."""
    amounts, divided = _amounts(cells, begin, end, edges)
    _add_uncovered(amounts, part, begin, end, edges)
    totals = [sum(one[profile] for one in amounts.values()) for profile in range(_ALL_COUNT)]
    if totals[_UNCOVERED] <= _DUST_RATIO * totals[_ALLOCATED]:
        totals[_UNCOVERED] = 0.0
    if not amounts or totals[_ALLOCATED] <= 0:
        return _by_time(part, begin, end, edges)
    whole = {
        span: [
            one[profile] / totals[profile] if totals[profile] > 0 else -1.0 for profile in range(_ALL_COUNT)
        ]
        for span, one in amounts.items()
    }
    shares: dict[int, Shares] = {}
    idle_before = 0.0
    for span in sorted(whole):
        ratios = whole[span]
        for profile, instead in _INSTEAD:
            if ratios[profile] < 0:
                ratios[profile] = ratios[instead]
        shares[span] = Shares(tuple(ratios), idle_before, span in divided)
        idle_before += ratios[_IDLE]
    return shares


def _add_uncovered(
    amounts: dict[int, list[float]], part: Row, begin: float, end: float, edges: Edges
) -> None:
    """What of each span's time was not measured; after a node's word, what is charged beyond."""
    allocated = fsum(its[_ALLOCATED] for its in amounts.values())
    for its in amounts.values():
        its.append(max(0.0, its[_ALLOCATED] - its[_COVERED]))
    beyond = (part["allocated_seconds"] or 0.0) - allocated
    told_until = part["told_until_epoch_s"]
    if not amounts or told_until is None or beyond <= 0 or told_until >= end:
        return
    for span, share in edges.parts(max(begin, told_until), end):
        its = amounts.setdefault(span, [0.0] * _ALL_COUNT)
        its[_UNCOVERED] += share * beyond


def _by_time(part: Row, begin: float, end: float, edges: Edges) -> dict[int, Shares]:
    """GPUs are held all the time: where nothing was measured, this is exact."""
    shares: dict[int, Shares] = {}
    before = 0.0
    measured = (part["covered_seconds"] or 0.0) > 0
    spans = list(edges.parts(begin, end))
    for span, share in spans:
        shares[span] = Shares((share,) * _ALL_COUNT, before, measured and len(spans) > 1)
        before += share
    return shares


def _amounts(
    cells: Sequence[Cell], begin: float, end: float, edges: Edges
) -> tuple[dict[int, list[float]], set[int]]:
    """Span → what lies in it of each profile; and the spans that divide a quarter hour with something
    measured. Nothing, where the quarter hours are on another clock."""
    amounts: dict[int, list[float]] = {}
    divided: set[int] = set()
    outside = allocated = 0.0
    for cell, quarter, values in cells:
        allocated += values[_ALLOCATED] or 0.0
        if cell in (BEFORE, AFTER):
            outside += values[_ALLOCATED] or 0.0
            places = [(edges.first(begin) if cell == BEFORE else edges.last(begin, end), 1.0)]
        elif cell < _SPLIT:
            places = [(cell, 1.0)]
        else:
            places = list(edges.parts(max(begin, quarter), min(end, quarter + QUARTER_SECONDS)))
            if len(places) > 1 and (values[_COVERED] or 0.0) > 0:
                divided.update(span for span, _ in places)
        for span, share in places:
            its = amounts.setdefault(span, [0.0] * _PROFILE_COUNT)
            for profile, value in enumerate(values):
                if value is not None:
                    its[profile] += share * value
    return ({}, set()) if outside > MOST_OUTSIDE_RATIO * allocated else (amounts, divided)
