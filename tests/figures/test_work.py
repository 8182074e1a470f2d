"""What kind of work a run did, and what it lost: metric.md, section 7."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures import pool
from slurm_ofu.figures.bands import BAND_NAMES
from slurm_ofu.figures.work import RANKED, lost_seconds, pooled_work_kind, with_counts, with_lost, work_kind
from slurm_ofu.values import UsageSums
from tests.figures.examples import HOUR, gpu, measured, unmeasured


def worked(
    idle_hours: float | None, other_hours: float | None, judged_hours: float, **changes: Any
) -> UsageSums:
    """A run of 16 measured GPU-hours: so many idle, so many without tensor work, of so many judged."""
    return measured(
        idle_seconds=None if idle_hours is None else idle_hours * HOUR,
        idle_covered_seconds=judged_hours * HOUR,
        non_tensor_seconds=None if other_hours is None else other_hours * HOUR,
        non_tensor_covered_seconds=judged_hours * HOUR,
        **changes,
    )


@pytest.mark.parametrize(
    ("kind", "run"),
    [
        ("tensor", worked(0.0, 0.0, 16.0)),
        ("tensor", worked(12.0, 1.9, 16.0)),
        ("tensor", worked(0.0, 8.0, 16.0)),
        ("non_tensor", worked(0.0, 8.1, 16.0)),
        ("non_tensor", worked(12.0, 2.1, 16.0)),
        ("non_tensor", worked(None, 9.0, 16.0)),
        ("idle", worked(16.0, 0.0, 16.0)),
        ("unknown", measured()),
        ("unknown", worked(0.0, 7.9, 7.9)),
        ("tensor", worked(0.0, 0.0, 8.0)),
        ("unmeasured", unmeasured()),
        ("unmeasured", worked(16.0, 0.0, 16.0, tensor_ref_seconds=None)),
        ("unmeasured", worked(16.0, 0.0, 16.0, ofu_covered_seconds=0.0)),
    ],
)
def test_what_a_run_did(kind: str, run: UsageSums) -> None:
    """Busy for most of that time without tensor work is other work, not idleness; where SM activity is known
    for too little of the time it might be either; without an OFU it is neither."""
    assert kind == work_kind(run)


TENSOR = worked(0.0, 0.0, 16.0)
PAUSING = worked(12.0, 1.9, 16.0)
IDLE = worked(16.0, 0.0, 16.0, tensor_ref_seconds=0.0)
OTHER = worked(0.0, 16.0, 16.0, tensor_ref_seconds=0.0)


@pytest.mark.parametrize(
    ("kind", "runs"),
    [
        (None, []),
        ("idle", [IDLE]),
        ("idle", [IDLE, IDLE]),
        ("tensor", [TENSOR, TENSOR]),
        ("tensor", [TENSOR, PAUSING]),
        ("mixed", [PAUSING, IDLE]),
        ("mixed", [TENSOR, OTHER]),
        ("mixed", [IDLE, measured()]),
        ("mixed", [IDLE, unmeasured()]),
        ("non_tensor", [OTHER, OTHER]),
        ("unknown", [measured(), measured()]),
        ("unmeasured", [unmeasured(), unmeasured()]),
    ],
)
def test_what_many_runs_did(kind: str | None, runs: list[UsageSums]) -> None:
    """They are of one kind where all are; otherwise, or where their sums do not show it, mixed."""
    its = [with_lost(with_counts(run), [gpu(tensor=0.0)], 0.4) for run in runs]
    assert kind == pooled_work_kind(pool(its))


def test_only_what_can_be_held_against_somebody_is_ranked() -> None:
    """Runs without tensor work, and those of which that is not known, lose nothing."""
    assert ("tensor", "idle") == RANKED
    for run in (worked(0.0, 16.0, 16.0), measured(), unmeasured()):
        its = with_lost(run, [gpu(tensor=0.0)], 0.4)
        assert (None, 0.0) == (its.lost_seconds, its.ranked_seconds)


def test_what_is_lost_is_summed_gpu_by_gpu() -> None:
    """One GPU far above the goal makes up for none of the loss of another."""
    gpus = [gpu(0, tensor=1.0, clock=0.8), gpu(1, tensor=0.25, clock=0.8)]
    its = with_lost(worked(0.0, 0.0, 4.0, ofu_covered_seconds=4 * HOUR), gpus, 0.4)
    assert pytest.approx(HOUR) == its.lost_seconds
    assert 4 * HOUR == its.ranked_seconds


def test_a_suspect_gpu_loses_nothing() -> None:
    """Nor does one that was not measured."""
    gpus = [gpu(0, tensor=0.0, reason="suspect"), gpu(1, tensor=0.0, tensor_ref_seconds=None)]
    assert 0.0 == with_lost(worked(16.0, 0.0, 16.0), gpus, 0.4).lost_seconds


@pytest.mark.property
@given(covered=st.floats(0, 1e9), ofu=st.floats(0, 1.3), goal=st.floats(0.01, 1.1))
def test_a_loss_is_part_of_what_was_measured(covered: float, ofu: float, goal: float) -> None:
    """Between 0, from the goal on, and everything, for nothing done."""
    lost = lost_seconds(covered, ofu * covered, goal)
    assert 0.0 <= lost <= covered
    if ofu >= goal * 1.000001:
        assert 0.0 == lost


@pytest.mark.parametrize(
    ("run", "band", "others"),
    [
        (worked(0.0, 0.0, 16.0, tensor_ref_seconds=0.3 * 16 * HOUR), "20-40", (0, 0)),
        (worked(16.0, 0.0, 16.0, tensor_ref_seconds=0.0), "<2", (0, 0)),
        (worked(0.0, 16.0, 16.0, tensor_ref_seconds=0.0), None, (1, 0)),
        (unmeasured(), None, (0, 1)),
    ],
)
def test_a_run_is_counted_once(run: UsageSums, band: str | None, others: tuple[int, int]) -> None:
    """In a band of OFU, as work without tensor cores, or as not measured."""
    its = with_counts(run)
    found = [name for name, count in zip(BAND_NAMES, its.band_run_counts, strict=False) if count]
    assert ([] if band is None else [band]) == found
    assert others == (its.non_tensor_run_count, its.unmeasured_run_count)
    assert its.run_count == sum(its.band_run_counts) + sum(others)
