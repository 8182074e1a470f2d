"""Read the accounting database: sums for reports, and everything kept about one run.

Readers need no right to write: with a rollback journal they work beside a writer and without one.
Each answer is one consistent snapshot, read quickly, since a reader holds up a writer's commit.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.connection import connection, translated, user_version, wait_until
from slurm_ofu.store.facts import claim_from
from slurm_ofu.store.playback import journal_path, played_back
from slurm_ofu.store.queries import COUNT, GPUS, NODES, labels_query, runs_query, usage_query
from slurm_ofu.store.rows import HEALTH_FIELDS, gpu_from_row
from slurm_ofu.store.schema import SCHEMA_VERSION
from slurm_ofu.store.selection import GROUPS, where
from slurm_ofu.store.views import SIDE_SUMS
from slurm_ofu.values import (
    Claim,
    GpuRow,
    JobPage,
    NodeRow,
    RunGpu,
    RunRow,
    SamplerHealth,
    Selection,
    StoredGroup,
    UsageRow,
    UsageSums,
)

_Answer = TypeVar("_Answer")
_Parameters = list[str | int | float]
_JOURNAL_PAUSE_SECONDS: Final = 0.05
_JOURNAL_PATIENCE_SECONDS: Final = 0.5  # a living writer is done with its journal by then


class Reader:
    """The accounting database at ``path``, for anybody who may read the file.

    Raises StoreMissing where there is none, StoreBusy where a writer held it for ``wait_seconds``.
    ``held_against`` gives a claim what it is compared to, by the models of the run's GPUs, where no node
    has: Slurm's accounting knows none.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        wait_seconds: float = 10.0,
        held_against: Callable[[Claim, Sequence[str]], Claim | None] = lambda claim, _gpu_models: claim,
    ) -> None:
        self.path = Path(path)
        self.wait_seconds = wait_seconds
        self._held_against = held_against

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """Sums over the selected runs, a row per group; by job: a row per run, oldest first."""
        clause, parameters = where(selection)
        if by == "job":
            rows = self._answer(lambda opened: _job_rows(opened, clause, parameters))
            return [self._with_peak(row) for row in rows]
        return self._answer(lambda opened: _group_rows(opened, GROUPS[by], clause, parameters))

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """A row per selected run, oldest first."""
        return self.usage(selection, "job")

    def page(self, run_id: int) -> JobPage:
        """Everything kept about one run. Raises StoreError where there is no such run."""
        return self._answer(lambda opened: self._page(opened, run_id))

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        raise NotImplementedError

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        raise NotImplementedError

    def count(self) -> int:
        """How many runs there are."""
        return self._answer(lambda opened: int(opened.execute(COUNT).fetchone()[0]))

    def _page(self, opened: sqlite3.Connection, run_id: int) -> JobPage:
        rows = _job_rows(opened, "run_id = ?", [run_id])
        if not rows:
            raise StoreError(f"{self.path}: no run with run_id {run_id}")
        return JobPage(
            row=self._with_peak(rows[0]),
            nodes=tuple(_node_row(row) for row in dicts(opened, NODES, [run_id])),
            gpus=tuple(
                GpuRow(node_name=row["node_name"], totals=gpu_from_row(row))
                for row in dicts(opened, GPUS, [run_id])
            ),
        )

    def _with_peak(self, row: UsageRow) -> UsageRow:
        claim = None if row.run is None else row.run.claim
        if row.run is None or claim is None or claim.peak_tflops is not None:
            return row
        held = self._held_against(claim, row.sums.gpu_models)
        return replace(row, run=replace(row.run, claim=held))

    def _answer(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Ask within one read transaction; wait for writers up to the deadline."""
        deadline = time.monotonic() + self.wait_seconds
        patience = min(deadline, time.monotonic() + _JOURNAL_PATIENCE_SECONDS)
        with translated(self.path):
            while True:
                try:
                    return self._ask(self.path, "ro", deadline, question)
                except sqlite3.OperationalError as error:
                    if not self._journal_in_the_way(error):
                        raise
                if time.monotonic() > patience:
                    try:
                        with played_back(self.path) as copy:
                            return self._ask(copy, "rw", deadline, question)
                    except StoreBusy:
                        if time.monotonic() > deadline:
                            raise
                time.sleep(_JOURNAL_PAUSE_SECONDS)

    def _ask(
        self,
        path: Path,
        mode: Literal["ro", "rw"],
        deadline: float,
        question: Callable[[sqlite3.Connection], _Answer],
    ) -> _Answer:
        with connection(path, mode) as opened:
            wait_until(opened, deadline)
            opened.execute("BEGIN")
            self._check_version(opened)
            return question(opened)

    def _check_version(self, opened: sqlite3.Connection) -> None:
        version = user_version(opened)
        if version != SCHEMA_VERSION:
            newer = version > SCHEMA_VERSION
            remedy = (
                "upgrade slurm-ofu here" if newer else "ofu-admin init upgrades it, and so does the next job"
            )
            raise StoreError(
                f"{self.path}: has schema {version}, this slurm-ofu reads schema {SCHEMA_VERSION}: {remedy}"
            )

    def _journal_in_the_way(self, error: sqlite3.OperationalError) -> bool:
        """A journal that only a writer may play back: either one is about to, or it has died."""
        said = str(error)
        blocked = "readonly" in said or "unable to open" in said
        return blocked and journal_path(self.path).exists()


def dicts(opened: sqlite3.Connection, sql: str, parameters: _Parameters) -> list[dict[str, Any]]:
    """The rows of a query, by the names of its columns."""
    cursor = opened.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _group_rows(
    opened: sqlite3.Connection, group: str, clause: str, parameters: _Parameters
) -> list[UsageRow]:
    return [
        UsageRow(group=name, sums=sums) for name, sums in _sums(opened, group, clause, parameters).items()
    ]


def _job_rows(opened: sqlite3.Connection, clause: str, parameters: _Parameters) -> list[UsageRow]:
    sums = _sums(opened, GROUPS["job"], clause, parameters)
    return [
        UsageRow(group=str(row["job_id"]), sums=sums[row["run_id"]], run=_run_row(row))
        for row in dicts(opened, runs_query(clause), parameters)
    ]


def _sums(
    opened: sqlite3.Connection, group: str, clause: str, parameters: _Parameters
) -> dict[Any, UsageSums]:
    """Sums by group, in the group's order."""
    labels: dict[Any, tuple[set[str], set[str], set[str]]] = defaultdict(lambda: (set(), set(), set()))
    for name, *words in opened.execute(labels_query(group, clause), parameters):
        for seen, word in zip(labels[name], words, strict=True):
            seen.update(() if word is None else (word,))
    return {
        row["grp"]: _usage_sums(row, *labels[row["grp"]])
        for row in dicts(opened, usage_query(group, clause), parameters)
    }


def _usage_sums(row: dict[str, Any], estimators: set[str], reasons: set[str], models: set[str]) -> UsageSums:
    """Numerators may be NULL: nothing measured. Denominators of nothing are 0 seconds."""

    def seconds(name: str) -> float:
        return 0.0 if row[name] is None else float(row[name])

    side: dict[str, Any] = {
        name: seconds(name) if name.endswith("_covered_seconds") else row[name] for name in SIDE_SUMS
    }
    return UsageSums(
        run_count=row["run_count"],
        gpu_count=seconds("gpu_count"),
        gpu_count_unknown_time=seconds("gpu_count_unknown_time"),
        allocated_seconds=row["allocated_seconds"],
        covered_seconds=seconds("covered_seconds"),
        ofu_covered_seconds=seconds("ofu_covered_seconds"),
        ofu_tensor_active_seconds=row["ofu_tensor_active_seconds"],
        tensor_active_seconds=row["tensor_active_seconds"],
        tensor_ref_seconds=row["tensor_ref_seconds"],
        tensor_ref_variance=row["tensor_ref_variance"],
        tensor_ref_variance_per_degree=row["tensor_ref_variance_per_degree"],
        tpa_covered_seconds=seconds("tpa_covered_seconds"),
        sm_active_seconds=row["sm_active_seconds"],
        sm_active_covered_seconds=seconds("sm_active_covered_seconds"),
        energy_joules=row["energy_joules"],
        held_suspended_seconds=row["held_suspended_seconds"],
        **side,
        estimators=tuple(sorted(estimators)),
        reasons=tuple(sorted(reasons)),
        gpu_models=tuple(sorted(models)),
    )


def _run_row(row: dict[str, Any]) -> RunRow:
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


def _node_row(row: dict[str, Any]) -> NodeRow:
    accounted = row["accounted_seconds"]
    return NodeRow(
        node_name=row["node_name"],
        reason=row["reason"],
        gpu_count=row["gpu_count"],
        gpu_count_assumed=bool(row["gpu_count_assumed"]),
        allocated_seconds=row["allocated_seconds"] if accounted is None else accounted,
        start_epoch_s=row["start_epoch_s"],
        end_epoch_s=row["end_epoch_s"],
        health=SamplerHealth(**{name: row[name] for name in HEALTH_FIELDS}),
    )
