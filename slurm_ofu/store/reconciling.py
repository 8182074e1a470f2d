"""The nodes' records against Slurm's accounting: what one knows and the other does not."""

import sqlite3
from typing import Any, Final

from slurm_ofu.figures.reasons import NOT_CHARGED, SEVERITY
from slurm_ofu.store.connection import dicts
from slurm_ofu.store.read import Reader
from slurm_ofu.store.selection import where
from slurm_ofu.store.views import GPU_SUMS, NODE_SUMS, RUN_SUMS
from slurm_ofu.values import CoveredRuns, ReconciledRun, Reconciliation, ReportingNode, Selection

_Parameters = list[str | int | float]

_SILENT_NODE: Final = "gpu_count_assumed = 1 AND gpu_count IS NOT 0"
_UNHEARD_RUN: Final = f"""
heard = 0 AND EXISTS (SELECT 1 FROM run_node AS n WHERE n.run_id = run.run_id AND {_SILENT_NODE})
"""
_INCOMPLETE: Final = f"""
heard = 1 AND EXISTS (SELECT 1 FROM run_node AS n WHERE n.run_id = run.run_id AND {_SILENT_NODE})
"""
# A run that goes on, by its nodes as they were heard lately, or by Slurm.
_GOES_ON: Final = """
(running = 1 AND (end_epoch_s >= ? OR EXISTS
    (SELECT 1 FROM accounting_row AS a WHERE a.run_id = run.run_id AND a.end_epoch_s IS NULL)))
"""
_UNACCOUNTED: Final = "heard = 1 AND accounted = 0"
_ENDLESS: Final = """
EXISTS (SELECT 1 FROM run_told AS t WHERE t.run_id = run.run_id AND t.exit_code IS NULL)
"""
_RANKS: Final = " ".join(f"WHEN '{reason}' THEN {at}" for at, reason in enumerate(SEVERITY))
# What was measured of a run that Slurm charges no time for has no weight, hence no OFU.
_CHARGED_RANK: Final = f"""
CASE WHEN rank = {SEVERITY.index("ok")} AND allocated_seconds = 0.0 THEN {SEVERITY.index(NOT_CHARGED)}
    ELSE rank END
"""
_ACCOUNTING_KNOWN: Final = "SELECT EXISTS (SELECT 1 FROM accounting_row WHERE cluster = ?)"
_UNCOUNTED: Final = "heard = 1 AND accounted = 1 AND slurm_gpu_count IS NULL"


def _runs_query(clause: str) -> str:
    return f"""
    WITH selected AS (SELECT run_id FROM run WHERE {clause}),
    g AS (SELECT run_id, {GPU_SUMS} FROM gpu_accounted
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    n AS (SELECT run_id, {NODE_SUMS} FROM run_node
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    sums AS (SELECT s.run_id AS run_id, {RUN_SUMS} FROM selected AS s
             LEFT JOIN n ON n.run_id = s.run_id LEFT JOIN g ON g.run_id = s.run_id)
    SELECT r.run_id, r.job_id, r.restart_count, r.user_name AS user, r.partition,
        r.start_epoch_s, r.end_epoch_s,
        COALESCE(r.state, (SELECT a.state FROM accounting_row AS a WHERE a.run_id = r.run_id
            ORDER BY a.submit_epoch_s DESC LIMIT 1)) AS state,
        COALESCE(s.gpu_count, 0.0) AS gpu_count, s.allocated_seconds,
        r.array_job_id, r.array_task_id, r.het_job_id, r.het_offset,
        EXISTS (SELECT 1 FROM accounting_row AS a WHERE a.cluster = r.cluster AND a.job_id = r.job_id
            AND a.run_id IS NOT r.run_id) AS others_rows
    FROM sums AS s JOIN run AS r ON r.run_id = s.run_id
    ORDER BY COALESCE(r.start_epoch_s, r.end_epoch_s), r.run_id
    """


def _silent_nodes_query(clause: str) -> str:
    return f"""
    SELECT run_id, node_name FROM run_node WHERE {_SILENT_NODE}
        AND run_id IN (SELECT run_id FROM run WHERE {clause}) ORDER BY run_id, node_name
    """


