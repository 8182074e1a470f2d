"""What Slurm's own rows do to the runs in the database."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import Taken
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store, query, rows, run_of
from tests.store.records import START, expand, make_gpu, make_job, make_record

LINKED = """
SELECT a.submit_epoch_s - ?, r.restart_count, r.heard FROM accounting_row AS a
LEFT JOIN run AS r USING (run_id) ORDER BY 1
"""


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


# ------------------------------------------------------------------- what is taken


def test_a_row_counts_as_what_became_of_it(store: SqliteStore) -> None:
    """New rows change something, known ones nothing; others' rows are ignored, impossible ones refused."""
    assert Taken() == store.take_accounting([])
    assert Taken(changed=1, ignored=1, refused=1) == store.take_accounting(
        [make_row(), make_row(job_id=43, gpu_count=None), make_row(job_id=44, end=-5)]
    )
    assert Taken(known=1) == store.take_accounting([make_row()])
    assert Taken(changed=1) == store.take_accounting([replace(make_row(), state="FAILED")])


def test_a_gpu_job_without_gres_is_completed(store: SqliteStore) -> None:
    """C51: TRES says nothing of GPUs, the prolog saw some: the row is taken, the prologs' count stays."""
    store.write([make_record(gpus=[make_gpu(0), make_gpu(1)])])
    assert Taken(changed=1) == store.take_accounting([make_row(gpu_count=None)])
    (row,) = rows(store)
    assert row.run is not None
    assert (True, None, 2.0, 7200.0) == (
        *(row.run.accounted, row.run.slurm_gpu_count),
        *(row.sums.gpu_count, row.sums.allocated_seconds),
    )


def test_a_row_that_is_over_never_goes_on_again(store: SqliteStore) -> None:
    """What was read last stays, but not an older word that the job runs."""
    store.write([make_record()])
    running = make_row(end=None, state="RUNNING", elapsed=50)
    store.take_accounting([running])
    assert not run_of(store).accounted
    store.take_accounting([make_row()])
    assert Taken(known=1) == store.take_accounting([running])
    assert run_of(store).accounted


def test_reading_is_noted_and_never_goes_back(store: SqliteStore) -> None:
    """read_until is the latest instant set, each cluster's its own."""
    assert store.read_until("alpha") is None
    store.set_read_until("alpha", 2000.0)
    store.set_read_until("alpha", 1000.0)
    assert (2000.0, None) == (store.read_until("alpha"), store.read_until("beta"))


def test_taking_rows_makes_the_database(tmp_path: Path) -> None:
    """The collector may read accounting before the first record comes in."""
    store = make_store(tmp_path / "new" / "ofu.db", made=False, wait_seconds=120.0)
    assert store.read_until("alpha") is None
    assert Taken(changed=1) == store.take_accounting([make_row()])


# ------------------------------------------------------------------- completion


def test_accounting_completes_a_run(store: SqliteStore) -> None:
    """Name, array, component, state, times and the rest are Slurm's; its node list is the prologs'."""
    store.write([make_record(make_job(node_list="n[1-2]", node_count=2))])
    row = make_row(end=START_S + 3000, suspended=500, state="TIMEOUT", node_list="n[1-3]", gpu_count=2)
    store.take_accounting(
        [
            replace(
                row,
                array_job_id=40,
                array_task_id=2,
                account="maths",
                qos="long",
                exit_code="7:0",
                alloc_tres="cpu=8,gres/gpu=2,gres/gpu:h100=2",
            )
        ]
    )
    run = run_of(store)
    assert "cpu=8,gres/gpu=2,gres/gpu:h100=2" == run.alloc_tres
    assert ("train", 40, 2, "TIMEOUT", "7:0", "maths", "long", "ada") == (
        *(run.job_name, run.array_job_id, run.array_task_id, run.state, run.exit_code),
        *(run.account, run.qos, run.user),
    )
    assert (START - 10, START, START + 3000, 2500.0, 500.0, 2) == (
        *(run.submit_epoch_s, run.start_epoch_s, run.end_epoch_s),
        *(run.elapsed_seconds, run.suspended_seconds, run.slurm_gpu_count),
    )
    assert ("n[1-2]", True, True) == (run.node_list, run.accounted, run.heard)


def test_what_slurm_says_later_is_taken(store: SqliteStore) -> None:
    """A row that changed changes its run, and says when; the same row again does neither."""
    said = [100.0]
    store = SqliteStore(
        *(store.path,),
        group=None,
        world_readable=False,
        wait_seconds=60.0,
        expand_hostlist=expand,
        now=lambda: said[0],
    )
    updated = "SELECT state, updated_epoch_s FROM run"
    store.write([make_record()])
    store.take_accounting([make_row()])
    for said[0], state in ((200.0, "FAILED"), (300.0, "FAILED")):
        store.take_accounting([make_row(state=state)])
    assert [("FAILED", 200.0)] == query(store.path, updated)


