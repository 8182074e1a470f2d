"""Files that are either whole or not there: written beside their name, synced, renamed."""

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, sync: bool, mode: int = 0o600) -> None:
    """Write ``data`` to ``path`` in one step for every reader. Raises OSError, leaving nothing behind.

    ``sync``: on disk, name and all, before this returns.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
