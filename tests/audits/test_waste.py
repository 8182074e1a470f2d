"""Who loses the most GPU time."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.audits.waste import waste
from slurm_ofu.values import AuditConfig, AuditResult, Goals, UsageRow
from tests.audits.rows import GOALS, HOUR, SETTINGS, fp64_gpu, gpu, idle_gpu, run, silent_gpu


def users(result: AuditResult) -> list[str]:
    return [entry.subject for entry in result.entries if entry.kind == "user"]


def test_true_zeros_first_missing_figures_never() -> None:
    """Of a run without figures, one that held its GPUs for nothing, and one that was idle for all but five
    minutes, the second comes first, the third next, and the first not at all."""
    rows = [
        run(1, silent_gpu(), user="a"),
        run(2, gpu(ofu=0.0, idle_seconds=10 * HOUR, sm_active_seconds=0.0), user="b"),
        run(3, idle_gpu(idle_hours=10 - 5 / 60), user="c"),
    ]
    result = waste(rows, SETTINGS, GOALS)
    assert ["b", "c"] == users(result)
    assert {"unmeasured": 1} == result.left_out


def test_held_gpus_without_a_process_are_the_worst_waste() -> None:
    """Eight GPUs held for an hour without any process: OFU 0 at full coverage, all of it lost and idle."""
    held = [idle_gpu(position, hours=1.0) for position in range(8)]
    (entry, _) = waste([run(1, *held)], SETTINGS, GOALS).entries
    figures = ("lost_gpu_hours", "idle_lost_ratio", "ofu_ratio", "coverage_ratio", "gpu_hours")
    assert (8.0, 1.0, 0.0, 1.0, 8.0) == tuple(entry.figures[name] for name in figures)


def test_work_without_tensor_cores_is_no_waste() -> None:
    """A molecular dynamics code at OFU 0 is neither ranked nor in anybody's pooled OFU."""
    rows = [run(1, fp64_gpu(hours=100.0)), run(2, gpu(ofu=0.05))]
    result = waste(rows, SETTINGS, GOALS)
    assert {"non_tensor": 1} == result.left_out
    assert 0.05 == pytest.approx(result.entries[0].figures["ofu_ratio"])
    assert [] == users(waste(rows[:1], SETTINGS, GOALS))


WEDGED: dict[str, Any] = {"reason": "suspect", "ofu": 0.0}
LOCKED: dict[str, Any] = {
    "reason": "profiling_locked",
    **dict.fromkeys(("covered_seconds", "idle_covered_seconds", "non_tensor_covered_seconds"), 600.0),
}


@pytest.mark.parametrize(
    ("one", "why"), [(gpu(**WEDGED), "suspect"), (gpu(ofu=0.0, **LOCKED), "low_coverage")]
)
def test_wedged_and_locked_counters_blame_nobody(one: Any, why: str) -> None:
    """Zeros of a wedged profiling module, and counters that somebody else took after ten minutes, count
    against nobody."""
    result = waste([run(1, one)], SETTINGS, GOALS)
    assert ((), {why: 1}) == (result.entries, result.left_out)


def test_only_those_below_the_threshold_are_listed() -> None:
    """A user with much lost but a pooled OFU from the threshold on is not listed."""
    rows = [
        run(1, gpu(hours=1000, ofu=0.11), user="good"),
        run(2, gpu(hours=20, ofu=0.09), user="poor"),
        run(3, gpu(hours=20, ofu=0.30), user="mixed"),
        run(4, gpu(hours=20, ofu=0.02), user="mixed"),
    ]
    assert ["poor"] == users(waste(rows, SETTINGS, GOALS))


def test_figures_are_pooled_over_runs() -> None:
    """A user's OFU is that of all GPU time, not the mean of runs; the loss is what is below the goal."""
    rows = [run(1, gpu(hours=90, ofu=0.0, idle_seconds=90 * HOUR)), run(2, gpu(hours=10, ofu=0.4))]
    entry = waste(rows, SETTINGS, GOALS).entries[0]
    assert 0.04 == pytest.approx(entry.figures["ofu_ratio"])
    assert 90.0 == pytest.approx(entry.weight_gpu_hours)
    assert 1.0 == pytest.approx(entry.figures["idle_lost_ratio"])
    assert [1] == [its.job_id for its in entry.runs]


def test_what_of_the_loss_is_idle_time() -> None:
    """Half of a run idle, the other half at a tenth of the goal: the idle part of the loss is told apart."""
    half = idle_gpu(idle_hours=5.0, tensor_ref_seconds=0.04 * 5 * HOUR)
    entry = waste([run(1, half)], SETTINGS, GOALS).entries[0]
    assert 9.5 == pytest.approx(entry.weight_gpu_hours)
    assert 5 / 9.5 == pytest.approx(entry.figures["idle_lost_ratio"])
    busy = waste([run(1, gpu(ofu=0.04))], SETTINGS, GOALS).entries[0]
    assert 9.0 == pytest.approx(busy.weight_gpu_hours)
    assert 0.0 == busy.figures["idle_lost_ratio"]


