"""Builders of node records, typed, with sensible defaults: a test names only what it is about."""

import re
from collections.abc import Sequence
from dataclasses import replace

from slurm_ofu.values import (
    GpuTotals,
    Job,
    NodeRecord,
    QuarterSums,
    Reason,
    RunKey,
    SamplerHealth,
    Timeline,
)

START = 1_750_000_500.0  # a multiple of 900


def make_gpu(
    position: int = 0,
    *,
    reason: Reason = "ok",
    allocated: float | None = 3600.0,
    covered: float = 3500.0,
    tensor_ref: float | None = 700.0,
    error: float | None = 3.0,
    degrees: float | None = 900.0,
    model: str | None = "NVIDIA H100 80GB HBM3",
) -> GpuTotals:
    """One GPU; ``tensor_ref=None``: no OFU, though tensor activity is known if anything is covered."""
    measured = covered > 0
    return GpuTotals(
        position=position,
        reason=reason,
        allocated_seconds=allocated,
        covered_seconds=covered,
        uuid=f"GPU-{position}",
        gpu_model=model,
        mapped_by="minor",
        reference_clock_mhz=None if tensor_ref is None else 1830.0,
        estimator="sampled" if measured else None,
        interval_count=350 if measured else 0,
        tensor_active_seconds=800.0 if measured else None,
        tensor_ref_seconds=tensor_ref,
        tensor_ref_error_seconds=None if tensor_ref is None else error,
        error_degrees=None if tensor_ref is None else degrees,
        sm_active_seconds=2000.0 if measured else None,
        sm_active_covered_seconds=covered,
        energy_joules=1.5e6 if measured else None,
        memory_max_bytes=80 * 2**30 if measured else None,
        timeline=Timeline(
            start_epoch_s=START, bucket_seconds=1800.0, buckets=((350.0, 1750.0), (350.0, 1750.0))
        )
        if measured
        else None,
    )


def make_job(
    *,
    cluster: str = "alpha",
    job_id: int = 42,
    restart_count: int = 0,
    sluid: str | None = None,
    certain: bool = True,
    user: str | None = "ada",
    uid: int | None = 1000,
    account: str | None = "physics",
    partition: str | None = "gpu",
    node_list: str | None = "n1",
    node_count: int | None = 1,
) -> Job:
    """A job as the hooks of one node know it."""
    return Job(
        key=RunKey(cluster=cluster, job_id=job_id, restart_count=restart_count, sluid=sluid),
        restart_certain=certain,
        user=user,
        uid=uid,
        account=account,
        partition=partition,
        node_list=node_list,
        node_count=node_count,
        comment=None,
    )


def make_record(
    job: Job | None = None,
    *,
    node: str = "n1",
    reason: Reason = "ok",
    start: float | None = START,
    end: float = START + 3600.0,
    allocated: float | None = 3600.0,
    gpus: Sequence[GpuTotals] | None = None,
    quarters: Sequence[QuarterSums] = (),
) -> NodeRecord:
    """What one node says of one run: one measured GPU unless told otherwise."""
    return NodeRecord(
        job=job or make_job(),
        node_name=node,
        reason=reason,
        start_epoch_s=start,
        end_epoch_s=end,
        allocated_seconds=allocated,
        exit_code="0:0",
        gpus=(make_gpu(allocated=allocated),) if gpus is None else tuple(gpus),
        quarters=tuple(quarters),
        health=SamplerHealth(tick_count=350, missed_ticks=1, late_max_seconds=0.5, placement="own scope"),
        software_version="0.1.0",
    )


def as_interim(record: NodeRecord) -> NodeRecord:
    """The same said while the run goes on."""
    return replace(record, interim=True, exit_code=None)


def make_quarter(
    start_epoch_s: int = int(START), *, model: str | None = "NVIDIA H100 80GB HBM3"
) -> QuarterSums:
    """One quarter hour of one node and GPU model."""
    return QuarterSums(
        gpu_model=model,
        start_epoch_s=start_epoch_s,
        allocated_seconds=900.0,
        covered_seconds=880.0,
        tensor_active_seconds=200.0,
        tensor_ref_seconds=180.0,
        tensor_ref_error_seconds=1.0,
    )


def make_unstarted(job: Job | None = None, *, node: str = "n2", end: float = START + 3600.0) -> NodeRecord:
    """What an epilog says where no prolog ran."""
    job = replace(job or make_job(), restart_certain=False, node_list=None)
    gpu = make_gpu(reason="not_started", allocated=None, covered=0.0, tensor_ref=None, model=None)
    return make_record(job, node=node, reason="not_started", start=None, end=end, allocated=None, gpus=(gpu,))


def expand(text: str) -> tuple[str, ...]:
    """Just enough of Slurm's host lists: ``a,b`` and ``n[1-3]``."""
    match = re.fullmatch(r"(\w+)\[(\d+)-(\d+)\]", text)
    if match:
        return tuple(f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1))
    return tuple(text.split(","))
