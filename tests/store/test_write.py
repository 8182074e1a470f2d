"""What the writer keeps, and of two records which."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreError
from slurm_ofu.store.read import Reader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import GpuRow, NodeRecord, Selection, Timeline
from tests.store.databases import content, make_store, query
from tests.store.records import (
    START,
    make_gpu,
    make_job,
    make_quarter,
    make_record,
    make_unstarted,
)

NODES = "SELECT node_name, reason, gpu_count, gpu_count_assumed, allocated_seconds FROM run_node ORDER BY 1"


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Everything in a record is found again on the page of its run."""
    record = make_record(make_job(sluid="s1"), gpus=[make_gpu(0), make_gpu(1, reason="short")])
    make_store(tmp_path / "ofu.db").write([record])
    page = Reader(tmp_path / "ofu.db").page(1)
    assert tuple(GpuRow(node_name="n1", totals=gpu) for gpu in record.gpus) == page.gpus
    assert record.health == page.nodes[0].health
    assert page.row.run is not None
    assert ("alpha", 42, 0, "s1", "ada") == (
        *(page.row.run.cluster, page.row.run.job_id, page.row.run.restart_count),
        *(page.row.run.sluid, page.row.run.user),
    )


def test_the_database_is_made_when_first_written_to(tmp_path: Path) -> None:
    """Writing to a path without database, or directory, creates both."""
    store = make_store(tmp_path / "new" / "ofu.db", made=False)
    store.write([make_record()])
    assert Reader(store.path).count() == 1


def test_writing_nothing_does_nothing(tmp_path: Path) -> None:
    """No records: no database is made."""
    make_store(tmp_path / "ofu.db", made=False).write([])
    assert [] == list(tmp_path.iterdir())


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    """The same record twice leaves the content of once, quarter hours included."""
    store = make_store(tmp_path / "ofu.db")
    record = make_record(make_job(node_list="n[1-3]"), quarters=[make_quarter(), make_quarter(model=None)])
    store.write([record])
    once = content(store.path)
    store.write([record, record])
    assert once == content(store.path)
    assert 2 == len(once["quarter_hour"])


def test_a_requeued_job_is_two_runs(tmp_path: Path) -> None:
    """C42: one job id, two restart counts: two runs, and the user's sums hold both."""
    store = make_store(tmp_path / "ofu.db")
    store.write(
        [
            make_record(make_job(job_id=235929, restart_count=0), start=1000, end=2000, allocated=1000.0),
            make_record(make_job(job_id=235929, restart_count=1), start=3000, end=5000, allocated=2000.0),
        ]
    )
    reader = Reader(store.path)
    assert [0, 1] == [row.run.restart_count for row in reader.jobs(Selection()) if row.run]
    assert [3000.0] == [row.sums.allocated_seconds for row in reader.usage(Selection(), "user")]


def test_a_job_id_that_comes_back_is_another_run(tmp_path: Path) -> None:
    """C57: the same job id nine years later, of another user, is not blended with the first."""
    store = make_store(tmp_path / "ofu.db")
    then, now = START - 9 * 365 * 86400, START
    store.write([make_record(make_job(user="yves"), start=now, end=now + 3600)])
    store.write([make_record(make_job(user="xenia"), start=then, end=then + 3600)])
    assert [(0, "xenia"), (1, "yves")] == query(
        store.path, "SELECT incarnation, user_name FROM run ORDER BY 1"
    )


