"""The sampler's side of interim records: when one is due, a process of its own makes it and hands it on.

Nothing here waits: a collector, a database or a file system that hangs holds up that process alone, and
timeout(1), on the local disk as it is, ends it. Two of one run never run at once.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from random import Random

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.hooks.process import NEVER, TIMEOUT
from slurm_ofu.samples.ticks import Rounds
from slurm_ofu.values import Config

#: Seconds beyond the wait for the receiver: to start, to make the record, to be scheduled at all.
GRACE_SECONDS = 30
#: How long the sampler waits for one that it has killed.
REAP_SECONDS = 0.2


class Publishing:
    """The interim records of one run."""

    def __init__(self, command: Sequence[str], rounds: Rounds | None) -> None:
        self._command, self._rounds = tuple(command), rounds
        self._child: subprocess.Popen[bytes] | None = None
        self._quiet = False

    @classmethod
    def of(cls, tag: str, spool: Spool, config: Config, now_ns: int) -> "Publishing":
        """As configured; nothing is published where ``[sampler] interim_seconds`` is 0."""
        settings = config.sampler
        # A seed is for tests: with it alone every run's first record would come at the same time.
        random = Random() if settings.seed is None else Random(f"{settings.seed}.{tag}")
        every = settings.interim_seconds
        rounds = Rounds.starting(now_ns, every, random) if every > 0 else None
        return cls(interim_command(tag, spool, config), rounds)

    @property
    def next_ns(self) -> int | None:
        """When the next one is due; ``None``: none will be."""
        return None if self._rounds is None else self._rounds.next_ns

    def look(self, now_ns: int) -> None:
        """After a checkpoint: start what is due, unless the one before is still at it."""
        self._reap()
        if self._rounds is None or not self._rounds.is_due(now_ns) or self._child is not None:
            return
        with contextlib.suppress(OSError):  # no memory, no processes: perhaps next time
            self._child = subprocess.Popen(
                (*self._command, "--quiet", "yes" if self._quiet else "no"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """The run is over: whatever is under way would come too late."""
        self._rounds = None
        if self._child is None or self._child.poll() is not None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel: init will have it
            self._child.wait(REAP_SECONDS)

    def _reap(self) -> None:
        if self._child is None or (code := self._child.poll()) is None:
            return
        self._child = None
        self._quiet |= code != 0
        if code == NEVER:
            self._rounds = None


def interim_command(tag: str, spool: Spool, config: Config) -> list[str]:
    """The process that hands on one record; ended from outside when it takes too long."""
    limit = math.ceil(config.delivery_wait_seconds) + GRACE_SECONDS
    python = (sys.executable, "-I", "-m", "slurm_ofu.hooks.interim")
    given = ("--config", config.path, "--spool", str(spool.directory), "--tag", tag)
    return [TIMEOUT, "--kill-after=1", str(limit), *python, *given]
