"""The directory that static pages are written to: new or our own, and nothing else is touched."""

import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from slurm_ofu.errors import UsageError

#: Its presence makes a directory ours; it lists what we wrote there.
MARKER: Final = ".slurm-ofu-pages"
_FORMAT: Final = 1
_FOLDERS: Final = ("assets", "jobs")
_OURS: Final = re.compile(r"(?:(?:assets|jobs)/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")
_UNFINISHED: Final = re.compile(r"\.ofu-[0-9a-f]{16}\.tmp")
_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
_AS_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class SiteDirectory:
    """One run's hold on the directory. Symbolic links in it are never followed."""

    def __init__(self, path: Path, folder: int, written_before: frozenset[str]) -> None:
        self._path, self._folder, self._before = path, folder, written_before
        self._planned: frozenset[str] = frozenset()

    def plan(self, names: Iterable[str]) -> None:
        """What will be written. Raises UsageError where something of that name is not ours."""
        self._planned = frozenset(names)
        for name in sorted(self._planned - self._before):
            if not _OURS.fullmatch(name):
                raise UsageError(f"{self._path}/{name}: not a name that a page may have")
            if self._is_there(name):
                raise UsageError(
                    f"{self._path}/{name} is not one of our pages and would be overwritten: move it away"
                )
        self._write_marker(self._before | self._planned)

    def write(self, name: str, text: bytes) -> None:
        """One file that was planned, in a single step: readers see the old one or the new one."""
        if name not in self._planned:
            raise UsageError(f"{self._path}/{name}: nobody planned it")
        folder, _, leaf = name.rpartition("/")
        with self._within(folder, make=True) as within:
            _write(within, leaf, text)

    def finish(self) -> int:
        """Take away what we wrote formerly and not this time; how many that were."""
        stale = sorted(self._before - self._planned)
        for name in stale:
            folder, _, leaf = name.rpartition("/")
            with suppress(FileNotFoundError), self._within(folder) as within:
                if stat.S_ISREG(os.stat(leaf, dir_fd=within, follow_symlinks=False).st_mode):
                    os.unlink(leaf, dir_fd=within)
        self._write_marker(self._planned)
        return len(stale)

    def take_away_unfinished(self) -> None:
        """What runs left that were killed while they wrote."""
        for folder in ("", *_FOLDERS):
            with suppress(FileNotFoundError), self._within(folder) as within:
                for leaf in filter(_UNFINISHED.fullmatch, _names(within)):
                    with suppress(FileNotFoundError):
                        os.unlink(leaf, dir_fd=within)

    def _write_marker(self, names: Iterable[str]) -> None:
        told = {"made_by": "slurm-ofu", "format": _FORMAT, "files": sorted(names)}
        _write(self._folder, MARKER, json.dumps(told, indent=0).encode())

    def _is_there(self, name: str) -> bool:
        folder, _, leaf = name.rpartition("/")
        try:
            with self._within(folder) as within:
                os.stat(leaf, dir_fd=within, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _within(self, folder: str, *, make: bool = False) -> Iterator[int]:
        if not folder:
            yield self._folder
            return
        made = make and _made(folder, self._folder)
        within = os.open(folder, _AS_FOLDER | os.O_NOFOLLOW, dir_fd=self._folder)
        try:
            if made:
                os.fchmod(within, _FOLDER_MODE)  # whatever the umask says
            yield within
        finally:
            os.close(within)


@contextmanager
def site_directory(path: Path) -> Iterator[SiteDirectory]:
    """The directory, made where it is not there, held against other runs. Raises UsageError."""
    try:
        with suppress(FileExistsError):
            path.mkdir()
            path.chmod(_FOLDER_MODE)
        folder = os.open(path, _AS_FOLDER)
        try:
            _hold(path, folder)
            directory = SiteDirectory(path, folder, _written_before(path, folder))
            directory.take_away_unfinished()
            yield directory
        finally:
            os.close(folder)
    except OSError as error:
        raise UsageError(f"{_where(path, error)}: the pages cannot be written: {error.strerror}") from error


def _where(path: Path, error: OSError) -> Path:
    """What went wrong there, as its reader knows it: our unfinished files mean nothing to anybody."""
    if error.filename is None or error.filename == str(path):
        return path
    leaf = Path(os.fsdecode(error.filename2 or error.filename))
    return path if _UNFINISHED.fullmatch(leaf.name) else path / leaf


def _hold(path: Path, folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path}: another ofu-report --html is at work there") from None
    except OSError:
        return  # some network file systems lock no directories


def _written_before(path: Path, folder: int) -> frozenset[str]:
    """What the marker lists; nothing of a directory that is empty. Raises UsageError of any other."""
    found = [name for name in _names(folder) if not _UNFINISHED.fullmatch(name)]
    if not found:
        return frozenset()
    if MARKER not in found:
        raise UsageError(
            f"{path} is not empty, and not a directory that ofu-report --html wrote (it has no {MARKER}):"
            " name a new or an empty one"
        )
    try:
        marker = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(marker, encoding="utf-8") as file:
            told = json.load(file)
        names = [name for name in told["files"] if isinstance(name, str) and _OURS.fullmatch(name)]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}/{MARKER} is not what we wrote there: name a new directory") from error
    return frozenset(names)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _made(name: str, folder: int) -> bool:
    """Whether it is there only now."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _write(folder: int, leaf: str, text: bytes) -> None:
    unfinished = f".ofu-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(unfinished, flags, _FILE_MODE, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as opened:
            os.fchmod(opened.fileno(), _FILE_MODE)  # whatever the umask says
            opened.write(text)
        os.replace(unfinished, leaf, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)
        raise