def test_one_job_id_on_two_clusters_is_two_runs(tmp_path: Path) -> None:
    """C57: clusters number their jobs independently."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(cluster=name, job_id=134217729)) for name in ("alpha", "beta")])
    assert 2 == Reader(store.path).count()


def test_another_sluid_is_another_run(tmp_path: Path) -> None:
    """Two SLUIDs are two runs whatever the times; one SLUID is one run whatever the times."""
    store = make_store(tmp_path / "ofu.db")
    late = START + 40 * 86400
    store.write([make_record(make_job(sluid="sA"), node="n1"), make_record(make_job(sluid="sB"), node="n1")])
    store.write([make_record(make_job(sluid="sA"), node="n2", start=late, end=late + 60)])
    counts = query(store.path, "SELECT sluid, COUNT(*) FROM run JOIN run_node USING (run_id) GROUP BY 1")
    assert [("sA", 2), ("sB", 1)] == counts


def test_another_uid_is_another_run(tmp_path: Path) -> None:
    """A controller that lost its state numbers from 1 again within days: the user tells jobs apart."""
    store = make_store(tmp_path / "ofu.db")
    store.write(
        [make_record(make_job(uid=1)), make_record(make_job(uid=2), start=START + 7200, end=START + 9000)]
    )
    assert [(0, 1), (1, 2)] == query(store.path, "SELECT incarnation, uid FROM run ORDER BY 1")


def test_silent_nodes_are_kept_as_not_delivered(tmp_path: Path) -> None:
    """A listed node that was not heard counts with its siblings' mean GPUs and longest allocation."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_list="n[1-3]", node_count=3)
    store.write([make_record(job, node="n1", allocated=3000.0)])
    store.write([make_record(job, node="n2", allocated=3600.0, gpus=[make_gpu(n) for n in range(4)])])
    assert [
        ("n1", "ok", 1.0, 0, 3000.0),
        ("n2", "ok", 4.0, 0, 3600.0),
        ("n3", "not_delivered", 2.5, 1, 3600.0),
    ] == query(store.path, NODES)
    (row,) = Reader(store.path).jobs(Selection())
    assert 3000.0 + 4 * 3600.0 + 2.5 * 3600.0 == row.sums.allocated_seconds
    assert ("not_delivered", "ok") == row.sums.reasons


def test_a_silent_node_that_speaks_up_replaces_what_was_assumed(tmp_path: Path) -> None:
    """The node's own record takes the place of the assumption."""
    store = make_store(tmp_path / "ofu.db")
    job = make_job(node_list="n[1-2]", node_count=2)
    store.write([make_record(job, node="n1")])
    store.write([make_record(job, node="n2", allocated=10.0)])
    assert [("n1", "ok", 1.0, 0, 3600.0), ("n2", "ok", 1.0, 0, 10.0)] == query(store.path, NODES)


@pytest.mark.parametrize("shorter", ["n1", None])
def test_the_longest_node_list_stays(tmp_path: Path, shorter: str | None) -> None:
    """A shrunken or missing node list never overwrites the whole one."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(node_list="n[1-2]", node_count=2))])
    store.write([make_record(make_job(node_list=shorter, node_count=1))])
    assert [("n[1-2]", 2)] == query(store.path, "SELECT node_list, node_count FROM run")


def test_a_host_list_that_cannot_be_read_keeps_no_record_out(tmp_path: Path) -> None:
    """A malformed node list means that silent nodes are unknown, nothing else."""

    def fails(text: str) -> tuple[str, ...]:
        raise ValueError(text)

    path = tmp_path / "ofu.db"
    store = SqliteStore(path, group=None, world_readable=False, wait_seconds=20.0, expand_hostlist=fails)
    store.write([make_record(make_job(node_list="n[1-"))])
    assert 1 == len(query(path, NODES))


def test_an_unstarted_node_counts_as_long_as_its_siblings(tmp_path: Path) -> None:
    """No prolog ran: the run's longest allocation is assumed; without siblings it stays unknown."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_unstarted(make_job(job_id=7))])
    (alone,) = Reader(store.path).jobs(Selection(job_ids=(7,)))
    assert alone.sums.allocated_seconds is None
    store.write([make_unstarted(), make_record(make_job(node_list="n[1-2]", node_count=2))])
    (row,) = Reader(store.path).jobs(Selection(job_ids=(42,)))
    assert 7200.0 == row.sums.allocated_seconds
    assert 2.0 == row.sums.gpu_count
    assert ("not_started", "ok") == row.sums.reasons


@pytest.mark.parametrize("epilog_first", [True, False])
@pytest.mark.parametrize("late_seconds", [-100.0, 0.0, 100.0])
def test_an_epilog_alone_finds_the_life_it_ended(
    tmp_path: Path, epilog_first: bool, late_seconds: float
) -> None:
    """After a requeue the epilog's restart count is one too high: its end decides, in either order."""
    store = make_store(tmp_path / "ofu.db")
    lives = [
        make_record(make_job(restart_count=0, node_list="n[1-2]"), start=1000, end=2000),
        make_record(make_job(restart_count=1, node_list="n[1-2]"), start=2400, end=5000),
    ]
    epilog = make_unstarted(make_job(restart_count=1), node="n2", end=2000 + late_seconds)
    for record in [epilog, *lives] if epilog_first else [*lives, epilog]:
        store.write([record])
    assert [(0, "n2", "not_started"), (1, "n2", "not_delivered")] == query(
        store.path,
        "SELECT restart_count, node_name, reason FROM run JOIN run_node USING (run_id)"
        " WHERE node_name = 'n2' ORDER BY 1",
    )


