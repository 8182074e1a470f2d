"""Rows of one GPU, one after the other → the mean over a stretch of time.

A row holds the hardware's mean since the row before it (the watch's interval), and nobody says when it was
printed: it came between two looks, and rows come ``delay`` apart. So its arrival is put one delay after the
one before, as far as the two looks allow. A row stands for the time since the row before, for at most
``LONGEST`` delays: what is beyond was not measured.

Tensor activity is cycle-weighted inside a row and must stay so over several (metric.md 4.1): each row counts
by its length times its mean clock. Only the clocks at its two ends are known; where they differ, the row's
activity between that of the rows before and after it says when the one gave way to the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_ofu.counters.dcgm_rows import DRAM_ACTIVE, SM_ACTIVE, SM_CLOCK, TENSOR_ACTIVE, Row

LONGEST = 1.5
#: A stretch of which less was measured is left out: its clock would be another time's.
LEAST_SHARE = 0.5
#: Rows without a value in a row (in delays) that are no mere gap.
PATIENCE = 3


@dataclass(frozen=True, slots=True)
class _Part:
    length_ns: int
    start_mhz: float
    end_mhz: float
    row: Row

    @property
    def active_ratio(self) -> float:
        return self.row.values[TENSOR_ACTIVE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What rows said over ``since_ns``..``until_ns``. Without a figure the time before it is lost."""

    since_ns: int | None
    until_ns: int
    tensor_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    clock_mhz: float | None = None


@dataclass(slots=True)
class Course:
    """The rows of one GPU since the last stretch that was taken."""

    delay_ns: int
    good_ns: int | None = None  # end of the last stretch
    row_ns: int | None = None  # arrival of the latest row, whatever it said
    value_ns: int | None = None  # arrival of the latest row with a value
    clock_mhz: float | None = None  # of the latest row
    before_ratio: float | None = None  # tensor activity of the last row of the last stretch
    empty_count: int = 0  # rows in a row without a value
    is_beyond: bool = False  # the latest row's was a number, and none that it could be
    parts: list[_Part] = field(default_factory=list)

    def begin(self) -> None:
        """A new child prints: its first row says nothing of time that we know."""
        self.row_ns = self.clock_mhz = None
        self.empty_count = 0

    def add(self, row: Row, earliest_ns: int, latest_ns: int, nvml_mhz: float | None = None) -> None:
        """A row that came between two instants. ``nvml_mhz``: the clock, where the row has none."""
        arrived = latest_ns
        if self.row_ns is not None:
            arrived = min(max(self.row_ns + self.delay_ns, earliest_ns), latest_ns)
        before_ns, self.row_ns = self.row_ns, arrived
        clock = row.values.get(SM_CLOCK, nvml_mhz)
        start_mhz, self.clock_mhz = self.clock_mhz, clock
        self.is_beyond = row.is_beyond
        if row.values.get(TENSOR_ACTIVE) is None or clock is None:
            self.empty_count += 1
            return
        self.empty_count = 0
        if before_ns is not None and arrived > before_ns:
            length = min(arrived - before_ns, int(self.delay_ns * LONGEST))
            self.parts.append(_Part(length, clock if start_mhz is None else start_mhz, clock, row))
            self.value_ns = arrived

    def take(self) -> Stretch | None:
        """The mean over the rows since the last stretch; ``None`` while there is no new one."""
        parts, until = self.parts, self.value_ns
        if not parts or until is None:
            return None
        before, self.before_ratio = self.before_ratio, parts[-1].active_ratio
        self.parts = []
        covered = sum(part.length_ns for part in parts)
        since = until - covered if self.good_ns is None else max(self.good_ns, until - covered)
        start = since if self.good_ns is None else self.good_ns
        self.good_ns = until
        if covered < LEAST_SHARE * (until - start):
            return Stretch(since_ns=None, until_ns=until)
        lengths = [float(part.length_ns) for part in parts]
        cycles = [part.length_ns * mhz for part, mhz in zip(parts, _clocks(parts, before), strict=True)]
        return Stretch(
            since_ns=since,
            until_ns=until,
            tensor_active_ratio=_weighted(parts, TENSOR_ACTIVE, cycles),
            sm_active_ratio=_weighted(parts, SM_ACTIVE, cycles),
            dram_active_ratio=_weighted(parts, DRAM_ACTIVE, lengths),
            clock_mhz=sum(cycles) / covered,
        )


def _clocks(parts: Sequence[_Part], before: float | None) -> list[float]:
    """The mean clock of each row. ``before``: the activity before the first."""
    found = []
    for place, part in enumerate(parts):
        after = parts[place + 1].active_ratio if place + 1 < len(parts) else None
        found.append(_clock(part, before, after))
        before = part.active_ratio
    return found


def _clock(part: _Part, before: float | None, after: float | None) -> float:
    """A row's mean clock. Where the activity is of both neighbours, so many of its cycles are of each, at the
    clock of that end."""
    if before is None or after is None or before == after:
        return (part.start_mhz + part.end_mhz) / 2
    share = min(max((part.active_ratio - after) / (before - after), 0.0), 1.0)
    return 1 / (share / part.start_mhz + (1 - share) / part.end_mhz)


def _weighted(parts: Sequence[_Part], field_id: int, weights: Sequence[float]) -> float | None:
    """The mean of a field that every row has."""
    total = 0.0
    for part, weight in zip(parts, weights, strict=True):
        value = part.row.values.get(field_id)
        if value is None:
            return None
        total += weight * value
    return min(max(total / sum(weights), 0.0), 1.0)
