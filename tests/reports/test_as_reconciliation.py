"""What `ofu-admin reconcile` says."""

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from slurm_ofu.reports.as_reconciliation import as_reconciliation, reconciliation_as_json, why_never_seen
from slurm_ofu.values import CoveredRuns, ReconciledRun, Reconciliation, ReportingNode

START, END = datetime(2026, 11, 5, tzinfo=timezone.utc), datetime(2026, 11, 6, tzinfo=timezone.utc)
NOW = END.timestamp() + 7200
JOB_END = END.timestamp() - 3600
NOTHING = Reconciliation(unaccounted=(), silent=(), incomplete=(), endless=(), coverage=(), nodes=())


def run(job_id: int = 4711, **changes: Any) -> ReconciledRun:
    """A run of two GPUs for two hours, of which two nodes were never heard."""
    its = ReconciledRun(
        run_id=1,
        job_id=job_id,
        restart_count=0,
        user="wilma",
        partition="gpu",
        state="COMPLETED",
        start_epoch_s=JOB_END - 7200,
        end_epoch_s=JOB_END,
        gpu_count=2.0,
        allocated_seconds=4 * 3600.0,
        silent_nodes=("n1", "n2"),
    )
    return replace(its, **changes)


def node(name: str, last: float | None, *, heard: int = 0) -> ReportingNode:
    """A node with one run of which it did not speak."""
    return ReportingNode(node_name=name, heard_count=heard, silent_count=1, last_heard_epoch_s=last)


def covered(reason: str, seconds: float, without: float) -> CoveredRuns:
    """Three runs of partition gpu."""
    return CoveredRuns(
        partition="gpu",
        reason=reason,
        run_count=3,
        run_count_with_ofu=3 if seconds else 0,
        gpu_count=3.0,
        gpu_count_unknown_time=0.0,
        ofu_covered_seconds=seconds,
        unmeasured_seconds=without,
    )


def text(its: Reconciliation, most: int | None = None) -> str:
    return as_reconciliation("alpha", its, start=START, end=END, now_epoch_s=NOW, width=100, most=most)


def why(*nodes: ReportingNode, its: ReconciledRun | None = None) -> str:
    known = {one.node_name: one for one in nodes}
    return why_never_seen(its or run(), known, NOW, timezone.utc)


def test_the_coverage_is_a_table_with_a_total() -> None:
    """Runs and GPU-hours with and without, by partition and reason, and pooled."""
    its = replace(NOTHING, coverage=(covered("ok", 36000.0, 0.0), covered("not_delivered", 0.0, 12000.0)))
    lines = text(its).splitlines()
    assert ["gpu", "not_delivered", "3", "0", "0.0", "3.3", "0.0", "%"] == lines[4].split()
    assert ["TOTAL", "6", "3", "10.0", "3.3", "75.0", "%"] == lines[6].split()


def test_nothing_amiss_says_nothing_more() -> None:
    """Without runs there is no table and no list."""
    assert text(NOTHING).splitlines()[1:] == ["", "No runs."]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((node("n1", None), node("n2", None)), "n1, n2 never reported on any job: look with ofu-node check"),
        ((node("n1", None), node("n2", JOB_END + 60)), "n1 never reported"),
        ((node("n1", JOB_END - 60), node("n2", JOB_END + 60)), "n1 last reported on a job that ended"),
        ((node("n1", JOB_END + 60), node("n2", JOB_END + 60)), "n1, n2 reported on jobs that ended later"),
    ],
)
def test_why_a_job_was_never_seen(nodes: tuple[ReportingNode, ...], words: str) -> None:
    """The nodes' other reports tell whether hooks are missing, records wait, or this one was lost."""
    assert words in why(*nodes)


def test_a_job_that_ended_lately_is_on_its_way() -> None:
    """Unless its node never reported at all, a record is given time."""
    its = run(end_epoch_s=NOW - 60)
    assert "may be on its way" in why(node("n1", NOW - 600), node("n2", NOW - 600), its=its)
    assert "never reported" in why(node("n1", None), node("n2", NOW - 600), its=its)


def test_runs_that_slurm_does_not_know_are_told_apart() -> None:
    """A row that does not end is a runaway job; none at all was purged, or is of another name."""
    its = replace(NOTHING, unaccounted=(run(1, state="RUNNING"), run(2, state=None)))
    shown = " ".join(text(its).split())
    assert "1 wilma, gpu, 4.0 GPU-h: in Slurm's accounting as RUNNING, without an end" in shown
    assert "2 wilma, gpu, 4.0 GPU-h: no such job in Slurm's accounting: purged there" in shown


