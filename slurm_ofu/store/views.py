"""Sums over the rows of a run: the one home of what is added up, and how.

The views of the database and the reader's queries are made from the same columns. Sums only: whoever
wants a ratio divides one sum by another.
"""

from typing import Final

from slurm_ofu.store.charged import GPU_ACCOUNTED

# Over the rows of gpu_accounted of one run. GPUs of one run swing together: their errors add linearly,
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

# Over the rows of run_node of one run. What no row of run_gpu accounts for: on a node of which Slurm's
# accounting says the time, its other GPUs times that; else what was assumed. On a node of unknown time, the
# time of those GPUs is unknown that do not say themselves.
NODE_SUMS: Final = """
    SUM(gpu_count) AS gpu_count,
    SUM(CASE WHEN accounted_seconds IS NULL AND allocated_seconds IS NULL
        THEN gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name) ELSE 0.0 END)
        AS gpu_count_unknown_time,
    SUM(CASE WHEN accounted_seconds IS NULL THEN assumed_gpu_seconds
        ELSE accounted_seconds * (gpu_count - (SELECT COUNT(*)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)) END)
        AS assumed_gpu_seconds
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

VIEW_NAMES: Final = ("run_sums", "run_gpu_sums", "run_node_sums", "gpu_accounted")

VIEWS: Final = (
    f"CREATE VIEW gpu_accounted AS {GPU_ACCOUNTED}",
    f"CREATE VIEW run_gpu_sums AS SELECT run_id, {GPU_SUMS} FROM gpu_accounted GROUP BY run_id",
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