def _coverage_query(clause: str) -> str:
    """Each run once, under the worst reason of any of its GPUs and nodes without GPU rows."""
    return f"""
    WITH selected AS (SELECT run_id, partition FROM run WHERE {clause}),
    g AS (SELECT run_id, MIN(CASE reason {_RANKS} ELSE -1 END) AS rank, {GPU_SUMS} FROM gpu_accounted
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    n AS (SELECT run_id, MIN(CASE WHEN gpu_count IS NOT 0 AND NOT EXISTS (SELECT 1 FROM run_gpu AS g
              WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)
              THEN CASE reason {_RANKS} ELSE -1 END END) AS rank, {NODE_SUMS} FROM run_node
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    sums AS (SELECT s.partition AS partition, {RUN_SUMS},
                 MIN(COALESCE(g.rank, n.rank), COALESCE(n.rank, g.rank)) AS rank FROM selected AS s
             LEFT JOIN n ON n.run_id = s.run_id LEFT JOIN g ON g.run_id = s.run_id)
    SELECT partition, {_CHARGED_RANK} AS rank, COUNT(*) AS run_count,
        SUM(CASE WHEN ofu_covered_seconds > 0 THEN 1 ELSE 0 END) AS run_count_with_ofu,
        COALESCE(SUM(gpu_count), 0.0) AS gpu_count,
        COALESCE(SUM(gpu_count_unknown_time), 0.0) AS gpu_count_unknown_time,
        COALESCE(SUM(ofu_covered_seconds), 0.0) AS ofu_covered_seconds,
        COALESCE(SUM(MAX(0.0, allocated_seconds - COALESCE(ofu_covered_seconds, 0.0))), 0.0)
            AS unmeasured_seconds
    FROM sums GROUP BY 1, 2 ORDER BY 1, 2
    """


def _nodes_query(clause: str) -> str:
    """A node's latest record may lie before the window."""
    return f"""
    WITH named AS (SELECT node_name, SUM(gpu_count_assumed = 0 AND backfilled = 0) AS heard_count,
            SUM({_SILENT_NODE}) AS silent_count
        FROM run_node WHERE run_id IN (SELECT run_id FROM run WHERE {clause}) GROUP BY node_name)
    SELECT node_name, heard_count, silent_count,
        (SELECT m.end_epoch_s FROM run_node AS m JOIN run AS r ON r.run_id = m.run_id
         WHERE m.node_name = named.node_name AND r.cluster = ?
         ORDER BY m.end_epoch_s DESC LIMIT 1) AS last_heard_epoch_s
    FROM named WHERE heard_count + silent_count > 0 ORDER BY node_name
    """


def _uncounted_query(clause: str) -> str:
    return f"SELECT COUNT(*) FROM run WHERE {clause} AND {_UNCOUNTED}"


#: Everything that is asked here, each for a condition on table run.
QUERIES: Final = (_runs_query, _silent_nodes_query, _coverage_query, _nodes_query, _uncounted_query)


class ReconcilingReader(Reader):
    """The accounting database as somebody sees it who asks what is missing in it."""

    def reconciliation(
        self,
        cluster: str,
        start_epoch_s: float,
        end_epoch_s: float,
        *,
        ended_by_epoch_s: float,
        gone_epoch_s: float = float("-inf"),
        partitions: tuple[str, ...] = (),
    ) -> Reconciliation:
        """Everything with any part in start <= t < end, in one snapshot, but runs that go on: by Slurm, or by
        their nodes, last heard from ``gone_epoch_s`` on.

        Runs that ended after ``ended_by_epoch_s`` are not unaccounted: they may not be in there yet.
        """
        selection = Selection(
            clusters=(cluster,),
            partitions=partitions,
            start_epoch_s=start_epoch_s,
            end_epoch_s=end_epoch_s,
        )
        clause, parameters = where(selection)
        clause, parameters = f"{clause} AND NOT {_GOES_ON}", [*parameters, gone_epoch_s]

        def ask(opened: sqlite3.Connection) -> Reconciliation:
            def runs(condition: str, *more: float) -> tuple[ReconciledRun, ...]:
                return _runs(opened, f"{clause} AND {condition}", [*parameters, *more])

            return Reconciliation(
                unaccounted=runs(f"{_UNACCOUNTED} AND end_epoch_s <= ?", ended_by_epoch_s),
                silent=runs(_UNHEARD_RUN),
                incomplete=runs(_INCOMPLETE),
                endless=runs(_ENDLESS),
                coverage=_coverage(opened, clause, parameters),
                nodes=tuple(
                    ReportingNode(**row)
                    for row in dicts(opened, _nodes_query(clause), [*parameters, cluster])
                ),
                accounting_known=bool(opened.execute(_ACCOUNTING_KNOWN, (cluster,)).fetchone()[0]),
                run_count_without_slurm_gpus=opened.execute(_uncounted_query(clause), parameters).fetchone()[
                    0
                ],
            )

        return self._answer(ask)


def _runs(opened: sqlite3.Connection, clause: str, parameters: _Parameters) -> tuple[ReconciledRun, ...]:
    silent: dict[int, list[str]] = {}
    for run_id, name in opened.execute(_silent_nodes_query(clause), parameters):
        silent.setdefault(run_id, []).append(name)
    return tuple(
        ReconciledRun(
            **{**row, "others_rows": bool(row["others_rows"])},
            silent_nodes=tuple(silent.get(row["run_id"], ())),
        )
        for row in dicts(opened, _runs_query(clause), parameters)
    )


def _coverage(opened: sqlite3.Connection, clause: str, parameters: _Parameters) -> tuple[CoveredRuns, ...]:
    return tuple(
        CoveredRuns(reason=_reason(row.pop("rank")), **row)
        for row in dicts(opened, _coverage_query(clause), parameters)
    )


def _reason(rank: Any) -> str | None:
    return SEVERITY[rank] if rank is not None and rank >= 0 else None
