"""The node's spool: what the hooks left, and the records on their way."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from slurm_ofu.delivery.files import write_whole
from slurm_ofu.delivery.spool import DONE_KEPT_SECONDS, Spool

TAG = "7.0.123456"
OTHER = "8.1.123999"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    its = Spool(tmp_path / "spool")
    its.make()
    return its


def left(spool: Spool, *suffixes: str, tag: str = TAG) -> None:
    """Leave files of a run, as the hooks do."""
    for suffix in suffixes:
        (spool.state / f"{tag}.{suffix}").write_text(suffix)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_everything_is_for_the_owner_only(spool: Spool) -> None:
    """Directories and files of the spool are for root's eyes only."""
    spool.finish(TAG, b"record", done_note="note")
    left(spool, "prolog", tag=OTHER)
    spool.write_checkpoint(OTHER, b"checkpoint")
    for path in (spool.directory, *(path for path in spool.directory.rglob("*") if path.suffix != ".prolog")):
        assert 0 == path.stat().st_mode & 0o077, path


def test_runs_are_known_by_what_hooks_left(spool: Spool) -> None:
    """A run is known by its prolog, its sampler, its checkpoint or its epilog, whichever is there."""
    left(spool, "prolog", "sampler", "checkpoint")
    left(spool, "epilog", tag=OTHER)
    for stray in ("x.prolog", "7.0.prolog", ".hidden", "9.0.1.lock", "notes"):
        (spool.state / stray).write_text("")
    assert (TAG, OTHER) == spool.tags()
    assert [False, True] == [spool.has_ended(tag) for tag in (TAG, OTHER)]


def test_an_empty_spool_has_nothing(tmp_path: Path) -> None:
    """A spool that no hook has made yet is an empty one."""
    spool = Spool(tmp_path / "nowhere")
    assert ((), (), ()) == (spool.tags(), spool.waiting(), spool.done_notes())
    assert (None, None, False) == (spool.facts(TAG, "prolog"), spool.checkpoint(TAG), spool.has_ended(TAG))
    spool.forget_old()


def test_facts_carry_their_time(spool: Spool) -> None:
    """What a hook wrote comes with the wall-clock time at which it wrote."""
    left(spool, "prolog")
    os.utime(spool.state / f"{TAG}.prolog", (5.0, 1234.5))
    assert (b"prolog", 1234.5) == spool.facts(TAG, "prolog")


def test_a_finished_run_moves_to_the_outbox(spool: Spool) -> None:
    """A run leaves state/ when its record is in the outbox; a mark stays, so that a second epilog is
    known as one."""
    left(spool, "prolog", "sampler", "checkpoint", "epilog", "lock")
    left(spool, "prolog", tag=OTHER)
    spool.finish(TAG, b"record", done_note="0 1764424800")
    assert [f"{OTHER}.prolog"] == names(spool.state)
    assert [b"record"] == [path.read_bytes() for path in spool.waiting()]
    assert ((TAG, "0 1764424800\n"),) == spool.done_notes()
    assert (OTHER,) == spool.tags()


def test_a_run_that_cannot_be_finished_keeps_its_state(spool: Spool) -> None:
    """Where the outbox cannot be written, nothing of the run is lost."""
    left(spool, "prolog", "checkpoint", "epilog")
    (spool.outbox / f"{TAG}.record" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="record"):
        spool.finish(TAG, b"record", done_note="note")
    assert ((TAG,), ()) == (spool.tags(), spool.done_notes())


def test_what_a_second_epilog_leaves_is_no_run(spool: Spool) -> None:
    """A second epilog at the moment of the end may write its file after all: that is no run, and goes."""
    left(spool, "prolog", "epilog")
    spool.finish(TAG, b"record", done_note="note")
    left(spool, "epilog")
    assert () == spool.tags()
    spool.forget_old()
    assert [] == names(spool.state)


