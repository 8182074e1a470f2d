"""Write node records into the accounting database, any number of processes at once.

Standard library only: this is on the path of the hooks, where importing sqlite_utils would cost more
than everything else together. The schema is made and upgraded in a child process.
"""

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from slurm_ofu.errors import OfuError, RecordRefused, StoreBusy, StoreError, StoreMissing
from slurm_ofu.store.accounting import read_until, set_read_until, take_row
from slurm_ofu.store.backfilled import home_of
from slurm_ofu.store.connection import connection, translated, user_version, wait_until
from slurm_ofu.store.facts import facts_of
from slurm_ofu.store.identity import StoredRun, certain_run, epilog_run, told_by, uncertain_run
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
from slurm_ofu.store.settle import JobKey, settle
from slurm_ofu.values import AccountingRow, Claim, NodeRecord, Taken

_Answer = TypeVar("_Answer")

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
    writers and readers. ``expand_hostlist`` turns a Slurm host list into node names, ``claim_of`` a comment
    in Slurm's accounting into what the job claims there.
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
        claim_of: Callable[[str], Claim | None] = lambda _comment: None,
    ) -> None:
        self.path = Path(path)
        self.group = group
        self.world_readable = world_readable
        self.wait_seconds = wait_seconds
        self._node_names = _forgiving(expand_hostlist)
        self._now = now
        self._claim_of = claim_of

    def write(self, records: Sequence[NodeRecord]) -> None:
        """Store records: all of them or, when it raises, none.

        Writing a record again changes nothing. One that was backfilled is stored where Slurm's accounting
        knows its run and nothing better is known of its node. Raises StoreBusy where trying again later may
        help, RecordRefused where one of them is never taken, StoreError where none can be.
        """
        if records:
            self._transact(lambda opened: self._take_all(opened, records))

    def take_accounting(self, rows: Sequence[AccountingRow]) -> Taken:
        """Store rows of Slurm's own accounting, and complete the runs that they are about.

        Storing a row again changes nothing. Raises as :meth:`write` does, but no row is refused with others.
        """
        if not rows:
            return Taken()
        return self._transact(lambda opened: self._take_rows(opened, rows))

    def read_until(self, cluster: str) -> float | None:
        """Up to when a cluster's accounting was read; ``None``: never."""
        return self._transact(lambda opened: read_until(opened, cluster))

    def set_read_until(self, cluster: str, epoch_s: float) -> None:
        """Note up to when it was read. It never goes back."""
        self._transact(lambda opened: set_read_until(opened, cluster, epoch_s))

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

    def _transact(self, action: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Do it in one transaction, on a database of this version."""
        deadline = time.monotonic() + self.wait_seconds
        done = self._attempt(action, deadline)
        if not done:
            self.migrate(deadline)
            done = self._attempt(action, deadline)
        if not done:
            raise StoreError(f"{self.path}: still has an old schema after its upgrade")
        return done[0]

    def _attempt(self, action: Callable[[sqlite3.Connection], _Answer], deadline: float) -> list[_Answer]:
        """The action's answer, given under the writers' lock. []: the database is missing or too old."""
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
                if version < SCHEMA_VERSION:
                    return []
                with _transaction(opened, deadline):
                    return [action(opened)]
        except StoreMissing:
            return []

    def _take_all(self, opened: sqlite3.Connection, records: Sequence[NodeRecord]) -> None:
        jobs: dict[JobKey, set[int]] = {}
        for record in records:
            key = record.job.key
            try:
                jobs.setdefault((key.cluster, key.job_id), set()).update(self._take(opened, record))
            except (*_REFUSALS, OverflowError, ValueError, StoreError) as error:
                raise RecordRefused(
                    f"{self.path}: refuses the record of job {key.job_id} ({key.cluster}) on"
                    f" {record.node_name}: {error}"
                ) from error
        settle(opened, jobs, self._node_names, self._now())

    def _take(self, opened: sqlite3.Connection, record: NodeRecord) -> set[int]:
        """Store one record; the runs to settle."""
        if record.backfilled:
            return _take_backfilled(opened, record)
        run_id = self._run_id(opened, record)
        present, stored = stored_quality(opened, run_id, record.node_name)
        rows = node_rows(run_id, record)
        if stored is None or rows.quality > stored:
            if present:
                opened.execute(DELETE_NODE, (run_id, record.node_name))  # with its GPUs and quarter hours
            _insert_node(opened, rows)
        set_span(opened, run_id)
        key = record.job.key
        moved = rehome(opened, key.cluster, key.job_id) if record.job.restart_certain else set()
        for touched in moved:
            set_span(opened, touched)
        return moved | {run_id}

    def _take_rows(self, opened: sqlite3.Connection, rows: Sequence[AccountingRow]) -> Taken:
        jobs: dict[JobKey, set[int]] = {}
        fates: Counter[str] = Counter()
        for row in rows:
            try:
                fate = take_row(opened, row, self._claim_of)
            except (*_REFUSALS, OverflowError):
                fate = "refused"
            fates[fate] += 1
            if fate == "changed":
                jobs.setdefault((row.cluster, row.job_id), set())
        settle(opened, jobs, self._node_names, self._now())
        return Taken(**fates)

    def _run_id(self, opened: sqlite3.Connection, record: NodeRecord) -> int:
        """The run that a record belongs to, knowing now what the record tells of the job."""
        key, certain, facts = record.job.key, record.job.restart_certain, facts_of(record)
        run = _run_of(record, runs_of_job(opened, key.cluster, key.job_id))
        if run is None:
            return create_run(
                opened,
                cluster=key.cluster,
                job_id=key.job_id,
                told=told_by(record),
                certain=certain,
                facts=facts,
                now_epoch_s=self._now(),
            )
        if certain == run.restart_certain:  # an epilog alone adds nothing to what a prolog said
            join_facts(opened, run.run_id, facts, self._node_names)
        return run.run_id


def _take_backfilled(opened: sqlite3.Connection, record: NodeRecord) -> set[int]:
    """Store what was made of stored samples, where nothing better is known; the runs to settle."""
    run_id = home_of(opened, record)
    if run_id is None:
        return set()
    present, stored = stored_quality(opened, run_id, record.node_name)
    rows = node_rows(run_id, record)
    if stored is not None and stored >= rows.quality:
        return set()
    if present:
        opened.execute(DELETE_NODE, (run_id, record.node_name))
    _insert_node(opened, rows)
    return {run_id}


def _run_of(record: NodeRecord, runs: list[StoredRun]) -> StoredRun | None:
    told = told_by(record)
    if record.job.restart_certain:
        return certain_run(told, runs)
    return epilog_run(told, runs) or uncertain_run(told, runs)


def _insert_node(opened: sqlite3.Connection, rows: NodeRows) -> None:
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
