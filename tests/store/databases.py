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
from slurm_ofu.store.write import SqliteStore
from tests.store.records import expand

Content = dict[str, list[tuple[Any, ...]]]

# Everything but what depends on the order of arrival: run_id and the times of hearing.
_RUN = """
SELECT cluster, job_id, restart_count, incarnation, restart_certain, sluid, user_name, uid, account,
    partition, node_list, node_count, comment, exit_code, start_epoch_s, end_epoch_s
FROM run ORDER BY 1, 2, 3, 4
"""
_PART = """
SELECT r.cluster, r.job_id, r.restart_count, r.incarnation, part.* FROM run AS r
JOIN {table} AS part ON part.run_id = r.run_id
"""


def make_store(path: Path, *, wait_seconds: float = 20.0, made: bool = True) -> SqliteStore:
    """A writer; with the database in place unless ``made`` is False."""
    if made:
        migrate(path)
    return SqliteStore(
        path, group=None, world_readable=False, wait_seconds=wait_seconds, expand_hostlist=expand
    )


def content(path: Path) -> Content:
    """All that the database says, in a fixed order."""
    with closing(sqlite3.connect(path)) as opened:
        found: Content = {"run": opened.execute(_RUN).fetchall()}
        for table in ("run_node", "run_gpu", "gpu_timeline", "quarter_hour"):
            rows = opened.execute(_PART.format(table=table)).fetchall()
            found[table] = sorted((row[:4] + row[5:] for row in rows), key=repr)  # without run_id
        return found


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of one query."""
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute(sql, parameters).fetchall()


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
