"""Sums over the rows of a run: the one home of what is added up, and how.

The views of the database and the reader's queries are made from the same columns. Sums only: whoever
wants a ratio divides one sum by another.
"""

from typing import Final

from slurm_ofu.store.charged import GPU_ACCOUNTED

#: Sums of what the nodes judged and saw beside OFU, of GPUs and of runs, by the same names.
SIDE_SUMS: Final = (
    *("idle_seconds", "idle_covered_seconds", "idle_tail_seconds"),
    *("non_tensor_seconds", "non_tensor_covered_seconds"),
    *("peak_tensor_ref_seconds", "peak_covered_seconds"),
    *("throttled_power_seconds", "throttled_thermal_seconds", "throttle_covered_seconds"),
)


def _believed(column: str, *, given: str | None = None) -> str:
    """The sum of what profiling counters said. Of a suspect GPU nothing was measured."""
    known = "" if given is None else f" AND {given} IS NOT NULL"
    return f"SUM(CASE WHEN reason <> 'suspect'{known} THEN {column} END)"


def _side_sum(column: str) -> str:
    summed = f"SUM({column})" if column.startswith("throttle") else _believed(column)
    return f"{summed} AS {column}"


# Over the rows of gpu_accounted of one run. GPUs of one run swing together: their errors add linearly,
# hence the square of the sum. Behind that sum stand the fewest degrees of freedom of any of them.
GPU_SUMS: Final = f"""
    SUM(allocated_seconds) AS gpu_allocated_seconds,
    {_believed("covered_seconds")} AS covered_seconds,
    {_believed("covered_seconds", given="tensor_ref_seconds")} AS ofu_covered_seconds,
    {_believed("tensor_active_seconds", given="tensor_ref_seconds")} AS ofu_tensor_active_seconds,
    {_believed("covered_seconds", given="tensor_active_seconds")} AS tpa_covered_seconds,
    {_believed("tensor_active_seconds")} AS tensor_active_seconds,
    {_believed("tensor_ref_seconds")} AS tensor_ref_seconds,
    {_believed("tensor_ref_error_seconds")} * {_believed("tensor_ref_error_seconds")} AS tensor_ref_variance,
    MIN(CASE WHEN reason <> 'suspect' AND tensor_ref_error_seconds IS NOT NULL THEN error_degrees END)
        AS error_degrees,
    {_believed("sm_active_seconds")} AS sm_active_seconds,
    {_believed("sm_active_covered_seconds")} AS sm_active_covered_seconds,
    SUM(energy_joules) AS energy_joules,
    {", ".join(map(_side_sum, SIDE_SUMS))}
"""

# Over the rows of run_node of one run. What no row of run_gpu accounts for: on a node of which Slurm's
# accounting says the time, its other GPUs times that; else what was assumed. On a node of unknown time, the
# time of those GPUs is unknown that do not say themselves. Of suspended time a GPU has the part that it has
# of the node's own time.
NODE_SUMS: Final = """
    SUM(gpu_count) AS gpu_count,
    SUM(CASE WHEN accounted_seconds IS NULL AND allocated_seconds IS NULL
        THEN gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name) ELSE 0.0 END)
        AS gpu_count_unknown_time,
    SUM(CASE WHEN accounted_seconds IS NULL THEN assumed_gpu_seconds
        ELSE accounted_seconds * (gpu_count - (SELECT COUNT(*)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)) END)
        AS assumed_gpu_seconds,
    SUM(CASE WHEN accounted_suspended_seconds > 0 THEN accounted_suspended_seconds * (gpu_count - COALESCE(
        (SELECT SUM(MAX(0.0, 1.0 - g.allocated_seconds / run_node.allocated_seconds))
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name
            AND run_node.allocated_seconds_assumed = 0 AND run_node.allocated_seconds > 0), 0.0))
        ELSE accounted_suspended_seconds END) AS held_suspended_seconds
"""

# One run, from the two above (g and n).
RUN_SUMS: Final = f"""
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
    g.energy_joules AS energy_joules,
    n.held_suspended_seconds AS held_suspended_seconds,
    {", ".join(f"g.{name} AS {name}" for name in SIDE_SUMS)}
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
