"""Making and upgrading the database."""

import grp
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreError
from slurm_ofu.store import migrate as migrate_module
from slurm_ofu.store.migrate import hand_over, main, migrate
from slurm_ofu.store.schema import MIGRATIONS, SCHEMA_VERSION
from slurm_ofu.store.write import SqliteStore
from tests.store.accounting_rows import make_row
from tests.store.databases import Child, content, make_store, query
from tests.store.records import expand, make_job, make_record

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


def _a_group() -> grp.struct_group:
    return next(group for group in grp.getgrall() if group.gr_gid not in (0, os.getegid()))


def _mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@root_only
@pytest.mark.parametrize(
    ("world", "directory", "file"), [(False, "0o750", "0o640"), (True, "0o755", "0o644")]
)
def test_new_files_belong_to_the_group(tmp_path: Path, world: bool, directory: str, file: str) -> None:
    """Directory and database are the group's to read; the lock is the writers' alone."""
    path, group = tmp_path / "new" / "ofu.db", _a_group()
    migrate(path, group=group.gr_name, world_readable=world)
    assert (directory, file) == (_mode(path.parent), _mode(path))
    assert {group.gr_gid} == {path.parent.stat().st_gid, path.stat().st_gid}
    assert "0o600" == _mode(path.with_name("ofu.db.lock"))


def test_existing_files_keep_their_mode(tmp_path: Path) -> None:
    """What a site has set stays as it is."""
    path = tmp_path / "ofu.db"
    migrate(path)
    path.chmod(0o600)
    tmp_path.chmod(0o711)
    migrate(path, world_readable=True)
    assert ("0o711", "0o600") == (_mode(tmp_path), _mode(path))


def test_an_unknown_group_says_so(tmp_path: Path) -> None:
    """A group that does not exist raises StoreError and makes nothing."""
    with pytest.raises(StoreError, match="no-such-group"):
        migrate(tmp_path / "new" / "ofu.db", group="no-such-group")
    assert [] == list(tmp_path.iterdir())


