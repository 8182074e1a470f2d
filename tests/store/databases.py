"""Databases for tests: making one, what is in it, and processes that use it."""

import os
import pickle
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from slurm_ofu.store.migrate import migrate
from slurm_ofu.store.read import Reader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import RunRow, Selection, UsageRow
from tests.store.records import expand

Content = dict[str, list[tuple[Any, ...]]]

# What depends on the order of arrival: run_id and the times of hearing.
_ARRIVAL = ("run_id", "first_heard_epoch_s", "updated_epoch_s")
_KEY = "r.cluster || ' ' || r.job_id || ' ' || r.restart_count || ' ' || r.incarnation"
_PARTS = ("run", "run_told", "run_node", "run_gpu", "gpu_timeline", "quarter_hour", "accounting_row")


def make_store(path: Path, *, wait_seconds: float = 20.0, made: bool = True) -> SqliteStore:
    """A writer; with the database in place unless ``made`` is False."""
    if made:
        migrate(path)
    return SqliteStore(
        path, group=None, world_readable=False, wait_seconds=wait_seconds, expand_hostlist=expand
    )


def content(path: Path) -> Content:
    """All that the database says, in a fixed order; each row with the run that it belongs to."""
    with closing(sqlite3.connect(path)) as opened:
        return {table: _rows(opened, table) for table in _PARTS}


def _rows(opened: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    cursor = opened.execute(f"SELECT {_KEY}, part.* FROM {table} AS part LEFT JOIN run AS r USING (run_id)")
    kept = [at for at, column in enumerate(cursor.description) if column[0] not in _ARRIVAL]
    return sorted((tuple(row[at] for at in kept) for row in cursor), key=repr)


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of one query."""
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute(sql, parameters).fetchall()


def rows(store: SqliteStore, selection: Selection | None = None) -> list[UsageRow]:
    """The runs in the database, oldest first."""
    return Reader(store.path).jobs(selection or Selection())


def run_of(store: SqliteStore) -> RunRow:
    """The only run in the database."""
    (row,) = rows(store)
    assert row.run is not None
    return row.run


class Child:
    """A forked process that calls a function; its answer is pickled back."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._from, to = os.pipe()
        self.process_id = os.fork()
        if self.process_id == 0:
            status = 1
            try:
                with os.fdopen(to, "wb") as stream:
                    stream.write(pickle.dumps(function()))
                status = 0
            except BaseException as error:  # noqa: BLE001 - the child's boundary
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            finally:
                os._exit(status)
        os.close(to)

    def answer(self) -> Any:
        """Wait for the answer; raises if the child failed."""
        with os.fdopen(self._from, "rb") as stream:
            said = stream.read()
        status = self.wait()
        assert status == 0, f"child {self.process_id} ended with {status}"
        return pickle.loads(said)

    def wait(self) -> int:
        """The wait status: an exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.process_id, 0)[1])
