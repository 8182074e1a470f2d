"""What the schema lets in, and what it promises to others."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from sqlite_utils import Database

from slurm_ofu.store import (
    accounting,
    backfilled,
    backfilling,
    bands,
    charged,
    nodes,
    queries,
    ranking,
    recomputing,
    reconciling,
    rows,
    runs,
    schema,
    selection,
    settle,
    views,
    waiting,
    warned,
    written_back,
)
from slurm_ofu.store.columns import COLUMNS, RELATIONS
from slurm_ofu.store.describe import schema_page
from slurm_ofu.store.ranking import goal_by_partition
from slurm_ofu.store.schema import CREATE_VIEWS, MIGRATIONS
from slurm_ofu.store.selection import GROUPS, PART_GROUPS
from slurm_ofu.store.views import SIDE_SUMS
from slurm_ofu.values import Estimator, Goals, Reason
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store, query
from tests.store.records import START, make_gpu, make_job, make_quarter, make_record

PARTS = ("run", "run_told", "run_node", "run_gpu", "gpu_timeline", "quarter_hour", "write_back")
TABLES = (*PARTS, "accounting_row", "accounting_progress")
WRITE_BACK = "INSERT INTO write_back (run_id, status, attempts, updated_epoch_s) VALUES (1, 'failed', 1, 0.0)"
BAD: dict[str, list[object]] = {
    "TEXT": [b"bytes"],
    "INTEGER": ["many", 1.5, b"1", float("inf"), -(2**62)],
    "REAL": ["much", b"1", float("inf"), float("-inf")],
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a database with a row in every table."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(node_list="n[1-2]"), quarters=[make_quarter()])])
    store.take_accounting([make_row()])
    store.set_read_until("alpha", START)
    with closing(sqlite3.connect(store.path)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        opened.execute(WRITE_BACK)
        yield opened


@pytest.mark.parametrize("table", TABLES)
def test_every_column_refuses_what_is_not_its_type(database: sqlite3.Connection, table: str) -> None:
    """CHECKs hold types and ranges on every SQLite, infinities and NaN included."""
    for _, column, kind, not_null, _, key in database.execute(f"PRAGMA table_info({table})").fetchall():
        values = BAD[kind][:4] if column == "run_id" else BAD[kind]
        nothing: list[object] = [None, float("nan")] if not_null and not key else []
        for value in [*values, *nothing]:
            with pytest.raises(sqlite3.IntegrityError):
                database.execute(f"UPDATE {table} SET {column} = ?", (value,))
                pytest.fail(f"{table}.{column} took {value!r}")


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("run_node", "reason", get_args(Reason)),
        ("run_gpu", "reason", get_args(Reason)),
        ("run_gpu", "estimator", get_args(Estimator)),
    ],
)
def test_reasons_and_estimators_are_closed_lists(
    database: sqlite3.Connection, table: str, column: str, words: tuple[str, ...]
) -> None:
    """Each word of values.py is taken, no other."""
    for word in words:
        database.execute(f"UPDATE {table} SET {column} = ?", (word,))
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(f"UPDATE {table} SET {column} = 'whatever'")


def test_deleting_a_run_leaves_nothing_of_it(database: sqlite3.Connection) -> None:
    """Foreign keys cascade from the run to all of its rows; Slurm's own stay, and belong to none."""
    database.execute("DELETE FROM run")
    assert [0] * 7 == [database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in PARTS]
    assert [(None,)] == database.execute("SELECT run_id FROM accounting_row").fetchall()


def test_views_hold_sums_only(tmp_path: Path) -> None:
    """Twice the seconds of everything is twice every sum: no view holds a ratio."""
    store = make_store(tmp_path / "ofu.db")
    sides: dict[str, Any] = dict.fromkeys(SIDE_SUMS, 7.0)
    once = replace(
        make_gpu(allocated=1000.0, covered=500.0, tensor_ref=100.0, error=1.0, degrees=None),
        **sides,
    )
    store.write([make_record(make_job(job_id=1), allocated=1000.0, gpus=[once])])
    store.write([make_record(make_job(job_id=2), allocated=1000.0, gpus=[once, replace(once, position=1)])])
    store.take_accounting([make_row(job_id=1, suspended=50), make_row(job_id=2, suspended=50, gpu_count=2)])
    with closing(sqlite3.connect(store.path)) as opened:
        cursor = opened.execute("SELECT * FROM run_sums ORDER BY job_id")
        names = [column[0] for column in cursor.description]
        one, two = cursor.fetchall()
    for name, single, double in zip(names, one, two, strict=True):
        if name.endswith(("_seconds", "_joules", "gpu_count")):
            assert (name, 2 * single) == (name, double)
        assert not name.endswith("_ratio")


