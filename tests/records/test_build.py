"""Everything known of one run on one node → its record."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.records.build import node_reason, node_record, seconds_per_quarter
from slurm_ofu.values import GpuTotals, HookFacts, Job, NodeRecord, Reason, RunKey, SamplerHealth

JOB = Job(
    key=RunKey(cluster="c", job_id=7, restart_count=0),
    restart_certain=True,
    user="u",
    uid=1,
    account="a",
    partition="p",
    node_list="n1",
    node_count=1,
)
PROLOG = HookFacts(boot_id="boot", uptime_ns=100 * 10**9, epoch_s=1_764_424_800.0, environment={})


def gpus(*reasons: Reason) -> tuple[GpuTotals, ...]:
    """GPUs with these reasons."""
    return tuple(
        GpuTotals(position=place, reason=reason, allocated_seconds=None)
        for place, reason in enumerate(reasons)
    )


def built(**given_: Any) -> NodeRecord:
    """A record of an hour, unless told otherwise."""
    values = {
        "job": JOB,
        "node_name": "n1",
        "prolog": PROLOG,
        "end_uptime_ns": 3700 * 10**9,
        "end_epoch_s": 1_764_428_407.0,
        "exit_code": "0:0",
        "gpus": gpus("ok"),
        "quarters": (),
        "health": SamplerHealth(),
        "software_version": "1",
    }
    return node_record(**{**values, **given_})


def test_duration_comes_from_the_clock_that_does_not_step() -> None:
    """Durations come from CLOCK_BOOTTIME; wall time only labels, and the end's label is the newer one."""
    its = built()
    assert (3600.0, 1_764_424_807.0, 1_764_428_407.0) == (
        its.allocated_seconds,
        its.start_epoch_s,
        its.end_epoch_s,
    )


def test_without_a_prolog_nothing_is_known_of_the_time() -> None:
    """not_started (no prolog ran on that node): how long the GPUs were held is unknown, not zero."""
    its = built(prolog=None, gpus=gpus("not_started"))
    assert ("not_started", None, None) == (its.reason, its.allocated_seconds, its.start_epoch_s)


def test_without_an_end_the_start_is_the_prologs() -> None:
    """Where nothing says when the run ended, how long it took is unknown; when it began is not."""
    its = built(end_uptime_ns=None)
    assert (None, PROLOG.epoch_s) == (its.allocated_seconds, its.start_epoch_s)


def test_no_time_is_never_negative() -> None:
    """An end before the start is no time."""
    assert 0.0 == built(end_uptime_ns=99 * 10**9).allocated_seconds


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((), "unmapped"),
        (("ok",), "ok"),
        (("unmapped", "unmapped", "ok"), "ok"),
        (("short", "unmapped", "unmapped"), "unmapped"),
        (("short", "unmapped"), "short"),
        (("sampler_died",) * 8, "sampler_died"),
    ],
)
def test_a_nodes_reason(reasons: tuple[Reason, ...], expected: str) -> None:
    """ok where any GPU is, else the reason that most of them have (the first such)."""
    assert expected == node_reason(gpus(*reasons))


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(st.floats(0, 4e9), st.floats(0, 4e5))
def test_quarters_of_a_run_add_up_to_it(start: float, length: float) -> None:
    """A run's seconds are cut at UTC quarter hours, and add up to the run."""
    end = start + length
    parts = seconds_per_quarter(start, end)
    assert end - start == pytest.approx(math.fsum(parts.values()), abs=1e-5)
    for quarter, seconds in parts.items():
        assert 0 < seconds <= 900
        assert quarter * 900 < end
        assert (quarter + 1) * 900 > start
