"""Sums over the rows of a run: the one home of what is added up, and how.

The views of the database and the reader's queries are made from the same columns. Sums only: whoever
wants a ratio divides one sum by another.
"""

from typing import Final

# Over the rows of run_gpu of one run. GPUs of one run swing together: their errors add linearly,
# hence the square of the sum. Behind that sum stand the fewest degrees of freedom of any of them.
GPU_SUMS: Final = """
    SUM(allocated_seconds) AS gpu_allocated_seconds,
    SUM(covered_seconds) AS covered_seconds,
    SUM(CASE WHEN tensor_ref_seconds IS NOT NULL THEN covered_seconds END) AS ofu_covered_seconds,
    SUM(CASE WHEN tensor_ref_seconds IS NOT NULL THEN tensor_active_seconds END)
        AS ofu_tensor_active_seconds,
    SUM(CASE WHEN tensor_active_seconds IS NOT NULL THEN covered_seconds END) AS tpa_covered_seconds,
    SUM(tensor_active_seconds) AS tensor_active_seconds,
    SUM(tensor_ref_seconds) AS tensor_ref_seconds,
    SUM(tensor_ref_error_seconds) * SUM(tensor_ref_error_seconds) AS tensor_ref_variance,
    MIN(CASE WHEN tensor_ref_error_seconds IS NOT NULL THEN error_degrees END) AS error_degrees,
    SUM(sm_active_seconds) AS sm_active_seconds,
    SUM(sm_active_covered_seconds) AS sm_active_covered_seconds,
    SUM(energy_joules) AS energy_joules
"""

# Over the rows of run_node of one run. assumed_gpu_seconds is what no row of run_gpu accounts for. On a
# node of unknown time, the time of those GPUs is unknown that do not say themselves.
NODE_SUMS: Final = """
    SUM(gpu_count) AS gpu_count,
    SUM(CASE WHEN allocated_seconds IS NULL THEN gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name) ELSE 0.0 END)
        AS gpu_count_unknown_time,
    SUM(assumed_gpu_seconds) AS assumed_gpu_seconds
"""

# One run, from the two above (g and n).
RUN_SUMS: Final = """
    n.gpu_count AS gpu_count,
    n.gpu_count_unknown_time AS gpu_count_unknown_time,
    CASE WHEN g.gpu_allocated_seconds IS NULL AND n.assumed_gpu_seconds IS NULL THEN NULL
         ELSE COALESCE(g.gpu_allocated_seconds, 0.0) + COALESCE(n.assumed_gpu_seconds, 0.0)
    END AS allocated_seconds,
    g.covered_seconds AS covered_seconds,
    g.ofu_covered_seconds AS ofu_covered_seconds,
    g.ofu_tensor_active_seconds AS ofu_tensor_active_seconds,
    g.tensor_active_seconds AS tensor_active_seconds,
    g.tensor_ref_seconds AS tensor_ref_seconds,
    g.tensor_ref_variance AS tensor_ref_variance,
    CASE WHEN g.error_degrees > 0 THEN g.tensor_ref_variance * g.tensor_ref_variance / g.error_degrees
    END AS tensor_ref_variance_per_degree,
    g.tpa_covered_seconds AS tpa_covered_seconds,
    g.sm_active_seconds AS sm_active_seconds,
    g.sm_active_covered_seconds AS sm_active_covered_seconds,
    g.energy_joules AS energy_joules
"""

VIEW_NAMES: Final = ("run_sums", "run_gpu_sums", "run_node_sums")

VIEWS: Final = (
    f"CREATE VIEW run_gpu_sums AS SELECT run_id, {GPU_SUMS} FROM run_gpu GROUP BY run_id",
    f"CREATE VIEW run_node_sums AS SELECT run_id, {NODE_SUMS} FROM run_node GROUP BY run_id",
    f"""
    CREATE VIEW run_sums AS SELECT r.run_id AS run_id, r.cluster AS cluster, r.job_id AS job_id,
        r.restart_count AS restart_count, r.user_name AS user_name, r.account AS account,
        r.partition AS partition, r.start_epoch_s AS start_epoch_s, r.end_epoch_s AS end_epoch_s,
        {RUN_SUMS}
    FROM run AS r LEFT JOIN run_node_sums AS n ON n.run_id = r.run_id
    LEFT JOIN run_gpu_sums AS g ON g.run_id = r.run_id
    """,
)
