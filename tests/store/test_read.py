"""What the reader adds up, and what it says when it cannot."""

from pathlib import Path

import pytest

from slurm_ofu.errors import StoreError, StoreMissing
from slurm_ofu.store.read import Reader
from slurm_ofu.values import Selection, StoredGroup
from tests.store.databases import make_store, query
from tests.store.records import START, make_gpu, make_job, make_record, make_unstarted

EVERY_GROUP: tuple[StoredGroup, ...] = ("job", "user", "partition", "account")


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
