"""Files that are either whole or not there: written beside their name, synced, renamed."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from slurm_ofu.errors import RecordError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_AS_IT_IS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file. Raises RecordError for anything else: a link could lead to any file
    of the host, a pipe or a device could hold up whoever reads it. Raises OSError."""
    try:
        handle = os.open(path, _AS_IT_IS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise RecordError("not a regular file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RecordError("not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write_whole(
    path: Path, data: bytes, *, sync: bool, mode: int = 0o600, owner_id: int | None = None
) -> None:
    """Write ``data`` to ``path`` in one step for every reader. Raises OSError, leaving nothing behind.

    ``sync``: on disk, name and all, before this returns. ``owner_id``: whose it shall be.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    try:
        handle = os.open(temporary, _NEW, 0o600)
    except OSError as error:
        error.filename = str(path)  # the name that a person knows
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if owner_id is not None and owner_id != os.geteuid():
                os.fchown(file.fileno(), owner_id, -1)
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
