"""Create the accounting database, or bring its schema up to date.

    python -I -m slurm_ofu.store.migrate [--group NAME] [--world-readable] PATH

Runs under the writers' lock, hence any number of times at once. Exit status: 0, 1 where it cannot be
done, 75 where trying again later may help.

"""

import argparse
import grp
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database, Migrations

from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.bands import keep_all_bands
from slurm_ofu.store.connection import connection, translated, user_version, wait_until
from slurm_ofu.store.lock import lock_path, writers_lock
from slurm_ofu.store.schema import (
    APPLICATION_ID,
    CREATE_VIEWS,
    DROP_VIEWS,
    EXIT_BUSY,
    MIGRATIONS,
    SCHEMA_VERSION,
)

#: A larger database is not read from end to end: that would hold up its writers.
SMALL_BYTES = 1 << 30
#: The schema from which on table run_band is kept; what an older database holds is counted at its upgrade.
BANDS_SINCE = 4


def migrate(
    path: Path, *, group: str | None = None, world_readable: bool = False, wait_seconds: float = 30.0
) -> None:
    """Make the database at ``path`` what this version needs; create it where it is missing.

    New files and a new directory belong to ``group`` and are readable by it. What exists keeps its
    owner and mode.
    """
    deadline = time.monotonic() + wait_seconds
    group_id = None if group is None else _group_id(group)
    _make_directory(path.parent, group_id, world_readable)
    with writers_lock(path, deadline):
        _make_file(path, group_id, world_readable)
        with translated(path), connection(path, "rw") as opened:
            wait_until(opened, deadline)
            _refuse_strangers(path, opened)
            if user_version(opened) < SCHEMA_VERSION:
                _apply(opened)


def _apply(opened: sqlite3.Connection) -> None:
    opened.execute("PRAGMA journal_mode = DELETE")
    opened.execute("PRAGMA synchronous = FULL")
    opened.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    before = user_version(opened)
    _migrations(before).apply(Database(opened, execute_plugins=False))


def _migrations(before: int) -> Migrations:
    migrations = Migrations("slurm-ofu")
    for version, (name, statements) in enumerate(MIGRATIONS, start=1):
        last = version == SCHEMA_VERSION
        recorded = f"PRAGMA user_version = {version}"
        every = (*DROP_VIEWS, *statements, *(CREATE_VIEWS if last else ()), recorded)
        _register(migrations, name, every, bands=last and before < BANDS_SINCE)
    return migrations


def _register(migrations: Migrations, name: str, statements: Sequence[str], *, bands: bool) -> None:
    @migrations(name=name)
    def _migration(database: Database, /) -> None:
        for statement in statements:
            database.conn.execute(statement)
        if bands:  # within the transaction, and after the views that they are made from
            keep_all_bands(database.conn)


def _refuse_strangers(path: Path, opened: sqlite3.Connection) -> None:
    """Raise StoreError for a database of a newer slurm-ofu or of another program."""
    version = user_version(opened)
    tables = opened.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    ours = opened.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if tables and not ours:
        raise StoreError(f"{path}: a database of another program; choose another path")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: made by a newer slurm-ofu (schema {version}; this one knows {SCHEMA_VERSION}):"
            " upgrade slurm-ofu on this host"
        )


def condition(path: Path, *, wait_seconds: float = 5.0) -> str:
    """What there is to say about an existing database; nothing is changed. Raises StoreError where it
    cannot be used, StoreBusy where somebody else holds it."""
    if not path.is_file():
        raise StoreError(f"{path}: is not a file")
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path}: Permission denied: run as root")
    if path.with_name(f"{path.name}-journal").exists():
        return f"{path}: a writer is at work or died, which the next one mends"
    with translated(path), connection(path, "ro") as opened:
        wait_until(opened, time.monotonic() + wait_seconds)
        _refuse_strangers(path, opened)
        if path.stat().st_size <= SMALL_BYTES:
            _refuse_corrupted(path, opened)
        version = user_version(opened)
    return f"{path}: schema {version}" + ("" if version == SCHEMA_VERSION else ", old: run ofu-admin init")