def test_every_relation_and_column_is_described() -> None:
    """columns.py describes each table, view and column, and nothing else."""
    with closing(sqlite3.connect(":memory:")) as opened:
        for statement in _definitions():
            opened.execute(statement)
        named = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        relations = [name for (name,) in opened.execute(named).fetchall()]
        described = {
            name: {row[1] for row in opened.execute(f"PRAGMA table_info({name})")} for name in relations
        }
    assert described == {name: set(columns) for name, columns in COLUMNS.items()}
    assert set(described) == set(RELATIONS)


def test_the_schema_page_is_up_to_date() -> None:
    """docs/schema.md is what ``python -m slurm_ofu.store.describe`` prints."""
    page = Path(__file__).parents[2] / "docs" / "schema.md"
    assert schema_page() == page.read_text(encoding="utf-8")


def test_sqlite_utils_opens_it_as_it_is(tmp_path: Path) -> None:
    """Tables, views and foreign keys are visible to sqlite-utils without any help."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record()])
    database = Database(store.path, execute_plugins=False)
    assert set(TABLES) < set(database.table_names())
    assert {"run_sums"} < set(database.view_names())
    assert [42] == [row["job_id"] for row in database.query("SELECT job_id FROM run_sums")]
    assert {"run"} == {key.other_table for key in database.table("run_node").foreign_keys}
    database.close()


def test_reports_find_their_runs_by_index(tmp_path: Path) -> None:
    """A report's queries never scan the GPUs of runs that were not asked for."""
    store = make_store(tmp_path / "ofu.db")
    sql = queries.usage_query("user_name", "end_epoch_s >= 5 AND user_name IN ('ada')", "0.4")
    plan = [row[3] for row in query(store.path, f"EXPLAIN QUERY PLAN {sql}")]
    assert [] == [step for step in plan if re.search(r"SCAN (TABLE )?run", step)]


# --------------------------------------------------------------- SQLite 3.34


HOLDING = (
    *(accounting, backfilled, backfilling, nodes, queries, recomputing, rows, runs, settle),
    *(bands, waiting, warned, written_back),
)


def _definitions() -> list[str]:
    return [text for _, texts in MIGRATIONS for text in texts] + list(CREATE_VIEWS)


def _constants(module: ModuleType) -> list[str]:
    words = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ")
    found = [value for value in vars(module).values() if isinstance(value, str)]
    return [text for text in found if text.strip().startswith(words) and "{" not in text]


def _statements() -> list[str]:
    constants = [text for module in HOLDING for text in _constants(module)]
    goal = goal_by_partition(Goals(by_partition={"long": 0.2}))[0]
    groups = (*GROUPS.values(), *PART_GROUPS.values())
    by_group = [queries.usage_query(group, "1", goal) for group in GROUPS.values()]
    by_group += [queries.parts_usage_query(group, "1", goal) for group in PART_GROUPS.values()]
    by_group += [queries.parts_query(group, "1", goal) for group in groups]
    by_group += [queries.labels_query(group, "1") for group in groups]
    asked = [make("1") for make in reconciling.QUERIES]
    of_runs = [queries.runs_query("1"), queries.spans_query("1"), queries.run_ids_query("1")]
    return [*constants, *by_group, *asked, *of_runs, queries.gpus_query(2)]


def test_no_sql_is_newer_than_sqlite_3_34() -> None:
    """EL9 has 3.34: no STRICT, RETURNING, MATERIALIZED, JSON operators, and only old functions."""
    used: set[str] = set()

    def note(action: int, _one: str | None, two: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION and two is not None:
            used.add(two.lower())
        return sqlite3.SQLITE_OK

    with closing(sqlite3.connect(":memory:")) as opened:
        for statement in _definitions():
            opened.execute(statement)
        opened.set_authorizer(note)
        statements = _statements()
        assert len(statements) > 25
        for statement in [*statements, "SELECT * FROM run_sums"]:
            names = set(re.findall(r":\w+", statement))
            count = statement.count("?")
            opened.execute(f"EXPLAIN {statement}", {n[1:]: 1 for n in names} if names else (1,) * count)
    assert {"sum", "count", "min", "max", "avg", "coalesce", "nullif", "typeof", "instr", "char"} >= used
    newer = re.compile(r"\b(STRICT|RETURNING|MATERIALIZED|DISTINCT FROM|DROP COLUMN)\b|->")
    assert [] == [text for text in [*_definitions(), *_statements()] if newer.search(text)]


def test_sql_is_complete_in_these_modules() -> None:
    """The modules looked through above are all that hold SQL."""
    room = Path(schema.__file__).parent
    holding = {path.stem for path in room.glob("*.py") if re.search(r"\b(FROM|INTO) \w", path.read_text())}
    known = {
        module.__name__.rpartition(".")[2]
        for module in (*HOLDING, charged, ranking, reconciling, schema, selection, views)
    }
    assert holding <= known | {"migrate"}
