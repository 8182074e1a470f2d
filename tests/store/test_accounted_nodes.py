"""Nodes, segments and silent runs, as Slurm's accounting has them."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import GpuTotals
from tests.store.accounting_rows import START_S, make_row, resized
from tests.store.databases import content, make_store, query, rows, run_of
from tests.store.records import START, make_gpu, make_job, make_record, make_unstarted

LINKED = """
SELECT a.submit_epoch_s - ?, r.restart_count, r.heard FROM accounting_row AS a
LEFT JOIN run AS r USING (run_id) ORDER BY 1
"""
NODES = """
SELECT node_name, reason, gpu_count, gpu_count_assumed, allocated_seconds, accounted_seconds
FROM run_node ORDER BY run_id, node_name
"""


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


# ------------------------------------------------------------------- nodes and segments


def test_allocated_seconds_equal_slurms(store: SqliteStore) -> None:
    """Every node counts as long as Slurm says, also one that told another time and one that told none."""
    job = make_job(node_list="n[1-3]", node_count=3)
    store.write([make_record(job, allocated=3605.0), make_unstarted(job, node="n2")])
    store.take_accounting([make_row(node_list="n[1-3]", node_count=3, gpu_count=4)])
    (row,) = rows(store)
    assert (4.0, 0.0, 4 * 3600.0) == (
        *(row.sums.gpu_count, row.sums.gpu_count_unknown_time),
        row.sums.allocated_seconds,
    )
    assert [
        ("n1", "ok", 1.0, 0, 3605.0, 3600.0),
        ("n2", "not_started", 1.0, 0, 3605.0, 3600.0),
        ("n3", "not_delivered", 2.0, 1, 3605.0, 3600.0),
    ] == query(store.path, NODES)


def test_silent_nodes_have_what_slurm_counts_beyond_the_others(store: SqliteStore) -> None:
    """--gpus=3 -N2: the node heard had 2, so the other had 1; without Slurm's count it had their mean."""
    store.write([make_record(make_job(node_list="n[1-2]"), gpus=[make_gpu(0), make_gpu(1)])])
    counts = "SELECT node_name, gpu_count FROM run_node ORDER BY 1"
    assert [("n1", 2.0), ("n2", 2.0)] == query(store.path, counts)
    store.take_accounting([make_row(node_list="n[1-2]", gpu_count=3)])
    assert [("n1", 2.0), ("n2", 1.0)] == query(store.path, counts)
    store.take_accounting([make_row(node_list="n[1-2]", gpu_count=1)])  # fewer than the prologs saw
    assert [("n1", 2.0), ("n2", 2.0)] == query(store.path, counts)


def test_nodes_that_only_accounting_knows(store: SqliteStore) -> None:
    """No prolog told its node list: accounting's nodes are the run's, those not heard from silent."""
    job = replace(make_job(), node_list=None, node_count=None)
    store.write([make_record(job)])
    store.take_accounting([make_row(node_list="n[1-3]", node_count=3, gpu_count=5)])
    assert [
        ("n1", "ok", 1.0, 0, 3600.0, 3600.0),
        ("n2", "not_delivered", 2.0, 1, 3600.0, 3600.0),
        ("n3", "not_delivered", 2.0, 1, 3600.0, 3600.0),
    ] == query(store.path, NODES)
    assert ("n[1-3]", 3) == (run_of(store).node_list, run_of(store).node_count)


def test_a_job_that_has_grown_counts_its_new_nodes(store: SqliteStore) -> None:
    """The prolog's list is the first segment's, its nodes were all heard, and Slurm counts more GPUs."""
    store.write([make_record()])
    first = make_row(end=START_S + 100, state="RESIZING")
    second = make_row(submit=START_S + 100, node_list="n[1-2]", node_count=2, gpu_count=3)
    store.take_accounting([first, second])
    assert [
        ("n1", "ok", 1.0, 0, 3600.0, 3600.0),
        ("n2", "not_delivered", 2.0, 1, 3600.0, 3500.0),
    ] == query(store.path, NODES)


def test_nodes_without_gpus_make_no_silent_node(store: SqliteStore) -> None:
    """The prolog left a node without GPUs out of its list; accounting has it, and no GPU is missing."""
    store.write([make_record()])
    store.take_accounting([make_row(node_list="n[1-2]", node_count=2, gpu_count=1)])
    assert [("n1", "ok", 1.0, 0, 3600.0, 3600.0)] == query(store.path, NODES)


def test_a_node_that_accounting_does_not_list_keeps_its_word(store: SqliteStore) -> None:
    """Its own time counts, and accounting's for the others."""
    job = make_job(node_list="n[1-2]")
    store.write([make_record(job, allocated=10.0), make_record(job, node="n2", allocated=10.0)])
    store.take_accounting([make_row(end=START_S + 20, node_list="n1", gpu_count=2)])
    (row,) = rows(store)
    assert 20.0 + 10.0 == row.sums.allocated_seconds