def test_records_wait_oldest_first(spool: Spool) -> None:
    """The outbox is emptied in the order in which it was filled; what is no record stays out of it."""
    for age, name in enumerate(("b.record", "a.record", "c.record")):
        path = spool.outbox / name
        path.write_text("")
        os.utime(path, (age, age))
    (spool.outbox / "d.rejected").write_text("")
    (spool.outbox / ".half").write_text("")
    assert ["b.record", "a.record", "c.record"] == [path.name for path in spool.waiting()]


def test_marks_are_kept_for_a_day(spool: Spool) -> None:
    """The mark of a finished run is kept for a day."""
    now = time.time()
    for tag, age in ((TAG, DONE_KEPT_SECONDS + 60), (OTHER, DONE_KEPT_SECONDS - 60)):
        spool.mark_done(tag, "note")
        os.utime(spool.done / tag, (now - age, now - age))
    spool.forget_old(now)
    assert [OTHER] == names(spool.done)


def test_marks_outlive_every_run_that_saw_them(spool: Spool) -> None:
    """A mark is kept as long as a run goes on that began before it: they may have shared a GPU."""
    now = time.time()
    spool.mark_done(TAG, "note")
    os.utime(spool.done / TAG, (now - 3 * DONE_KEPT_SECONDS,) * 2)
    left(spool, "prolog", tag=OTHER)
    os.utime(spool.state / f"{OTHER}.prolog", (now - 4 * DONE_KEPT_SECONDS,) * 2)
    spool.forget_old(now)
    assert [TAG] == names(spool.done)


# --------------------------------------------------------------- one at a time


def test_a_run_is_held_by_one(spool: Spool) -> None:
    """Whoever works on a run does so alone; others are told, and do not wait."""
    left(spool, "prolog")
    with spool.hold(TAG) as first:
        with spool.hold(TAG) as second, spool.hold(OTHER) as other:
            assert (True, False, True) == (first, second, other)
        with spool.hold(TAG) as third:
            assert not third
    with spool.hold(TAG) as later:
        assert later


def test_a_hold_ends_with_its_process(spool: Spool) -> None:
    """The lock ends with the process, however it ends."""
    left(spool, "prolog")
    program = (
        "import sys, pathlib\nfrom slurm_ofu.delivery.spool import Spool\n"
        f"with Spool(pathlib.Path({str(spool.directory)!r})).hold({TAG!r}) as alone:\n"
        "    print(alone, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert b"True\n" == child.stdout.readline()
        with spool.hold(TAG) as alone:
            assert not alone
        child.kill()
    with spool.hold(TAG) as alone:
        assert alone


def test_a_finished_run_is_nobodys(spool: Spool) -> None:
    """Whoever comes just after a run was finished (a sampler that is slow to start) has nothing to do, and
    leaves nothing behind."""
    left(spool, "prolog", "epilog")
    spool.finish(TAG, b"record", done_note="note")
    with spool.hold(TAG) as alone:
        assert not alone
    assert [] == names(spool.state)


# --------------------------------------------------------------- whole or not there


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """A reader sees the old content or the new one, never a part, and never nothing."""
    path, contents = tmp_path / "file", [bytes([letter]) * 50_000 for letter in range(40)]
    write_whole(path, contents[0], sync=False)
    seen, done = set(), threading.Event()

    def read() -> None:
        while not done.is_set():
            data = path.read_bytes()
            seen.add((len(data), len(set(data))))

    reader = threading.Thread(target=read)
    reader.start()
    for content in contents:
        write_whole(path, content, sync=False)
    done.set()
    reader.join()
    assert {(50_000, 1)} == seen
    assert ["file"] == names(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A write that fails leaves the file that was there, and nothing beside it."""
    directory = tmp_path / "target"
    directory.mkdir()
    (directory / "inside").write_text("")
    with pytest.raises(OSError, match="target"):
        write_whole(directory, b"new", sync=True)
    assert ["target"] == names(tmp_path)


def test_mode_is_as_asked(tmp_path: Path) -> None:
    """A file has the mode that was asked for, whatever the umask."""
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "file", b"", sync=True, mode=0o644)
    finally:
        os.umask(before)
    assert 0o644 == (tmp_path / "file").stat().st_mode & 0o777
