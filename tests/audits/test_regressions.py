"""Who has become slower than they were."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from slurm_ofu.audits.regressions import regressions
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, UsageRow
from tests.audits.rows import GOALS, HOUR, SETTINGS, START, fp64_gpu, gpu, idle_gpu, run, silent_gpu

DAY = 24 * HOUR


def trained(number: int, ofu: float = 0.4, *, tensor: float | None = None, **changes: Any) -> UsageRow:
    """The run of day ``number`` of a family: one GPU for ten hours."""
    facts: dict[str, Any] = {"job_name": "train-llama", "start_epoch_s": START + number * DAY, **changes}
    hours = facts.pop("hours", 10.0)
    active = ofu if tensor is None else tensor
    facts.setdefault("end_epoch_s", START + number * DAY + hours * HOUR)
    return run(1000 + number, gpu(ofu=ofu, hours=hours, tensor_active_seconds=active * hours * HOUR), **facts)


def at_day(day: int, hours: float = 10.0) -> dict[str, Any]:
    """When a run of the family's name was that started on that day."""
    start = START + day * DAY
    return {"job_name": "train-llama", "start_epoch_s": start, "end_epoch_s": start + hours * HOUR}


def family(levels: Sequence[float], **changes: Any) -> list[UsageRow]:
    """A run a day at these OFUs."""
    return [trained(number, ofu, **changes) for number, ofu in enumerate(levels)]


def audit(rows: Sequence[UsageRow], settings: AuditConfig = SETTINGS) -> AuditResult:
    return regressions(rows, settings, GOALS)


def only(result: AuditResult) -> AuditEntry:
    (entry,) = result.entries
    return entry


def test_a_debug_flag_that_cost_two_and_a_half() -> None:
    """Five runs at 0.40 and one at 0.16: who, since when, by how much, how sure, and both sides' runs."""
    entry = only(audit(family([0.40, 0.41, 0.39, 0.40, 0.40, 0.16])))
    assert ("drop", "train-llama", "wilma", "physics", "gpu") == (
        entry.kind,
        entry.subject,
        entry.user,
        entry.account,
        entry.partition,
    )
    figures = entry.figures
    assert (START + 5 * DAY, 5, 1) == tuple(
        figures[name] for name in ("changed_epoch_s", "before_run_count", "after_run_count")
    )
    assert pytest.approx([2.5, 0.4, 0.16], abs=1e-9) == [
        figures[name] for name in ("factor", "before_ofu_ratio", "after_ofu_ratio")
    ]
    assert pytest.approx(10 * (1 - 0.16 / 0.4)) == entry.weight_gpu_hours
    assert [1005, 1000, 1001, 1002, 1003, 1004] == [one.job_id for one in entry.runs]
    chance, errors = figures["chance_ratio"], figures["standard_errors"]
    assert isinstance(chance, float) and 0 < chance < 0.001
    assert isinstance(errors, float) and errors > 5.2


def test_a_sweep_is_not_held_against_itself() -> None:
    """Tasks of an array that run side by side differ by design: however their OFUs are ordered, none of them
    has fallen. A chain of tasks, one after the other, is a history like any other."""
    levels = [0.45] * 10 + [0.15] * 10
    sweep = [
        trained(task, ofu, array_job_id=7, array_task_id=task, **side_by_side(task))
        for task, ofu in enumerate(levels)
    ]
    assert () == audit(sweep).entries
    chain = [trained(task, ofu, array_job_id=7, array_task_id=task) for task, ofu in enumerate(levels)]
    assert 10 == only(audit(chain)).figures["before_run_count"]


def side_by_side(task: int, day: int = 0) -> dict[str, Any]:
    """When a task of a sweep ran that was started on that day."""
    start = START + day * DAY + 60 * task
    return {"start_epoch_s": start, "end_epoch_s": start + 10 * HOUR}


def test_runs_of_several_answers_are_several_runs() -> None:
    """Also where each answer counts its runs from 1, and they ran side by side."""
    rows = [trained(number, 0.4, run_id=1, **side_by_side(number)) for number in range(8)]
    assert 8 == audit([*rows, trained(9, 0.16)]).entries[0].figures["before_run_count"]


def test_a_sweep_is_one_submission() -> None:
    """Six sweeps of four tasks, the last of them at less than half: a drop, of which all tasks are told."""
    tasks = [
        trained(
            *(4 * day + task, (0.16 if day == 5 else 0.4) + 0.02 * task),
            **{"array_job_id": day, "array_task_id": task, **side_by_side(task, day)},
        )
        for day in range(6)
        for task in range(4)
    ]
    result = audit(tasks)
    figures = only(result).figures
    assert (24, 20, 4) == (result.examined_count, figures["before_run_count"], figures["after_run_count"])
    assert pytest.approx(0.43) == figures["before_ofu_ratio"]