def _refuse_corrupted(path: Path, opened: sqlite3.Connection) -> None:
    said = str(opened.execute("PRAGMA quick_check(1)").fetchone()[0])
    if said != "ok":
        raise StoreError(f"{path}: is damaged: {' '.join(said.split())}; restore it from a backup")


def _make_directory(path: Path, group_id: int | None, world_readable: bool) -> None:
    if path.is_dir():
        return
    try:
        for parent in reversed([parent for parent in path.parents if not parent.exists()]):
            _make_way(parent)
        path.mkdir(mode=0o700)
        _hand_over(path, group_id, _mode(0o755, 0o750, group_id, world_readable))
    except FileExistsError:
        return  # somebody else made it meanwhile
    except OSError as error:
        raise StoreError(f"{path}: cannot make the directory: {error.strerror}") from error


def _make_way(directory: Path) -> None:
    """A directory on the way, which everybody may pass whatever the umask is."""
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        return  # somebody else made it meanwhile
    directory.chmod(0o755)


def _make_file(path: Path, group_id: int | None, world_readable: bool) -> None:
    """An empty file with its final owner and mode, which SQLite's journal inherits."""
    try:
        if not path.exists() or path.stat().st_size == 0:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            _hand_over(path, group_id, _mode(0o644, 0o640, group_id, world_readable))
    except OSError as error:
        raise StoreError(f"{path}: cannot make the file: {error.strerror}") from error


def hand_over(path: Path, *, group: str | None, world_readable: bool, owner_id: int | None = None) -> None:
    """Give an existing database the group and mode that a new one gets, and an owner; its directory, too,
    where that holds nothing else: /tmp, or a directory of a site's, stays as it is. Raises StoreError where
    such a one would have to be its owner's, who makes files in it."""
    group_id = None if group is None else _group_id(group)
    shared = is_shared(path)
    if shared and owner_id is not None and path.parent.stat().st_uid != owner_id:
        raise StoreError(
            f"{path.parent}: holds other files too, and the database's owner must own its directory: set"
            " [database] url to a directory of its own, or give this one to the owner yourself (chown)"
        )
    try:
        if not shared:
            _hand_over(path.parent, group_id, _mode(0o755, 0o750, group_id, world_readable))
        with _itself(path) as handle:
            os.fchown(handle, -1, -1 if group_id is None else group_id)
            os.fchmod(handle, _mode(0o644, 0o640, group_id, world_readable))
        if owner_id is not None:
            if not shared:
                os.chown(path.parent, owner_id, -1)
            for owned in (path, lock_path(path)):
                with _itself(owned) as handle:
                    os.fchown(handle, owner_id, -1)
    except OSError as error:
        raise StoreError(f"{path}: cannot be given to its readers: {error.strerror}") from error


def is_shared(path: Path) -> bool:
    """Whether the directory of a database holds files that are not slurm-ofu's."""
    ours = (path.name, lock_path(path).name, "inbox")
    return any(not other.name.startswith(ours) for other in path.parent.iterdir())


def _mode(everybody: int, its_group: int, group_id: int | None, world_readable: bool) -> int:
    """What is nobody's but the owner's is not of the owner's group either."""
    return everybody if world_readable else its_group if group_id is not None else its_group & 0o700


def _hand_over(path: Path, group_id: int | None, mode: int) -> None:
    if group_id is not None:
        os.chown(path, -1, group_id)
    path.chmod(mode)


@contextmanager
def _itself(path: Path) -> Iterator[int]:
    """A file and nothing that a link leads to: its directory may be a service user's, who could have root
    give away any file of the host."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise StoreError(
            f"group {name!r} does not exist: groupadd --system {name}, or set [database] group"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="slurm_ofu.store.migrate", description=description)
    parser.add_argument("path", type=Path, metavar="PATH")
    parser.add_argument("--group", help="the group that may read the database")
    parser.add_argument("--world-readable", action="store_true", help="let everybody read it")
    parser.add_argument("--wait", type=float, default=30.0, help="seconds to wait for other writers")
    chosen = parser.parse_args(arguments)
    try:
        migrate(
            chosen.path, group=chosen.group, world_readable=chosen.world_readable, wait_seconds=chosen.wait
        )
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BUSY if isinstance(error, StoreBusy) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
