"""Claims, and which runs a selection finds, once accounting was read."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import Claim, Selection
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store, rows, run_of
from tests.store.records import START, expand, make_job, make_record


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


def claiming_store(path: Path) -> SqliteStore:
    """A database whose comments are read: any of them claims an MFU of its own length in per cent."""

    def claim_of(comment: str) -> Claim | None:
        return Claim(kind="mfu", value=len(comment) / 100, text=comment)

    make_store(path)
    return SqliteStore(
        path, group=None, world_readable=False, wait_seconds=20.0, expand_hostlist=expand, claim_of=claim_of
    )


def test_a_claim_is_the_epilogs_then_accountings(tmp_path: Path) -> None:
    """The comment that the epilog saw goes first, in any order; one that only Slurm has comes after."""
    store = claiming_store(tmp_path / "ofu.db")
    claim = Claim(kind="tflops", value=412.0, text="tflops=412", peak_tflops=989.4)
    store.take_accounting([make_row(comment="mfu=0.4"), make_row(job_id=43, comment="four")])
    store.write([make_record(replace(make_job(), claim=claim)), make_record(make_job(job_id=43))])
    assert [
        claim,
        Claim(kind="mfu", value=0.04, text="four", source="accounting"),
    ] == [row.run.claim for row in rows(store) if row.run]


def test_the_claims_of_several_nodes_are_one(tmp_path: Path) -> None:
    """Nodes of one run saw different comments: the same claim stays, whoever spoke first."""
    found = []
    for order in (1, -1):
        store = make_store(tmp_path / f"{order}.db")
        for node, value in [("n1", 0.3), ("n2", 0.4)][::order]:
            claim = Claim(kind="mfu", value=value, text=f"mfu={value}")
            store.write([make_record(replace(make_job(node_list="n[1-2]"), claim=claim), node=node)])
        found.append(run_of(store).claim)
    assert [Claim(kind="mfu", value=0.4, text="mfu=0.4")] * 2 == found


@pytest.mark.parametrize(
    ("selection", "jobs"),
    [
        (Selection(job_ids=(7,)), {7}),
        (Selection(job_ids=(9,)), {7, 8, 9}),  # the array's last task keeps its id
        (Selection(array_tasks=((9, 0), (9, 2))), {7, 9}),
        (Selection(job_ids=(20,)), {20, 21}),
        (Selection(het_components=((20, 1),)), {21}),
        (Selection(job_ids=(7,), array_tasks=((9, 1),), het_components=((20, 0),)), {7, 8, 20}),
        (Selection(array_tasks=((9, 5),)), set()),
        (Selection(array_tasks=((9, 0),), users=("nobody",)), set()),
    ],
)
def test_jobs_by_array_and_component(store: SqliteStore, selection: Selection, jobs: set[int]) -> None:
    """123 is a job or a whole, 123_4 a task, 123+1 a component; several are any of them."""
    tasks = [replace(make_row(job_id=7 + at), array_job_id=9, array_task_id=at) for at in range(3)]
    parts = [replace(make_row(job_id=20 + at), het_job_id=20, het_offset=at) for at in range(2)]
    store.take_accounting([*tasks, *parts, make_row(job_id=30)])
    assert jobs == {row.run.job_id for row in rows(store, selection) if row.run}


def test_many_tasks_at_once(store: SqliteStore) -> None:
    """Thousands of tasks are one question."""
    store.take_accounting([replace(make_row(), array_job_id=9, array_task_id=4999)])
    selection = Selection(array_tasks=tuple((9, at) for at in range(5000)))
    assert 1 == len(rows(store, selection))


def test_a_window_uses_slurms_own_times(store: SqliteStore) -> None:
    """A node's clock an hour ahead puts no run into another window."""
    store.write([make_record(start=START + 3600, end=START + 7200)])
    window = Selection(start_epoch_s=START, end_epoch_s=START + 3600)
    assert [] == rows(store, window)
    store.take_accounting([make_row()])
    assert 1 == len(rows(store, window))