def test_an_id_that_slurm_has_for_others_is_not_called_unknown() -> None:
    """Its row may be another life's, another user's, or as far away as a wrong clock."""
    shown = " ".join(text(replace(NOTHING, unaccounted=(run(state=None, others_rows=True),))).split())
    assert "has this job id only for another life" in shown
    assert "no such job" not in shown


def test_a_cluster_that_was_never_read_is_not_called_unknown() -> None:
    """Nothing is said of Slurm's accounting of a cluster that was not asked about, in JSON neither."""
    its = replace(
        NOTHING, unaccounted=(run(state=None),), coverage=(covered("ok", 1.0, 0.0),), accounting_known=False
    )
    shown = " ".join(text(its).split())
    assert "no such job" not in shown
    assert "no row of its cluster was ever read. Name it under [accounting] clusters" in shown
    assert "jobs that no node spoke of are not in here" in shown
    whole = json.loads(reconciliation_as_json([("alpha", its)], start=START, end=END, generated_at=END))
    [cluster] = whole["clusters"]
    assert not cluster["accounting_known"]
    assert "no row of its cluster" in cluster["unaccounted"][0]["why"]


def test_gpus_that_slurm_does_not_count_are_said() -> None:
    """C51: without gres/gpu in TRES the fleet's coverage lacks the jobs that no node spoke of."""
    its = replace(NOTHING, coverage=(covered("ok", 1.0, 0.0),), run_count_without_slurm_gpus=1)
    assert "Of 1 run Slurm's accounting counts no GPUs" in text(its)
    assert "counts no GPUs" not in text(replace(its, run_count_without_slurm_gpus=0))


def test_tasks_and_components_are_called_as_slurm_does() -> None:
    """123_4 and 123+1 for people; to programs both that and the raw id."""
    task, part = run(array_job_id=9, array_task_id=4), run(het_job_id=8, het_offset=1)
    its = replace(NOTHING, endless=(task, part))
    assert ["9_4", "8+1"] == [line.split()[0] for line in text(its).splitlines() if "wilma" in line]
    whole = json.loads(reconciliation_as_json([("alpha", its)], start=START, end=END, generated_at=END))
    shown = [(one["job_id"], one["display_job_id"]) for one in whole["clusters"][0]["endless"]]
    assert [(4711, "9_4"), (4711, "8+1")] == shown


def test_long_lists_are_cut_and_say_so() -> None:
    """So many, and how many more."""
    its = replace(NOTHING, endless=tuple(run(number) for number in range(1, 26)))
    assert "… and 5 more (--all)" in text(its, most=20)
    assert "more (--all)" not in text(its)


def test_nodes_that_never_report_are_named() -> None:
    """A node that reported on some of its runs is not among them."""
    its = replace(NOTHING, nodes=(node("n1", None), node("n2", JOB_END, heard=4)))
    shown = text(its)
    assert "Nodes that reported on none of their runs in this window: 1 of 2" in shown
    assert "n1: 1 run, never reported" in shown
    assert "n2" not in shown


def test_names_of_others_cannot_paint_the_terminal() -> None:
    """Control characters in user, partition and node names are replaced, in JSON too."""
    evil = "x\x1b[31m"
    its = replace(
        NOTHING, silent=(run(user=evil, partition=evil, silent_nodes=(evil,)),), nodes=(node(evil, None),)
    )
    assert "\x1b" not in text(its)
    whole = reconciliation_as_json([(evil, its)], start=START, end=END, generated_at=END)
    assert "\\u001b" not in whole


def test_json_is_whole_and_says_why() -> None:
    """Every run with its reason, in base units."""
    its = replace(NOTHING, silent=(run(),), nodes=(node("n1", None), node("n2", None)))
    shown = json.loads(reconciliation_as_json([("alpha", its)], start=START, end=END, generated_at=END))
    [cluster] = shown["clusters"]
    assert (1, "alpha") == (shown["schema_version"], cluster["cluster"])
    [found] = cluster["never_seen"]
    assert (4711, 14400.0, ["n1", "n2"]) == (
        found["job_id"],
        found["allocated_seconds"],
        found["silent_nodes"],
    )
    assert "never reported" in found["why"]
