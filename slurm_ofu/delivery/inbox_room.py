"""Whether the inbox can take more: it has a limit, and its disk must not fill up with it."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slurm_ofu.delivery.directory import SUFFIX

FREE_BYTES, FREE_FILES = 64 << 20, 1000  # left to others on that disk
#: Seconds for which a look at the directory is good, at least, and times what it took: with 100,000 files
#: that is a while. What was added since is known.
LOOK_SECONDS, LOOK_TIMES = 1.0, 20.0


class InboxRoom:
    """How full an inbox directory is. For several threads at once."""

    def __init__(
        self, directory: Path, limit_bytes: int, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self._now = now
        self._lock = threading.Lock()
        self._good_until = float("-inf")
        self._files = self._bytes = 0

    def problem(self, more_bytes: int) -> str | None:
        """Why so many bytes more must not be written now, or ``None``."""
        _, waiting = self.waiting()
        if waiting + more_bytes > self.limit_bytes:
            return f"the inbox holds {waiting >> 20} MiB, of {self.limit_bytes >> 20} that it may"
        try:
            disk = os.statvfs(self.directory)
        except OSError as error:
            return f"the inbox cannot be used: {error.strerror}"
        if disk.f_bavail * disk.f_frsize < more_bytes + FREE_BYTES:
            return "the inbox's disk is full"
        if disk.f_files and disk.f_favail < FREE_FILES:
            return "the inbox's disk has no room for more files"
        return None

    def waiting(self) -> tuple[int, int]:
        """Records, and their bytes."""
        with self._lock:
            if self._now() > self._good_until:
                before = time.monotonic()
                self._files, self._bytes = _count(self.directory)
                self._good_until = self._now() + good_seconds(time.monotonic() - before)
            return self._files, self._bytes

    def added(self, files: int, size: int) -> None:
        """Something was written since the last look."""
        with self._lock:
            self._files += files
            self._bytes += size


def good_seconds(took_seconds: float) -> float:
    """For how long a look is good that took so long."""
    return max(LOOK_SECONDS, LOOK_TIMES * took_seconds)


def _count(directory: Path) -> tuple[int, int]:
    files = size = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.endswith(SUFFIX):
                    size += entry.stat(follow_symlinks=False).st_size
                    files += 1
    return files, size
