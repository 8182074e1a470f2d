"""Runs that used some of their GPUs and left others idle."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slurm_ofu.audits.unused import unused
from slurm_ofu.values import AuditConfig, AuditResult, GpuTotals
from tests.audits.rows import GOALS, HOUR, SETTINGS, fp64_gpu, gpu, idle_gpu, run, run_gpus, silent_gpu


def audited(gpus: Sequence[GpuTotals], settings: AuditConfig = SETTINGS) -> AuditResult:
    row = run(1, *gpus)
    return unused([row], run_gpus(row, *gpus), settings, GOALS)


def test_three_of_eight_gpus_never_used() -> None:
    """The run's entry names the GPUs that were idle while the others worked, and their GPU-hours."""
    result = audited([*(gpu(at) for at in range(5)), *(idle_gpu(at) for at in range(5, 8))])
    by_kind = {entry.kind: entry for entry in result.entries}
    names = ("unused_gpu_count", "gpu_count", "unknown_gpu_count", "unused_gpus")
    assert (3, 8.0, 0.0, "n1:5,n1:6,n1:7") == tuple(by_kind["run"].figures[name] for name in names)
    assert (30.0, 30.0, "wilma") == (
        by_kind["run"].weight_gpu_hours,
        by_kind["user"].weight_gpu_hours,
        by_kind["user"].subject,
    )


@pytest.mark.parametrize(
    ("gpus", "left_out"),
    [
        ([idle_gpu(0), idle_gpu(1)], {}),  # idle as a whole: another audit
        ([gpu(0), gpu(1)], {}),
        ([gpu(0), fp64_gpu(1)], {}),
        ([gpu(0), idle_gpu(1, idle_hours=9.0)], {}),
        ([gpu(0), silent_gpu(1)], {}),
        ([gpu(0), idle_gpu(1, idle_covered_seconds=5 * HOUR)], {}),
        ([gpu(0), idle_gpu(1, reason="suspect")], {"suspect": 1}),
        ([gpu(0), idle_gpu(1, reason="shared")], {"shared": 1}),
        ([silent_gpu(0), silent_gpu(1)], {"unmeasured": 1}),
        ([idle_gpu(0)], {"one_gpu": 1}),
    ],
)
def test_what_is_not_unused(gpus: Sequence[GpuTotals], left_out: dict[str, int]) -> None:
    """Idle together, at work of any kind, not known, known for too little, or doubtful: nothing is listed."""
    result = audited(gpus)
    assert ((), left_out) == (result.entries, result.left_out)


def test_gpus_that_are_not_known_are_counted_apart() -> None:
    """A GPU that was not measured is neither used nor unused."""
    (first, _) = audited([gpu(0), idle_gpu(1), silent_gpu(2)]).entries
    (entry,) = [one for one in (first, _) if one.kind == "run"]
    assert (1, 1.0) == (entry.figures["unused_gpu_count"], entry.figures["unknown_gpu_count"])


def test_a_window_cuts_what_is_at_stake() -> None:
    """Of a run of which a quarter lies in the window a quarter of its unused GPU-hours is at stake."""
    gpus = [gpu(0), idle_gpu(1)]
    row = run(1, *gpus)
    row = replace(row, sums=replace(row.sums, allocated_seconds=5 * HOUR))
    entry = unused([row], run_gpus(row, *gpus), SETTINGS, GOALS).entries[0]
    assert 2.5 == pytest.approx(entry.weight_gpu_hours)


def test_a_silent_node_makes_no_window_longer() -> None:
    """Half of a run in the window is half of its unused GPU-hours, also where only one of its two nodes was
    ever heard from."""
    gpus = [gpu(0), idle_gpu(1)]
    row = run(1, *gpus)
    row = replace(row, sums=replace(row.sums, gpu_count=4.0, allocated_seconds=20 * HOUR))
    entry = unused([row], run_gpus(row, *gpus), SETTINGS, GOALS).entries[0]
    assert 5.0 == pytest.approx(entry.weight_gpu_hours)


def test_what_nobody_measured_is_not_unused() -> None:
    """Of a GPU that was measured for nine hours of ten no more than nine are at stake."""
    measured = {"covered_seconds": 9 * HOUR, "idle_covered_seconds": 9 * HOUR, "idle_seconds": 9 * HOUR}
    (first, _) = audited([gpu(0), idle_gpu(1, **measured)]).entries
    assert 9.0 == pytest.approx(first.weight_gpu_hours)


def test_an_array_is_one_entry() -> None:
    """A thousand tasks that leave a GPU unused are one entry, and their user another."""
    two = [gpu(0, hours=1), idle_gpu(1, hours=1)]
    rows = [run(task, *two, array_job_id=9, array_task_id=task) for task in range(1000)]
    gpus = {key: its for row in rows for key, its in run_gpus(row, *two).items()}
    result = unused(rows, gpus, SETTINGS, GOALS)
    assert [("run", "9", 1000.0), ("user", "wilma", 1000.0)] == [
        (entry.kind, entry.subject, entry.weight_gpu_hours) for entry in result.entries
    ]
    assert (1000, 2000.0) == (
        result.entries[0].figures["unused_gpu_count"],
        result.entries[0].figures["gpu_count"],
    )


def test_a_users_runs_are_pooled() -> None:
    """A user's entry adds up the runs, the worst first; each stands for itself too."""
    two = [gpu(0), idle_gpu(1)]
    long = [gpu(0, hours=30), idle_gpu(1, hours=30)]
    rows = [run(1, *two), run(2, *long), run(3, *two, user="fred")]
    gpus = {**run_gpus(rows[0], *two), **run_gpus(rows[1], *long), **run_gpus(rows[2], *two)}
    result = unused(rows, gpus, SETTINGS, GOALS)
    assert [("user", "wilma", 40.0), ("run", "2", 30.0), ("run", "1", 10.0)] == [
        (entry.kind, entry.subject, entry.weight_gpu_hours)
        for entry in result.entries
        if entry.user == "wilma"
    ]
    assert [2, 1] == [its.job_id for its in result.entries[0].runs]
    assert result == unused(rows[::-1], gpus, SETTINGS, GOALS)
    others = replace(SETTINGS, exclude_users=("fred",))
    assert unused(rows[:2], gpus, others, GOALS).entries == unused(rows, gpus, others, GOALS).entries
