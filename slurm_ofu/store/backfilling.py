"""Which nodes of which runs nobody ever measured, and what Slurm's accounting says of them."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurm_ofu.store.accounting import rows_of_job
from slurm_ofu.store.lives import Life, lives_of
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingRow

_IN_WINDOW: Final = """
r.end_epoch_s >= :start AND COALESCE(r.start_epoch_s, r.end_epoch_s) < :end
"""
_CHOSEN: Final = f"""
r.accounted = 1 AND {_IN_WINDOW}
    AND (:clusters = '' OR instr(:clusters, char(10) || r.cluster || char(10)) > 0)
    AND (:partitions = '' OR instr(:partitions, char(10) || r.partition || char(10)) > 0)
"""
#: Silent, or to be done again; and not one of which Slurm says that it has no GPUs.
_DUE: Final = """
n.gpu_count IS NOT 0.0 AND (n.gpu_count_assumed = 1 OR :again = 1 AND n.backfilled = 1)
"""
_NODES: Final = f"""
SELECT n.node_name AS node_name, COUNT(*) AS run_count FROM run AS r JOIN run_node AS n ON n.run_id = r.run_id
WHERE {_CHOSEN} AND {_DUE} GROUP BY n.node_name ORDER BY n.node_name
"""
_COUNTS: Final = f"""
SELECT COUNT(*) AS run_count, COALESCE(SUM(due), 0) AS due_count,
    COALESCE(SUM(due = 0 AND backfilled = 1), 0) AS backfilled_count FROM (
    SELECT r.run_id, MAX({_DUE}) AS due, MAX(n.backfilled) AS backfilled
    FROM run AS r JOIN run_node AS n ON n.run_id = r.run_id WHERE {_CHOSEN} GROUP BY r.run_id)
"""
_RUNS: Final = f"""
SELECT r.run_id, r.cluster, r.job_id, r.array_job_id, r.array_task_id, r.restart_count, r.sluid,
    r.user_name AS user, r.uid, r.account, r.partition, r.exit_code,
    COALESCE(r.start_epoch_s, r.end_epoch_s) AS start_epoch_s, r.end_epoch_s,
    {_CHOSEN} AND {_DUE} AS wanted
FROM run_node AS n JOIN run AS r ON r.run_id = n.run_id
WHERE n.node_name = :node AND n.gpu_count IS NOT 0.0 AND {{}} ORDER BY r.start_epoch_s, r.run_id
"""
_NODES_DUE: Final = _RUNS.format(f"{_CHOSEN} AND {_DUE}")
_NODES_RUNS: Final = _RUNS.format(
    "r.end_epoch_s > :first AND COALESCE(r.start_epoch_s, r.end_epoch_s) < :last"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which runs: those over in Slurm's accounting with a part in start <= t < end. (): all."""

    start_epoch_s: float
    end_epoch_s: float
    clusters: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    again: bool = False  # those too that were backfilled before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnNode:
    """One run on one node. ``wanted``: nobody measured it there; else it is there to be told apart from."""

    run_id: int
    cluster: str
    job_id: int
    array_job_id: int | None
    array_task_id: int | None
    restart_count: int
    sluid: str | None
    user: str | None
    uid: int | None
    account: str | None
    partition: str | None
    exit_code: str | None
    start_epoch_s: float  # on this node
    end_epoch_s: float
    wanted: bool
    gpu_count: int | None = None  # on this node; None: Slurm does not say how they are spread
    node_list: str | None = None
    node_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """How many runs there are in a window, and of how many some node is due or was backfilled before."""

    run_count: int
    due_count: int
    backfilled_count: int


class BackfillReader(Reader):
    """The accounting database as somebody sees it who looks for what was not measured."""

    def __init__(
        self, path: str | Path, *, node_names: Callable[[str], tuple[str, ...]], wait_seconds: float = 10.0
    ) -> None:
        super().__init__(path, wait_seconds=wait_seconds)
        self._node_names = node_names

    def counts(self, asked: Asked) -> RunCounts:
        """How many runs there are."""
        return self._answer(lambda opened: RunCounts(**dicts_named(opened, _COUNTS, _parameters(asked))[0]))

    def nodes(self, asked: Asked) -> list[tuple[str, int]]:
        """The nodes with runs that are due, and how many."""
        return self._answer(lambda opened: opened.execute(_NODES, _parameters(asked)).fetchall())

    def on_node(self, node_name: str, asked: Asked) -> list[RunOnNode]:
        """The runs that are due on one node, and all that were there at the same time."""
        return self._answer(lambda opened: self._on_node(opened, node_name, asked))

    def _on_node(self, opened: sqlite3.Connection, node_name: str, asked: Asked) -> list[RunOnNode]:
        parameters = {**_parameters(asked), "node": node_name}
        due = dicts_named(opened, _NODES_DUE, parameters)
        if not due:
            return []
        first = min(row["start_epoch_s"] for row in due)
        last = max(row["end_epoch_s"] for row in due)
        rows = dicts_named(opened, _NODES_RUNS, {**parameters, "first": first, "last": last})
        return [self._run(opened, node_name, row) for row in rows]

    def _run(self, opened: sqlite3.Connection, node_name: str, row: dict[str, Any]) -> RunOnNode:
        run = RunOnNode(**{**row, "wanted": bool(row["wanted"])})
        life = _life_of(opened, run)
        return run if life is None else _with_words(run, life, node_name, self._node_names)


def dicts_named(opened: sqlite3.Connection, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a query with named parameters, by the names of its columns."""
    cursor = opened.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _parameters(asked: Asked) -> dict[str, Any]:
    return {
        "start": asked.start_epoch_s,
        "end": asked.end_epoch_s,
        "clusters": _lines(asked.clusters),
        "partitions": _lines(asked.partitions),
        "again": int(asked.again),
    }


def _lines(names: Sequence[str]) -> str:
    return "".join(f"\n{name}\n" for name in names)


def _life_of(opened: sqlite3.Connection, run: RunOnNode) -> Life | None:
    lives = lives_of(rows_of_job(opened, run.cluster, run.job_id))
    return next((life for life in lives if life.segments[0].run_id == run.run_id), None)


def _with_words(
    run: RunOnNode, life: Life, node_name: str, node_names: Callable[[str], tuple[str, ...]]
) -> RunOnNode:
    """With Slurm's word on this node: from when to when, and how many GPUs."""
    rows = [
        (one.row, at)
        for at, one in enumerate(life.segments)
        if one.row.node_list is not None and node_name in node_names(one.row.node_list)
    ]
    if not rows:
        return run
    counts = {_gpus_per_node(row) for row, _ in rows}
    ends = [row.end_epoch_s for row, _ in rows if row.end_epoch_s is not None]
    return replace(
        run,
        start_epoch_s=float(min(_begin(row, at) for row, at in rows)),
        end_epoch_s=float(max(ends, default=run.end_epoch_s)),
        gpu_count=counts.pop() if len(counts) == 1 else None,
        node_list=life.first.node_list,
        node_count=life.first.node_count,
    )


def _begin(row: AccountingRow, at: int) -> int:
    start = row.start_epoch_s or 0
    return start if at == 0 else max(start, row.submit_epoch_s)


def _gpus_per_node(row: AccountingRow) -> int | None:
    """Where every node has as many; Slurm's accounting only has the sum."""
    if not row.gpu_count or not row.node_count or row.gpu_count % row.node_count:
        return None
    return row.gpu_count // row.node_count
