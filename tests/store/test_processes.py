"""Many processes, killed processes and unprivileged processes on one database."""

import grp
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.lock import writers_lock
from slurm_ofu.store.migrate import migrate
from slurm_ofu.store.read import Reader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import Selection
from tests.store.databases import Child, content, make_store, query
from tests.store.records import make_gpu, make_job, make_record

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")


def test_a_storm_of_writers_loses_nothing(tmp_path: Path) -> None:
    """C71: 200 nodes and 20 jobs written by 220 processes at once: every record is there."""
    store = make_store(tmp_path / "ofu.db", wait_seconds=60.0)
    wide = make_job(job_id=1, node_list="n[0-199]", node_count=200)
    records = [make_record(wide, node=f"n{at}") for at in range(200)]
    records += [make_record(make_job(job_id=job_id)) for job_id in range(2, 22)]
    children = [Child(lambda record=record: store.write([record])) for record in records]  # type: ignore[misc]
    for child in children:
        child.answer()
    assert [(21, 220)] == query(
        store.path, "SELECT COUNT(DISTINCT job_id), COUNT(*) FROM run JOIN run_node USING (run_id)"
    )
    assert [(220,)] == query(store.path, "SELECT COUNT(*) FROM run_gpu")


def test_one_record_from_many_processes_is_one_record(tmp_path: Path) -> None:
    """The same record from eight processes at once leaves the content of once."""
    record = make_record(make_job(node_list="n[1-3]"))
    once, many = make_store(tmp_path / "once.db"), make_store(tmp_path / "many.db")
    once.write([record])
    for child in [Child(lambda: many.write([record])) for _ in range(8)]:
        child.answer()
    assert content(once.path) == content(many.path)


def _raises_busy(action: Callable[[], Any]) -> float:
    started = time.monotonic()
    with pytest.raises(StoreBusy):
        action()
    return time.monotonic() - started


def test_a_held_lock_is_waited_for_within_the_bound(tmp_path: Path) -> None:
    """Another writer that does not let go: StoreBusy after wait_seconds, and nothing is lost later."""
    store = make_store(tmp_path / "ofu.db", wait_seconds=0.3)
    with writers_lock(store.path, time.monotonic()):
        assert 0.3 <= _raises_busy(lambda: store.write([make_record()])) < 5.0
    store.write([make_record()])
    assert 1 == Reader(store.path).count()


def test_a_long_reader_is_waited_for_within_the_bound(tmp_path: Path) -> None:
    """A reader that does not end: StoreBusy after wait_seconds, and nothing of the record is kept."""
    store = make_store(tmp_path / "ofu.db", wait_seconds=0.3)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT COUNT(*) FROM run").fetchone()
        assert 0.25 <= _raises_busy(lambda: store.write([make_record()])) < 5.0
    assert [] == content(store.path)["run"]
    store.write([make_record()])
    assert 1 == Reader(store.path).count()


def test_a_reader_waits_for_a_commit_within_the_bound(tmp_path: Path) -> None:
    """A writer that does not finish its commit: the reader raises StoreBusy after wait_seconds."""
    path = make_store(tmp_path / "ofu.db").path
    with closing(sqlite3.connect(path, isolation_level=None)) as writing:
        writing.execute("BEGIN EXCLUSIVE")
        assert 0.25 <= _raises_busy(Reader(path, wait_seconds=0.3).count) < 5.0


# --------------------------------------------------------------- killed in mid-write


def _die_in_mid_write(store: SqliteStore) -> int:
    """A writer that is killed with half of its changes in the file; its wait status."""

    def die() -> None:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as opened:
            opened.execute("PRAGMA cache_size = 1")  # changed pages go to the file at once
            opened.execute("BEGIN IMMEDIATE")
            opened.execute("UPDATE run SET comment = ?", ("x" * 50_000,))
            opened.execute("DELETE FROM run_gpu")
            os.kill(os.getpid(), signal.SIGKILL)

    return Child(die).wait()