def test_a_resized_job_is_one_run(store: SqliteStore) -> None:
    """Three nodes for 2 s, one of them for 3 s more: 18 GPU-seconds, whoever reported."""
    job = make_job(node_list="n[1-3]", node_count=3)

    def pair(seconds: float) -> list[GpuTotals]:
        return [make_gpu(at, allocated=seconds, covered=1.0) for at in range(2)]

    store.write([make_record(job, node="n2", end=START + 2, allocated=2.0, gpus=pair(2.0))])
    store.take_accounting(resized())
    (row,) = rows(store)
    assert 18.0 == row.sums.allocated_seconds
    store.write([make_record(job, end=START + 5, allocated=5.0, gpus=pair(5.0))])
    (row,) = rows(store)
    assert row.run is not None
    assert (18.0, 5.0, 6, START + 5) == (
        *(row.sums.allocated_seconds, row.run.elapsed_seconds),
        *(row.run.slurm_gpu_count, row.run.end_epoch_s),
    )


# ------------------------------------------------------------------- silent runs


def test_a_run_that_no_node_spoke_of(store: SqliteStore) -> None:
    """It is reported with its GPU-hours, and says why it has no figure."""
    store.take_accounting([make_row(node_list="n[1-2]", node_count=2, gpu_count=3)])
    (row,) = rows(store)
    assert row.run is not None
    assert (False, True, "ada", "train") == (
        *(row.run.heard, row.run.accounted),
        row.run.user,
        row.run.job_name,
    )
    assert (3.0, 3 * 3600.0, ("not_delivered",)) == (
        *(row.sums.gpu_count, row.sums.allocated_seconds, row.sums.reasons),
    )
    assert [
        ("n1", "not_delivered", 1.5, 1, None, 3600.0),
        ("n2", "not_delivered", 1.5, 1, None, 3600.0),
    ] == query(store.path, NODES)


def test_a_silent_run_of_a_resized_job_counts_exactly(store: SqliteStore) -> None:
    """18 GPU-seconds, six GPUs."""
    store.take_accounting(resized())
    (row,) = rows(store)
    assert (18.0, 6.0) == (row.sums.allocated_seconds, row.sums.gpu_count)


def test_a_silent_run_dissolves_into_the_real_one(store: SqliteStore) -> None:
    """A record that comes late leaves what would be there had it come first."""
    other = make_store(store.path.with_name("other.db"))
    record, row = make_record(make_job(node_list="n[1-2]")), make_row(node_list="n[1-2]", gpu_count=2)
    store.take_accounting([row])
    store.write([record])
    other.write([record])
    other.take_accounting([row])
    assert content(other.path) == content(store.path)
    assert [(True, 2.0)] == [(r.run.heard, r.sums.gpu_count) for r in rows(store) if r.run]


def test_a_silent_run_keeps_its_number(store: SqliteStore) -> None:
    """Reading the same rows again, or others of the job, does not make it anew."""
    store.take_accounting([make_row(state="REQUEUED")])
    before = query(store.path, "SELECT run_id FROM run")
    store.take_accounting([replace(make_row(state="REQUEUED"), account="maths")])
    store.take_accounting([make_row(start=START_S + 4000, end=START_S + 5000)])
    assert before == query(store.path, "SELECT run_id FROM run WHERE restart_count = 0")
    assert [(1, 0)] == query(
        store.path, "SELECT restart_count, restart_certain FROM run WHERE restart_count > 0"
    )


def test_a_silent_run_learns_of_the_life_before_it(store: SqliteStore) -> None:
    """22.05: the row of the first life comes after that of the second: the second was requeued once."""
    store.take_accounting([make_row(start=START_S + 4000, end=START_S + 5000)])
    store.take_accounting([make_row(state="REQUEUED")])
    assert [("REQUEUED", 0), ("COMPLETED", 1)] == query(
        store.path, "SELECT state, restart_count FROM run ORDER BY start_epoch_s"
    )
    assert [(-10, 0, 0), (3990, 1, 0)] == query(store.path, LINKED, START_S)


@pytest.mark.parametrize(
    "row",
    [
        make_row(start=None, end=START_S, state="CANCELLED", node_list=None),
        make_row(end=None, state="RUNNING"),
        make_row(state="REVOKED"),
        make_row(state="RESIZING"),
        make_row(node_list=None),
    ],
    ids=["never started", "running", "revoked", "resized", "nowhere"],
)
def test_what_makes_no_silent_run(store: SqliteStore, row: object) -> None:
    """Only a life that is over, and was somewhere."""
    store.take_accounting([row])  # type: ignore[list-item]
    assert [] == rows(store)


def test_two_silent_runs_of_one_id_are_numbered_by_time(store: SqliteStore) -> None:
    """They are incarnations of one key, whichever row came first."""
    late = make_row(start=START_S + 10**8, end=START_S + 10**8 + 50)
    store.take_accounting([late])
    store.take_accounting([make_row()])
    assert [(0, START), (1, START + 10**8)] == query(
        store.path, "SELECT incarnation, start_epoch_s FROM run ORDER BY 1"
    )