def test_found_in_99_of_100_through_the_whole_audit() -> None:
    """Of 1,000 families of five even runs and one 2.5 times slower, at least 990 are listed."""
    chance = random.Random(12)
    rows = [
        trained(
            day,
            0.4 * math.exp(chance.gauss(0, 0.1)) / (2.5 if day == 5 else 1),
            job_name=f"name{number}x",
            run_id=10 * number + day,
        )
        for number in range(1_000)
        for day in range(6)
    ]
    result = audit(rows)
    assert 990 <= result.summary["drop_count"] == len(result.entries)  # type: ignore[operator]
    assert 6_000 == result.examined_count


def test_no_false_alarms_through_the_whole_audit() -> None:
    """Of 1,000 families without a change at most one is listed."""
    chance = random.Random(13)
    rows = [
        trained(
            day, 0.4 * math.exp(chance.gauss(0, 0.1)), job_name=f"name{number}x", run_id=10 * number + day
        )
        for number in range(1_000)
        for day in range(6)
    ]
    assert len(audit(rows).entries) <= 1


def test_a_drop_that_was_recovered_from_is_shown_as_that() -> None:
    """After good runs again the entry is a recovery, weighs what was lost up to it, and says both dates."""
    entry = only(audit(family([0.4] * 6 + [0.2] * 4 + [0.4] * 4)))
    assert "recovery" == entry.kind
    assert (START + 6 * DAY, START + 10 * DAY, 4, 4) == tuple(
        entry.figures[name]
        for name in ("changed_epoch_s", "recovered_epoch_s", "after_run_count", "recovered_run_count")
    )
    assert pytest.approx(0.4) == entry.figures["recovered_ofu_ratio"]
    assert pytest.approx(40 * 0.5) == entry.weight_gpu_hours


def test_a_rise_alone_is_no_entry() -> None:
    """Who becomes faster is not listed."""
    assert () == audit(family([0.2] * 6 + [0.4] * 6)).entries


def test_half_a_recovery_leaves_the_drop_open() -> None:
    """A rise to a level still 1.6 times lower than before is no recovery; what is lost goes on to the end."""
    entry = only(audit(family([0.4] * 8 + [0.1] * 6 + [0.25] * 6)))
    assert "drop" == entry.kind
    assert pytest.approx(60 * 0.75 + 60 * 0.375) == entry.weight_gpu_hours


def test_a_short_high_is_nothing_to_fall_from() -> None:
    """Three faster runs between slower ones make no drop; back at the level of old, a second drop is one."""
    assert () == audit(family([0.3] * 8 + [0.6] * 3 + [0.3] * 6)).entries
    again = audit(family([0.4] * 8 + [0.2] * 5 + [0.4] * 3 + [0.2] * 6)).entries
    assert ["drop", "recovery"] == sorted(entry.kind for entry in again)


def test_hours_are_lost_once() -> None:
    """Of two drops in a row each run's loss is in one entry, against the level right before."""
    result = audit(family([0.4] * 8 + [0.2] * 6 + [0.1] * 6))
    assert ["drop", "drop"] == [entry.kind for entry in result.entries]
    assert [pytest.approx(30.0), pytest.approx(30.0)] == [entry.weight_gpu_hours for entry in result.entries]


@pytest.mark.parametrize(
    ("tensor", "moved"),
    [(0.16, "tensor_activity"), (0.4, "clock"), (0.25, "both"), (0.18, "tensor_activity")],
)
def test_the_factor_that_moved_is_named(tensor: float, moved: str) -> None:
    """OFU is tensor activity times clock: the evidence says which of them fell."""
    rows = [*family([0.4] * 5), trained(5, 0.16, tensor=tensor)]
    assert moved == only(audit(rows)).figures["moved"]


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "fred"},
        {"account": "chemistry"},
        {"partition": "other"},
        {"cluster": "beta"},
        {"job_name": "train-llama-fp8"},
        {"job_name": "wrap"},
        {"job_name": None},
        {"user": None},
        {"start_epoch_s": None, "end_epoch_s": None},
        {"running": True},
        {"hours": 1.0},
    ],
)
def test_another_family_explains_nothing_about_this_one(changes: dict[str, Any]) -> None:
    """Runs of somebody or something else, those of which it is not known, those that go on, and those much
    shorter than usual are not held against a family's history."""
    last = trained(
        5, 0.1, **{"end_epoch_s": START + 6 * DAY, **changes} if "hours" not in changes else changes
    )
    assert () == audit([*family([0.4] * 5), last]).entries