def test_an_epilog_without_any_prolog_is_a_run_of_its_own(tmp_path: Path) -> None:
    """Where no prolog ran anywhere, the run stands under the epilogs' restart count, marked uncertain."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_unstarted(make_job(restart_count=3), node=name) for name in ("n1", "n2")])
    store.write([make_record(make_job(restart_count=1), start=START - 9000, end=START - 8000)])
    assert [(1, 1), (3, 0)] == query(store.path, "SELECT restart_count, restart_certain FROM run ORDER BY 1")


OK = make_record()
BETTER_AND_WORSE: list[tuple[str, NodeRecord, NodeRecord]] = [
    ("not_started", OK, make_unstarted(node="n1")),
    ("died", OK, make_record(reason="sampler_died", gpus=[make_gpu(covered=10.0)], end=START + 3700)),
    ("later", make_record(end=START + 3700), OK),
]


@pytest.mark.parametrize("better_first", [True, False])
@pytest.mark.parametrize(
    ("better", "worse"), [pytest.param(b, w, id=name) for name, b, w in BETTER_AND_WORSE]
)
def test_the_better_record_of_a_node_stays(
    tmp_path: Path, better: NodeRecord, worse: NodeRecord, better_first: bool
) -> None:
    """A prolog's word beats none, more covered seconds beat fewer, then the later record wins."""
    store = make_store(tmp_path / "ofu.db")
    for record in (better, worse) if better_first else (worse, better):
        store.write([record])
    assert [(better.reason, better.end_epoch_s)] == query(
        store.path, "SELECT reason, end_epoch_s FROM run_node"
    )
    assert [(better.gpus[0].covered_seconds,)] == query(store.path, "SELECT covered_seconds FROM run_gpu")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, 1e308])
def test_a_number_that_cannot_be_is_refused_with_all_of_its_batch(tmp_path: Path, wrong: float) -> None:
    """NaN, infinities and negative seconds raise StoreError naming job and node, and nothing is kept."""
    store = make_store(tmp_path / "ofu.db")
    bad = replace(make_gpu(), tensor_ref_seconds=wrong)
    with pytest.raises(StoreError, match=r"job 42 .* n9"):
        store.write([make_record(make_job(job_id=1)), make_record(node="n9", gpus=[bad])])
    assert 0 == Reader(store.path).count()


def test_a_timeline_with_nan_is_refused(tmp_path: Path) -> None:
    """NaN does not hide in JSON text either."""
    line = Timeline(start_epoch_s=0.0, bucket_seconds=1.0, buckets=((math.nan, 1.0),))
    with pytest.raises(StoreError):
        make_store(tmp_path / "ofu.db").write([make_record(gpus=[replace(make_gpu(), timeline=line)])])


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """A comment with undecodable bytes does not keep a record out."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(replace(make_job(), comment=os.fsdecode(b"caf\xe9")))])
    assert [("caf?",)] == query(store.path, "SELECT comment FROM run")


def test_a_huge_number_is_an_error_of_ours(tmp_path: Path) -> None:
    """An integer beyond 64 bits raises StoreError, not OverflowError."""
    with pytest.raises(StoreError, match="job 1180591620717411303424"):
        make_store(tmp_path / "ofu.db").write([make_record(make_job(job_id=2**70))])


def test_quarter_hours_are_replaced_with_their_record(tmp_path: Path) -> None:
    """A better record of a node takes the place of its quarter hours too."""
    store = make_store(tmp_path / "ofu.db")
    store.write(
        [make_record(gpus=[make_gpu(covered=5.0)], quarters=[make_quarter(), make_quarter(int(START) + 900)])]
    )
    store.write([make_record(quarters=[make_quarter()])])
    assert [(int(START),)] == query(store.path, "SELECT start_epoch_s FROM quarter_hour")
