"""The queue of what is to be written into Slurm's accounting."""

import os
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.migrate import migrate
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.store.written_back import (
    FIRST_PAUSE_SECONDS,
    MOST_ATTEMPTS,
    Attempt,
    Window,
    WriteBackQueue,
    pause_seconds,
)
from slurm_ofu.values import AccountingRow, NodeRecord
from tests.store.accounting_rows import START_S, make_row, resized
from tests.store.databases import Child, query
from tests.store.records import START, expand, make_job, make_record

END = START_S + 3600
NOW = START + 10_000


class Clock:
    """The store's clock."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Set by the test."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> SqliteStore:
    """An empty database."""
    migrate(tmp_path / "ofu.db")
    return SqliteStore(
        tmp_path / "ofu.db",
        group=None,
        world_readable=False,
        wait_seconds=20.0,
        expand_hostlist=expand,
        now=clock,
    )


def queue_of(store: SqliteStore) -> WriteBackQueue:
    """Its queue."""
    return WriteBackQueue(store.path, wait_seconds=5.0)


def fill(store: SqliteStore, *pairs: tuple[NodeRecord, AccountingRow]) -> None:
    """Store records, and the rows of Slurm's accounting that complete their runs."""
    store.write([record for record, _ in pairs])
    store.take_accounting([row for _, row in pairs])


def job(job_id: int, end: int = END) -> tuple[NodeRecord, AccountingRow]:
    """A run and its row."""
    record = make_record(make_job(job_id=job_id), end=float(end))
    return record, make_row(job_id=job_id, end=end)


def due(
    store: SqliteStore, now: float = NOW, *, most: int = 100, by: float = NOW, since: float = 0.0
) -> list[int]:
    """The job ids that are due."""
    window = Window(now_epoch_s=now, ended_from_epoch_s=since, ended_by_epoch_s=by)
    runs = queue_of(store).due(window, most)
    assert len(runs) == min(most, queue_of(store).count_due(window))
    return [run.job_id for run in runs]


def record(
    store: SqliteStore, status: str, *, attempts: int = 0, at: float = NOW + 1, token: str = "ofu1:x=1"
) -> None:
    """Note the same of every run."""
    run_ids = [run_id for (run_id,) in query(store.path, "SELECT run_id FROM run")]
    attempt = Attempt(
        run_id=0,
        status=status,  # type: ignore[arg-type]
        field="SystemComment",
        token=token,
        attempts=attempts,
        message=None,
    )
    queue_of(store).record([replace(attempt, run_id=run_id) for run_id in run_ids], at)


def test_a_run_is_due_once_accounting_knows_its_end(store: SqliteStore) -> None:
    """Not before, since its row could not be told from another's."""
    one, row = job(42)
    store.write([one])
    assert [] == due(store)
    store.take_accounting([replace(row, end_epoch_s=None, state="RUNNING")])
    assert [] == due(store)
    store.take_accounting([row])
    assert [42] == due(store)


def test_the_latest_come_first_and_only_those_of_the_window(store: SqliteStore) -> None:
    """Today's jobs do not wait for a backlog, and a run's nodes have time to report."""
    fill(store, job(1, END - 300), job(2, END), job(3, END - 100))
    assert [2, 3, 1] == due(store)
    assert [2, 3] == due(store, most=2)
    assert [3, 1] == due(store, by=END - 1)
    assert [2] == due(store, since=END)


@pytest.mark.parametrize(
    ("status", "expected"), [("written", [42]), ("left_alone", [42]), ("superseded", [])]
)
def test_what_was_dealt_with_is_due_again_when_something_is_said_of_it(
    store: SqliteStore, clock: Clock, status: str, expected: list[int]
) -> None:
    """A late node's record, after the token was written or left alone; not after it was superseded."""
    fill(store, job(42))
    record(store, status)
    assert [] == due(store, NOW + 5)
    clock.now = NOW + 100
    store.write([make_record(make_job(job_id=42), node="n2", end=float(END))])
    assert expected == due(store, NOW + 101)


def test_what_is_heard_while_figures_are_read_is_not_missed(store: SqliteStore, clock: Clock) -> None:
    """An attempt counts as of before its figures were read: heard at that very moment is heard since."""
    fill(store, job(42))
    clock.now = NOW + 50
    store.write([make_record(make_job(job_id=42), node="n2", end=float(END))])
    record(store, "written", at=NOW + 50)
    assert [42] == due(store, NOW + 60)
    [run] = queue_of(store).due(Window(now_epoch_s=NOW, ended_from_epoch_s=0.0, ended_by_epoch_s=NOW), 1)
    queue_of(store).unchanged([run.run_id], NOW + 61)
    assert [] == due(store, NOW + 62)


