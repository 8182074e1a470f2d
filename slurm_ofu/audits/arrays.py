"""Tasks of one job array as one entry: a thousand of them would leave no room for anybody else's."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from slurm_ofu.audits.eligible import run_entry, run_order, worst_runs
from slurm_ofu.figures import pool
from slurm_ofu.values import AuditEntry, AuditName, RunRow, UsageRow

_One = TypeVar("_One")
_Key = tuple[object, ...]


def by_array(found: Iterable[tuple[RunRow, _One]]) -> list[list[_One]]:
    """What was found of runs: of one array together, of any other run by itself."""
    groups: dict[_Key, list[tuple[RunRow, _One]]] = {}
    for run, one in found:
        groups.setdefault(array_key(run), []).append((run, one))
    return [
        [one for _, one in sorted(group, key=lambda pair: run_order(pair[0]))] for group in groups.values()
    ]


def array_key(run: RunRow) -> _Key:
    """What the runs of one array have in common; of any other run what it has alone. Only Slurm's accounting
    knows of arrays: till it was read each task is a job of its own."""
    if run.array_job_id is None:  # rows of several answers may have the same run_id
        return (run.run_id, run.cluster, run.job_id, run.restart_count, run.start_epoch_s)
    return (run.cluster, run.array_job_id, run.user)


def array_entry(
    audit: AuditName, kind: str, weighed: Sequence[tuple[float, UsageRow]], weight_gpu_hours: float
) -> AuditEntry:
    """An entry, without figures yet, about one run, or about several of one array: then ``subject`` is the
    array's job id, and ``runs`` are the worst of them."""
    if len(weighed) == 1:
        return run_entry(audit, kind, weighed[0][1], weight_gpu_hours)
    rows = [row for _, row in weighed]
    runs = [row.run for row in rows if row.run is not None]
    entry = run_entry(audit, kind, replace(rows[0], sums=pool(row.sums for row in rows)), weight_gpu_hours)
    return replace(
        entry,
        subject=str(runs[0].array_job_id),
        account=_common(run.account for run in runs),
        partition=_common(run.partition for run in runs),
        runs=worst_runs(weighed) or tuple(runs[:1]),
    )


def _common(names: Iterable[str | None]) -> str | None:
    """What all say; ``None`` where they differ."""
    its = set(names)
    return its.pop() if len(its) == 1 else None
