"""Folders that are expensive to make: made once, shared by runs, made anew when old or broken.

A folder is made under another name and renamed when it is whole. Its users hold a shared lock, its maker an
exclusive one; locks end with the process that holds them. Nothing is removed that has a mount in it.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

DEFAULT_DIRECTORY = Path("/var/cache/slurm-ofu-tests")
#: Suites move on, testing daily: what is older is made anew, at most once in two weeks.
OLD_S = 14 * 86400.0
MADE = "made.json"

Make = Callable[[Path], None]
Check = Callable[[Path], bool]


class CacheError(Exception):
    """A folder of the cache could not be made or removed."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where the cache is: outside the repository, so that ``make clean`` keeps it."""
    return Path(environment.get("OFU_TEST_CACHE") or DEFAULT_DIRECTORY).absolute()


def mounted_below(folder: Path) -> list[str]:
    """Mount points of this process at or below a folder."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [str(point) for point in points if folder == point or folder in point.parents]


def remove(folder: Path) -> None:
    """Remove a folder, unless something is mounted in it."""
    if not folder.exists():
        return
    if mounts := mounted_below(folder.resolve()):
        raise CacheError(f"{folder} is not removed: mounted are {', '.join(mounts)}")
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One folder of the cache, how to make it, and how to tell whether it is whole."""

    folder: Path
    make: Make
    is_whole: Check
    say: Callable[[str], None] = print

    @contextmanager
    def held(self) -> Iterator[Path]:
        """The folder, made if need be, and kept from being removed while the block runs."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self._lock_file() as lock:
            self._provide(lock)
            yield self.folder

    def _lock_file(self) -> TextIO:
        return self.folder.with_name(f"{self.folder.name}.lock").open("a")

    def _provide(self, lock: TextIO) -> None:
        """Return with a shared lock on a whole folder."""
        fcntl.flock(lock, fcntl.LOCK_SH)
        while (state := self._state()) != "fresh":
            if state == "old" and not self._alone(lock):
                return
            if state == "absent":
                fcntl.flock(lock, fcntl.LOCK_EX)
            state = self._state()
            if state != "fresh":
                self._make(keep=state == "old")
            fcntl.flock(lock, fcntl.LOCK_SH)
            if state == "old":
                return

    def _alone(self, lock: TextIO) -> bool:
        """Whether nobody else uses the folder; if so it is locked for us alone, else shared as before."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
            return False
        return True

    def _state(self) -> Literal["absent", "old", "fresh"]:
        """``absent`` is a broken folder too."""
        try:
            made_s = float(json.loads((self.folder / MADE).read_text())["epoch_s"])
        except (OSError, ValueError, KeyError, TypeError):
            return "absent"
        if not self.is_whole(self.folder):
            return "absent"
        return "fresh" if abs(time.time() - made_s) < OLD_S else "old"

    def _make(self, *, keep: bool) -> None:
        """Put a new folder in the place of what is there; ``keep``: that is still better than nothing."""
        new, old = (self.folder.with_name(f"{self.folder.name}.{name}") for name in ("making", "old"))
        remove(new)
        remove(old)
        new.mkdir()
        try:
            self._fill(new)
        except CacheError as error:
            remove(new)
            if not keep:
                raise
            self.say(f"{error}\n{self.folder} stays in use, though it is old")
            return
        if self.folder.exists():
            self.folder.rename(old)
        new.rename(self.folder)
        remove(old)

    def _fill(self, new: Path) -> None:
        self.make(new)
        if not self.is_whole(new):
            raise CacheError(f"{new} was made and does not work")
        (new / MADE).write_text(json.dumps({"epoch_s": time.time()}))


def prune(directory: Path, prefix: str, keep: str) -> None:
    """Remove folders of earlier recipes that are old and that nobody uses."""
    for folder in sorted(directory.glob(f"{prefix}*")):
        if not folder.is_dir() or folder.name == keep or folder.suffix:
            continue
        with folder.with_name(f"{folder.name}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            made = folder / MADE
            if not made.exists() or time.time() - made.stat().st_mtime > OLD_S:
                remove(folder)