def test_failures_are_tried_again_at_growing_pauses_and_then_given_up(store: SqliteStore) -> None:
    """A minute, two, four …; after the last attempt only new words make it due."""
    fill(store, job(42))
    record(store, "failed", attempts=3)
    pause = 4 * FIRST_PAUSE_SECONDS
    assert [] == due(store, NOW + pause)
    assert [42] == due(store, NOW + 1 + pause)
    [run] = queue_of(store).due(
        Window(now_epoch_s=NOW + 1 + pause, ended_from_epoch_s=0.0, ended_by_epoch_s=NOW), 1
    )
    assert (3, "failed") == (run.attempts, run.status)
    record(store, "failed", attempts=MOST_ATTEMPTS)
    assert [] == due(store, NOW + 1e9)
    assert pause_seconds(MOST_ATTEMPTS) is None


def test_only_the_last_run_of_a_job_id_is_due(store: SqliteStore) -> None:
    """A requeued job's former life cannot be written to."""
    second = START_S + 4000
    first_record = make_record(make_job(), end=float(END))
    second_record = make_record(make_job(restart_count=1), start=float(second), end=float(second + 100))
    rows = [
        make_row(state="REQUEUED"),
        make_row(submit=END, start=second, end=second + 100),
    ]
    store.write([first_record, second_record])
    store.take_accounting(rows)
    window = Window(now_epoch_s=NOW, ended_from_epoch_s=0.0, ended_by_epoch_s=NOW)
    assert [END] == [run.last_submit_epoch_s for run in queue_of(store).due(window, 10)]


def test_a_resized_job_is_known_by_its_last_segment(store: SqliteStore) -> None:
    """That is the row that Slurm shows last."""
    store.write([make_record(make_job(node_list="n[1-3]", node_count=3), end=START + 5)])
    rows = resized()
    store.take_accounting(rows)
    window = Window(now_epoch_s=NOW, ended_from_epoch_s=0.0, ended_by_epoch_s=NOW)
    assert [rows[-1].submit_epoch_s] == [run.last_submit_epoch_s for run in queue_of(store).due(window, 10)]


def test_runs_that_no_node_spoke_of_are_not_written(store: SqliteStore) -> None:
    """There is nothing to say of them."""
    store.take_accounting([make_row()])
    assert [] == due(store)


def test_a_run_that_went_away_meanwhile_leaves_nothing(store: SqliteStore) -> None:
    """Records may join two runs while one of them is being written."""
    fill(store, job(42))
    gone = Attempt(run_id=999, status="written", field="Comment", token="t", attempts=0, message=None)
    queue_of(store).record([gone], NOW)
    assert [] == query(store.path, "SELECT * FROM write_back")


def test_what_was_written_lately_is_counted(store: SqliteStore) -> None:
    """For the rate: attempts that reached Slurm, not those that were left alone."""
    fill(store, job(1), job(2))
    record(store, "written", at=NOW)
    assert 2 == queue_of(store).written_since(NOW - 60)
    assert 0 == queue_of(store).written_since(NOW)
    record(store, "left_alone", at=NOW)
    assert 0 == queue_of(store).written_since(NOW - 60)


def test_one_process_writes_back(store: SqliteStore) -> None:
    """The second is told so at once; the database is free for both, and the lock goes with its holder."""

    def second() -> str:
        try:
            with queue_of(store).alone():
                return "alone"
        except StoreBusy as error:
            return str(error)

    with queue_of(store).alone():
        begin = time.monotonic()
        assert "another process is writing back" in Child(second).answer()
        assert time.monotonic() - begin < 30
        store.write([make_record()])
    assert "alone" == Child(second).answer()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_lock_is_the_database_owners(store: SqliteStore) -> None:
    """Root may call the command where a service user does the same all day."""
    os.chown(store.path, 12345, -1)
    with queue_of(store).alone():
        pass
    assert 12345 == store.path.with_name("ofu.db.write-back.lock").stat().st_uid


def test_an_old_database_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    """The queue never upgrades it: it is not the writer of records."""
    sqlite3.connect(tmp_path / "ofu.db").close()
    (tmp_path / "ofu.db").touch()
    with pytest.raises(StoreError, match="ofu-admin init"):
        WriteBackQueue(tmp_path / "ofu.db", wait_seconds=1.0).count_due(
            Window(now_epoch_s=NOW, ended_from_epoch_s=0.0, ended_by_epoch_s=NOW)
        )
