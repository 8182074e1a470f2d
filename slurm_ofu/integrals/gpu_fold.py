"""The fold: sample after sample of one GPU, summed under both estimators at once.

``sampled`` and ``cycles`` run side by side, so that the better one can be checked against the other
before it is believed (metric.md 3.1). The fold's whole state is plain data: it goes into a checkpoint as
it is and comes back from one.
"""

from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from slurm_ofu.integrals.cycles import CycleCounter
from slurm_ofu.integrals.intervals import sampled_interval
from slurm_ofu.integrals.minutes import Minutes, minutes_of
from slurm_ofu.integrals.series import BucketLine, JudgedQuarter, Peak, QuarterSeries, Series
from slurm_ofu.integrals.side import MeanSum, SideSums
from slurm_ofu.values import Interval, Reading, Reason, Sample


@dataclass(slots=True)
class GpuFold:
    """One GPU's sums so far. ``pending`` waits for the first clock reading after its interval."""

    sampled: Series
    cycles: Series
    counter: CycleCounter
    side: SideSums
    minutes: Minutes
    # Elapsed SM cycles by the counter, and by the sampled clock over the same time: their scale.
    counted_megacycles: float = 0.0
    clock_megacycles: float = 0.0
    # Tensor work by either over the intervals that both saw: what is held against each other.
    both_seconds: float = 0.0
    both_counted_megacycles: float = 0.0
    both_sampled_megacycles: float = 0.0
    pending_counted_megacycles: float | None = None  # of the pending sample's own interval
    fault: Reason | None = None  # of the latest reading
    fault_count: int = 0  # readings in a row that failed, up to the latest
    pending: Sample | None = None
    wall_offset_ns: int = 0
    published_clock_mhz: float | None = None  # the latest; None: the clock is sampled here

    @classmethod
    def start(cls, start_ns: int, bucket_seconds: float) -> "GpuFold":
        """An empty fold whose time-line begins at ``start_ns`` (boottime)."""

        def series() -> Series:
            return Series(BucketLine(start_ns, int(bucket_seconds * 1e9)))

        return cls(series(), series(), CycleCounter(), SideSums.empty(), Minutes())

    def add(self, sample: Sample, wall_offset_ns: int) -> None:
        """Count one sample. While its source is waiting, only what stands beside the figures is new."""
        if sample.reading.waiting:
            self.side.add(sample.reading)
            return
        published = sample.reading.published_clock_mhz
        self.clock_after(published)
        if published is not None:
            sample = Sample(
                reading=sample.reading, clocks_mhz=(published,), clock_before_mhz=self.published_clock_mhz
            )
            self.published_clock_mhz = published
        self.wall_offset_ns = wall_offset_ns
        self.fault = sample.reading.fault
        self.fault_count = self.fault_count + 1 if self.fault is not None else 0
        self.side.add(sample.reading)
        self._judge(sample.reading)
        interval = self.counter.advance(sample.reading)
        self.pending_counted_megacycles = None
        if interval is not None:
            self.cycles.add(interval, wall_offset_ns)
            self._compare_clocks(interval, sample)
            if interval.start_ns == sample.reading.since_ns:
                self.pending_counted_megacycles = interval.tensor_megacycles
        self.pending = sample

    def _judge(self, reading: Reading) -> None:
        """By the minute. A standstill is laid into the quarter hour in which it was judged."""
        before = self.minutes.standstill_seconds
        self.minutes.add(reading, self.side, self.wall_offset_ns)
        seconds = self.minutes.standstill_seconds - before
        if seconds > 0 and reading.since_ns is not None:
            for series in (self.sampled, self.cycles):
                series.stood_still(seconds, reading.since_ns + self.wall_offset_ns)

    def _compare_clocks(self, interval: Interval, sample: Sample) -> None:
        # Where a GPU's clock stood still, readings of it say nothing of the counters' scale.
        if sample.clocks_mhz and self.counter.sm_megacycles > 0:
            mean_mhz = sum(sample.clocks_mhz) / len(sample.clocks_mhz)
            self.clock_megacycles += mean_mhz * interval.seconds
            self.counted_megacycles += self.counter.sm_megacycles

    def clock_after(self, mhz: float | None) -> None:
        """The first clock reading after the pending sample's interval: now it can be summed."""
        if self.pending is not None:
            interval = sampled_interval(self.pending, mhz)
            self.pending = None
            if interval is not None:
                self.sampled.add(interval, self.wall_offset_ns)
                self._compare_work(interval)

    def _compare_work(self, sampled: Interval) -> None:
        if self.pending_counted_megacycles is not None:
            self.both_seconds += sampled.seconds
            self.both_sampled_megacycles += sampled.tensor_megacycles
            self.both_counted_megacycles += self.pending_counted_megacycles

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint, the pending sample included."""
        state: dict[str, Any] = _plain(self)
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "GpuFold":
        """The fold that ``state`` was taken from; a pending sample is summed with what is known."""
        pending = state["pending"]
        fold = cls(
            sampled=_series(state["sampled"]),
            cycles=_series(state["cycles"]),
            counter=CycleCounter(**state["counter"]),
            side=_side(state["side"]),
            minutes=_minutes(state),
            counted_megacycles=state["counted_megacycles"],
            clock_megacycles=state["clock_megacycles"],
            fault=state["fault"],
            fault_count=state["fault_count"],
            pending=pending and _sample(pending),
            wall_offset_ns=state["wall_offset_ns"],
            published_clock_mhz=state.get("published_clock_mhz"),  # earlier versions had none
            **{name: state[name] for name in _NEWER if name in state},
        )
        fold.clock_after(None)
        return fold


def _plain(value: Any) -> Any:
    """What ``asdict`` gives, at a tenth of its cost: a sampler takes its state every half minute."""
    kind = type(value)
    if kind is float or kind is int or value is None or kind is str or kind is bool:
        return value
    if kind is tuple:
        return value
    if kind is list:
        return _packed(value)
    if kind is dict:
        return _columns(value)
    return {name: _plain(getattr(value, name)) for name in kind.__slots__}


_NEWER = (
    *("both_seconds", "both_counted_megacycles", "both_sampled_megacycles"),
    "pending_counted_megacycles",
)
_Quarter = TypeVar("_Quarter", QuarterSeries, JudgedQuarter)


def _columns(quarters: dict[int, Any]) -> dict[str, Any]:
    """The quarter hours of a long run as columns: half the cost of a row for each."""
    rows = quarters.values()
    names = next(iter(rows)).__slots__ if quarters else ()
    return {"quarter": [*quarters], **{name: _packed(getattr(row, name) for row in rows) for name in names}}


def _quarters(kind: type[_Quarter], columns: dict[str, Any]) -> dict[int, _Quarter]:
    names = [field.name for field in fields(kind)]
    known = [_unpacked(columns[name]) for name in names if name in columns]  # the last may be newer
    rows = zip(columns["quarter"], *known, strict=True)
    return {quarter: kind(*sums) for quarter, *sums in rows}


def _packed(numbers: Iterable[float]) -> str:
    """Doubles as text: their decimals would cost more than all the rest of a checkpoint."""
    return b2a_base64(array("d", numbers), newline=False).decode()


def _unpacked(text: str) -> list[float]:
    return array("d", a2b_base64(text)).tolist()


def _series(state: dict[str, Any]) -> Series:
    line = BucketLine(**state["line"])
    line.megacycles = _unpacked(state["line"]["megacycles"])
    line.covered_seconds = _unpacked(state["line"]["covered_seconds"])
    peak = _peak(state["peak"]) if "peak" in state else Peak()  # earlier versions had none
    return Series(
        **{**state, "line": line, "quarters": _quarters(QuarterSeries, state["quarters"]), "peak": peak}
    )


def _peak(state: dict[str, Any]) -> Peak:
    latest = {name: _unpacked(state[name]) for name in ("megacycles", "covered_seconds")}
    return Peak(**{**state, **latest})


def _minutes(state: dict[str, Any]) -> Minutes:
    """Earlier versions had none: then nothing was judged. Later ones kept no quarter hours of it."""
    if "minutes" not in state:
        return Minutes()
    quarters = state["minutes"].get("quarters", {"quarter": []})
    return minutes_of({**state["minutes"], "quarters": _quarters(JudgedQuarter, quarters)})


def _side(state: dict[str, Any]) -> SideSums:
    means = {name: MeanSum(**value) for name, value in state.items() if isinstance(value, dict)}
    return SideSums(**{**state, **means})


def _sample(state: dict[str, Any]) -> Sample:
    return Sample(
        reading=Reading(**state["reading"]),
        clocks_mhz=tuple(state["clocks_mhz"]),
        clock_before_mhz=state["clock_before_mhz"],
    )
