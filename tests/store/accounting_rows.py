"""Builders of rows of Slurm's accounting, typed, with sensible defaults."""

from dataclasses import replace

from slurm_ofu.values import AccountingRow
from tests.store.records import START

START_S = int(START)


def make_row(
    *,
    cluster: str = "alpha",
    job_id: int = 42,
    submit: int | None = None,
    start: int | None = START_S,
    end: int | None = START_S + 3600,
    elapsed: int | None = None,
    suspended: int = 0,
    state: str = "COMPLETED",
    user: str | None = "ada",
    uid: int | None = 1000,
    node_list: str | None = "n1",
    node_count: int | None = 1,
    gpu_count: int | None = 1,
    restart_count: int | None = None,
    sluid: str | None = None,
    comment: str | None = None,
) -> AccountingRow:
    """One row: a job of one GPU for an hour, submitted ten seconds before its start."""
    if elapsed is None:
        elapsed = 0 if start is None or end is None else end - start - suspended
    return AccountingRow(
        cluster=cluster,
        job_id=job_id,
        submit_epoch_s=(START_S if start is None else start) - 10 if submit is None else submit,
        start_epoch_s=start,
        end_epoch_s=end,
        elapsed_seconds=elapsed,
        suspended_seconds=suspended,
        state=state,
        exit_code="0:0",
        user=user,
        uid=uid,
        account="physics",
        partition="gpu",
        qos="normal",
        job_name="train",
        array_job_id=None,
        array_task_id=None,
        het_job_id=None,
        het_offset=None,
        node_list=node_list,
        node_count=node_count,
        alloc_tres=None,
        gpu_count=gpu_count,
        restart_count=restart_count,
        sluid=sluid,
        comment=comment,
    )


def resized(
    *, versions_start: int | None = None, sluids: tuple[str | None, str | None] = (None, None)
) -> list[AccountingRow]:
    """Three nodes of two GPUs each for 2 s, then one of them for 3 s: 18 GPU-seconds.

    On 22.05 the second row's start is the job's, and its elapsed time counts from there; on 24.11 and later
    both are those of the segment (``versions_start``).
    """
    at = START_S + 2
    first = make_row(end=at, state="RESIZING", node_list="n[1-3]", node_count=3, gpu_count=6, sluid=sluids[0])
    begin = START_S if versions_start is None else versions_start
    second = make_row(submit=at, start=begin, end=at + 3, gpu_count=2, sluid=sluids[1])
    return [first, replace(second, elapsed_seconds=at + 3 - begin)]
