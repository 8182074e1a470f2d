"""Rows, pages and questions for report tests."""

from datetime import timedelta, timezone
from typing import Any

from slurm_ofu.reports.question import Question
from slurm_ofu.values import (
    GpuRow,
    GroupBy,
    JobPage,
    NodeRow,
    RunRow,
    SamplerHealth,
    Selection,
    Timeline,
    UsageRow,
    UsageSums,
)
from tests.figures.examples import BY_MINUTES, HOUR, gpu, measured, silent_gpu

CET = timezone(timedelta(hours=1), "CET")
MORNING = 1_793_869_200.0  # 2026-11-05 10:00:00 CET

#: Names as an attacker would have them: colours, titles, line ends, both kinds of C1, bidi, surrogates.
HOSTILE = "\x1b[31mred\x1b]0;title\x07\r\n\tx\x9b5m\u202egnp\udcff\x00\u2028"


def run(job_id: int = 1001, **changes: Any) -> RunRow:
    """One run of Wilma's, two hours on two nodes."""
    values: dict[str, Any] = {
        "run_id": job_id,
        "cluster": "alpha",
        "job_id": job_id,
        "restart_count": 0,
        "sluid": None,
        "user": "wilma",
        "account": "physics",
        "partition": "gpu",
        "job_name": None,
        "state": None,
        "node_list": "n[1-2]",
        "node_count": 2,
        "comment": None,
        "exit_code": "0:0",
        "start_epoch_s": MORNING,
        "end_epoch_s": MORNING + 2 * HOUR,
    }
    return RunRow(**{**values, **changes})


def accounted(**changes: Any) -> dict[str, Any]:
    """What Slurm's accounting adds to that run."""
    values: dict[str, Any] = {
        "accounted": True,
        "job_name": "train",
        "state": "COMPLETED",
        "qos": "normal",
        "submit_epoch_s": MORNING - 108.0,
        "elapsed_seconds": 2 * HOUR,
        "suspended_seconds": 0.0,
        "slurm_gpu_count": 8,
    }
    return {**values, **changes}


def job_row(job_id: int = 1001, sums: UsageSums | None = None, **changes: Any) -> UsageRow:
    """That run with its sums, measured in full unless told otherwise."""
    return UsageRow(group=str(job_id), sums=sums or measured(), run=run(job_id, **changes))


def question(by: GroupBy = "job", **changes: Any) -> Question:
    """Wilma's question about the fifth of November."""
    midnight = MORNING - 10 * HOUR
    values: dict[str, Any] = {"start_epoch_s": midnight, "end_epoch_s": midnight + 24 * HOUR}
    return Question(selection=Selection(**{**values, "users": ("wilma",), **changes}), by=by, zone=CET)


def node(name: str, **changes: Any) -> NodeRow:
    """One node with four GPUs that was heard from."""
    values: dict[str, Any] = {
        "reason": "ok",
        "gpu_count": 4.0,
        "gpu_count_assumed": False,
        "allocated_seconds": 2 * HOUR,
        "start_epoch_s": MORNING,
        "end_epoch_s": MORNING + 2 * HOUR,
        "health": SamplerHealth(tick_count=480),
    }
    return NodeRow(node_name=name, **{**values, **changes})


def timeline(*ratios: float | None) -> Timeline:
    """Two hours with these OFUs one after the other."""
    width = 2 * HOUR / len(ratios)
    buckets = tuple((None, 0.0) if ratio is None else (ratio * width, width) for ratio in ratios)
    return Timeline(start_epoch_s=MORNING, bucket_seconds=width, buckets=buckets)


def page() -> JobPage:
    """A run on two nodes of which one was never heard from, one of its other GPUs without counters."""
    half = 6 * HOUR
    sums = measured(
        covered_seconds=half,
        ofu_covered_seconds=half,
        tpa_covered_seconds=half,
        tensor_active_seconds=0.5 * half,
        tensor_ref_seconds=0.4 * half,
        tensor_ref_variance=(0.001 * half) ** 2,
        sm_active_seconds=0.9 * half,
        sm_active_covered_seconds=half,
        reasons=("no_source", "not_delivered", "ok"),
        **{name: 3 * seconds for name, seconds in BY_MINUTES.items()},
    )
    line = timeline(0.0, 0.1, 0.2, 0.4, 0.8, None, None, 0.4)
    gpus = [gpu(position, timeline=line, **BY_MINUTES) for position in range(3)]
    return JobPage(
        row=job_row(sums=sums, comment="tuned batch size", restart_count=1),
        nodes=(node("n1"), node("n2", reason="not_delivered", gpu_count_assumed=True)),
        gpus=(
            *(GpuRow(node_name="n1", totals=totals) for totals in gpus),
            GpuRow(node_name="n1", totals=silent_gpu(3)),
        ),
    )
