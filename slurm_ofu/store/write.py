"""Write node records into the accounting database, any number of processes at once.

Standard library only: this is on the path of the hooks, where importing sqlite_utils would cost more
than everything else together. The schema is made and upgraded in a child process.
"""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from slurm_ofu.errors import OfuError, RecordRefused, StoreBusy, StoreError, StoreMissing
from slurm_ofu.store.connection import connection, translated, user_version, wait_until
from slurm_ofu.store.facts import facts_of
from slurm_ofu.store.identity import StoredRun, certain_run, claim_of, epilog_run, uncertain_run
from slurm_ofu.store.lock import writers_lock
from slurm_ofu.store.rows import (
    INSERT_GPU,
    INSERT_NODE,
    INSERT_QUARTER,
    INSERT_TIMELINE,
    NodeRows,
    node_rows,
)
from slurm_ofu.store.runs import (
    DELETE_NODE,
    NodeNames,
    create_run,
    join_facts,
    rehome,
    runs_of_job,
    set_span,
    stored_quality,
)
from slurm_ofu.store.schema import EXIT_BUSY, SCHEMA_VERSION
from slurm_ofu.store.settle import settle
from slurm_ofu.values import NodeRecord

# As ``python -I -m slurm_ofu.store.migrate``, from wherever this very package was loaded.
_MIGRATE: Final = """
import sys
sys.path.append(sys.argv.pop(1))
from slurm_ofu.store.migrate import main
sys.exit(main())
"""
_LEAST_MIGRATION_SECONDS: Final = 10.0
# What SQLite raises for a value that it will not take.
_REFUSALS: Final = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)


class SqliteStore:
    """The accounting database at ``path``, made when first written to.

    ``group`` may read it, or everybody if ``world_readable``. Waits up to ``wait_seconds`` for other
    writers and readers. ``expand_hostlist`` turns a Slurm host list into node names.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        group: str | None,
        world_readable: bool,
        wait_seconds: float,
        expand_hostlist: Callable[[str], tuple[str, ...]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.group = group
        self.world_readable = world_readable
        self.wait_seconds = wait_seconds
        self._node_names = _forgiving(expand_hostlist)
        self._now = now

    def write(self, records: Sequence[NodeRecord]) -> None:
        """Store records: all of them or, when it raises, none.

        Writing a record again changes nothing. Raises StoreBusy where trying again later may help,
        RecordRefused where one of them is never taken, StoreError where none can be.
        """
        deadline = time.monotonic() + self.wait_seconds
        if records and not self._written(records, deadline):
            self.migrate(deadline)
            if not self._written(records, deadline):
                raise StoreError(f"{self.path}: still has an old schema after its upgrade")

    def migrate(self, deadline: float) -> None:
        """Create or upgrade the database, in a child process."""
        left = max(deadline - time.monotonic(), _LEAST_MIGRATION_SECONDS)
        child = subprocess.Popen(
            self._migration(left), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            said = child.communicate(timeout=left + 5)[1].decode(errors="replace").strip().splitlines()
        except subprocess.TimeoutExpired as error:
            child.kill()
            child.communicate()
            raise StoreBusy(f"{self.path}: making the schema took longer than {left:.0f} s") from error
        if child.returncode:
            why = said[-1] if said else f"exit status {child.returncode}"
            kind = StoreBusy if child.returncode == EXIT_BUSY else StoreError
            raise kind(f"{self.path}: cannot make the schema: {why}")

    def _migration(self, wait_seconds: float) -> list[str]:
        root = str(Path(__file__).resolve().parents[2])
        group = [] if self.group is None else ["--group", self.group]
        world = ["--world-readable"] if self.world_readable else []
        options = [*group, *world, "--wait", str(wait_seconds), "--", str(self.path)]
        return [sys.executable, "-I", "-c", _MIGRATE, root, *options]

    def _written(self, records: Sequence[NodeRecord], deadline: float) -> bool:
        """Store records under the writers' lock. False: the database is missing or too old."""
        try:
            with (
                writers_lock(self.path, deadline),
                translated(self.path),
                connection(self.path, "rw") as opened,
            ):
                wait_until(opened, deadline)
                version = user_version(opened)
                if version > SCHEMA_VERSION:
                    raise StoreError(
                        f"{self.path}: made by a newer slurm-ofu (schema {version}; this one knows"
                        f" {SCHEMA_VERSION}): upgrade slurm-ofu on this host"
                    )
                if version == SCHEMA_VERSION:
                    with _transaction(opened, deadline):
                        self._take_all(opened, records)
                return version == SCHEMA_VERSION
        except StoreMissing:
            return False

    def _take_all(self, opened: sqlite3.Connection, records: Sequence[NodeRecord]) -> None:
        touched: set[int] = set()
        for record in records:
            try:
                touched |= self._take(opened, record)
            except (*_REFUSALS, OverflowError, ValueError, StoreError) as error:
                key = record.job.key
                raise RecordRefused(
                    f"{self.path}: refuses the record of job {key.job_id} ({key.cluster}) on"
                    f" {record.node_name}: {error}"
                ) from error
        settle(opened, touched, self._node_names)

    def _take(self, opened: sqlite3.Connection, record: NodeRecord) -> set[int]:
        """Store one record; the runs to settle."""
        cluster, job_id, now = record.job.key.cluster, record.job.key.job_id, self._now()
        run_id = self._run_id(opened, record, now)
        stored = stored_quality(opened, run_id, record.node_name)
        rows = node_rows(run_id, record)
        if stored is None or rows.quality >= stored:
            _replace_node(opened, run_id, record.node_name, rows)
        set_span(opened, run_id, now)
        moved = rehome(opened, cluster, job_id) if record.job.restart_certain else set()
        for touched in moved:
            set_span(opened, touched, now)
        return moved | {run_id}

    def _run_id(self, opened: sqlite3.Connection, record: NodeRecord, now: float) -> int:
        """The run that a record belongs to, knowing now what the record says of the job."""
        key, certain, facts = record.job.key, record.job.restart_certain, facts_of(record)
        run = _run_of(record, runs_of_job(opened, key.cluster, key.job_id))
        if run is None:
            return create_run(
                opened,
                cluster=key.cluster,
                job_id=key.job_id,
                claim=claim_of(record),
                certain=certain,
                facts=facts,
                now_epoch_s=now,
            )
        if certain == run.restart_certain:  # an epilog alone adds nothing to what a prolog said
            join_facts(opened, run.run_id, facts, self._node_names)
        return run.run_id


