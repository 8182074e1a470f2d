"""Where the GPU time is that nobody measured."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.audits.coverage import coverage
from slurm_ofu.figures import pool
from slurm_ofu.values import AuditResult, RunGpu, RunRow, UsageRow
from tests.audits.rows import GOALS, SETTINGS, gpu, run, silent_gpu


def told(result: AuditResult) -> list[tuple[str, Any, float]]:
    return [
        (entry.subject, entry.figures["reason"], round(entry.weight_gpu_hours, 6)) for entry in result.entries
    ]


def node(name: str, *rows: UsageRow) -> UsageRow:
    return UsageRow(group=name, sums=pool(row.sums for row in rows))


def test_reasons_of_a_partition_by_what_they_cost() -> None:
    """A partition with too little OFU has an entry for each reason, the costliest first."""
    rows = [
        run(1, gpu(hours=10)),
        run(2, silent_gpu(hours=20)),
        run(3, silent_gpu(hours=30, reason="profiling_locked")),
        run(4, gpu(hours=100), partition="good"),
        run(5, silent_gpu(hours=5), partition="good"),
    ]
    result = coverage(rows, [], SETTINGS, GOALS)
    assert [
        ("gpu: profiling_locked", "profiling_locked", 30.0),
        ("gpu: no_source", "no_source", 20.0),
    ] == told(result)
    assert [3] == [its.job_id for its in result.entries[0].runs]
    assert result == coverage(rows[::-1], [], SETTINGS, GOALS)


def test_no_entry_is_a_users() -> None:
    """What was not measured is nobody's fault who ran a job there."""
    result = coverage([run(1, silent_gpu())], [node("n1", run(1, silent_gpu()))], SETTINGS, GOALS)
    assert 2 == len(result.entries)
    assert {None} == {entry.user for entry in result.entries} | {entry.account for entry in result.entries}


def test_who_opted_out_or_was_too_short_is_no_fault() -> None:
    """Runs that asked not to be profiled, and those over at once, are left out, of nodes as well."""
    rows = [run(1, silent_gpu(reason="opted_out")), run(2, silent_gpu(reason="short"))]
    nodes = [node("n1", *rows)]
    result = coverage(rows, nodes, SETTINGS, GOALS)
    assert ((), {"opted_out": 1, "short": 1}) == (result.entries, result.left_out)
    assert None is result.summary["measured_ratio"]


def test_short_runtimes_are_looked_at_too() -> None:
    """The least runtime of the other audits is none here: jobs of minutes should be measured as well."""
    rows = [run(at, silent_gpu(hours=0.1)) for at in range(20)]
    assert [("gpu: no_source", "no_source", 2.0)] == told(coverage(rows, [], SETTINGS, GOALS))


def test_a_run_that_no_node_spoke_of() -> None:
    """A run known from Slurm's accounting alone is not delivered."""
    row = run(1, silent_gpu(), heard=False)
    row = replace(row, sums=replace(row.sums, reasons=()))
    assert [("gpu: not_delivered", "not_delivered", 10.0)] == told(coverage([row], [], SETTINGS, GOALS))


def test_nodes_with_little_ofu() -> None:
    """A node is listed where too little of its time has an OFU, and only there; for its worst reason where no
    run says more."""
    nodes = [
        node(
            "n1", run(1, gpu(hours=1)), run(2, silent_gpu(hours=9)), run(3, silent_gpu(reason="not_started"))
        ),
        node("n2", run(1, gpu(hours=95)), run(2, silent_gpu(hours=5))),
    ]
    (entry,) = coverage([], nodes, SETTINGS, GOALS).entries
    assert ("node", "n1: not_started", 19.0) == (entry.kind, entry.subject, entry.weight_gpu_hours)
    assert ("not_started", "n1") == (entry.figures["reason"], entry.figures["node"])


def test_each_node_for_its_own_reason() -> None:
    """Of a run on two nodes of which one was not measured the other has gaps; partitions and nodes add up to
    the same for each reason, also where nobody said how long a GPU was held."""
    half, silent = gpu(hours=10, covered_seconds=5 * 3600.0), silent_gpu(reason="not_started", hours=10)
    two = replace(run(1, half, silent), run=replace(_of(run(1, half)), node_count=2, node_list="n[1-2]"))
    alone = replace(run(2, half), run=replace(_of(run(2, half)), node_list="n1", node_count=1))
    nodes = [node("n1", run(1, half), run(2, half)), node("n2", run(1, silent))]
    for unheard in (silent, replace(silent, allocated_seconds=None)):
        gpus = {
            1: [
                RunGpu(run_id=1, node_name="n1", totals=half),
                RunGpu(run_id=1, node_name="n2", totals=unheard),
            ]
        }
        result = coverage([two, alone], nodes, SETTINGS, GOALS, gpus=gpus)
        assert [
            ("gpu: gaps", "gaps", 10.0),
            ("gpu: not_started", "not_started", 10.0),
            ("n1: gaps", "gaps", 10.0),
            ("n2: not_started", "not_started", 10.0),
        ] == told(result)
        assert [2, 1, 2, 1] == [entry.figures["run_count"] for entry in result.entries]


def _of(row: UsageRow) -> RunRow:
    assert row.run is not None
    return row.run


def test_tensor_activity_without_an_ofu_is_not_covered() -> None:
    """A GPU of an unknown model was measured and has no OFU: its time is without one."""
    one = gpu(reason="unknown_model", tensor_ref_seconds=None, tensor_ref_error_seconds=None)
    result = coverage([run(1, one)], [], SETTINGS, GOALS)
    assert [("gpu: unknown_model", "unknown_model", 10.0)] == told(result)
    assert 0.0 == result.summary["measured_ratio"]


@pytest.mark.parametrize(("hours", "listed"), [(89.9, True), (90.0, False)])
def test_the_threshold(hours: float, listed: bool) -> None:
    """From the threshold's share on nothing is listed."""
    rows = [run(1, gpu(hours=hours)), run(2, silent_gpu(hours=100 - hours))]
    assert listed == bool(coverage(rows, [], SETTINGS, GOALS).entries)
