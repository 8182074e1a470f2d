"""When a node's hooks try again to reach a collector that did not answer.

A file in the spool remembers how often in a row they failed and until when they leave it alone: up to 15
seconds after the first time, twice as long after each further one, up to ten minutes; at random, so that a
thousand nodes do not come back together. By the uptime, which no clock step changes.
"""

import contextlib
import time
from pathlib import Path
from random import Random

from slurm_ofu.delivery.files import write_whole

FIRST_SECONDS, LONGEST_SECONDS = 15.0, 600.0


class Attempts:
    """What is remembered in one file. A file that cannot be read or written is as good as none."""

    def __init__(self, path: Path, random: Random | None = None) -> None:
        self.path = path
        self._random = random or Random()

    def due(self, uptime_s: float | None = None) -> bool:
        """Whether to try now."""
        _, until = self._read()
        # Farther off than we ever wait: of an earlier boot.
        return not 0 < until - _now(uptime_s) <= LONGEST_SECONDS

    def failed(self, uptime_s: float | None = None) -> None:
        """Remember a failure; of several at the same time only the first."""
        if not self.due(uptime_s):
            return
        count = self._read()[0] + 1
        longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(count - 1, 20))
        until = _now(uptime_s) + self._random.uniform(0, longest)
        with contextlib.suppress(OSError):
            write_whole(self.path, f"{count} {until:.2f}\n".encode("ascii"), sync=False)

    def succeeded(self) -> None:
        """Forget failures."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _read(self) -> tuple[int, float]:
        """How often in a row, and until which uptime to wait."""
        try:
            count, until = self.path.read_text(encoding="ascii").split()
            return max(0, int(count)), float(until)
        except (OSError, ValueError):
            return 0, 0.0


def _now(uptime_s: float | None) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if uptime_s is None else uptime_s
