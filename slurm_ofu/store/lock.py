"""The writers' lock: one writer at a time, waited for within a bound.

SQLite's own lock under a storm of writers loses some of them to time-outs however long they wait; a
file lock in front of it loses none. The lock file lies beside the database and stays there: removing
a lock file that others wait on would give two of them "the" lock.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from slurm_ofu.errors import StoreBusy, StoreError, StoreMissing

_FIRST_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.05


def lock_path(database: Path) -> Path:
    """Where the lock file of a database lies."""
    return database.with_name(database.name + ".lock")


@contextmanager
def writers_lock(database: Path, deadline: float) -> Iterator[None]:
    """Hold the writers' lock; ``deadline`` is by ``time.monotonic``.

    Raises StoreBusy past the deadline, StoreMissing where the directory does not exist.
    """
    descriptor = _open(lock_path(database))
    try:
        _wait(descriptor, database, deadline)
        yield
    finally:
        os.close(descriptor)  # lets go of the lock


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError as error:
        raise StoreMissing(f"{path.parent}: no such directory") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot open the writers' lock: {error.strerror}") from error


def _wait(descriptor: int, database: Path, deadline: float) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise StoreError(f"{database}: its file system cannot lock: {error.strerror}") from error
        else:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise StoreBusy(f"{database}: another writer holds its lock for longer than we wait")
        jitter = 0.5 + os.urandom(1)[0] / 255
        time.sleep(min(left, pause * jitter))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
