"""Files that are either whole or not there: written beside their name, synced, renamed."""

import contextlib
import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_ofu.errors import RecordError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_HALF = re.compile(r"\..+\.[0-9]+\.[0-9]+")
_AS_IT_IS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_regular(
    path: Path, *, most_bytes: int | None = None, check: Callable[[os.stat_result], None] = lambda found: None
) -> bytes:
    """The bytes of a regular file. Raises RecordError for anything else, and for more than ``most_bytes``:
    a link could lead to any file of the host, a pipe or a device could hold up whoever reads it. ``check``
    is asked about the very file that is read, and raises what it likes. Raises OSError."""
    try:
        handle = os.open(path, _AS_IT_IS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise RecordError("not a regular file") from error
        raise
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise RecordError("not a regular file")
        if most_bytes is not None and found.st_size > most_bytes:
            raise RecordError(f"{found.st_size} bytes: larger than any record")
        check(found)
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
    _write(path, data, sync=sync, mode=mode, owner_id=owner_id)
    if sync:
        sync_directory(path.parent)


def write_each_whole(
    directory: Path, files: Iterable[tuple[str, bytes]], *, owner_id: int | None = None
) -> None:
    """Write several files, each in one step; on disk, names and all, when this returns. Raises OSError;
    some may be there then."""
    for name, data in files:
        _write(directory / name, data, sync=True, mode=0o600, owner_id=owner_id)
    sync_directory(directory)


def _write(path: Path, data: bytes, *, sync: bool, mode: int, owner_id: int | None) -> None:
    temporary = path.parent / f".{path.name}.{os.getpid()}.{threading.get_native_id()}"
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


def forget_halves(directory: Path, older_than_seconds: float) -> None:
    """Remove what :func:`write_whole` left of writers that died in the middle. Raises OSError."""
    limit = time.time() - older_than_seconds
    for path in directory.iterdir():
        with contextlib.suppress(OSError):
            if _HALF.fullmatch(path.name) and path.lstat().st_mtime < limit:
                path.unlink()


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
