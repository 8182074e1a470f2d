"""What the reader adds up, and what it says when it cannot."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from slurm_ofu.errors import StoreError, StoreMissing
from slurm_ofu.store.read import Reader
from slurm_ofu.values import Goals, RunGpu, Selection, StoredGroup
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store, query
from tests.store.records import START, make_gpu, make_job, make_record, make_unstarted

EVERY_GROUP: tuple[StoredGroup, ...] = get_args(StoredGroup)


@pytest.mark.parametrize("by", EVERY_GROUP)
def test_an_empty_database_is_an_empty_list(tmp_path: Path, by: StoredGroup) -> None:
    """C65: no runs, no rows, no error."""
    reader = Reader(make_store(tmp_path / "ofu.db").path)
    assert [] == reader.usage(Selection(), by)
    assert 0 == reader.count()


def test_a_missing_database_says_so(tmp_path: Path) -> None:
    """No file at the path raises StoreMissing, and none is made."""
    with pytest.raises(StoreMissing, match=r"ofu\.db"):
        Reader(tmp_path / "ofu.db").count()
    assert [] == list(tmp_path.iterdir())


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    """Any other file raises StoreError."""
    (tmp_path / "ofu.db").write_text("hello" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Reader(tmp_path / "ofu.db").count()


@pytest.mark.parametrize(("version", "remedy"), [(99, "upgrade slurm-ofu"), (0, "next job")])
def test_another_schema_says_what_to_do(tmp_path: Path, version: int, remedy: str) -> None:
    """A database of another version raises StoreError with the remedy."""
    store = make_store(tmp_path / "ofu.db")
    query(store.path, f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=remedy):
        Reader(store.path).count()


def test_an_unknown_run_says_so(tmp_path: Path) -> None:
    """A page of a run that is not there raises StoreError."""
    with pytest.raises(StoreError, match="run_id 5"):
        Reader(make_store(tmp_path / "ofu.db").path).page(5)


def test_nothing_measured_is_none_and_a_measured_zero_is_zero(tmp_path: Path) -> None:
    """A sum of nothing is absent; a GPU that was measured idle sums to 0."""
    store = make_store(tmp_path / "ofu.db")
    blind = make_gpu(reason="no_source", covered=0.0, tensor_ref=None)
    store.write([make_record(make_job(job_id=1, user="none"), gpus=[blind])])
    store.write([make_record(make_job(job_id=2, user="zero"), gpus=[make_gpu(tensor_ref=0.0)])])
    none, zero = (row.sums for row in Reader(store.path).usage(Selection(), "user"))
    assert (None, None, None, None, 0.0, 3600.0) == (
        *(none.tensor_ref_seconds, none.tensor_ref_variance, none.energy_joules),
        *(none.ofu_tensor_active_seconds, none.ofu_covered_seconds, none.allocated_seconds),
    )
    assert (0.0, 9.0, 3500.0) == (zero.tensor_ref_seconds, zero.tensor_ref_variance, zero.ofu_covered_seconds)


def test_an_unknown_model_keeps_its_tensor_activity(tmp_path: Path) -> None:
    """Each numerator has the seconds it is known for: OFU and tensor activity differ here."""
    store = make_store(tmp_path / "ofu.db")
    gpus = [make_gpu(0), make_gpu(1, reason="unknown_model", tensor_ref=None, model="Mystery")]
    store.write([make_record(gpus=gpus)])
    (row,) = Reader(store.path).usage(Selection(), "account")
    assert (3500.0, 7000.0, 800.0, 1600.0, 7200.0, 7000.0) == (
        *(row.sums.ofu_covered_seconds, row.sums.tpa_covered_seconds),
        *(row.sums.ofu_tensor_active_seconds, row.sums.tensor_active_seconds),
        *(row.sums.allocated_seconds, row.sums.covered_seconds),
    )
    assert ("Mystery", "NVIDIA H100 80GB HBM3") == row.sums.gpu_models
    assert ("ok", "unknown_model") == row.sums.reasons
    assert ("sampled",) == row.sums.estimators


def test_errors_add_within_a_run_and_in_quadrature_between_runs(tmp_path: Path) -> None:
    """GPUs of one run swing together: (3 + 4)²; runs do not: + 2²."""
    store = make_store(tmp_path / "ofu.db")
    together = [make_gpu(0, error=3.0, degrees=50.0), make_gpu(1, error=4.0, degrees=100.0)]
    store.write([make_record(make_job(job_id=1), gpus=together)])
    store.write([make_record(make_job(job_id=2), gpus=[make_gpu(error=2.0, degrees=10.0)])])
    store.write([make_record(make_job(job_id=3), gpus=[make_gpu(error=0.0, degrees=None)])])
    (row,) = Reader(store.path).usage(Selection(), "user")
    assert 49.0 + 4.0 == row.sums.tensor_ref_variance
    assert pytest.approx(49.0**2 / 50 + 4.0**2 / 10) == row.sums.tensor_ref_variance_per_degree


def test_groups_are_by_name_and_jobs_by_time(tmp_path: Path) -> None:
    """Groups come in the order of their names, unknown first; jobs oldest first, with their run."""
    store = make_store(tmp_path / "ofu.db")
    for at, (job_id, user) in enumerate([(7, "zoe"), (9, None), (8, "ada")]):
        start = START - 1e5 * at
        store.write([make_record(make_job(job_id=job_id, user=user), start=start, end=start + 10)])
    reader = Reader(store.path)
    assert [None, "ada", "zoe"] == [row.group for row in reader.usage(Selection(), "user")]
    assert ["8", "9", "7"] == [row.group for row in reader.jobs(Selection())]
    assert [8, 9, 7] == [row.run.job_id for row in reader.jobs(Selection()) if row.run]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (None, None, True),
        (1000, 2000, True),
        (1999, None, True),
        (2000, None, False),  # it ended when the window opens
        (None, 1000, False),  # the window's end is outside
        (None, 1001, True),
        (1400, 1500, True),  # inside the run
        (0, 9999, True),
        (3000, 4000, False),
    ],
)
def test_a_run_counts_when_any_part_of_it_is_inside(
    tmp_path: Path, start: float | None, end: float | None, found: bool
) -> None:
    """A run over [1000, 2000) and a window that is closed at its start and open at its end."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(start=1000, end=2000)])
    rows = Reader(store.path).jobs(Selection(start_epoch_s=start, end_epoch_s=end))
    assert found == bool(rows)


