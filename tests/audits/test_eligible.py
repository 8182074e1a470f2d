"""Who is judged."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.audits.eligible import WhyNot, judged, no_idle, no_ofu, not_judged, not_ranked
from slurm_ofu.values import GpuTotals, UsageRow
from tests.audits.rows import HOUR, SETTINGS, fp64_gpu, gpu, idle_gpu, run, silent_gpu

NOT_KNOWN: dict[str, Any] = {
    **dict.fromkeys(("sm_active_seconds", "idle_seconds", "idle_tail_seconds", "non_tensor_seconds")),
    **dict.fromkeys(("sm_active_covered_seconds", "idle_covered_seconds", "non_tensor_covered_seconds"), 0.0),
}
UNKNOWN_WORK = gpu(ofu=0.0, **NOT_KNOWN)
UNKNOWN_MODEL = gpu(reason="unknown_model", tensor_ref_seconds=None, tensor_ref_error_seconds=None)
HALF = gpu(covered_seconds=5 * HOUR, idle_covered_seconds=5 * HOUR, non_tensor_covered_seconds=5 * HOUR)

CASES: list[tuple[GpuTotals, tuple[str | None, str | None, str | None, str | None]]] = [
    # not_judged, no_ofu, not_ranked, no_idle
    (gpu(), (None, None, None, None)),
    (idle_gpu(), (None, None, None, None)),
    (gpu(reason="suspect"), ("suspect",) * 4),
    (gpu(reason="shared"), ("shared",) * 4),
    (gpu(reason="short"), ("short",) * 4),
    (silent_gpu(reason="opted_out"), ("opted_out",) * 4),
    (silent_gpu(), (None, "unmeasured", "unmeasured", "unmeasured")),
    (gpu(hours=0.15), ("short",) * 4),
    (HALF, (None, "low_coverage", "low_coverage", "low_coverage")),
    (fp64_gpu(), (None, None, "non_tensor", None)),
    (UNKNOWN_WORK, (None, None, "unknown_work", "unmeasured")),
    (UNKNOWN_MODEL, (None, "unmeasured", "unmeasured", None)),
]


@pytest.mark.parametrize(("one", "expected"), CASES)
def test_who_is_judged_of_what(one: GpuTotals, expected: tuple[str | None, ...]) -> None:
    """What is missing, doubtful, too short or no waste is not held against anybody, each with its reason."""
    row = run(1, one)
    assert expected == tuple(why(row, SETTINGS) for why in (not_judged, no_ofu, not_ranked, no_idle))


def test_one_doubtful_gpu_of_eight_spares_the_run() -> None:
    """A run is judged as a whole: one GPU whose counters contradict each other leaves it out."""
    row = run(1, *(gpu(position) for position in range(7)), gpu(7, reason="suspect"))
    assert "suspect" == not_judged(row, SETTINGS)


@pytest.mark.parametrize(
    ("exclusion", "name"),
    [
        ("exclude_users", "wilma"),
        ("exclude_accounts", "physics"),
        ("exclude_qos", "normal"),
        ("exclude_partitions", "gpu"),
    ],
)
@pytest.mark.parametrize("why", [not_judged, no_ofu, not_ranked, no_idle])
def test_exclusions_hold_everywhere(exclusion: str, name: str, why: WhyNot) -> None:
    """Whoever is on any of the site's lists is judged by no audit; who is on none of them is."""
    changes: dict[str, Any] = {exclusion: (name,)}
    settings = replace(SETTINGS, **changes)
    assert "excluded" == why(run(1, gpu()), settings)
    others = run(2, gpu(), user="fred", account="chemistry", qos="high", partition="long")
    unknown = run(3, gpu(), user=None, account=None, qos=None, partition=None)
    assert (None, None) == (why(others, settings), why(unknown, settings))


def test_the_least_runtime_is_of_the_whole_run() -> None:
    """Slurm's own time counts where it is known, and for a run that goes on what it has taken so far."""
    assert None is not_judged(run(1, gpu(hours=0.1), elapsed_seconds=600.0), SETTINGS)
    assert "short" == not_judged(run(1, gpu(hours=9), elapsed_seconds=599.0), SETTINGS)
    running = run(1, gpu(hours=9), elapsed_seconds=1.0, running=True)
    assert None is not_judged(running, SETTINGS)
    timeless = run(1, gpu(), start_epoch_s=None)
    assert None is not_judged(timeless, SETTINGS)


def test_every_run_is_judged_or_left_out_once() -> None:
    """The runs that are judged and those left out by reason add up to all."""
    rows: list[UsageRow] = [run(number, one) for number, (one, _) in enumerate(CASES)]
    those = judged(rows, SETTINGS, not_ranked)
    assert len(rows) == len(those.runs) + sum(those.left_out.values())
    assert {"non_tensor": 1, "unknown_work": 1, "short": 2} == {
        why: those.left_out[why] for why in ("non_tensor", "unknown_work", "short")
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "SUSPENDED"}, ("suspended",) * 4),
        ({"state": "RUNNING", "suspended_seconds": 60.0}, (None, None, "suspended", None)),
        ({"state": "RUNNING", "suspended_seconds": 0.0}, (None,) * 4),
    ],
)
def test_suspended_time_is_no_waste(changes: dict[str, Any], expected: tuple[str | None, ...]) -> None:
    """What a run that goes on was suspended for is in its idle time so far: it is ranked when it is over."""
    row = run(1, idle_gpu(), running=True, **changes)
    assert expected == tuple(why(row, SETTINGS) for why in (not_judged, no_ofu, not_ranked, no_idle))
    over = replace(row, run=None if row.run is None else replace(row.run, running=False, state="COMPLETED"))
    assert (None,) * 4 == tuple(why(over, SETTINGS) for why in (not_judged, no_ofu, not_ranked, no_idle))
