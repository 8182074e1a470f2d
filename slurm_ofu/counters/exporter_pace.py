"""When a page shows a new collection, when it shows nothing new, and when it has gone stale.

The exporter publishes no times. All there is to go by is what moved from one page to the next, and how long
the steps between two collections were before. Times are boottime nanoseconds.
"""

from dataclasses import dataclass
from typing import Literal

Seen = Literal[
    "waiting",  # nothing new yet
    "beginning",  # a new collection, which covers a time that cannot be told
    "new",  # a new collection: since the one before
    "stale",  # nothing new for too long
]
#: Nothing new for longer than this, and than three of the longest steps, is too long.
STALE_NS = 120 * 10**9
STALE_STEPS = 3


@dataclass(slots=True)
class Pace:
    """One GPU's pages so far."""

    mark: int | None = None  # stands for the values of the latest collection
    pulse: int | None = None  # the same of the whole page
    moved_ns: int = 0  # when the latest collection was first seen
    step_ns: int = 0  # before it
    longest_step_ns: int = 0  # that was followed by one as long
    since_ns: int | None = None  # the latest collection that counts as a reading
    missed: bool = False  # a page has been, since the latest collection

    def see(self, now_ns: int, *, mark: int, pulse: int, must_move: bool) -> Seen:
        """What a page says. ``must_move``: something is published that moves on every living GPU.

        Without that, a movement of whatever GPU shows that the values of this one are of today.
        """
        if self.mark is None:
            self.mark, self.pulse, self.moved_ns, self.missed = mark, pulse, now_ns, False
            return "waiting"
        step_ns = now_ns - self.moved_ns
        if mark == self.mark and (must_move or pulse == self.pulse):
            return "stale" if must_move and step_ns > self.limit_ns else "waiting"
        self.longest_step_ns = max(self.longest_step_ns, min(step_ns, self.step_ns))
        was_missed = self.missed and step_ns > self.longest_step_ns
        begins = self.since_ns is None or step_ns > self.limit_ns
        self.mark, self.pulse, self.moved_ns, self.step_ns = mark, pulse, now_ns, step_ns
        self.missed = False
        if was_missed:  # when this collection came was seen as little as that of a first page
            self.since_ns = None
            return "waiting"
        return "beginning" if begins else "new"

    @property
    def limit_ns(self) -> int:
        """How long a step may be. A single long one teaches nothing: it may have been an outage."""
        return max(STALE_NS, STALE_STEPS * self.longest_step_ns)