def test_a_run_without_length_counts_at_its_instant(tmp_path: Path) -> None:
    """A job that ended as it started, or whose start nobody knows, lies in the window of its end."""
    store = make_store(tmp_path / "ofu.db")
    store.write(
        [make_record(make_job(job_id=1), start=1000, end=1000), make_unstarted(make_job(job_id=2), end=1000)]
    )
    reader = Reader(store.path)
    assert 2 == len(reader.jobs(Selection(start_epoch_s=1000, end_epoch_s=1001)))
    assert [] == reader.jobs(Selection(start_epoch_s=0, end_epoch_s=1000))


@pytest.mark.parametrize(
    ("selection", "jobs"),
    [
        (Selection(users=("ada",)), {1, 2}),
        (Selection(users=("ada", "bob"), partitions=("fast",)), {2, 3}),
        (Selection(accounts=("maths",)), {3}),
        (Selection(clusters=("beta",)), {2}),
        (Selection(job_ids=(1, 3)), {1, 3}),
        (Selection(users=("x' OR '1'='1",)), set()),
    ],
)
def test_a_selection_narrows(tmp_path: Path, selection: Selection, jobs: set[int]) -> None:
    """Every list of a selection narrows it; names are data, never SQL."""
    store = make_store(tmp_path / "ofu.db")
    store.write(
        [
            make_record(make_job(job_id=1, user="ada")),
            make_record(make_job(job_id=2, user="ada", partition="fast", cluster="beta")),
            make_record(make_job(job_id=3, user="bob", partition="fast", account="maths")),
        ]
    )
    assert jobs == {row.run.job_id for row in Reader(store.path).jobs(selection) if row.run}


