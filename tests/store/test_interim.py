"""What is said of runs that go on, and what becomes of it when they end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.store.read import Reader
from slurm_ofu.store.reconciling import ReconcilingReader
from slurm_ofu.store.waiting import WaitingReader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.store.written_back import Window, WriteBackQueue
from slurm_ofu.values import NodeRecord, Reconciliation
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import content, make_store, query, rows
from tests.store.records import START, as_interim, make_gpu, make_job, make_record, make_unstarted

END = START + 3600.0
NEVER = float("-inf")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


def so_far(seconds: float, *, node: str = "n1", covered: float | None = None) -> NodeRecord:
    """What a node of a two-node job said so many seconds after its start."""
    its = seconds if covered is None else covered
    gpu = replace(make_gpu(allocated=seconds, covered=its, tensor_ref=its / 5), idle_tail_seconds=60.0)
    job = make_job(node_list="n[1-2]", node_count=2)
    return as_interim(make_record(job, node=node, end=START + seconds, allocated=seconds, gpus=[gpu]))


def at_the_end(node: str = "n1", *, covered: float = 3500.0) -> NodeRecord:
    """What it said at the end."""
    job = make_job(node_list="n[1-2]", node_count=2)
    return make_record(job, node=node, gpus=[make_gpu(covered=covered, tensor_ref=covered / 5)])


def run_row(store: SqliteStore) -> tuple[Any, ...]:
    """Of the only run: whether it runs, its state, and its end after its start."""
    [row] = query(store.path, f"SELECT running, state, end_epoch_s - {START} FROM run")
    return row


def covered(store: SqliteStore) -> dict[str, float]:
    """What is covered on each node that was heard."""
    return dict(query(store.path, "SELECT node_name, covered_seconds FROM run_gpu"))


# ------------------------------------------------------------------- which word is kept


def test_a_run_that_goes_on_is_running(store: SqliteStore) -> None:
    """Its end is that of its latest interim record, its state what the nodes say."""
    store.write([so_far(900.0), so_far(1000.0, node="n2")])
    assert (1, "RUNNING", 1000.0) == run_row(store)


def test_the_latest_word_counts_while_it_goes_on(store: SqliteStore) -> None:
    """Not that which covers most: a GPU that came to be shared has fewer covered seconds than it had."""
    store.write([so_far(1800.0, covered=850.0)])
    store.write([so_far(900.0, covered=890.0)])
    assert {"n1": 850.0} == covered(store)


def test_the_final_word_beats_every_interim_one(store: SqliteStore) -> None:
    """Whatever is covered, and whichever comes first: a late interim record changes nothing."""
    store.write([so_far(1800.0), so_far(1700.0, node="n2")])
    store.write([at_the_end(covered=0.0), at_the_end("n2")])
    before = content(store.path)
    store.write([so_far(2700.0), so_far(2800.0, node="n2")])
    assert {"n1": 0.0, "n2": 3500.0} == covered(store)
    assert before == content(store.path)


def test_it_runs_until_every_node_has_spoken_finally(store: SqliteStore) -> None:
    """A node whose record comes first ends no run of two nodes."""
    store.write([so_far(900.0), so_far(900.0, node="n2"), at_the_end()])
    assert (1, "RUNNING", 3600.0) == run_row(store)
    store.write([at_the_end("n2")])
    assert (0, None, 3600.0) == run_row(store)


def test_no_final_word_is_that_of_the_next_run(store: SqliteStore) -> None:
    """A requeued job's next life runs beside the one that is over."""
    store.write([at_the_end(), at_the_end("n2")])
    later = replace(so_far(900.0), start_epoch_s=END + 60, end_epoch_s=END + 960)
    key = replace(later.job.key, restart_count=1)
    store.write([replace(later, job=replace(later.job, key=key))])
    assert [(0, 0), (1, 1)] == query(store.path, "SELECT restart_count, running FROM run ORDER BY 1")


def test_what_a_job_claims_is_said_at_its_end(store: SqliteStore) -> None:
    """The epilog's comment counts: an earlier one must not stay because it was heard first."""
    early = so_far(900.0)
    store.write([replace(early, job=replace(early.job, comment="mfu=0.9"))])
    late = at_the_end()
    store.write([replace(late, job=replace(late.job, comment="mfu=0.4"))])
    assert [("mfu=0.4",)] == query(store.path, "SELECT comment FROM run")


# ------------------------------------------------------------------- Slurm's word


def test_slurm_says_what_it_is(store: SqliteStore) -> None:
    """Name, QOS and state are Slurm's while it goes on; its times are the nodes', its exit unknown."""
    store.write([so_far(900.0)])
    store.take_accounting(
        [make_row(end=None, suspended=60, state="SUSPENDED", node_list="n[1-2]", gpu_count=2)]
    )
    columns = "job_name, qos, state, running, accounted, exit_code, submit_epoch_s, elapsed_seconds"
    columns += ", suspended_seconds"
    expected = ("train", "normal", "SUSPENDED", 1, 0, None, START - 10, None, 60)
    assert [expected] == query(store.path, f"SELECT {columns} FROM run")
    assert (1, "SUSPENDED", 900.0) == run_row(store)


def test_slurm_ends_it(store: SqliteStore) -> None:
    """A run that is over in accounting runs no longer, whatever word is still missing."""
    store.write([so_far(900.0), at_the_end("n2")])
    store.take_accounting([make_row(node_list="n[1-2]", gpu_count=2)])
    assert (0, "COMPLETED", 3600.0) == run_row(store)
    store.write([so_far(1800.0)])
    assert (0, "COMPLETED", 3600.0) == run_row(store)


