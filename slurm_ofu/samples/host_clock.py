"""The host's clocks, and waiting that a signal ends at once.

The signals are blocked and then asked for (sigtimedwait): none can slip in between a look and a wait,
and none interrupts a reading half-way.
"""

import signal
import time
from collections.abc import Iterable


class HostClock:
    """CLOCK_BOOTTIME and the wall clock. A ``stop_signals`` signal ends the wait it comes in and
    every later one; ``stopped_by`` then holds its number."""

    def __init__(self, stop_signals: Iterable[signal.Signals]) -> None:
        self._signals = tuple(stop_signals)
        self.stopped_by: int | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)

    def boottime_ns(self) -> int:
        """CLOCK_BOOTTIME in nanoseconds."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_ns(self) -> int:
        """Wall clock in nanoseconds since the epoch."""
        return time.time_ns()

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait for ``deadline_ns``; True when told to stop. After a stop it still waits for short
        deadlines, so that a last reading can keep its distance."""
        if self.stopped_by is not None:
            time.sleep(max(0.0, (deadline_ns - self.boottime_ns()) / 1e9))
            return True
        while True:
            left_ns = max(0, deadline_ns - self.boottime_ns())
            got = signal.sigtimedwait(self._signals, left_ns / 1e9)
            if got is not None:
                self.stopped_by = got.si_signo
                return True
            if self.boottime_ns() >= deadline_ns:
                return False
