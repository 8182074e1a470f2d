"""Pages of runs whose GPUs did this or that, for tests of findings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurm_ofu.figures import pool_gpus
from slurm_ofu.values import GpuRow, GpuTotals, JobPage
from tests.figures.examples import HOUR, gpu
from tests.reports.examples import MORNING, job_row, node

HOURS = 4.0
GIB = 2**30


def worked(
    *,
    tensor: float = 0.5,
    clock: float = 0.95,
    sm: float = 0.9,
    memory: float | None = 0.3,
    idle: float = 0.0,
    tail: float | None = 0.0,
    non_tensor: float = 0.0,
    power: float = 0.0,
    heat: float = 0.0,
    hours: float = HOURS,
    judged: float = 1.0,
    share: float = 1.0,
    **changes: Any,
) -> GpuTotals:
    """One GPU. ``tensor``, ``sm``, ``memory``: while it was not idle; the rest: shares of its time."""
    held = hours * HOUR * share
    seen, busy = held * judged, held * judged * (1 - idle)
    values: dict[str, Any] = {
        "allocated_seconds": held,
        "covered_seconds": seen,
        "sm_share_ratio": share,
        "tensor_active_seconds": tensor * busy,
        "tensor_ref_seconds": tensor * clock * busy,
        "tensor_ref_error_seconds": 0.001 * seen,
        "sm_active_seconds": sm * busy,
        "sm_active_covered_seconds": seen,
        "dram_active_seconds": None if memory is None else memory * busy,
        "dram_active_covered_seconds": 0.0 if memory is None else seen,
        "idle_seconds": idle * seen,
        "idle_covered_seconds": seen,
        "idle_tail_seconds": None if tail is None else tail * held,
        "non_tensor_seconds": non_tensor * busy,
        "non_tensor_covered_seconds": seen,
        "throttled_power_seconds": power * seen,
        "throttled_thermal_seconds": heat * seen,
        "throttle_covered_seconds": seen,
        "power_joules": 520.0 * seen,
        "power_covered_seconds": seen,
        "energy_joules": 520.0 * seen,
        "memory_max_bytes": 61 * GIB,
    }
    return gpu(0, **{**values, **changes})


def unused(**changes: Any) -> GpuTotals:
    """A GPU that nothing ran on."""
    return worked(**{"idle": 1.0, "tail": 1.0, "memory_max_bytes": 0, **changes})


def unseen(reason: str = "no_source", *, hours: float = HOURS) -> GpuTotals:
    """A GPU of which nothing is known but that it was held."""
    return GpuTotals(position=0, reason=reason, allocated_seconds=hours * HOUR)  # type: ignore[arg-type]


def job(*gpus: GpuTotals, hours: float = HOURS, **run: Any) -> JobPage:
    """A run on these GPUs of one node."""
    return job_on({"n1": gpus}, hours=hours, **run)


def job_on(nodes: Mapping[str, Sequence[GpuTotals]], *, hours: float = HOURS, **run: Any) -> JobPage:
    """A run on several nodes, each with its GPUs in the order of their positions."""
    rows = tuple(
        GpuRow(node_name=name, totals=replace(totals, position=position))
        for name, gpus in nodes.items()
        for position, totals in enumerate(gpus)
    )
    held = hours * HOUR
    end = MORNING + held
    listed = ",".join(nodes)
    values = {"node_list": listed, "node_count": len(nodes), "end_epoch_s": end, "exit_code": None, **run}
    return JobPage(
        row=job_row(sums=pool_gpus(row.totals for row in rows), **values),
        nodes=tuple(
            node(name, gpu_count=float(len(gpus)), allocated_seconds=held, end_epoch_s=end)
            for name, gpus in nodes.items()
        ),
        gpus=rows,
    )
