"""What the nodes know and Slurm does not, and the other way round."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.figures import figures
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.store.reconciling import ReconcilingReader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import CoveredRuns, Reconciliation, ReportingNode
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store, rows
from tests.store.records import START, make_gpu, make_job, make_record


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


def ask(store: SqliteStore, *, ended_by: float = START + 1e6) -> Reconciliation:
    """About cluster alpha, a day before and after."""
    reader = ReconcilingReader(store.path)
    return reader.reconciliation("alpha", START - 86400, START + 86400, ended_by_epoch_s=ended_by)


def test_nothing_is_nothing(store: SqliteStore) -> None:
    """An empty database has nothing to reconcile."""
    nothing = Reconciliation(
        unaccounted=(),
        silent=(),
        incomplete=(),
        endless=(),
        coverage=(),
        nodes=(),
        accounting_known=False,
        run_count_without_slurm_gpus=0,
    )
    assert nothing == ask(store)


def test_runs_that_slurm_does_not_know(store: SqliteStore) -> None:
    """Heard, over for long enough, and without a final row; a row that goes on says in which state."""
    store.write([make_record(make_job(job_id=at)) for at in (1, 2, 3)])
    store.take_accounting([make_row(job_id=2, end=None, state="RUNNING"), make_row(job_id=3)])
    assert [(1, None), (2, "RUNNING")] == [(run.job_id, run.state) for run in ask(store).unaccounted]
    assert () == ask(store, ended_by=START + 3599).unaccounted


def test_runs_that_no_node_spoke_of(store: SqliteStore) -> None:
    """With their nodes and GPU-seconds; those of another cluster or time are not asked about."""
    store.take_accounting(
        [
            make_row(node_list="n[1-2]", gpu_count=4),
            make_row(cluster="beta"),
            make_row(start=START_S - 10**6, end=START_S - 10**6 + 5),
        ]
    )
    (run,) = ask(store).silent
    assert (42, "ada", "COMPLETED", 4.0, 4 * 3600.0, ("n1", "n2")) == (
        *(run.job_id, run.user, run.state, run.gpu_count, run.allocated_seconds, run.silent_nodes),
    )
    assert () == ask(store).unaccounted


def test_runs_heard_from_some_of_their_nodes(store: SqliteStore) -> None:
    """The silent nodes are named; a node without GPUs is not missed."""
    whole = make_job(job_id=1, node_list="n[1-2]")
    store.write([make_record(whole), make_record(whole, node="n2")])
    store.write([make_record(make_job(job_id=2, node_list="n[1-3]"))])
    store.write([make_record(make_job(job_id=3, node_list="n[1-2]"))])
    store.take_accounting([make_row(job_id=3, node_list="n[1-2]", gpu_count=1)])
    assert [(2, ("n2", "n3"))] == [(run.job_id, run.silent_nodes) for run in ask(store).incomplete]


def test_runs_whose_end_was_lost(store: SqliteStore) -> None:
    """No epilog told an exit code."""
    store.write([make_record(make_job(job_id=1)), replace(make_record(make_job(job_id=2)), exit_code=None)])
    store.take_accounting([make_row(job_id=2)])
    assert [2] == [run.job_id for run in ask(store).endless]


def test_coverage_by_partition_and_reason(store: SqliteStore) -> None:
    """Each run counts once, under its worst reason, with GPU-seconds that have an OFU and that have none."""
    blind = make_gpu(1, reason="no_source", covered=0.0, tensor_ref=None)
    store.write(
        [
            make_record(make_job(job_id=1)),
            make_record(make_job(job_id=2), gpus=[make_gpu(0), blind]),
            make_record(make_job(job_id=3, partition="fast")),
            make_record(make_job(job_id=5, partition="slow", node_list="n[1-2]")),
        ]
    )
    store.take_accounting([make_row(job_id=4, gpu_count=8), make_row(job_id=1, end=START_S + 3000)])

    def covered(partition: str, reason: str, gpus: float, has: float, has_not: float) -> CoveredRuns:
        return CoveredRuns(
            partition=partition,
            reason=reason,
            run_count=1,
            run_count_with_ofu=int(has > 0),
            gpu_count=gpus,
            gpu_count_unknown_time=0.0,
            ofu_covered_seconds=has,
            unmeasured_seconds=has_not,
        )

    assert (
        covered("fast", "ok", 1.0, 3500.0, 100.0),
        covered("gpu", "not_delivered", 8.0, 0.0, 8 * 3600.0),
        covered("gpu", "no_source", 2.0, 3500.0, 3700.0),
        covered("gpu", "ok", 1.0, 3000.0, 0.0),
        covered("slow", "not_delivered", 2.0, 3500.0, 3700.0),
    ) == ask(store).coverage


def test_nodes_that_never_report(store: SqliteStore) -> None:
    """Of how many runs each node reported, and when it last did, before the window too."""
    early = START - 10**6
    store.write([make_record(make_job(job_id=1), node="n3", start=early, end=early + 60)])
    store.write([make_record(make_job(job_id=2, node_list="n[1-3]"))])
    store.take_accounting([make_row(job_id=3)])
    assert (
        ReportingNode(node_name="n1", heard_count=1, silent_count=1, last_heard_epoch_s=START + 3600),
        ReportingNode(node_name="n2", heard_count=0, silent_count=1, last_heard_epoch_s=None),
        ReportingNode(node_name="n3", heard_count=0, silent_count=1, last_heard_epoch_s=early + 60),
    ) == ask(store).nodes


def test_rows_of_the_same_id_that_are_not_the_runs(store: SqliteStore) -> None:
    """A run without its row whose job id has others is told from one of unknown id; a cluster of which no
    row was ever read is told from both."""
    store.write([make_record(make_job(job_id=at)) for at in (1, 2)])
    assert not ask(store).accounting_known
    store.take_accounting([make_row(job_id=2, uid=2000, user="eve")])
    found = ask(store)
    assert found.accounting_known
    assert [(1, False), (2, True)] == [(run.job_id, run.others_rows) for run in found.unaccounted]


def test_runs_whose_gpus_slurm_does_not_count(store: SqliteStore) -> None:
    """Where accounting says no GPUs of jobs that had some, silent jobs of their kind cannot be found."""
    store.write([make_record(make_job(job_id=at)) for at in (1, 2, 3)])
    store.take_accounting([make_row(job_id=1, gpu_count=None), make_row(job_id=2)])
    assert 1 == ask(store).run_count_without_slurm_gpus


def test_a_run_that_is_charged_no_time(store: SqliteStore) -> None:
    """What was measured of it has no weight: it has no OFU, and that is why."""
    store.write([make_record()])
    store.take_accounting([make_row(end=START_S)])
    (row,) = ask(store).coverage
    assert ("not_charged", 1, 0, 0.0) == (
        *(row.reason, row.run_count, row.run_count_with_ofu, row.unmeasured_seconds),
    )
    (its,) = (figures(row.sums) for row in rows(store))
    assert (None, "not_charged") == (its.ofu_ratio, its.reason)


def test_some_partitions_only(store: SqliteStore) -> None:
    """Where not all are meant to be measured."""
    store.take_accounting([make_row(job_id=1), replace(make_row(job_id=2), partition="desk")])
    reader = ReconcilingReader(store.path)
    its = reader.reconciliation("alpha", 0.0, 2e9, ended_by_epoch_s=2e9, partitions=("gpu",))
    assert ([1], ["gpu"]) == ([run.job_id for run in its.silent], [row.partition for row in its.coverage])


def test_tasks_and_components_keep_their_ids(store: SqliteStore) -> None:
    """They are called as Slurm calls them."""
    store.take_accounting(
        [
            replace(make_row(job_id=1), array_job_id=9, array_task_id=4),
            replace(make_row(job_id=2), het_job_id=8, het_offset=1),
        ]
    )
    assert ["9_4", "8+1"] == [display_job_id(run) for run in ask(store).silent]
