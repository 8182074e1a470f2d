"""Runs that held GPUs and did nothing with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slurm_ofu.audits.idle import idle
from slurm_ofu.values import AuditResult, GpuTotals, RunGpu, UsageRow
from tests.audits.rows import GOALS, HOUR, SETTINGS, fp64_gpu, gpu, idle_gpu, run, run_gpus, silent_gpu


def audited(
    rows: Sequence[UsageRow],
    gpus: Mapping[int, Sequence[RunGpu]] | None = None,
    *,
    now_epoch_s: float | None = None,
) -> AuditResult:
    return idle(rows, gpus or {}, SETTINGS, GOALS, now_epoch_s=now_epoch_s)


def kinds(result: AuditResult) -> list[tuple[str, str]]:
    return [(entry.kind, entry.subject) for entry in result.entries]


def test_missing_is_not_idle() -> None:
    """Of a run without figures, one at a true zero, and one that was idle after five minutes, the last two
    are listed and the first is not."""
    rows = [
        run(1, silent_gpu(hours=100)),
        run(2, idle_gpu(hours=24)),
        run(3, idle_gpu(hours=24, idle_hours=24 - 5 / 60)),
    ]
    result = audited(rows)
    assert [("ended", "2"), ("ended", "3")] == kinds(result)
    assert {"unmeasured": 1} == result.left_out


@pytest.mark.parametrize(
    "one",
    [fp64_gpu(), gpu(), gpu(ofu=0.0, reason="suspect", idle_seconds=10 * HOUR), idle_gpu(idle_hours=4.9)],
)
def test_what_is_not_idle_is_not_listed(one: GpuTotals) -> None:
    """Work with or without tensor cores, doubtful figures, and less idle time than the threshold."""
    assert [] == kinds(audited([run(1, one)]))


def test_idle_gpu_hours_are_at_stake() -> None:
    """An ended run's entry is about its idle GPU-hours, over those of which it is known."""
    (entry,) = audited([run(1, idle_gpu(idle_hours=6.0), idle_gpu(1, idle_hours=5.0))]).entries
    assert 11.0 == pytest.approx(entry.weight_gpu_hours)
    names = ("idle_gpu_hours", "idle_judged_gpu_hours", "idle_ratio")
    assert pytest.approx((11.0, 20.0, 0.55)) == tuple(entry.figures[name] for name in names)
    assert ("wilma", "physics", "gpu") == (entry.user, entry.account, entry.partition)


def eight(tail_hours: float, **changes: float) -> list[GpuTotals]:
    """The GPUs of a run that has gone on for 20 hours, idle lately."""
    return [idle_gpu(position, hours=20, idle_hours=tail_hours, **changes) for position in range(8)]


def test_eight_gpus_idle_for_an_hour_are_caught_while_they_run() -> None:
    """A running run whose GPUs have all been idle for an hour is listed, with what it cost so far."""
    gpus = eight(1.0)
    row = run(7, *gpus, running=True)
    (entry,) = audited([row], run_gpus(row, *gpus)).entries
    assert ("running", "7", 8.0) == (entry.kind, entry.subject, entry.weight_gpu_hours)
    assert row.run is not None
    assert (3600.0, row.run.end_epoch_s) == tuple(
        entry.figures[name] for name in ("idle_tail_seconds", "as_of_epoch_s")
    )


def test_a_running_run_is_judged_by_now() -> None:
    """One GPU at work, one not known, a break an hour ago, or no word of single GPUs: not listed as idle now;
    nor for an idle stretch that is over."""
    spared = [
        [*eight(1.0)[:7], gpu(7, hours=20)],
        [*eight(1.0)[:7], idle_gpu(7, hours=20, idle_hours=1.0, idle_tail_seconds=None)],
        eight(0.99),
        eight(15.0, idle_tail_seconds=0.0),
    ]
    for gpus in spared:
        row = run(7, *gpus, running=True)
        assert () == audited([row], run_gpus(row, *gpus)).entries
    row = run(7, *eight(5.0), running=True)
    assert () == audited([row]).entries
    assert () == audited([row], run_gpus(row, *eight(5.0)[:7])).entries


def test_a_mig_slices_tail_is_time_on_the_clock() -> None:
    """A slice's seconds count as its share of the GPU; how long it was idle is not."""
    share = 1 / 7
    whole = idle_gpu(hours=20, idle_hours=1.5)
    parts = {
        name: getattr(whole, name) * share
        for name in (
            *("allocated_seconds", "covered_seconds", "tensor_active_seconds", "tensor_ref_seconds"),
            *("idle_seconds", "idle_covered_seconds", "idle_tail_seconds", "non_tensor_covered_seconds"),
        )
    }
    slices = [replace(whole, position=at, sm_share_ratio=share, **parts) for at in range(7)]
    row = run(7, *slices, running=True)
    (entry,) = audited([row], run_gpus(row, *slices)).entries
    assert pytest.approx(5400.0) == entry.figures["idle_tail_seconds"]
    assert pytest.approx(1.5) == entry.weight_gpu_hours


