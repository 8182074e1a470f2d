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


@dataclass(slots=True)
class Rounds:
    """What comes round every so often, from a first time on that is drawn at random: many runs start at once
    and must not all speak together. Times are CLOCK_BOOTTIME nanoseconds."""

    next_ns: int
    every_ns: int

    @classmethod
    def starting(cls, now_ns: int, every_seconds: float, random: Random) -> "Rounds":
        """The first one comes within ``every_seconds`` from now."""
        every_ns = int(every_seconds * 1e9)
        return cls(next_ns=now_ns + int((1.0 - random.random()) * every_ns), every_ns=every_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether one is due; the next is then the first after now, those that passed are not made up for."""
        if now_ns < self.next_ns:
            return False
        self.next_ns += ((now_ns - self.next_ns) // self.every_ns + 1) * self.every_ns
        return True