def test_while_it_goes_on_its_word_is_the_last(store: SqliteStore) -> None:
    """What was measured is ok, and how long it has been idle is known."""
    store.write([so_far(900.0)])
    store.take_accounting([make_row(end=None, state="RUNNING")])
    assert [("ok", 60.0)] == query(store.path, "SELECT reason, idle_tail_seconds FROM gpu_accounted")


def test_a_node_whose_final_word_never_came(store: SqliteStore) -> None:
    """not_delivered: what was measured stays, over the time that Slurm charges; how it ended is unknown."""
    store.write([so_far(900.0), at_the_end("n2")])
    store.take_accounting([make_row(node_list="n[1-2]", gpu_count=2)])
    found = query(
        store.path,
        "SELECT node_name, reason, covered_seconds, allocated_seconds, idle_tail_seconds FROM gpu_accounted",
    )
    assert [("n1", "not_delivered", 900.0, 3600.0, None), ("n2", "ok", 3500.0, 3600.0, None)] == found
    [row] = rows(store)
    assert row.run is not None
    page = Reader(store.path).page(row.run.run_id)
    assert ["not_delivered", "ok"] == [node.reason for node in page.nodes]
    assert ("not_delivered", "ok") == row.sums.reasons
    assert (4400.0, 7200.0) == (row.sums.covered_seconds, row.sums.allocated_seconds)
    store.write([at_the_end()])
    assert [("ok",)] == query(store.path, "SELECT DISTINCT reason FROM gpu_accounted")


@pytest.mark.parametrize("reason", ["no_source", "suspect", "opted_out"])
def test_a_reason_that_says_more_stays(store: SqliteStore, reason: Any) -> None:
    """Why there is no figure is not hidden by a final word that is missing."""
    its = replace(so_far(900.0), gpus=(make_gpu(reason=reason, allocated=900.0, covered=0.0),))
    store.write([its])
    store.take_accounting([make_row()])
    assert [(reason,)] == query(store.path, "SELECT reason FROM gpu_accounted")


# ------------------------------------------------------------------- who asks for it


def reconciled(store: SqliteStore, gone_epoch_s: float) -> Reconciliation:
    """Where nodes must have been heard from ``gone_epoch_s`` on."""
    reader = ReconcilingReader(store.path)
    return reader.reconciliation(
        "alpha", START - 10, END + 10, ended_by_epoch_s=END + 10, gone_epoch_s=gone_epoch_s
    )


def test_a_running_job_is_nobodys_mistake(store: SqliteStore) -> None:
    """It is not unaccounted, its nodes are not silent, its end was not lost."""
    store.write([so_far(900.0)])
    found = reconciled(store, START + 800)
    assert ((), (), (), (), ()) == (
        *(found.unaccounted, found.incomplete, found.endless, found.coverage, found.nodes),
    )


def test_a_job_that_nobody_hears_of_any_more_has_no_end(store: SqliteStore) -> None:
    """Unless Slurm says that it goes on, three missing interim records are as a lost end."""
    store.write([so_far(900.0)])
    assert [42] == [run.job_id for run in reconciled(store, START + 1000).endless]
    store.take_accounting([make_row(end=None, state="RUNNING")])
    assert () == reconciled(store, START + 1000).endless


def test_a_run_that_slurm_ended_without_a_last_word_has_no_end(store: SqliteStore) -> None:
    """No node ever said how it ended."""
    store.write([so_far(900.0)])
    store.take_accounting([make_row()])
    assert [42] == [run.job_id for run in reconciled(store, NEVER).endless]


def test_a_running_job_waits_for_no_row(store: SqliteStore) -> None:
    """Of every running job Slurm would be asked at each look; one that is gone waits like any other."""
    store.write([so_far(900.0)])
    reader = WaitingReader(store.path)
    assert () == reader.waiting(0.0, END)
    assert () == reader.waiting(0.0, END, gone_epoch_s=START + 900)
    assert [42] == [run.job_id for run in reader.waiting(0.0, END, gone_epoch_s=START + 901)]


def test_nothing_is_written_back_before_the_end(store: SqliteStore) -> None:
    """Its token is due when the run is over in Slurm's accounting."""
    window = Window(now_epoch_s=2e9, ended_from_epoch_s=0.0, ended_by_epoch_s=2e9)
    queue = WriteBackQueue(store.path, wait_seconds=5.0)
    store.write([so_far(900.0)])
    store.take_accounting([make_row(end=None, state="RUNNING")])
    assert 0 == queue.count_due(window)
    store.take_accounting([make_row(end=START_S + 3600)])
    assert 1 == queue.count_due(window)


@pytest.mark.parametrize("epilog_first", [False, True])
def test_an_epilog_alone_belongs_to_the_run_that_went_on(store: SqliteStore, *, epilog_first: bool) -> None:
    """A node lost what its prolog left, long after its latest interim record: that is no second run."""
    words = [so_far(900.0), make_unstarted(node="n2"), make_unstarted(node="n1")]
    for record in words[::-1] if epilog_first else words:
        store.write([record])
    assert [(1,)] == query(store.path, "SELECT COUNT(*) FROM run")
    store.take_accounting([make_row(node_list="n[1-2]", node_count=2, gpu_count=2)])
    assert (0, "COMPLETED", 3600.0) == run_row(store)


def test_an_epilog_alone_of_the_next_life_is_not_the_former_one_s(store: SqliteStore) -> None:
    """Though the former one's final word has not come."""
    store.write([so_far(900.0)])
    store.write([make_unstarted(make_job(restart_count=1), node="n2")])
    assert [(0, 1), (1, 0)] == query(store.path, "SELECT restart_count, running FROM run ORDER BY 1")
