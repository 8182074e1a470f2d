"""A database that version 0.2.0 left: what becomes of its rows, and what is said of them from then on."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slurm_ofu.figures import figures
from slurm_ofu.records.build import reason_of_many
from slurm_ofu.reports.wording import ofu
from slurm_ofu.store.migrate import migrate
from slurm_ofu.store.recomputing import Recomputation
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.store.written_back import Window, WriteBackQueue
from slurm_ofu.values import Figures, GpuModel
from tests.store.databases import make_store, query, rows
from tests.store.records import START

OLD = (Path(__file__).parent / "data" / "schema-2.sql").read_text()
TABLES = (
    "run",
    "run_told",
    "run_node",
    "run_gpu",
    "gpu_timeline",
    "quarter_hour",
    "accounting_row",
    "write_back",
)
MODELS = {
    name: GpuModel(name=name, sm_count=1, reference_clock_mhz=clock, max_clock_mhz=1980.0)
    for name, clock in (("NVIDIA H100 80GB HBM3", 1830.0), ("NVIDIA H20", 1853.0))
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Jobs 1 to 5 as nodes told them, 6 that none spoke of: a suspect GPU in 1, an unknown model in 2, FP64
    in 3, another reference clock in 4, a silent node in 5."""
    path = tmp_path / "ofu.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(OLD)
    return path


def upgraded(path: Path) -> SqliteStore:
    """By the first who writes."""
    store = make_store(path, made=False)
    store.read_until("alpha")
    return store


def jobs(store: SqliteStore) -> dict[str, Figures]:
    """The figures of each."""
    return {str(row.group): figures(row.sums) for row in rows(store)}


def test_it_loses_nothing(old: Path) -> None:
    """Every column of every row is as it was; what 0.2 did not know is not known, and never 0."""
    columns = {
        table: ", ".join(str(row[1]) for row in query(old, f"PRAGMA table_info({table})")) for table in TABLES
    }
    before = {table: query(old, f"SELECT {names} FROM {table}") for table, names in columns.items()}
    migrate(old)
    assert before == {table: query(old, f"SELECT {names} FROM {table}") for table, names in columns.items()}
    added = ("idle_seconds", "idle_tail_seconds", "non_tensor_seconds", "peak_tensor_ref_seconds")
    unknown = " OR ".join(f"{name} IS NOT NULL" for name in (*added, "source", "tensor_megacycles"))
    assert [(0,)] == query(old, f"SELECT COUNT(*) FROM run_gpu WHERE {unknown}")
    assert [(1.0, 0.0)] == query(old, "SELECT DISTINCT sm_share_ratio, idle_covered_seconds FROM run_gpu")
    assert [] == query(old, "PRAGMA foreign_key_check")


def test_it_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    """Whether made by 0.2 or now."""
    migrate(old)
    new = make_store(tmp_path / "new.db").path
    everything = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE '%sqlite%' ORDER BY 2"
    assert query(new, everything) == query(old, everything)


def test_what_is_said_of_its_jobs(old: Path) -> None:
    """Nobody is idle for want of minutes, and what a suspect GPU said is left out from now on."""
    said = {job: ofu(its).strip() for job, its in jobs(upgraded(old)).items()}
    assert {
        "1": "20.0 % ±0.2 (suspect)",
        "2": "n/a (unknown_model)",
        "3": "0.0 % ±0.2 (no tensor work)",
        "4": "20.0 % ±0.2",
        "5": "20.0 % ±0.2 (not_delivered)",
        "6": "n/a (not_delivered)",
    } == said


def test_its_figures_are_recomputed(old: Path) -> None:
    """Those with a clock; those without one kept no cycles, which is said as often as it is asked."""
    store = upgraded(old)
    its = Recomputation(old, wait_seconds=5.0, model_of=MODELS.get, node_reason=reason_of_many)
    for _ in range(2):
        for outdated in its.outdated():
            assert [1] == list(its.recompute(outdated, START + 9e6)) or outdated.gpu_model == "NVIDIA H20"
        assert [("NVIDIA H20", None, 1)] == [
            (left.gpu_model, left.old_clock_mhz, left.lost_count) for left in its.outdated()
        ]
    found = jobs(store)
    assert found["4"].ofu_ratio == pytest.approx(0.2 * 1980 / 1830)
    assert found["1"].ofu_ratio == pytest.approx(0.2)
    assert None is found["2"].ofu_ratio


def test_what_was_written_back_is_due_again(old: Path) -> None:
    """Once its clock was corrected."""
    store = upgraded(old)
    window = Window(now_epoch_s=START + 9e6, ended_from_epoch_s=0.0, ended_by_epoch_s=START + 8e6)
    queue = WriteBackQueue(store.path, wait_seconds=5.0)
    assert {3} == {run.job_id for run in queue.due(window, 10)}
    clock = GpuModel(
        name="NVIDIA H100 80GB HBM3", sm_count=132, reference_clock_mhz=1900.0, max_clock_mhz=None
    )
    its = Recomputation(
        old,
        wait_seconds=5.0,
        model_of=lambda name: clock if name == clock.name else None,
        node_reason=reason_of_many,
    )
    for outdated in its.outdated():
        list(its.recompute(outdated, START + 9e6))
    assert {1, 3} == {run.job_id for run in queue.due(window, 10)}
