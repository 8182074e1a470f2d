"""What follows from the rows of a run once they are written: silent nodes, assumptions, numbering."""

import sqlite3
from collections.abc import Iterable
from typing import Final

from slurm_ofu.store.runs import DELETE_NODE, NodeNames

_DELETE_UNHEARD: Final = """
DELETE FROM run WHERE run_id = ? AND NOT EXISTS
    (SELECT 1 FROM run_node AS n WHERE n.run_id = run.run_id AND n.gpu_count_assumed = 0)
"""
_RUN: Final = "SELECT cluster, job_id, restart_count, node_list FROM run WHERE run_id = ?"
_NODES: Final = "SELECT node_name, gpu_count_assumed FROM run_node WHERE run_id = ?"
_INSERT_SILENT: Final = """
INSERT INTO run_node (run_id, node_name, reason, gpu_count_assumed, allocated_seconds_assumed,
    tick_count, missed_ticks, late_max_seconds, wall_step_seconds, software_version, fingerprint)
VALUES (?, ?, 'not_delivered', 1, 1, 0, 0, 0.0, 0.0, '', 0)
"""
_HEARD: Final = """
SELECT AVG(gpu_count), MAX(CASE allocated_seconds_assumed WHEN 0 THEN allocated_seconds END)
FROM run_node WHERE run_id = ? AND gpu_count_assumed = 0
"""
_ASSUME_GPU_COUNT: Final = """
UPDATE run_node SET gpu_count = :gpu_count
WHERE run_id = :run_id AND gpu_count_assumed = 1 AND gpu_count IS NOT :gpu_count
"""
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
_INCARNATIONS: Final = """
SELECT run_id, incarnation FROM run WHERE cluster = ? AND job_id = ? AND restart_count = ?
ORDER BY COALESCE(start_epoch_s, end_epoch_s), restart_certain DESC, sluid, uid, run_id
"""
_SET_INCARNATION: Final = "UPDATE run SET incarnation = ? WHERE run_id = ?"


def settle(opened: sqlite3.Connection, run_ids: Iterable[int], node_names: NodeNames) -> None:
    """Bring these runs in order."""
    keys = set()
    for run_id in sorted(run_ids):
        found = opened.execute(_RUN, (run_id,)).fetchone()
        if found is None:
            continue
        *key, node_list = found
        keys.add(tuple(key))
        if not opened.execute(_DELETE_UNHEARD, (run_id,)).rowcount:
            _settle_nodes(opened, run_id, () if node_list is None else node_names(node_list))
    for cluster, job_id, restart_count in sorted(keys):
        _number(opened, cluster, job_id, restart_count)


def _settle_nodes(opened: sqlite3.Connection, run_id: int, listed: tuple[str, ...]) -> None:
    """A row for each listed node that was not heard, and what we assume of nodes that do not say."""
    stored = dict(opened.execute(_NODES, (run_id,)).fetchall())
    silent = dict.fromkeys(name for name in listed if name not in stored)
    stale = {name for name, assumed in stored.items() if assumed} - set(listed)
    opened.executemany(_INSERT_SILENT, [(run_id, name) for name in silent])
    opened.executemany(DELETE_NODE, [(run_id, name) for name in stale])
    gpu_count, seconds = opened.execute(_HEARD, (run_id,)).fetchone()
    opened.execute(_ASSUME_GPU_COUNT, {"run_id": run_id, "gpu_count": gpu_count})
    opened.execute(_ASSUME_ALLOCATED, {"run_id": run_id, "seconds": seconds})


def _number(opened: sqlite3.Connection, cluster: str, job_id: int, restart_count: int) -> None:
    """Number the incarnations of a key by their start, whichever was heard of first."""
    stored = opened.execute(_INCARNATIONS, (cluster, job_id, restart_count)).fetchall()
    if [incarnation for _, incarnation in stored] == list(range(len(stored))):
        return
    above = max(incarnation for _, incarnation in stored) + 1
    for first in (above, 0):  # in two steps, since the key is unique at every moment
        opened.executemany(_SET_INCARNATION, [(first + at, run_id) for at, (run_id, _) in enumerate(stored)])
