"""Counts per band are kept as runs come, change and go: they are always those of the runs there are."""

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.figures.percentiles import PERCENTILE_DAYS, percent_band
from slurm_ofu.records.build import reason_of_many
from slurm_ofu.store.bands import counts, day_of, keep_bands
from slurm_ofu.store.migrate import migrate
from slurm_ofu.store.read import Reader
from slurm_ofu.store.recomputing import Recomputation
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingRow, BandCount, GpuModel, NodeRecord, Percentile, Selection
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store, query
from tests.store.records import START, make_gpu, make_job, make_record, make_unstarted

DAY = 86400
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
BANDS = "SELECT run_id, gpu_model, day, band, gpu_seconds FROM run_band ORDER BY run_id"
COUNTS = "SELECT gpu_model, day, band, run_count, gpu_seconds FROM band_count ORDER BY gpu_model, day, band"


class Heard(NamedTuple):
    """A node's record; short, since hypothesis prints it."""

    job_id: int
    restart_count: int
    node: str
    model: str
    tensor_ref: float
    covered: float
    unstarted: bool
    backfilled: bool
    node_list: str

    def record(self) -> NodeRecord:
        """As a record."""
        job = make_job(job_id=self.job_id, restart_count=self.restart_count, node_list="n[1-2]", node_count=2)
        start = START + self.job_id * DAY + self.restart_count * 5000
        if self.unstarted:
            return make_unstarted(job, node=self.node, end=start + 3600)
        gpu = make_gpu(covered=self.covered, tensor_ref=self.tensor_ref, model=self.model)
        made = make_record(job, node=self.node, start=start, end=start + 3600, gpus=[gpu])
        return replace(made, backfilled=self.backfilled)


class Read(NamedTuple):
    """A row of Slurm's accounting."""

    job_id: int
    restart_count: int
    elapsed: int
    suspended: int
    node_list: str

    def row(self) -> AccountingRow:
        """As a row."""
        start = int(START) + self.job_id * DAY + self.restart_count * 5000
        return make_row(
            job_id=self.job_id,
            start=start,
            end=start + self.elapsed + self.suspended,
            suspended=self.suspended,
            restart_count=self.restart_count,
            node_list=self.node_list,
            node_count=2,
            gpu_count=1 if self.node_list == "n1" else 2,
        )


class Corrected(NamedTuple):
    """Another reference clock of every GPU model."""

    clock_mhz: float


class Deleted(NamedTuple):
    """The runs of a job are taken out."""

    job_id: int


JOB_IDS = st.integers(1, 2)
NODE_LISTS = st.sampled_from(["n1", "n1", "n[1-2]"])
STEPS = st.lists(
    st.builds(
        Heard,
        job_id=JOB_IDS,
        restart_count=st.sampled_from([0, 0, 0, 1]),
        node=st.sampled_from(["n1", "n1", "n2"]),
        model=st.sampled_from([H100, H100, A100]),
        tensor_ref=st.sampled_from([1300.0, 400.0, 0.0]),
        covered=st.sampled_from([3400.0, 3500.0, 3600.0, 100.0]),
        unstarted=st.sampled_from([False, False, False, True]),
        backfilled=st.sampled_from([False, False, False, True]),
        node_list=NODE_LISTS,
    )
    | st.builds(
        Read,
        job_id=JOB_IDS,
        restart_count=st.sampled_from([0, 0, 0, 1]),
        elapsed=st.sampled_from([1000, 3600, 4000]),
        suspended=st.sampled_from([0, 500]),
        node_list=NODE_LISTS,
    )
    | st.builds(Corrected, clock_mhz=st.sampled_from([1200.0, 1500.0, 1830.0]))
    | st.builds(Deleted, job_id=JOB_IDS),
    min_size=2,
    max_size=10,
)


