"""Sums of intervals over a run: in all, along its life, and per UTC quarter hour."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from slurm_ofu.values import Interval

BUCKET_LIMIT = 128
QUARTER_NS = 900 * 10**9
MINUTE_NS = 60 * 10**9
PEAK_MINUTES = 5


def spread(start_ns: int, end_ns: int, width_ns: int) -> Iterator[tuple[int, float]]:
    """(index, share) of each cell of a grid of ``width_ns`` that start..end touches; shares add to 1."""
    if end_ns <= start_ns:
        return
    first, last = start_ns // width_ns, (end_ns - 1) // width_ns
    if first == last:  # as nearly always
        yield first, 1.0
        return
    for index in range(first, last + 1):
        overlap = min(end_ns, (index + 1) * width_ns) - max(start_ns, index * width_ns)
        yield index, overlap / (end_ns - start_ns)


@dataclass(slots=True)
class BucketLine:
    """A time-line of at most 128 equal buckets: when it is full, pairs are merged."""

    start_ns: int
    width_ns: int
    megacycles: list[float] = field(default_factory=list)
    covered_seconds: list[float] = field(default_factory=list)

    def add(self, interval: Interval) -> None:
        """Lay an interval over the buckets that it touches."""
        start, end = interval.start_ns - self.start_ns, interval.end_ns - self.start_ns
        while (end - 1) // self.width_ns >= BUCKET_LIMIT:
            self._merge_pairs()
        for index, share in spread(max(0, start), end, self.width_ns):
            self._reach(index)
            self.megacycles[index] += share * interval.tensor_megacycles
            self.covered_seconds[index] += share * interval.seconds

    def _reach(self, index: int) -> None:
        missing = index + 1 - len(self.megacycles)
        if missing > 0:
            self.megacycles += [0.0] * missing
            self.covered_seconds += [0.0] * missing

    def _merge_pairs(self) -> None:
        self.width_ns *= 2
        self.megacycles = _pair_sums(self.megacycles)
        self.covered_seconds = _pair_sums(self.covered_seconds)


def _pair_sums(values: list[float]) -> list[float]:
    return [sum(values[index : index + 2]) for index in range(0, len(values), 2)]


@dataclass(slots=True)
class Peak:
    """The busiest five minutes so far: the greatest sum over five minutes in a row, with what of it was
    covered. Minutes are counted from the time-line's start; ``megacycles`` are of the latest five, the one
    that is being filled last."""

    index: int = 0
    megacycles: list[float] = field(default_factory=lambda: [0.0] * PEAK_MINUTES)
    covered_seconds: list[float] = field(default_factory=lambda: [0.0] * PEAK_MINUTES)
    best_megacycles: float = 0.0
    best_covered_seconds: float = 0.0

    def add(self, interval: Interval, origin_ns: int) -> None:
        """Lay an interval over its minutes, counted from ``origin_ns``."""
        begin, end = interval.start_ns - origin_ns, interval.end_ns - origin_ns
        for index, share in spread(max(0, begin), end, MINUTE_NS):
            if index != self.index:
                self._turn_to(index)
            self.megacycles[-1] += share * interval.tensor_megacycles
            self.covered_seconds[-1] += share * (end - begin) / 1e9

    def greatest(self) -> tuple[float, float]:
        """(megacycles, covered seconds), those of the latest five minutes considered; of equals the one
        that is better covered."""
        latest = (sum(self.megacycles), sum(self.covered_seconds))
        return max(latest, (self.best_megacycles, self.best_covered_seconds))

    def _turn_to(self, index: int) -> None:
        self.best_megacycles, self.best_covered_seconds = self.greatest()
        passed = min(index - self.index, PEAK_MINUTES)
        for line in (self.megacycles, self.covered_seconds):
            line[:] = [*line[passed:], *[0.0] * passed]
        self.index = index


@dataclass(slots=True)
class QuarterSeries:
    """Sums of one GPU inside one UTC quarter hour."""

    covered_seconds: float = 0.0
    tensor_active_seconds: float = 0.0
    tensor_megacycles: float = 0.0
    variance: float = 0.0
    standstill_seconds: float = 0.0  # of the covered ones, those whose counters stood still


@dataclass(slots=True)
class JudgedQuarter:
    """What was judged by the minute of one GPU inside one UTC quarter hour; see Minutes."""

    judged_seconds: float = 0.0
    idle_seconds: float = 0.0
    sm_judged_seconds: float = 0.0
    non_tensor_seconds: float = 0.0


@dataclass(slots=True)
class Series:
    """Everything one estimator says about one GPU, as sums."""

    line: BucketLine
    covered_seconds: float = 0.0
    tensor_active_seconds: float = 0.0
    tensor_megacycles: float = 0.0
    variance: float = 0.0
    variance_per_degree: float = 0.0  # sum of squared variances over their degrees of freedom
    interval_count: int = 0
    quarters: dict[int, QuarterSeries] = field(default_factory=dict)  # epoch // 900 s → sums
    peak: Peak = field(default_factory=Peak)

    def add(self, interval: Interval, wall_offset_ns: int) -> None:
        """Add one interval; ``wall_offset_ns`` is wall clock minus boottime, for the quarter's label."""
        self.covered_seconds += interval.seconds
        self.tensor_active_seconds += interval.tensor_active_ratio * interval.seconds
        self.tensor_megacycles += interval.tensor_megacycles
        self.variance += interval.variance
        self.variance_per_degree += interval.variance**2 / interval.degrees
        self.interval_count += 1
        self.line.add(interval)
        self.peak.add(interval, self.line.start_ns)
        self._add_quarters(interval, wall_offset_ns)

    def _add_quarters(self, interval: Interval, wall_offset_ns: int) -> None:
        start, end = interval.start_ns + wall_offset_ns, interval.end_ns + wall_offset_ns
        for index, share in spread(start, end, QUARTER_NS):
            sums = self.quarters.setdefault(index, QuarterSeries())
            sums.covered_seconds += share * interval.seconds
            sums.tensor_active_seconds += share * interval.tensor_active_ratio * interval.seconds
            sums.tensor_megacycles += share * interval.tensor_megacycles
            sums.variance += share * interval.variance

    def stood_still(self, seconds: float, epoch_ns: int) -> None:
        """The counters did so for a while up to an instant by the wall clock: work is not known then."""
        sums = self.quarters.get((epoch_ns - 1) // QUARTER_NS)
        if sums is not None:
            sums.standstill_seconds += seconds

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the whole by Welch–Satterthwaite; infinite without variance."""
        if self.variance_per_degree <= 0:
            return float("inf")
        return self.variance**2 / self.variance_per_degree
