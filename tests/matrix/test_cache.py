"""Folders of the cache: when they are made, shared, kept and removed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .cache import (
    DEFAULT_DIRECTORY,
    MADE,
    OLD_S,
    CacheError,
    Entry,
    cache_directory,
    mounted_below,
    prune,
    remove,
)

ROOT = Path(__file__).resolve().parents[2]


class Maker:
    """Counts how often a folder was made, and can fail."""

    def __init__(self, folder: Path) -> None:
        self.times, self.fails, self.said = 0, False, ""
        self.entry = Entry(folder=folder, make=self.make, is_whole=self.is_whole, say=self.say)

    def make(self, folder: Path) -> None:
        self.times += 1
        (folder / "content").write_text(f"{self.times}")
        if self.fails:
            raise CacheError("no network")

    def is_whole(self, folder: Path) -> bool:
        return (folder / "content").exists()

    def say(self, text: str) -> None:
        self.said += text

    def content(self) -> str:
        with self.entry.held() as folder:
            return (folder / "content").read_text()


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "cache" / "suite-1")


def age(folder: Path) -> None:
    """Let a folder have been made long ago."""
    then = time.time() - OLD_S - 1
    (folder / MADE).write_text(json.dumps({"epoch_s": then}))
    os.utime(folder / MADE, (then, then))


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Another run holds the folder."""
    with folder.with_name(f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def test_a_folder_is_made_once(maker: Maker) -> None:
    """The second run finds what the first one made."""
    assert ["1", "1"] == [maker.content(), maker.content()]


def test_runs_at_the_same_time_make_it_once(tmp_path: Path) -> None:
    """One makes it, the others wait and share it."""
    folder, began, found = tmp_path / "suite-1", threading.Barrier(4), []
    makers = [Maker(folder) for _ in range(4)]

    def run(maker: Maker) -> None:
        began.wait()
        found.append(maker.content())

    threads = [threading.Thread(target=run, args=(maker,)) for maker in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["1"] * 4 == found
    assert 1 == sum(maker.times for maker in makers)


def break_content(folder: Path) -> None:
    (folder / "content").unlink()


def break_mark(folder: Path) -> None:
    (folder / MADE).write_text("")


@pytest.mark.parametrize("harm", [break_content, break_mark, age])
def test_what_is_broken_or_old_is_made_anew(maker: Maker, harm: Callable[[Path], None]) -> None:
    """A folder that does not work, that was not finished or that is weeks old is replaced whole."""
    maker.content()
    harm(maker.entry.folder)
    assert "2" == maker.content()
    assert ["suite-1", "suite-1.lock"] == sorted(path.name for path in maker.entry.folder.parent.iterdir())


def test_an_interrupted_making_is_begun_again(maker: Maker) -> None:
    """What a killed run left half-made is not taken for whole, and goes."""
    left = maker.entry.folder.with_name("suite-1.making")
    left.mkdir(parents=True)
    (left / "content").write_text("half")
    assert "1" == maker.content()
    assert not left.exists()


def test_an_old_folder_in_use_stays(maker: Maker) -> None:
    """Nobody's chroot is taken away; the next run alone makes it anew."""
    maker.content()
    age(maker.entry.folder)
    with in_use(maker.entry.folder):
        assert "1" == maker.content()
    assert "2" == maker.content()


def test_old_is_better_than_nothing(maker: Maker) -> None:
    """Where an old folder cannot be made anew, it stays in use, and that is said."""
    maker.content()
    age(maker.entry.folder)
    maker.fails = True
    assert "1" == maker.content()
    assert "no network" in maker.said


def test_a_first_making_that_fails_is_an_error(maker: Maker) -> None:
    """Without a folder there is no run, and nothing half-made stays."""
    maker.fails = True
    with pytest.raises(CacheError, match="no network"):
        maker.content()
    assert ["suite-1.lock"] == [path.name for path in maker.entry.folder.parent.iterdir()]


def test_earlier_recipes_are_removed_when_old_and_unused(tmp_path: Path) -> None:
    """Of a suite's other folders those go that are old and held by nobody."""
    for name in ("a-now", "a-new", "a-old", "a-used", "b-old"):
        Maker(tmp_path / name).content()
    for name in ("a-now", "a-old", "a-used", "b-old"):
        age(tmp_path / name)
    with in_use(tmp_path / "a-used"):
        prune(tmp_path, "a-", "a-now")
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert ["a-new", "a-now", "a-used", "b-old"] == left


REMOVE_WITH_A_MOUNT = """
import subprocess, sys
from pathlib import Path
from tests.matrix.cache import CacheError, remove
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder / "inner")], check=True)
(folder / "inner/file").touch()
try:
    remove(folder)
except CacheError as error:
    print(error, (folder / "inner/file").exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_nothing_is_removed_that_has_a_mount_in_it(tmp_path: Path) -> None:
    """A mount below may be anything, /dev of this machine even."""
    (tmp_path / "root/inner").mkdir(parents=True)
    argv = ["unshare", "--mount", "--propagation=private", "--", sys.executable, "-c", REMOVE_WITH_A_MOUNT]
    done = subprocess.run(
        [*argv, str(tmp_path / "root")], cwd=ROOT, text=True, capture_output=True, check=True
    )
    assert f"mounted are {tmp_path}/root/inner True\n" in done.stdout
    remove(tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_mounts_are_seen() -> None:
    """/proc is mounted below /, and nothing is below a file in it."""
    assert "/proc" in mounted_below(Path("/"))
    assert [] == mounted_below(Path("/proc/self/mountinfo"))


def test_the_cache_is_where_it_is_wanted(tmp_path: Path) -> None:
    """OFU_TEST_CACHE names it; empty is not named."""
    assert tmp_path == cache_directory({"OFU_TEST_CACHE": str(tmp_path)})
    assert DEFAULT_DIRECTORY == cache_directory({"OFU_TEST_CACHE": ""})