def _do(store: SqliteStore, step: Heard | Read | Corrected | Deleted) -> None:
    if isinstance(step, Heard):
        store.write([step.record()])
    elif isinstance(step, Read):
        store.take_accounting([step.row()])
    elif isinstance(step, Corrected):
        _recompute(store.path, step.clock_mhz)
    else:
        with closing(sqlite3.connect(store.path)) as opened, opened:
            opened.execute("PRAGMA foreign_keys = ON")
            opened.execute("DELETE FROM accounting_row WHERE job_id = ?", (step.job_id,))
            opened.execute("DELETE FROM run WHERE job_id = ?", (step.job_id,))


def _recompute(path: Path, clock_mhz: float) -> None:
    def model(name: str) -> GpuModel:
        return GpuModel(name=name, sm_count=1, reference_clock_mhz=clock_mhz, max_clock_mhz=2000.0)

    again = Recomputation(path, wait_seconds=10.0, model_of=model, node_reason=reason_of_many)
    for rows in again.outdated():
        list(again.recompute(rows, 0.0))


def _from_scratch(path: Path) -> list[tuple[Any, ...]]:
    """What table run_band should hold, by what a report reads of each run."""
    expected = []
    for row in Reader(path).jobs(Selection()):
        band = percent_band(row.sums)
        if row.run is not None and not row.run.running and band is not None:
            day = int(row.run.end_epoch_s or 0) // DAY
            seconds = round(row.sums.allocated_seconds or 0)
            expected.append((row.run.run_id, row.sums.gpu_models[0], day, band, seconds))
    return sorted(expected)


