"""Rows of the tables run and run_node as values. Pure."""

from typing import Any

from slurm_ofu.store.charged import MEASURED
from slurm_ofu.store.facts import claim_from
from slurm_ofu.store.rows import HEALTH_FIELDS
from slurm_ofu.values import NodeRow, RunRow, SamplerHealth


def run_row(row: dict[str, Any]) -> RunRow:
    """A row of run."""
    return RunRow(
        run_id=row["run_id"],
        cluster=row["cluster"],
        job_id=row["job_id"],
        restart_count=row["restart_count"],
        sluid=row["sluid"],
        user=row["user_name"],
        account=row["account"],
        partition=row["partition"],
        job_name=row["job_name"],
        state=row["state"],
        node_list=row["node_list"],
        node_count=row["node_count"],
        comment=row["comment"],
        exit_code=row["exit_code"],
        start_epoch_s=row["start_epoch_s"],
        end_epoch_s=row["end_epoch_s"],
        qos=row["qos"],
        array_job_id=row["array_job_id"],
        array_task_id=row["array_task_id"],
        het_job_id=row["het_job_id"],
        het_offset=row["het_offset"],
        submit_epoch_s=row["submit_epoch_s"],
        elapsed_seconds=row["elapsed_seconds"],
        suspended_seconds=row["suspended_seconds"],
        alloc_tres=row["alloc_tres"],
        slurm_gpu_count=row["slurm_gpu_count"],
        accounted=bool(row["accounted"]),
        heard=bool(row["heard"]),
        running=bool(row["running"]),
        claim=claim_from(
            (row["claim_kind"], row["claim_value"], row["claim_text"], row["claim_peak_tflops"]),
            row["claim_source"],
        ),
    )


def node_row(row: dict[str, Any]) -> NodeRow:
    """A row of run_node, its time as Slurm charges it."""
    accounted = row["accounted_seconds"]
    cut_short = row["interim"] and accounted is not None and row["reason"] in MEASURED
    return NodeRow(
        node_name=row["node_name"],
        reason="not_delivered" if cut_short else row["reason"],
        gpu_count=row["gpu_count"],
        gpu_count_assumed=bool(row["gpu_count_assumed"]),
        allocated_seconds=row["allocated_seconds"] if accounted is None else accounted,
        start_epoch_s=row["start_epoch_s"],
        end_epoch_s=row["end_epoch_s"],
        health=SamplerHealth(**{name: row[name] for name in HEALTH_FIELDS}),
    )