def test_a_writer_killed_in_mid_write_leaves_the_old_content(tmp_path: Path) -> None:
    """C72: the next writer plays the journal back: all of the old content, and its own record."""
    store = make_store(tmp_path / "ofu.db")
    many = [make_gpu(at) for at in range(64)]
    store.write([make_record(make_job(job_id=1), gpus=many)])
    before = content(store.path)
    assert -signal.SIGKILL == _die_in_mid_write(store)
    assert store.path.with_name("ofu.db-journal").stat().st_size > 0
    assert 1 == Reader(store.path).count()
    assert store.path.with_name("ofu.db-journal").stat().st_size > 0  # a reader touches nothing
    store.write([make_record(make_job(job_id=1), gpus=many)])
    assert before == content(store.path)
    assert 1 == Reader(store.path).count()


def test_a_migration_heals_too(tmp_path: Path) -> None:
    """Making the database ready by hand plays the journal back."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(gpus=[make_gpu(at) for at in range(64)])])
    _die_in_mid_write(store)
    migrate(store.path)
    (row,) = Reader(store.path).jobs(Selection())
    assert 64.0 == row.sums.gpu_count
    assert not store.path.with_name("ofu.db-journal").exists()


def test_writers_killed_at_random_lose_only_their_own_record(tmp_path: Path) -> None:
    """Whatever instant a writer is killed at, its record is there whole or not at all."""
    store = make_store(tmp_path / "ofu.db")
    instants = random.Random(7)
    for job_id in range(1, 31):
        gpus = [make_gpu(at) for at in range(8)]
        child = Child(lambda: store.write([make_record(make_job(job_id=job_id), gpus=gpus)]))  # noqa: B023
        time.sleep(instants.uniform(0.0, 0.02))
        os.kill(child.process_id, signal.SIGKILL)
        child.wait()
    store.write([make_record(make_job(job_id=99), gpus=[make_gpu(at) for at in range(8)])])
    counts = query(store.path, "SELECT DISTINCT gpu_count, tensor_ref_seconds FROM run_sums")
    assert [(8.0, 8 * 700.0)] == counts
    assert [("ok",)] == query(store.path, "PRAGMA integrity_check")


# --------------------------------------------------------------- readers without rights


@pytest.fixture
def shared_place() -> Iterator[Path]:
    """A directory that everybody may enter (pytest's own is private)."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def _as_member(group_id: int, question: Callable[[], Any]) -> Any:
    """The answer of an unprivileged process whose only group is this one."""

    def ask() -> Any:
        os.setgroups([group_id])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            return question()
        except StoreError as error:
            return str(error)

    return Child(ask).answer()


def _groups() -> tuple[grp.struct_group, grp.struct_group]:
    usable = [group for group in grp.getgrall() if group.gr_gid not in (0, NOBODY)]
    return usable[0], usable[1]


@root_only
def test_a_member_of_the_group_reads_beside_a_writer_and_without(shared_place: Path) -> None:
    """Reading needs membership only: with no writer, with one in mid-transaction, and after its end."""
    group, other = _groups()
    path = shared_place / "new" / "ofu.db"
    migrate(path, group=group.gr_name)
    store = make_store(path)
    store.write([make_record()])
    reader = Reader(path, wait_seconds=0.2)
    assert 1 == _as_member(group.gr_gid, reader.count)
    with closing(sqlite3.connect(path, isolation_level=None)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("UPDATE run SET comment = 'half'")
        (row,) = _as_member(group.gr_gid, lambda: reader.jobs(Selection()))
        assert row.run.comment is None
    assert "the database's group" in _as_member(other.gr_gid, reader.count)


@root_only
def test_a_member_reads_what_was_committed_when_a_writer_died(shared_place: Path) -> None:
    """A journal that only root can play back does not keep a member from the last committed state."""
    group, _ = _groups()
    path = shared_place / "new" / "ofu.db"
    migrate(path, group=group.gr_name)
    store = make_store(path)
    record = make_record(gpus=[make_gpu(at) for at in range(64)])
    store.write([record])
    reader = Reader(path, wait_seconds=5)
    before = _as_member(group.gr_gid, lambda: reader.jobs(Selection()))
    _die_in_mid_write(store)
    assert before == _as_member(group.gr_gid, lambda: reader.jobs(Selection()))
    store.write([record])
    assert before == _as_member(group.gr_gid, lambda: reader.jobs(Selection()))