def test_a_late_record_does_not_undo_it(store: SqliteStore) -> None:
    """Nodes that report after accounting was read add themselves and take nothing away."""
    job = make_job(node_list="n[1-2]", node_count=2, account="zzz")
    store.write([make_record(job)])
    store.take_accounting([make_row(node_list="n[1-2]", gpu_count=2)])
    store.write([make_record(job, node="n2", end=START + 9999)])
    run = run_of(store)
    assert ("physics", "COMPLETED", START + 3600) == (run.account, run.state, run.end_epoch_s)


def test_what_slurm_does_not_say_stays(store: SqliteStore) -> None:
    """An absent comment, account or user in the row leaves the prolog's."""
    store.write([make_record(replace(make_job(), comment="mine"))])
    store.take_accounting([replace(make_row(user=None, uid=None), account=None, partition=None)])
    run = run_of(store)
    assert ("mine", "physics", "gpu", "ada") == (run.comment, run.account, run.partition, run.user)


def test_a_run_whose_life_turns_out_another_is_given_back(store: SqliteStore) -> None:
    """22.05: the second life's run takes the only row till the first one's fits better."""
    store.write([make_record(make_job(restart_count=1), start=START + 5000, end=START + 6000)])
    store.take_accounting([make_row()])
    assert run_of(store).accounted
    store.write([make_record()])
    first, second = (row.run for row in rows(store) if row.run is not None)
    assert [(0, True, "train"), (1, False, None)] == [
        (run.restart_count, run.accounted, run.job_name) for run in (first, second)
    ]
    assert (START + 5000, START + 6000) == (second.start_epoch_s, second.end_epoch_s)


def test_a_requeue_on_22_05_completes_each_life(store: SqliteStore) -> None:
    """C42: two rows of one job id, without restart counts, are two runs."""
    store.write(
        [
            make_record(start=START, end=START + 1000),
            make_record(make_job(restart_count=1), start=START + 1120, end=START + 3000),
        ]
    )
    store.take_accounting(
        [
            make_row(end=START_S + 998, state="REQUEUED"),
            make_row(submit=START_S + 999, start=START_S + 1120, end=START_S + 3000),
        ]
    )
    assert [(-10, 0, 1), (999, 1, 1)] == query(store.path, LINKED, START_S)
    assert ["REQUEUED", "COMPLETED"] == [row.run.state for row in rows(store) if row.run]


def test_node_fail_and_requeue(store: SqliteStore) -> None:
    """The lost life's record comes a day after the next life's, from the node's next boot."""
    store.take_accounting(
        [
            make_row(end=START_S + 1000, state="NODE_FAIL"),
            make_row(submit=START_S + 1000, start=START_S + 1120, end=START_S + 3000, node_list="n2"),
        ]
    )
    assert [False, False] == [row.run.heard for row in rows(store) if row.run]
    job = make_job(restart_count=1, node_list="n2")
    store.write([make_record(job, node="n2", start=START + 1120, end=START + 3000)])
    store.write([make_record(reason="sampler_died", end=START + 900)])
    assert [(0, "NODE_FAIL", True), (1, "COMPLETED", True)] == [
        (row.run.restart_count, row.run.state, row.run.heard) for row in rows(store) if row.run
    ]


def test_wrapped_ids_never_blend(store: SqliteStore) -> None:
    """C57: id 42 of 2017 and id 42 of today are two runs of two users, each with its own row."""
    then = START_S - 9 * 365 * 86400
    store.write([make_record(make_job(user="yves", uid=5))])
    store.take_accounting(
        [make_row(user="yves", uid=5), make_row(user="xenia", uid=6, start=then, end=then + 60)]
    )
    assert [("xenia", False, then), ("yves", True, START)] == [
        (row.run.user, row.run.heard, row.run.start_epoch_s) for row in rows(store) if row.run
    ]


def test_clusters_number_their_jobs_independently(store: SqliteStore) -> None:
    """C57: the row of another cluster completes nothing here."""
    store.write([make_record()])
    store.take_accounting([make_row(cluster="beta")])
    assert [("alpha", False, True), ("beta", True, False)] == [
        (row.run.cluster, row.run.accounted, row.run.heard)
        for row in sorted(rows(store), key=lambda row: row.run.cluster if row.run else "")
        if row.run
    ]
