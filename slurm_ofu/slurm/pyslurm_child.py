"""The process in which pyslurm lives: `main([SLURM_CONF, QUESTION])`.

QUESTION is JSON: {"cluster": …, "start": …, "end": …} or {"cluster": …, "ids": […]}. Prints a line when
pyslurm works, then one JSON object for each row, then a line that says that these were all. May end at any
point, in any way: see `accounting_pyslurm`.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from slurm_ofu.slurm import accounting_window as windows
from slurm_ofu.slurm.accounting_text import NO_NODES, Dated, gpu_count
from slurm_ofu.values import AccountingRow

READY, DONE = b"ready", b"done"
LACKS = frozenset({"sluid"})
#: A job takes kilobytes in pyslurm, with all its steps.
ROWS_PER_SLICE = 5_000
_TRES = ("billing", "cpu", "energy", "mem", "node", "pages", "vmem")
_NAMED_TRES = ("fs", "gres", "interconnect", "license", "other")


class Asker:
    """Questions to slurmdbd, each answered with at most one row of a job."""

    def __init__(self, pyslurm: Any, cluster: str | None) -> None:
        self._jobs, self._filter = pyslurm.db.Jobs, pyslurm.db.JobFilter
        self._clusters = [cluster] if cluster else None

    def window(self, part: windows.Slice) -> Iterator[list[Dated]]:
        """All rows with a part in a slice, and former ones of the same jobs."""
        return map(self._with_former, self._load(start_time=part.start, end_time=part.end))

    def jobs(self, ids: Sequence[int]) -> Iterator[list[Dated]]:
        """All rows of these jobs."""
        wanted = set(ids)
        for dated in self._load(ids=list(ids)) if ids else ():
            if dated[0].job_id in wanted:
                yield self._with_former(dated)

    def _with_former(self, dated: Dated) -> list[Dated]:
        """The rows of a job up to this one, oldest first.

        An earlier one there may be where Slurm counts restarts, or where it started no later than it was
        submitted, as a segment after a resize does. It became eligible before this one was submitted.
        """
        found = [dated]
        while (row := found[-1][0]).restart_count or (row.start_epoch_s or row.submit_epoch_s + 1) <= (
            row.submit_epoch_s
        ):
            before = self._load(
                ids=[row.job_id], start_time=windows.EARLIEST_EPOCH_S, end_time=row.submit_epoch_s
            )
            former = [one for one in before if one[0].job_id == row.job_id]
            if not former or former[0][0].submit_epoch_s >= row.submit_epoch_s:
                break
            found.append(former[0])
        return found[::-1]

    def _load(self, **condition: Any) -> list[Dated]:
        if self._clusters:
            condition["clusters"] = self._clusters
        jobs = self._jobs.load(self._filter(**condition))
        return [dated for job in jobs.values() if (dated := dated_of(job)) is not None]


def dated_of(job: Any) -> Dated | None:
    """A pyslurm.db.Job as a row; None: it is of no use."""
    if job.state == "REVOKED" or not job.submit_time:
        return None
    node_list = None if (job.nodelist or "") in NO_NODES else job.nodelist
    array, leader = job.array_id or None, job.heterogeneous_id or None
    split = array is not None and not job.array_tasks_waiting
    tres = alloc_tres(job.allocated_tres)
    limit = job.time_limit if isinstance(job.time_limit, int) else None  # it may be "PartitionLimit"
    row = AccountingRow(
        cluster=job.cluster,
        job_id=job.id,
        submit_epoch_s=job.submit_time,
        start_epoch_s=job.start_time,
        end_epoch_s=job.end_time,
        elapsed_seconds=job.elapsed_time or 0,
        suspended_seconds=job.suspended_time or 0,
        state=job.state.partition(" ")[0],
        exit_code=f"{job.exit_code}:{job.exit_code_signal}",
        user=None if job.user_name == str(job.user_id) else job.user_name,
        uid=job.user_id,
        account=_text(job, "account"),
        partition=_text(job, "partition"),
        qos=_text(job, "qos"),
        job_name=_text(job, "name"),
        array_job_id=array,
        array_task_id=(job.array_task_id or 0) if split else None,  # pyslurm takes task 0 for none
        het_job_id=leader,
        het_offset=(job.heterogeneous_offset or 0) if leader else None,  # and component 0
        node_list=node_list,
        node_count=job.num_nodes if node_list else None,
        alloc_tres=tres,
        gpu_count=gpu_count(tres or ""),
        time_limit_seconds=None if limit is None else limit * 60,
        restart_count=job.requeue_count,
        comment=_text(job, "comment"),
        system_comment=_text(job, "system_comment"),
        admin_comment=_text(job, "admin_comment"),
    )
    return row, job.eligible_time


def alloc_tres(tres: Any) -> str | None:
    """Allocated TRES as text sacct prints them."""
    if tres is None:
        return None
    found = [getattr(tres, name, None) for name in _TRES]
    for name in _NAMED_TRES:
        found += (getattr(tres, name, None) or {}).values()
    shown = (f"{one.type_and_name}={one.count}{'M' * (one.type == 'mem')}" for one in found if one)
    return ",".join(sorted(shown)) or None


def _text(job: Any, name: str) -> str | None:
    try:
        return getattr(job, name) or None
    except UnicodeDecodeError:
        return None


def main(arguments: Sequence[str]) -> None:
    """Answer one question on standard output."""
    slurm_conf, question = arguments[0], json.loads(arguments[1])
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # pyslurm prints what it does not know
    sys.excepthook = _one_line
    os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
    pyslurm = importlib.import_module("pyslurm")
    pyslurm.slurm_init(slurm_conf)
    asker = Asker(pyslurm, question["cluster"])
    out.write(READY + b"\n")
    out.flush()
    for row in _rows(asker, question):
        out.write(json.dumps(asdict(row)).encode() + b"\n")
    out.write(DONE + b"\n")
    out.flush()


def _rows(asker: Asker, question: Mapping[str, Any]) -> Iterator[AccountingRow]:
    if "ids" in question:
        return (row for batch in asker.jobs(question["ids"]) for row, _ in batch)
    return windows.each_once(
        question["start"],
        question["end"],
        asker.window,
        asker.jobs,
        now_epoch_s=time.time(),
        rows_per_slice=ROWS_PER_SLICE,
    )


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    print(f"{kind.__name__}: {error}", file=sys.stderr)
