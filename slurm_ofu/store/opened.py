"""The accounting database opened to be changed, by those who do more than add records to it."""

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from slurm_ofu.errors import StoreError, StoreMissing
from slurm_ofu.store.connection import connection, translated, user_version, wait_until
from slurm_ofu.store.lock import writers_lock
from slurm_ofu.store.schema import SCHEMA_VERSION


@contextmanager
def opened_at(path: Path, wait_seconds: float) -> Iterator[sqlite3.Connection]:
    """The database, of this version; opened for writing, since a dead writer's journal may lie there.

    Raises StoreMissing, StoreBusy and StoreError.
    """
    deadline = time.monotonic() + wait_seconds
    with translated(path), connection(path, "rw") as opened:
        wait_until(opened, deadline)
        version = user_version(opened)
        if version != SCHEMA_VERSION:
            known = f"has schema {version}, this slurm-ofu knows {SCHEMA_VERSION}"
            raise StoreError(f"{path}: {known}: run ofu-admin init")
        yield opened


@contextmanager
def transaction_at(path: Path, wait_seconds: float) -> Iterator[sqlite3.Connection]:
    """A transaction on it, under the writers' lock: all of it or, when it raises, nothing."""
    with writers_lock(path, time.monotonic() + wait_seconds), opened_at(path, wait_seconds) as opened:
        opened.execute("BEGIN IMMEDIATE")
        try:
            yield opened
            opened.execute("COMMIT")
        except BaseException:
            if opened.in_transaction:
                opened.execute("ROLLBACK")
            raise


@contextmanager
def trial_copy(path: Path, wait_seconds: float) -> Iterator[Path]:
    """A private copy of the database, to try something on; of a database that is not there yet a path where
    there is none either. Raises StoreBusy and StoreError."""
    with tempfile.TemporaryDirectory(prefix="slurm-ofu-") as directory:
        copy = Path(directory) / path.name
        with suppress(StoreMissing), translated(path), connection(path, "rw") as opened:
            wait_until(opened, time.monotonic() + wait_seconds)
            with closing(sqlite3.connect(copy)) as target:
                opened.backup(target)
        yield copy