def _counted(bands: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    found: dict[tuple[Any, ...], list[int]] = {}
    for _, *key, seconds in bands:
        count = found.setdefault(tuple(key), [0, 0])
        count[0], count[1] = count[0] + 1, count[1] + seconds
    return sorted((*key, *count) for key, count in found.items())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty database."""
    path = tmp_path_factory.mktemp("template") / "ofu.db"
    make_store(path)
    return path.read_bytes()


@pytest.mark.property
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_they_are_those_of_the_runs(
    steps: list[Heard | Read | Corrected | Deleted], template: bytes
) -> None:
    """After writing, overwriting, accounting, backfilling, recomputing and deleting: as made from scratch."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ofu.db"
        path.write_bytes(template)
        store = make_store(path, made=False)
        for step in steps:
            _do(store, step)
            bands = query(path, BANDS)
            assert _from_scratch(path) == bands
            assert _counted(bands) == query(path, COUNTS)


def test_a_better_record_moves_a_run(tmp_path: Path) -> None:
    """Where more of a run comes to be known, its old place is given up."""
    store = make_store(tmp_path / "ofu.db")
    for covered in (3000.0, 3600.0):
        store.write([make_record(gpus=[make_gpu(covered=covered, tensor_ref=900.0)])])
    assert [(25, 1)] == query(store.path, "SELECT band, run_count FROM band_count")


def test_a_corrected_clock_moves_a_run(tmp_path: Path) -> None:
    """A row that is put on another reference clock is counted where its OFU is then."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(gpus=[make_gpu(covered=3600.0, tensor_ref=900.0)])])
    _recompute(store.path, 915.0)
    assert [(50, 1)] == query(store.path, "SELECT band, run_count FROM band_count")


def test_a_run_that_goes_on_stands_among_none(tmp_path: Path) -> None:
    """Figures so far are not compared to those of whole runs, nor whole runs to them."""
    store = make_store(tmp_path / "ofu.db")
    _write_some(store, 30)
    with closing(sqlite3.connect(store.path)) as opened, opened:
        opened.execute("UPDATE run SET running = 1 WHERE run_id = 30")
        keep_bands(opened, [30])
    assert [(29,)] == query(store.path, "SELECT SUM(run_count) FROM band_count")
    assert None is Reader(store.path).page(30).percentile


def test_a_run_comes_in_when_its_final_record_does(tmp_path: Path) -> None:
    """An interim record leaves no mark in the counts."""
    store = make_store(tmp_path / "ofu.db")
    final = make_record(gpus=[make_gpu(covered=3600.0, tensor_ref=900.0)])
    store.write([replace(final, interim=True, end_epoch_s=START + 3000.0)])
    assert [] == query(store.path, COUNTS)
    store.write([final])
    assert [(H100, day_of(START), 25, 1, 3600)] == query(store.path, COUNTS)


def _write_some(store: SqliteStore, run_count: int) -> None:
    """One-GPU runs, a day apart, the later the better: OFU 0.01, 0.02 …"""
    store.write(
        [
            make_record(
                make_job(job_id=at + 1),
                end=START + at * DAY + 3600,
                start=START + at * DAY,
                gpus=[make_gpu(covered=3600.0, tensor_ref=36.0 * (at + 1) + 1)],
            )
            for at in range(run_count)
        ]
    )


def test_a_page_says_where_a_run_stands(tmp_path: Path) -> None:
    """Among thirty runs of its model, the thirtieth has all but half of its own hour below it."""
    store = make_store(tmp_path / "ofu.db")
    _write_some(store, 30)
    reader = Reader(store.path)
    pages = [reader.page(run_id).percentile for run_id in (29, 30)]
    assert [None, Percentile(ratio=29.5 / 30, run_count=30, gpu_model=H100)] == pages


def test_what_ended_later_does_not_change_it(tmp_path: Path) -> None:
    """A run stands among those of the ninety days up to its own end."""
    store = make_store(tmp_path / "ofu.db")
    _write_some(store, PERCENTILE_DAYS + 11)
    page = Reader(store.path).page(PERCENTILE_DAYS + 1)
    assert Percentile(
        ratio=(PERCENTILE_DAYS - 0.5) / PERCENTILE_DAYS, run_count=PERCENTILE_DAYS, gpu_model=H100
    ) == (page.percentile)


def test_ninety_days_are_ninety_days(tmp_path: Path) -> None:
    """The day itself and the 89 before it, of this GPU model alone."""
    store = make_store(tmp_path / "ofu.db")
    _write_some(store, PERCENTILE_DAYS + 1)
    last = day_of(START + PERCENTILE_DAYS * DAY + 3600)
    with closing(sqlite3.connect(store.path)) as opened:
        found = counts(opened, gpu_model=H100, until_day=last)
        assert [BandCount(band=band, run_count=1, gpu_seconds=3600) for band in range(2, 92)] == found
        assert [] == counts(opened, gpu_model=A100, until_day=last)


def test_an_older_database_is_counted_at_its_upgrade(tmp_path: Path) -> None:
    """What was there before counts were kept is in them, once."""
    path = tmp_path / "ofu.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript((Path(__file__).parent / "data" / "schema-2.sql").read_text())
        opened.execute("UPDATE run_gpu SET covered_seconds = 3600, allocated_seconds = 3600")
        opened.execute("UPDATE run_node SET accounted_seconds = NULL")
        opened.commit()
    migrate(path)
    migrate(path)
    bands = query(path, BANDS)
    assert [] != bands
    assert _from_scratch(path) == bands
    assert _counted(bands) == query(path, COUNTS)


def test_times_and_sums_beyond_all_calendars_keep_no_record_out(tmp_path: Path) -> None:
    """A node whose clock or counters have gone wild is stored, and counted where it can be."""
    store = make_store(tmp_path / "ofu.db")
    wild = make_gpu(allocated=9e307, covered=9e307, tensor_ref=9e307)
    store.write(
        [
            make_record(make_job(job_id=1), start=-5.0, end=-4.0),
            make_record(make_job(job_id=2), start=None, end=9e307),
            make_record(make_job(job_id=3), gpus=[wild], allocated=9e307),
        ]
    )
    assert [(1, 0), (2, day_of(9e307))] == query(
        store.path, "SELECT run_id, day FROM run_band ORDER BY run_id"
    )


def test_statements_do_not_grow_with_the_runs(tmp_path: Path) -> None:
    """One query for all the runs of a delivery, where none of them changed."""
    store = make_store(tmp_path / "ofu.db")
    _write_some(store, 40)
    said: list[str] = []
    with closing(sqlite3.connect(store.path, isolation_level=None)) as opened:
        opened.set_trace_callback(lambda text: None if text.startswith("--") else said.append(text))
        keep_bands(opened, range(1, 41))
    assert 1 == len(said)
