"""What the product's sampler is given here: a clock that ends, a fold that remembers its stretch."""

import time
from dataclasses import dataclass, field

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import Sample


class TimedClock:
    """The host's clocks; whoever waits is told to stop once the time is over."""

    def __init__(self, seconds: float) -> None:
        self._end_ns = self.boottime_ns() + int(seconds * 1e9)

    def boottime_ns(self) -> int:
        """CLOCK_BOOTTIME in nanoseconds."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_ns(self) -> int:
        """Wall clock in nanoseconds since the epoch."""
        return time.time_ns()

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait; True when the time is over, and from then on only after the whole wait."""
        over = self.boottime_ns() >= self._end_ns
        until_ns = deadline_ns if over else min(deadline_ns, self._end_ns)
        time.sleep(max(0.0, (until_ns - self.boottime_ns()) / 1e9))
        return over or self._end_ns < deadline_ns


@dataclass(slots=True)
class Watched:
    """A fold that remembers which stretch it covers, and what clocks it saw."""

    fold: GpuFold
    start_ns: int | None = None
    counted_from_ns: int | None = None
    end_ns: int | None = None
    faults: int = 0
    clocks_mhz: list[float] = field(default_factory=list)

    def add(self, sample: Sample, wall_offset_ns: int) -> None:
        """Count a sample."""
        reading = sample.reading
        if reading.fault is None:
            self.start_ns = self.start_ns if self.start_ns is not None else reading.since_ns
            self.counted_from_ns = (
                self.counted_from_ns if self.counted_from_ns is not None else reading.taken_ns
            )
            self.end_ns = reading.taken_ns
        else:
            self.faults += 1
        self.clocks_mhz += sample.clocks_mhz
        self.fold.add(sample, wall_offset_ns)

    def clock_after(self, mhz: float | None) -> None:
        """The first clock reading after the latest sample."""
        self.fold.clock_after(mhz)
