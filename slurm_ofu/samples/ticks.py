"""When to look: absolute deadlines, and clock readings at random instants between them.

Interval k ends at ``start + (k + 1) * width``, whatever came late before it. Inside it each GPU has
``readings`` equal slices with one instant drawn at random in each, independently per GPU: a fixed
rate in step with the program would be biased, and its spread would not show it (metric.md 3.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A sampler's plan. Times are CLOCK_BOOTTIME nanoseconds."""

    start_ns: int
    width_ns: int
    readings: int

    def deadline_ns(self, interval: int) -> int:
        """The end of interval ``interval`` (0, 1, …)."""
        return self.start_ns + (interval + 1) * self.width_ns

    def clock_instants(self, interval: int, gpus: Sequence[int], random: Random) -> list[tuple[int, int]]:
        """(instant, GPU) of every clock reading in an interval, in the order of time."""
        begin = self.start_ns + interval * self.width_ns
        slice_ns = self.width_ns / self.readings
        return sorted(
            (begin + int((stratum + random.random()) * slice_ns), gpu)
            for gpu in gpus
            for stratum in range(self.readings)
        )

    def interval_after(self, interval: int, now_ns: int) -> int:
        """The interval to go on with when ``interval`` has just been read at ``now_ns``: deadlines
        that passed meanwhile are skipped, not made up for."""
        return max(interval + 1, (now_ns - self.start_ns) // self.width_ns)