def test_the_view_says_what_the_reader_says(tmp_path: Path) -> None:
    """Whoever uses run_sums directly gets the numbers of the reports."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_list="n[1-3]", node_count=3)
    store.write([make_record(job, gpus=[make_gpu(0), make_gpu(1)]), make_unstarted()])
    (row,) = Reader(store.path).jobs(Selection())
    names = (
        *("gpu_count", "gpu_count_unknown_time", "allocated_seconds", "covered_seconds"),
        *("ofu_covered_seconds", "ofu_tensor_active_seconds"),
        *("tensor_active_seconds", "tensor_ref_seconds", "tensor_ref_variance", "sm_active_seconds"),
        *("tensor_ref_variance_per_degree", "tpa_covered_seconds", "energy_joules"),
    )
    assert [tuple(getattr(row.sums, name) for name in names)] == query(
        store.path, f"SELECT {', '.join(names)} FROM run_sums"
    )


def test_gpus_of_unknown_time_are_counted(tmp_path: Path) -> None:
    """A run that no prolog began has GPUs of unknown time, unless another of its nodes tells the time."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_unstarted(make_job(job_id=1, user="alone"))])
    with_sibling = make_job(job_id=2, user="paired", node_list="n[1-2]", node_count=2)
    store.write([make_record(with_sibling), make_unstarted(with_sibling)])
    store.write([make_record(make_job(job_id=3, user="whole"))])
    alone, paired, whole = (row.sums for row in Reader(store.path).usage(Selection(), "user"))
    assert [(1.0, 1.0, None), (2.0, 0.0, 7200.0), (1.0, 0.0, 3600.0)] == [
        (sums.gpu_count, sums.gpu_count_unknown_time, sums.allocated_seconds)
        for sums in (alone, paired, whole)
    ]


# ------------------------------------------------------------------ nodes, models, states, goals


def change(path: Path, sql: str) -> None:
    """Write what no record says."""
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute(sql)


def test_a_run_counts_on_each_node_and_model_with_its_gpus_there(tmp_path: Path) -> None:
    """A node that was never heard from has its GPUs too, of unknown model; a suspect GPU has no figure."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_list="n[1-3]", node_count=3)
    suspect = make_gpu(2, reason="suspect", model="A100")
    gpus = [make_gpu(0, model="H100"), make_gpu(1, model="A100", tensor_ref=70.0), suspect]
    store.write([make_record(job, gpus=gpus), make_record(job, node="n2", gpus=[make_gpu(0, model="H100")])])
    reader = Reader(store.path)

    def seen(by: StoredGroup) -> list[tuple[object, ...]]:
        return [
            (row.group, row.sums.run_count, row.sums.gpu_count, row.sums.tensor_ref_seconds, row.sums.reasons)
            for row in reader.usage(Selection(), by)
        ]

    assert [
        ("n1", 1, 3.0, 770.0, ("ok", "suspect")),
        ("n2", 1, 1.0, 700.0, ("ok",)),
        ("n3", 1, 2.0, None, ("not_delivered",)),
    ] == seen("node")
    assert [
        (None, 1, 2.0, None, ("not_delivered",)),
        ("A100", 1, 2.0, 70.0, ("ok", "suspect")),
        ("H100", 1, 2.0, 1400.0, ("ok",)),
    ] == seen("gpu-model")
    (whole,) = reader.usage(Selection(), "user")
    assert (6.0, 1470.0) == (whole.sums.gpu_count, whole.sums.tensor_ref_seconds)


def test_the_assumed_time_of_gpus_without_a_prolog_is_of_unknown_model(tmp_path: Path) -> None:
    """Their rows say neither time nor model; by GPU model their node's assumed time counts as in all."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_list="n[1-2]", node_count=2)
    store.write([make_record(job), make_unstarted(node="n2")])
    rows = Reader(store.path).usage(Selection(), "gpu-model")
    [whole] = Reader(store.path).usage(Selection(), "user")
    assert 7200.0 == whole.sums.allocated_seconds
    assert [3600.0, 3600.0] == [row.sums.allocated_seconds for row in rows]


def test_goals_are_those_of_partitions(tmp_path: Path) -> None:
    """A GPU at 0.2 of 3,500 s lost half against 0.40, and nothing against 0.1; above it nothing is gained."""
    store = make_store(tmp_path / "ofu.db")
    judged: dict[str, Any] = {"idle_seconds": 0.0, "idle_covered_seconds": 3500.0}
    judged |= {"non_tensor_seconds": 0.0, "non_tensor_covered_seconds": 3500.0}
    gpus = [replace(make_gpu(at, tensor_ref=ofu * 3500), **judged) for at, ofu in enumerate((0.2, 0.9))]
    gpus.append(replace(make_gpu(2, reason="suspect", tensor_ref=0.0), **judged))  # nobody's loss
    for job_id, partition in enumerate(("gpu", "test", None), start=1):
        store.write([make_record(make_job(job_id=job_id, partition=partition), gpus=gpus)])
    reader = Reader(store.path, goals=Goals(by_partition={"test": 0.1, "other": 0.9}))
    assert [(None, 1750.0), ("gpu", 1750.0), ("test", 0.0)] == [
        (row.group, row.sums.lost_seconds) for row in reader.usage(Selection(), "partition")
    ]


