"""The rows of run_node that follow from others: silent nodes, assumptions, Slurm's word on each node."""

import sqlite3
from collections.abc import Mapping
from typing import Final

from slurm_ofu.store.assumed import Silent, StoredNode
from slurm_ofu.store.lives import NodeShare
from slurm_ofu.store.runs import DELETE_NODE

_NODES: Final = """
SELECT node_name, gpu_count, gpu_count_assumed, backfilled, allocated_seconds, allocated_seconds_assumed,
    accounted_seconds, accounted_suspended_seconds
FROM run_node WHERE run_id = ? ORDER BY node_name
"""
_INSERT_SILENT: Final = """
INSERT INTO run_node (run_id, node_name, reason, gpu_count, gpu_count_assumed, allocated_seconds_assumed,
    tick_count, missed_ticks, late_max_seconds, wall_step_seconds, software_version, fingerprint)
VALUES (?, ?, 'not_delivered', ?, 1, 1, 0, 0, 0.0, 0.0, '', 0)
"""
_ASSUME_GPU_COUNT: Final = "UPDATE run_node SET gpu_count = ? WHERE run_id = ? AND node_name = ?"
_ASSUME_ALLOCATED: Final = """
UPDATE run_node SET
    allocated_seconds = :seconds,
    assumed_gpu_seconds = NULLIF(:seconds * (gpu_count - (SELECT COUNT(g.allocated_seconds) FROM run_gpu AS g
        WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)), 0.0)
WHERE run_id = :run_id AND allocated_seconds_assumed = 1 AND (
    allocated_seconds IS NOT :seconds
    OR assumed_gpu_seconds IS NOT NULLIF(:seconds * (gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)), 0.0))
"""
_SET_ACCOUNTED: Final = """
UPDATE run_node SET accounted_seconds = ?, accounted_suspended_seconds = ? WHERE run_id = ? AND node_name = ?
"""


def stored_nodes(opened: sqlite3.Connection, run_id: int) -> dict[str, StoredNode]:
    """The nodes of a run."""
    return {
        name: StoredNode(
            gpu_count=gpu_count,
            gpu_count_assumed=bool(count_assumed),
            backfilled=bool(backfilled),
            allocated_seconds=allocated,
            allocated_seconds_assumed=bool(assumed),
            accounted_seconds=accounted,
            accounted_suspended_seconds=suspended,
        )
        for name, gpu_count, count_assumed, backfilled, allocated, assumed, accounted, suspended in (
            opened.execute(_NODES, (run_id,))
        )
    }


def settle_nodes(
    opened: sqlite3.Connection,
    run_id: int,
    stored: Mapping[str, StoredNode],
    silent: Silent,
    shares: Mapping[str, NodeShare],
) -> bool:
    """A row for each silent node and none for others that were not heard; what is assumed; Slurm's word.

    Whether anything of that has changed.
    """
    assumed = {name: node for name, node in stored.items() if node.gpu_count_assumed}
    new = [(run_id, name, count) for name, count in silent.items() if name not in assumed]
    stale = [(run_id, name) for name in assumed if name not in silent]
    other = [
        (count, run_id, name)
        for name, count in silent.items()
        if name in assumed and assumed[name].gpu_count != count
    ]
    opened.executemany(_INSERT_SILENT, new)
    opened.executemany(DELETE_NODE, stale)
    opened.executemany(_ASSUME_GPU_COUNT, other)
    changed = bool(new or stale or other)
    if silent or any(node.allocated_seconds_assumed for node in stored.values()):
        assumed_seconds = {"run_id": run_id, "seconds": _longest(stored)}
        changed |= opened.execute(_ASSUME_ALLOCATED, assumed_seconds).rowcount > 0
    said = _newly_accounted(run_id, stored, silent, shares)
    opened.executemany(_SET_ACCOUNTED, said)
    return changed or bool(said)


def _longest(stored: Mapping[str, StoredNode]) -> float | None:
    told = [
        node.allocated_seconds
        for node in stored.values()
        if not node.allocated_seconds_assumed and node.allocated_seconds is not None
    ]
    return max(told, default=None)


def _newly_accounted(
    run_id: int, stored: Mapping[str, StoredNode], silent: Silent, shares: Mapping[str, NodeShare]
) -> list[tuple[float | None, float | None, int, str]]:
    heard = {name for name, node in stored.items() if not node.gpu_count_assumed}
    changed = []
    for name in sorted(heard | set(silent)):
        share, node = shares.get(name), stored.get(name)
        said = (None, None) if share is None else (share.seconds, share.suspended_seconds)
        before = (None, None) if node is None else (node.accounted_seconds, node.accounted_suspended_seconds)
        if said != before:
            changed.append((*said, run_id, name))
    return changed
