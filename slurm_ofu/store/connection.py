"""Opening the accounting database file, and SQLite's errors as ours."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from slurm_ofu.errors import StoreBusy, StoreError, StoreMissing


@contextmanager
def connection(path: Path, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
    """An open database in autocommit mode. Never creates one: raises StoreMissing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreMissing(f"{path}: there is no accounting database (yet)") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; the database's group may read it") from error
    with closing(
        sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None)
    ) as opened:
        yield opened


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as StoreBusy and StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise StoreBusy(f"{path}: locked by somebody else for longer than we wait ({error})") from error
        raise StoreError(f"{path}: {error}") from error


def wait_until(opened: sqlite3.Connection, deadline: float) -> None:
    """Let the next statement wait for locks up to ``deadline`` (by ``time.monotonic``)."""
    left_ms = max(0, round(1000 * (deadline - time.monotonic())))
    opened.execute(f"PRAGMA busy_timeout = {left_ms}")


def user_version(opened: sqlite3.Connection) -> int:
    """How many migrations a database has seen."""
    return int(opened.execute("PRAGMA user_version").fetchone()[0])


def dicts(opened: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows of a query, by the names of its columns."""
    return list(each_dict(opened, sql, parameters))


def each_dict(opened: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The same, one by one."""
    cursor = opened.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)