def test_old_news_of_a_running_run_is_no_news() -> None:
    """A run that was not heard of for longer than the idle stretch that would be listed is left out."""
    gpus = eight(2.0)
    row = run(7, *gpus, running=True)
    assert row.run is not None
    assert row.run.end_epoch_s is not None
    fresh = audited([row], run_gpus(row, *gpus), now_epoch_s=row.run.end_epoch_s + 3600)
    stale = audited([row], run_gpus(row, *gpus), now_epoch_s=row.run.end_epoch_s + 3601)
    assert (1, 0, {"stale": 1}) == (len(fresh.entries), len(stale.entries), stale.left_out)


@pytest.mark.parametrize(("state", "listed"), [("RUNNING", True), ("SUSPENDED", False)])
def test_a_suspended_run_does_nothing_for_good_reason(state: str, listed: bool) -> None:
    """Slurm has stopped it: its idle GPUs are nobody's neglect."""
    gpus = eight(2.0)
    row = run(7, *gpus, running=True, state=state)
    result = audited([row], run_gpus(row, *gpus))
    assert (listed, {} if listed else {"suspended": 1}) == (bool(result.entries), result.left_out)


def test_suspended_time_is_no_idle_time_of_now() -> None:
    """Of the idle stretch of a run that Slurm had suspended meanwhile as much as that is taken off."""
    gpus = eight(4.0)
    row = run(7, *gpus, running=True, suspended_seconds=2.0 * HOUR)
    (entry,) = audited([row], run_gpus(row, *gpus)).entries
    assert (7200.0, 16.0) == (entry.figures["idle_tail_seconds"], entry.weight_gpu_hours)
    row = run(7, *gpus, running=True, suspended_seconds=3.5 * HOUR)
    assert () == audited([row], run_gpus(row, *gpus)).entries


def test_a_run_is_judged_whole() -> None:
    """One that worked for 23 hours and was idle for one is not listed for the hour in the window; one that
    was idle all along is, with what lies in the window at stake and the whole run's figures."""
    worked, idled = run(1, idle_gpu(hours=24, idle_hours=1.0)), run(2, idle_gpu(hours=24))
    parts = [run(job_id, idle_gpu(hours=1.0)) for job_id in (1, 2)]
    result = idle(parts, {}, SETTINGS, GOALS, whole={1: worked, 2: idled})
    assert [("ended", "2")] == kinds(result)
    figures = result.entries[0].figures
    assert (1.0, 24.0) == (result.entries[0].weight_gpu_hours, figures["idle_gpu_hours"])
    assert 1.0 == result.summary["idle_ratio"]


def test_an_array_is_one_entry() -> None:
    """A thousand idle tasks leave room for others, and add up; another's array of the same id stays apart."""
    tasks = [
        run(task, idle_gpu(hours=0.5 + task / 1000), array_job_id=9, array_task_id=task)
        for task in range(1000)
    ]
    others = [run(2000, idle_gpu(hours=2)), run(2001, idle_gpu(hours=1), array_job_id=9, cluster="beta")]
    result = audited([*tasks, *others])
    assert ["9", "2000", "2001"] == [entry.subject for entry in result.entries]
    first = result.entries[0]
    assert 1000 == first.figures["run_count"]
    assert 999.5 == pytest.approx(first.weight_gpu_hours)
    assert [999, 998, 997, 996, 995] == [its.array_task_id for its in first.runs]
    assert result == audited([*others, *tasks[::-1]])


def test_tasks_that_still_run_are_idle_for_the_least_of_their_times() -> None:
    """Of several tasks of an array that are idle now it is said for how long all of them have been."""
    tails = {1: 3.0, 2: 2.0}
    rows: list[UsageRow] = []
    gpus: dict[int, Sequence[RunGpu]] = {}
    for task, tail in tails.items():
        own = eight(tail)
        rows.append(run(task, *own, running=True, array_job_id=9, array_task_id=task))
        gpus |= run_gpus(rows[-1], *own)
    (entry,) = audited(rows, gpus).entries
    assert ("9", 7200.0, 40.0) == (
        entry.subject,
        entry.figures["idle_tail_seconds"],
        entry.weight_gpu_hours,
    )


def test_the_last_word_is_that_of_the_node_that_spoke_first() -> None:
    """One of two nodes fell silent: what its GPUs do now nobody knows, however fresh the other one's word."""
    both = [
        *(idle_gpu(position, hours=20, idle_hours=3.0) for position in range(4)),
        *(idle_gpu(position, hours=18.5, idle_hours=1.5) for position in range(4, 8)),
    ]
    row = run(7, *both, running=True)
    gpus = run_gpus(row, *both)
    assert row.run is not None and row.run.end_epoch_s is not None
    now, last = row.run.end_epoch_s, row.run.end_epoch_s - 1.5 * HOUR
    (entry,) = audited([row], gpus).entries
    assert (5400.0, last) == tuple(entry.figures[name] for name in ("idle_tail_seconds", "as_of_epoch_s"))
    assert () == audited([row], gpus, now_epoch_s=now).entries


def test_the_order_of_runs_does_not_matter() -> None:
    """The result is the same for any order of the same runs, also where they have the same at stake."""
    rows = [run(job_id, idle_gpu(hours=10)) for job_id in (3, 1, 2)]
    assert audited(rows) == audited(rows[::-1])
    assert ["1", "2", "3"] == [entry.subject for entry in audited(rows).entries]