def test_who_is_busy_without_tensor_cores_is_in_no_ranking(tmp_path: Path) -> None:
    """Nor is a run whose SM activity is not known; neither has lost anything, which is not the same as 0."""
    store = make_store(tmp_path / "ofu.db")
    known: dict[str, Any] = {
        "idle_seconds": 0.0,
        "idle_covered_seconds": 3500.0,
        "non_tensor_covered_seconds": 3500.0,
    }
    dynamics = replace(make_gpu(tensor_ref=0.0), non_tensor_seconds=3400.0, **known)
    store.write([make_record(make_job(job_id=1), gpus=[dynamics])])
    store.write([make_record(make_job(job_id=2), gpus=[make_gpu(tensor_ref=0.0)])])
    assert [(None, 0.0, 1, ()), (None, 0.0, 0, (1, 0, 0, 0, 0))] == [
        (sums.lost_seconds, sums.ranked_seconds, sums.non_tensor_run_count, sums.band_run_counts)
        for sums in (row.sums for row in Reader(store.path).jobs(Selection()))
    ]


@pytest.mark.parametrize(
    ("selection", "jobs"),
    [
        (Selection(states=("CANCELLED",)), {1}),
        (Selection(states=("COMPLETED", "FAILED")), {2}),
        (Selection(states=("RUNNING",)), {3}),
        (Selection(states=("RUNNING", "CANCELLED")), {1, 3}),
        (Selection(qos=("high",)), {1}),
        (Selection(job_names=("train", "no such")), {2}),
        (Selection(node_names=("n7",)), {2}),
        (Selection(node_names=("n1", "n7"), states=("COMPLETED",)), {2}),
        (Selection(node_names=("n",)), set()),
    ],
)
def test_filters_that_slurm_knows(tmp_path: Path, selection: Selection, jobs: set[int]) -> None:
    """By state without what follows it, QOS, name, and any of the nodes; one that goes on is RUNNING."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(job_id=job_id)) for job_id in (1, 3)])
    store.write([make_record(make_job(job_id=2, node_list="n7"), node="n7")])
    cancelled = replace(make_row(job_id=1, state="CANCELLED by 1000"), qos="high", job_name="other")
    store.take_accounting(
        [cancelled, replace(make_row(job_id=2), node_list="n7", qos="low", job_name="train")]
    )
    change(store.path, "UPDATE run SET running = 1 WHERE job_id = 3")
    assert jobs == {row.run.job_id for row in Reader(store.path).jobs(selection) if row.run}


def test_states_that_slurm_has_not_said(tmp_path: Path) -> None:
    """UNKNOWN are runs that are over, without a state in which they ended; a passing one is none."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(job_id=job_id)) for job_id in (1, 2, 3, 4)])
    store.take_accounting([make_row(job_id=1, state="FAILED")])
    change(store.path, "UPDATE run SET state = 'COMPLETING' WHERE job_id = 2")
    change(store.path, "UPDATE run SET running = 1 WHERE job_id = 3")

    def found(*states: str) -> set[int]:
        return {row.run.job_id for row in Reader(store.path).jobs(Selection(states=states)) if row.run}

    assert {2, 4} == found("UNKNOWN")
    assert {1, 2, 4} == found("UNKNOWN", "FAILED")
    assert {2, 3, 4} == found("UNKNOWN", "RUNNING")


def test_gpus_come_in_the_order_of_runs(tmp_path: Path) -> None:
    """Oldest run first, by position, more runs than are read at once; a reader that is not done holds up no
    writer."""
    store = make_store(tmp_path / "ofu.db", wait_seconds=0.5)
    gpus = [make_gpu(0), make_gpu(1)]
    store.write(
        [
            make_record(make_job(job_id=1000 - at), start=START + at % 7, end=START + 3600.0, gpus=gpus)
            for at in range(205)
        ]
    )
    reader = Reader(store.path)
    order = [row.run.run_id for row in reader.jobs(Selection()) if row.run]
    found = reader.gpus(Selection())
    first = next(found)
    store.write([make_record(make_job(job_id=2000))])
    assert [(run_id, position) for run_id in order for position in (0, 1)] == [
        (gpu.run_id, gpu.totals.position) for gpu in (first, *found)
    ]
    assert RunGpu(run_id=order[0], node_name="n1", totals=replace(gpus[0], timeline=None)) == first
    assert [] == list(reader.gpus(Selection(users=("nobody",))))
