"""The sampler's loop over the stand-in driver, with a clock that jumps: for counting its calls.

``python -m benchmarks.counted_calls LIBRARY INTERVAL_SECONDS INTERVALS``: that many
intervals and a last reading.
"""

import sys
import time
from random import Random

from slurm_ofu.counters.nvml import MIN_INTERVAL_SECONDS, NvmlSource
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.samples.sampler import Sampler


class JumpingClock:
    """A Clock that never waits and says stop as soon as the last interval has been read."""

    def __init__(self, stop_after_ns: int) -> None:
        self.now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.stop_at_ns = self.now_ns + stop_after_ns

    def boottime_ns(self) -> int:
        """The time now."""
        return self.now_ns

    def wall_ns(self) -> int:
        """The same: labels are of no interest."""
        return self.now_ns

    def wait_until(self, deadline_ns: int) -> bool:
        """Be there."""
        if deadline_ns > self.stop_at_ns:
            return True
        self.now_ns = max(self.now_ns, deadline_ns)
        return False


def main(library: str, interval_seconds: float, intervals: int) -> None:
    """Sample."""
    source, clock = (
        NvmlSource(library),
        JumpingClock(int((MIN_INTERVAL_SECONDS + (intervals + 0.5) * interval_seconds) * 1e9)),
    )
    devices = source.devices()
    sampler = Sampler(
        source=source,
        clock=clock,
        folds={device.index: (device, GpuFold.start(clock.now_ns, 10)) for device in devices},
        settle=lambda: None,
        save=lambda: None,
        interval_seconds=lambda has_cycles: interval_seconds,
        clock_readings=10,
        checkpoint_seconds=30,
        random=Random(1),
    )
    sampler.run()
    if sampler.tick_count != intervals:
        raise SystemExit(f"{sampler.tick_count} intervals instead of {intervals}")
    source.close()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