def test_other_gpus_are_another_family() -> None:
    """Fewer or other GPUs are no regression."""
    rows = family([0.4] * 5)
    two = run(9, gpu(0, ofu=0.1), gpu(1, ofu=0.1), **at_day(9))
    other = run(8, gpu(ofu=0.1, gpu_model="L40S"), **at_day(8))
    mixed = run(7, gpu(0, ofu=0.1), gpu(1, ofu=0.1, gpu_model="L40S"), **at_day(7))
    result = audit([*rows, two, other, mixed])
    assert () == result.entries
    assert {"mixed_gpu_models": 1, "few_runs": 7} == result.left_out


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        (gpu(ofu=0.05, reason="suspect"), "suspect"),
        (gpu(ofu=0.05, reason="shared"), "shared"),
        (gpu(ofu=0.05, reason="short"), "short"),
        (gpu(ofu=0.05, covered_seconds=5 * HOUR), "low_coverage"),
        (gpu(ofu=0.05, tensor_ref_error_seconds=0.01 * 10 * HOUR), "imprecise"),
        (silent_gpu(), "unmeasured"),
        (fp64_gpu(), "non_tensor"),
        (gpu(ofu=0.0, non_tensor_seconds=None, non_tensor_covered_seconds=0.0), "unknown_work"),
        (idle_gpu(), "idle"),
    ],
)
def test_doubtful_figures_blame_nobody(gpus: Any, reason: str) -> None:
    """A run whose figure is missing, doubtful, imprecise, or not about tensor work, is no regression."""
    last = run(1, gpus, **at_day(20))
    result = audit([*family([0.4] * 6), last])
    assert ((), {reason: 1}) == (result.entries, result.left_out)


def test_tensor_work_is_judged_where_sm_activity_is_unknown() -> None:
    """Where it is not known whether a GPU was busy, an OFU of one per cent and more is tensor work."""
    unknown: dict[str, Any] = {"non_tensor_seconds": None, "non_tensor_covered_seconds": 0.0}
    rows = [run(day, gpu(ofu=ofu, **unknown), **at_day(day)) for day, ofu in enumerate([0.4] * 5 + [0.1])]
    assert "drop" == only(audit(rows)).kind


def test_only_changes_of_the_window_are_listed() -> None:
    """What dropped before the window is history, unless it recovered in it; what dropped in it is listed."""
    dropped, recovered = family([0.4] * 6 + [0.2] * 4), family([0.4] * 6 + [0.2] * 4 + [0.4] * 4)
    for rows, since, count in (
        (dropped, START + 7 * DAY, 0),
        (dropped, START + 6 * DAY, 1),
        (recovered, START + 7 * DAY, 1),
        (recovered, START + 11 * DAY, 0),
    ):
        assert count == len(regressions(rows, SETTINGS, GOALS, since_epoch_s=since).entries)


def test_counted_and_dated_names_are_one_family() -> None:
    """``sft-1`` to ``sft-6`` are one family; ``gpt-7`` five times and one ``gpt-70`` are two."""
    levels = [0.4] * 5 + [0.1]
    counted = [trained(day, ofu, job_name=f"sft-{day + 1}") for day, ofu in enumerate(levels)]
    dated = [trained(day, ofu, job_name=f"sft-04{day + 10}") for day, ofu in enumerate(levels)]
    sizes = [trained(day, ofu, job_name=f"gpt-{70 if day == 5 else 7}") for day, ofu in enumerate(levels)]
    assert [1, 1, 0] == [len(audit(rows).entries) for rows in (counted, dated, sizes)]


def test_where_runs_are_usually_uneven_more_is_asked_for() -> None:
    """Where the site's families have a spread of 50 %, one run 2.5 times slower is nothing to report."""
    chance = random.Random(14)
    levels = [0.4] * 5 + [0.16]
    even = [trained(day, ofu, run_id=day) for day, ofu in enumerate(levels)]
    uneven = [
        trained(
            day, 0.3 * math.exp(chance.gauss(0, 0.5)), job_name=f"name{number}x", run_id=100 * number + day
        )
        for number in range(1, 12)
        for day in range(12)
    ]
    assert 1 == len(audit(even).entries)
    assert "train-llama" not in [entry.subject for entry in audit([*even, *uneven]).entries]


def test_thresholds_and_order() -> None:
    """Factor, runs before and GPU-hours at stake are the site's; whoever lost more comes first, whatever the
    order of the rows."""
    small, great = family([0.4] * 5 + [0.1]), family([0.4] * 5 + [0.1] * 3, job_name="other", user="fred")
    great = [
        trained(i, 0.4 if i < 5 else 0.1, job_name="other", user="fred", run_id=50 + i) for i in range(8)
    ]
    result = audit([*small, *great])
    assert ["other", "train-llama"] == [entry.subject for entry in result.entries]
    assert result == audit([*great, *small][::-1])
    assert 1 == len(audit([*small, *great], AuditConfig(minimum_gpu_hours=10.0)).entries)
    assert 0 == len(audit(small, AuditConfig(regression_runs=6)).entries)
    assert 0 == len(audit(small, AuditConfig(regression_factor=5.0)).entries)


def test_nothing_gives_nothing() -> None:
    """Without runs there is an empty result."""
    result = audit([])
    assert ((), 0, {}) == (result.entries, result.examined_count, result.left_out)