def test_a_partitions_own_goal_counts() -> None:
    """A run is held against the goal of its partition; where several differ none is named."""
    goals = Goals(by_partition={"debug": 0.1})
    rows = [run(1, gpu(ofu=0.05)), run(2, gpu(ofu=0.05), partition="debug")]
    rows = [replace(row, sums=replace(row.sums, lost_seconds=None)) for row in rows]
    entry = waste(rows, SETTINGS, goals).entries[0]
    assert (10 * (1 - 0.05 / 0.4) + 10 * 0.5) == pytest.approx(entry.weight_gpu_hours)
    assert None is entry.figures["goal_ratio"]


def test_the_place_among_all_users() -> None:
    """The rank is by all GPU-hours held, those that are not judged too."""
    rows = [
        run(1, silent_gpu(hours=500), user="dark"),
        run(2, gpu(hours=50, ofu=0.01), user="low"),
        run(3, gpu(hours=100), user="good"),
        run(4, silent_gpu(hours=7), user="low"),
    ]
    (entry,) = [one for one in waste(rows, SETTINGS, GOALS).entries if one.kind == "user"]
    names = ("gpu_hours_rank", "of_user_count", "gpu_hours", "not_judged_gpu_hours")
    assert (3, 3, 50.0, 7.0) == tuple(entry.figures[name] for name in names)


def test_little_at_stake_is_counted_not_listed() -> None:
    """Entries with less at stake than the least are not listed, and how many they are is said."""
    result = waste([run(1, idle_gpu(hours=0.5))], SETTINGS, GOALS)
    assert ((), 2) == (result.entries, result.summary["below_minimum_count"])


def test_the_whole_is_in_the_summary() -> None:
    """The summary is over all runs that are judged, those of nobody's too; without any nothing is known."""
    rows = [run(1, gpu(ofu=0.2), user=None), run(2, gpu(ofu=0.4))]
    summary = waste(rows, SETTINGS, GOALS).summary
    names = ("ofu_ratio", "lost_gpu_hours", "user_count")
    assert pytest.approx((0.3, 5.0, 1)) == tuple(summary[name] for name in names)
    assert None is waste([], SETTINGS, GOALS).summary["ofu_ratio"]


GPUS = st.builds(
    lambda hours, ofu, idle: (
        gpu(hours=hours, ofu=ofu)
        if idle is None
        else silent_gpu(hours=hours)
        if idle < 0
        else idle_gpu(hours=hours, idle_hours=idle * hours)
    ),
    st.floats(0.1, 50),
    st.floats(0, 0.5),
    st.none() | st.floats(-0.5, 1),
)
ROWS = st.lists(
    st.tuples(st.lists(GPUS, min_size=1, max_size=3), st.sampled_from(["a", "b", "c"])), max_size=8
).map(lambda runs: [run(at, *gpus, user=user) for at, (gpus, user) in enumerate(runs)])


def test_who_is_not_listed_is_counted() -> None:
    """Users whose OFU is not below the threshold lose as well: how many, and how much."""
    rows = [
        run(1, gpu(ofu=0.01), user="a"),
        run(2, gpu(ofu=0.2), user="b"),
        run(3, gpu(ofu=0.3), user="c"),
        run(4, gpu(ofu=0.5), user="d"),
    ]
    summary = waste(rows, SETTINGS, GOALS).summary
    assert 2 == summary["other_user_count"]
    assert pytest.approx(7.5) == summary["other_lost_gpu_hours"]


@pytest.mark.property
@given(rows=ROWS, seed=st.integers())
def test_the_order_of_runs_does_not_matter(rows: list[UsageRow], seed: int) -> None:
    """The result is the same for any order of the same runs."""
    others = list(rows)
    random.Random(seed).shuffle(others)
    settings = AuditConfig(minimum_gpu_hours=0.0, waste_ofu_ratio=1.0)
    assert waste(rows, settings, GOALS) == waste(others, settings, GOALS)


@pytest.mark.property
@given(rows=ROWS)
def test_the_greatest_loss_comes_first(rows: list[UsageRow]) -> None:
    """Entries come by what is at stake, none has less than the least, and none has lost more than it held."""
    result = waste(rows, SETTINGS, GOALS)
    weights = [entry.weight_gpu_hours for entry in result.entries]
    assert sorted(weights, reverse=True) == weights
    assert all(weight >= SETTINGS.minimum_gpu_hours for weight in weights)
    for entry in result.entries:
        held = entry.figures["gpu_hours_measured"]
        assert isinstance(held, float)
        assert entry.weight_gpu_hours <= held * (1 + 1e-9)


@pytest.mark.property
@given(rows=ROWS)
def test_an_excluded_user_leaves_the_others_alone(rows: list[UsageRow]) -> None:
    """Excluding a user says of all others what is said where that user's runs do not exist."""
    settings = AuditConfig(exclude_users=("a",), minimum_gpu_hours=0.0)
    without = [row for row in rows if row.run is not None and row.run.user != "a"]
    assert waste(without, settings, GOALS).entries == waste(rows, settings, GOALS).entries