def _run_of(record: NodeRecord, runs: list[StoredRun]) -> StoredRun | None:
    claim = claim_of(record)
    if record.job.restart_certain:
        return certain_run(claim, runs)
    return epilog_run(claim, runs) or uncertain_run(claim, runs)


def _replace_node(opened: sqlite3.Connection, run_id: int, node_name: str, rows: NodeRows) -> None:
    opened.execute(DELETE_NODE, (run_id, node_name))  # with its GPUs and quarter hours
    opened.execute(INSERT_NODE, rows.node)
    opened.executemany(INSERT_GPU, rows.gpus)
    opened.executemany(INSERT_TIMELINE, rows.timelines)
    opened.executemany(INSERT_QUARTER, rows.quarters)


@contextmanager
def _transaction(opened: sqlite3.Connection, deadline: float) -> Iterator[None]:
    opened.execute("PRAGMA foreign_keys = ON")
    opened.execute("PRAGMA synchronous = FULL")
    opened.execute("PRAGMA temp_store = MEMORY")
    wait_until(opened, deadline)
    opened.execute("BEGIN IMMEDIATE")
    try:
        yield
        wait_until(opened, deadline)  # the commit waits for readers
        opened.execute("COMMIT")
    except BaseException:
        if opened.in_transaction:
            opened.execute("ROLLBACK")
        raise


def _forgiving(expand_hostlist: Callable[[str], tuple[str, ...]]) -> NodeNames:
    """No nodes for a host list that cannot be read: it must not keep a record out of the database."""

    def node_names(text: str) -> tuple[str, ...]:
        try:
            return expand_hostlist(text)
        except (OfuError, ValueError):
            return ()

    return node_names
