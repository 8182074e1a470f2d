"""The right to do something for the database that one process at a time has, whoever runs it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_ofu.errors import StoreBusy, StoreError, StoreMissing
from slurm_ofu.store.lock import lock_path, writers_lock


@contextmanager
def alone(path: Path, suffix: str, doing: str) -> Iterator[None]:
    """Hold the right that a lock file beside the database at ``path`` stands for. Raises StoreBusy at once,
    in which ``doing`` is what the other process does, and StoreError where there is no database."""
    beside = path.with_name(path.name + suffix)
    owner_id = owner_id_of(path)
    try:
        with writers_lock(beside, time.monotonic()):
            if os.geteuid() == 0:  # where a service user does the same
                os.chown(lock_path(beside), owner_id, -1, follow_symlinks=False)
            yield
    except StoreBusy as error:
        if str(beside) not in str(error):
            raise
        raise StoreBusy(f"{path}: another process is {doing}") from None


def owner_id_of(path: Path) -> int:
    """Whose the database is. Raises StoreMissing, StoreError."""
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        raise StoreMissing(f"{path}: there is no accounting database (yet)") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
