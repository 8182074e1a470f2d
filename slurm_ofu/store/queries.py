"""The reader's queries. Each starts from the selected runs and looks only at their rows."""

from typing import Final

from slurm_ofu.store.views import GPU_SUMS, NODE_SUMS, RUN_SUMS, SIDE_SUMS

_TOTALS: Final = f"""
    COUNT(*) AS run_count,
    SUM(gpu_count) AS gpu_count,
    SUM(gpu_count_unknown_time) AS gpu_count_unknown_time,
    SUM(allocated_seconds) AS allocated_seconds,
    SUM(covered_seconds) AS covered_seconds,
    SUM(ofu_covered_seconds) AS ofu_covered_seconds,
    SUM(ofu_tensor_active_seconds) AS ofu_tensor_active_seconds,
    SUM(tensor_active_seconds) AS tensor_active_seconds,
    SUM(tensor_ref_seconds) AS tensor_ref_seconds,
    SUM(tensor_ref_variance) AS tensor_ref_variance,
    SUM(tensor_ref_variance_per_degree) AS tensor_ref_variance_per_degree,
    SUM(tpa_covered_seconds) AS tpa_covered_seconds,
    SUM(sm_active_seconds) AS sm_active_seconds,
    SUM(sm_active_covered_seconds) AS sm_active_covered_seconds,
    SUM(energy_joules) AS energy_joules,
    SUM(held_suspended_seconds) AS held_suspended_seconds,
    {", ".join(f"SUM({name}) AS {name}" for name in SIDE_SUMS)}
"""

NODES: Final = "SELECT * FROM run_node WHERE run_id = ? ORDER BY node_name"
GPUS: Final = """
SELECT g.*, t.timeline_json AS timeline_json FROM gpu_accounted AS g
LEFT JOIN gpu_timeline AS t
    ON t.run_id = g.run_id AND t.node_name = g.node_name AND t.position = g.position
WHERE g.run_id = ? ORDER BY g.node_name, g.position
"""
COUNT: Final = "SELECT COUNT(*) FROM run"


def _selected(group: str, where: str) -> str:
    return f"WITH selected AS (SELECT run_id, {group} AS grp FROM run WHERE {where})"


def usage_query(group: str, where: str) -> str:
    """Sums per group: columns ``grp`` and those of UsageSums but its three tuples."""
    return f"""
    {_selected(group, where)},
    g AS (SELECT run_id, {GPU_SUMS} FROM gpu_accounted
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    n AS (SELECT run_id, {NODE_SUMS} FROM run_node
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    sums AS (SELECT s.grp AS grp, {RUN_SUMS} FROM selected AS s
             LEFT JOIN n ON n.run_id = s.run_id LEFT JOIN g ON g.run_id = s.run_id)
    SELECT grp, {_TOTALS} FROM sums GROUP BY grp ORDER BY grp
    """


def labels_query(group: str, where: str) -> str:
    """What occurs in each group: (grp, estimator, reason, gpu_model), nodes without GPU rows included."""
    return f"""
    {_selected(group, where)}
    SELECT s.grp AS grp, g.estimator AS estimator, g.reason AS reason, g.gpu_model AS gpu_model
    FROM selected AS s JOIN run_gpu AS g ON g.run_id = s.run_id
    UNION
    SELECT s.grp, NULL, n.reason, NULL FROM selected AS s JOIN run_node AS n ON n.run_id = s.run_id
    WHERE n.gpu_count IS NOT 0 AND NOT EXISTS
        (SELECT 1 FROM run_gpu AS g WHERE g.run_id = n.run_id AND g.node_name = n.node_name)
    """


def runs_query(where: str) -> str:
    """The selected rows of run, oldest first."""
    return f"SELECT * FROM run WHERE {where} ORDER BY COALESCE(start_epoch_s, end_epoch_s), run_id"
