"""Runs and their GPUs for tests of audits: rows by job as readers give them."""

from typing import Any

from slurm_ofu.figures.pooling import pool_gpus
from slurm_ofu.figures.work import with_counts, with_lost
from slurm_ofu.values import AuditConfig, Goals, GpuTotals, RunGpu, RunRow, UsageRow

HOUR = 3600.0
START = 1_750_000_500.0
GOALS = Goals()
SETTINGS = AuditConfig()
MODEL = "NVIDIA H100 80GB HBM3"


def gpu(position: int = 0, *, hours: float = 10.0, ofu: float = 0.4, **changes: Any) -> GpuTotals:
    """One GPU, measured all the time and at work all the time."""
    seconds = hours * HOUR
    values: dict[str, Any] = {
        "position": position,
        "reason": "ok",
        "allocated_seconds": seconds,
        "covered_seconds": seconds,
        "uuid": f"GPU-{position}",
        "gpu_model": MODEL,
        "reference_clock_mhz": 1830.0,
        "estimator": "cycles",
        "tensor_active_seconds": ofu * seconds,
        "tensor_ref_seconds": ofu * seconds,
        "tensor_ref_error_seconds": 0.001 * seconds,
        "sm_active_seconds": 0.9 * seconds,
        "sm_active_covered_seconds": seconds,
        "idle_seconds": 0.0,
        "idle_covered_seconds": seconds,
        "idle_tail_seconds": 0.0,
        "non_tensor_seconds": 0.0,
        "non_tensor_covered_seconds": seconds,
    }
    return GpuTotals(**{**values, **changes})


def idle_gpu(
    position: int = 0, *, hours: float = 10.0, idle_hours: float | None = None, **changes: Any
) -> GpuTotals:
    """One GPU that was busy at first, and idle for the rest; without ``idle_hours`` idle all along."""
    idle = hours if idle_hours is None else idle_hours
    busy = (hours - idle) * HOUR
    values: dict[str, Any] = {
        "tensor_active_seconds": 0.4 * busy,
        "tensor_ref_seconds": 0.4 * busy,
        "sm_active_seconds": 0.9 * busy,
        "idle_seconds": idle * HOUR,
        "idle_tail_seconds": idle * HOUR,
    }
    return gpu(position, hours=hours, **{**values, **changes})


def silent_gpu(position: int = 0, *, hours: float = 10.0, reason: str = "no_source") -> GpuTotals:
    """One GPU of which nothing was measured."""
    return GpuTotals(position=position, reason=reason, allocated_seconds=hours * HOUR)  # type: ignore[arg-type]


def fp64_gpu(position: int = 0, *, hours: float = 10.0) -> GpuTotals:
    """One GPU busy with a code that uses no tensor cores."""
    return gpu(position, hours=hours, ofu=0.0, non_tensor_seconds=hours * HOUR)


def run(job_id: int, *gpus: GpuTotals, run_id: int | None = None, **changes: Any) -> UsageRow:
    """One run with these GPUs, of wilma where nothing else is said."""
    hours = max(((one.allocated_seconds or 0.0) / HOUR for one in gpus), default=10.0)
    values: dict[str, Any] = {
        "run_id": job_id if run_id is None else run_id,
        "cluster": "alpha",
        "job_id": job_id,
        "restart_count": 0,
        "sluid": None,
        "user": "wilma",
        "account": "physics",
        "partition": "gpu",
        "job_name": "train",
        "state": "COMPLETED",
        "node_list": "n1",
        "node_count": 1,
        "comment": None,
        "exit_code": "0:0",
        "start_epoch_s": START,
        "end_epoch_s": START + hours * HOUR,
        "qos": "normal",
    }
    row = RunRow(**{**values, **changes})
    sums = with_counts(with_lost(pool_gpus(gpus), gpus, GOALS.of(row.partition)))
    return UsageRow(group=str(job_id), sums=sums, run=row)


def run_gpus(row: UsageRow, *gpus: GpuTotals, node_name: str = "n1") -> dict[int, tuple[RunGpu, ...]]:
    """The single GPUs of a run, as audits get them."""
    assert row.run is not None
    run_id = row.run.run_id
    return {run_id: tuple(RunGpu(run_id=run_id, node_name=node_name, totals=one) for one in gpus)}