def test_the_writer_passes_on_why_it_cannot_be_made(tmp_path: Path) -> None:
    """The child's message comes out of write()."""
    store = SqliteStore(
        *(tmp_path / "ofu.db",),
        group="no-such-group",
        world_readable=False,
        wait_seconds=20.0,
        expand_hostlist=expand,
    )
    with pytest.raises(StoreError, match=r"no-such-group.*does not exist"):
        store.write([make_record()])


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    """Neither writer nor migration touches a schema that they do not know, and both say so."""
    store = make_store(tmp_path / "ofu.db")
    query(store.path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreError, match="newer slurm-ofu"):
        store.write([make_record()])
    with pytest.raises(StoreError, match="newer slurm-ofu"):
        migrate(store.path)
    assert [] == content(store.path)["run"]


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """A wrong path does not fill somebody else's database with our tables."""
    path = tmp_path / "other.db"
    query(path, "CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="another program"):
        migrate(path)
    assert [("theirs",)] == query(path, "SELECT name FROM sqlite_master")


def test_an_interrupted_migration_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that fails is rolled back whole, and the next one starts afresh."""
    path = tmp_path / "ofu.db"
    broken = (("0001_runs", ("CREATE TABLE run (x)", "CREATE TABLE run (x)")),)
    monkeypatch.setattr(migrate_module, "MIGRATIONS", broken)
    with pytest.raises(StoreError):
        migrate(path)
    assert [] == query(path, "SELECT name FROM sqlite_master WHERE name = 'run'")
    monkeypatch.undo()
    migrate(path)
    assert [(SCHEMA_VERSION,)] == query(path, "PRAGMA user_version")


def test_a_later_migration_keeps_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upgrading adds to a filled database and makes the views anew."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record()])
    before = content(store.path)
    later = (*MIGRATIONS, ("9999_more", ("CREATE TABLE more (x INTEGER)",)))
    monkeypatch.setattr(migrate_module, "MIGRATIONS", later)
    monkeypatch.setattr(migrate_module, "SCHEMA_VERSION", len(later))
    migrate(store.path)
    assert before == content(store.path)
    assert [(len(later),)] == query(store.path, "PRAGMA user_version")
    assert [(42,)] == query(store.path, "SELECT job_id FROM run_sums")


OLD = (Path(__file__).parent / "data" / "schema-1.sql").read_text()
OLD_TABLES = ("run", "run_node", "run_gpu", "gpu_timeline", "quarter_hour")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database as version 0.1.0 left it."""
    path = tmp_path / "ofu.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(OLD)
    return path


def _old_columns(path: Path) -> dict[str, str]:
    return {table: ", ".join(_columns_of(path, table)) for table in OLD_TABLES}


def _columns_of(path: Path, table: str) -> list[str]:
    return [str(row[1]) for row in query(path, f"PRAGMA table_info({table})")]


def test_a_database_of_schema_1_loses_nothing(old: Path) -> None:
    """Every column of every row is as it was, and what the nodes told is kept apart."""
    columns = _old_columns(old)
    before = {table: query(old, f"SELECT {names} FROM {table}") for table, names in columns.items()}
    assert [4, 6, 6, 4, 2] == [len(rows) for rows in before.values()]
    summed = ", ".join(_columns_of(old, "run_sums"))
    sums = query(old, f"SELECT {summed} FROM run_sums ORDER BY run_id")
    migrate(old)
    assert before == {table: query(old, f"SELECT {names} FROM {table}") for table, names in columns.items()}
    assert sums == query(old, f"SELECT {summed} FROM run_sums ORDER BY run_id")
    told = "run_id, start_epoch_s, end_epoch_s, sluid, user_name, uid, node_list, exit_code"
    assert query(old, f"SELECT {told} FROM run") == query(old, f"SELECT {told} FROM run_told")
    assert [(1, 0, 4)] == query(old, "SELECT MIN(heard), MAX(accounted), COUNT(*) FROM run")
    assert [] == query(old, "PRAGMA foreign_key_check")


def test_a_writer_goes_on_where_schema_1_ended(old: Path) -> None:
    """A node that was silent speaks up, and accounting completes the run: it is the same run."""
    store = make_store(old, made=False)
    job = make_job(node_list="n[1-3]", node_count=3, sluid="s1")
    store.write([make_record(job, node="n3", allocated=3500.0)])
    store.take_accounting([make_row(node_list="n[1-3]", sluid="s1")])
    assert [(1, "train", 1), (2, None, 0), (3, None, 0), (4, None, 0)] == query(
        old, "SELECT run_id, job_name, accounted FROM run ORDER BY 1"
    )
    assert [("n1", 0), ("n2", 0), ("n3", 0)] == query(
        old, "SELECT node_name, gpu_count_assumed FROM run_node WHERE run_id = 1 ORDER BY 1"
    )


def test_a_database_of_schema_1_made_anew_is_the_same(old: Path, tmp_path: Path) -> None:
    """An upgraded database has the tables and columns of a new one."""
    migrate(old)
    new = make_store(tmp_path / "new.db").path
    everything = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE '%sqlite%' ORDER BY 2"
    assert query(new, everything) == query(old, everything)


def test_twelve_first_migrations_at_once(tmp_path: Path) -> None:
    """Twelve writers that all find no database: one schema, twelve runs, no error."""
    path = tmp_path / "new" / "ofu.db"

    def write(job_id: int) -> None:
        make_store(path, made=False).write([make_record(make_job(job_id=job_id))])

    children = [Child(lambda job_id=job_id: write(job_id)) for job_id in range(1, 13)]  # type: ignore[misc]
    for child in children:
        child.answer()
    assert 12 == len(content(path)["run"])
    assert [(len(MIGRATIONS),)] == query(path, "SELECT COUNT(*) FROM _sqlite_migrations")


def test_the_journal_is_a_rollback_journal_again(tmp_path: Path) -> None:
    """A database that somebody switched to WAL is switched back when it is upgraded."""
    path = tmp_path / "ofu.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
    migrate(path)
    assert [("delete",)] == query(path, "PRAGMA journal_mode")


def test_the_command_line_makes_a_database(tmp_path: Path) -> None:
    """``python -m slurm_ofu.store.migrate PATH`` creates it; a failure is one line and status 1."""
    command = [sys.executable, "-m", "slurm_ofu.store.migrate", str(tmp_path / "ofu.db")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert [(SCHEMA_VERSION,)] == query(tmp_path / "ofu.db", "PRAGMA user_version")


def test_the_command_line_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure is one line on stderr and status 1."""
    assert 1 == main([str(tmp_path / "ofu.db"), "--group", "no-such-group"])
    assert capsys.readouterr().err.startswith("error: group 'no-such-group' does not exist")


def test_a_directory_with_other_files_stays_as_it_is(tmp_path: Path) -> None:
    """A database below /tmp, or in a site's own directory, closes that to nobody and gives it to nobody."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "theirs").touch()
    path = shared / "ofu.db"
    migrate(path)
    hand_over(path, group=None, world_readable=False)
    assert (0o1777, 0o600) == (stat.S_IMODE(shared.stat().st_mode), stat.S_IMODE(path.stat().st_mode))
    with pytest.raises(StoreError, match="a directory of its own"):
        hand_over(path, group=None, world_readable=False, owner_id=65534)
    (shared / "theirs").unlink()
    hand_over(path, group=None, world_readable=False)
    assert 0o700 == stat.S_IMODE(shared.stat().st_mode)
