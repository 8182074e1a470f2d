"""The reader's queries. Each starts from the selected runs and looks only at their rows."""

from typing import Final

from slurm_ofu.store.ranking import KIND_COLUMNS, LOST, RANKED_SECONDS, below_goal, counts, kind_by
from slurm_ofu.store.views import GPU_SUMS, NODE_SUMS, RUN_SUMS, SIDE_SUMS

#: The sums of what GPUs did and had, besides their error.
SUMMED: Final = (
    *("gpu_count", "gpu_count_unknown_time", "allocated_seconds", "covered_seconds", "ofu_covered_seconds"),
    *("ofu_tensor_active_seconds", "tensor_active_seconds", "tensor_ref_seconds", "tpa_covered_seconds"),
    *("sm_active_seconds", "sm_active_covered_seconds", "energy_joules", "held_suspended_seconds"),
    *SIDE_SUMS,
)
VARIANCES: Final = ("tensor_ref_variance", "tensor_ref_variance_per_degree")

_TOTALS: Final = f"""
    COUNT(*) AS run_count,
    {", ".join(f"SUM({name}) AS {name}" for name in (*SUMMED, *VARIANCES))},
    SUM({LOST}) AS lost_seconds, SUM({RANKED_SECONDS}) AS ranked_seconds,
    {counts()}
"""

NODES: Final = "SELECT * FROM run_node WHERE run_id = ? ORDER BY node_name"
GPUS: Final = """
SELECT g.*, t.timeline_json AS timeline_json FROM gpu_accounted AS g
LEFT JOIN gpu_timeline AS t
    ON t.run_id = g.run_id AND t.node_name = g.node_name AND t.position = g.position
WHERE g.run_id = ? ORDER BY g.node_name, g.position
"""
#: The runs whose claim has no peak yet that were on slices (MIG) of GPUs.
ON_SLICES: Final = """
SELECT DISTINCT run_id FROM run_gpu WHERE sm_share_ratio < 1
AND run_id IN (SELECT run_id FROM run WHERE claim_kind IS NOT NULL AND claim_peak_tflops IS NULL)
"""
COUNT: Final = "SELECT COUNT(*) FROM run"


def _selected(group: str, where: str) -> str:
    # In the order in which their rows lie in the file; the limit keeps SQLite from dropping that order. The
    # conditions are in a query of their own, since by an equality (a user's) SQLite expects so few runs that
    # it joins their sums by going through all of them for each.
    return f"""
    WITH selected AS (SELECT run_id, running, {group} AS grp FROM run
        WHERE run_id IN (SELECT run_id FROM run WHERE {where}) ORDER BY run_id LIMIT -1)
    """


def usage_query(group: str, where: str, goal: str) -> str:
    """Sums per group: columns ``grp`` and those of UsageSums but its three tuples."""
    return f"""
    {_selected(group, where)},
    g AS (SELECT run_id, {GPU_SUMS}, {below_goal(goal)} AS below_goal_seconds FROM gpu_accounted AS a
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    n AS (SELECT run_id, {NODE_SUMS} FROM run_node
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id),
    sums AS (SELECT s.grp AS grp, s.running AS running, {RUN_SUMS},
                 g.below_goal_seconds AS below_goal_seconds, {kind_by("g.")} AS kind
             FROM selected AS s LEFT JOIN n ON n.run_id = s.run_id LEFT JOIN g ON g.run_id = s.run_id)
    SELECT grp, {_TOTALS} FROM sums GROUP BY grp ORDER BY grp
    """


# A run's GPUs of one model on one node, and what its nodes had beyond the rows of run_gpu, as NODE_SUMS has
# it: of unknown model. Of suspended time a GPU has the part that it has of the node's own time.
_GPU_PARTS: Final = f"""
run_id, node_name, gpu_model,
    COUNT(*) AS row_count, COUNT(allocated_seconds) AS timed_count,
    {GPU_SUMS},
    SUM(CASE WHEN reason <> 'suspect' THEN tensor_ref_error_seconds END) AS sigma_seconds,
    MAX(estimator IS 'cycles' AND reason <> 'suspect') AS has_cycles
"""
_REST: Final = """
n.*, n.gpu_count - (SELECT COUNT(*) FROM run_gpu AS g
        WHERE g.run_id = n.run_id AND g.node_name = n.node_name) AS rest_count,
    EXISTS (SELECT 1 FROM run_gpu AS g WHERE g.run_id = n.run_id AND g.node_name = n.node_name) AS has_rows
FROM run_node AS n WHERE run_id IN (SELECT run_id FROM selected)
"""
_OF_GPUS: Final = {
    "gpu_count": "g.row_count",
    "gpu_count_unknown_time": """CASE WHEN n.accounted_seconds IS NULL AND n.allocated_seconds IS NULL
        THEN g.row_count - g.timed_count ELSE 0.0 END""",
    "allocated_seconds": "g.gpu_allocated_seconds",
    "held_suspended_seconds": """CASE WHEN n.accounted_suspended_seconds > 0
        THEN n.accounted_suspended_seconds * (
            SELECT SUM(COALESCE(MIN(1.0, o.allocated_seconds / CASE n.allocated_seconds_assumed
                WHEN 0 THEN n.allocated_seconds END), 1.0))
            FROM run_gpu AS o WHERE o.run_id = g.run_id AND o.node_name = g.node_name
                AND o.gpu_model IS g.gpu_model)
        ELSE n.accounted_suspended_seconds END""",
    "told_until_epoch_s": "n.end_epoch_s",
}
_OF_REST: Final = {
    "gpu_count": "rest_count",
    "gpu_count_unknown_time": """CASE WHEN accounted_seconds IS NULL AND allocated_seconds IS NULL
        THEN rest_count ELSE 0.0 END""",
    "allocated_seconds": """CASE WHEN accounted_seconds IS NULL THEN assumed_gpu_seconds
        ELSE accounted_seconds * rest_count END""",
    "held_suspended_seconds": """CASE WHEN accounted_suspended_seconds > 0
        THEN accounted_suspended_seconds * rest_count ELSE accounted_suspended_seconds END""",
}
_BESIDE: Final = ("sigma_seconds", "error_degrees", "has_cycles", "below_goal_seconds", "told_until_epoch_s")


def _parts(group: str, where: str, goal: str) -> str:
    """A table ``part``, with its run's ``kind``."""
    of_gpus = ", ".join(f"{_OF_GPUS.get(name, f'g.{name}')} AS {name}" for name in (*SUMMED, *_BESIDE))
    of_rest = ", ".join(f"{_OF_REST.get(name, 'NULL')} AS {name}" for name in (*SUMMED, *_BESIDE))
    run_sums = ", ".join(f"SUM({name}) OVER (PARTITION BY run_id) AS run_{name}" for name in KIND_COLUMNS)
    return f"""
    {_selected("NULL", where)},
    g AS (SELECT {_GPU_PARTS}, {below_goal(goal)} AS below_goal_seconds FROM gpu_accounted AS a
          WHERE run_id IN (SELECT run_id FROM selected) GROUP BY run_id, node_name, gpu_model),
    bare AS (
        SELECT g.run_id AS run_id, g.node_name AS node_name, g.gpu_model AS gpu_model, {of_gpus}
        FROM g JOIN run_node AS n ON n.run_id = g.run_id AND n.node_name = g.node_name
        UNION ALL SELECT run_id, node_name, NULL, {of_rest} FROM (SELECT {_REST})
        WHERE rest_count IS NOT 0 OR assumed_gpu_seconds > 0 OR NOT has_rows),
    judged AS (SELECT *, {run_sums} FROM bare),
    part AS (SELECT j.*, {group} AS grp, r.running AS running, {kind_by("run_")} AS kind
             FROM judged AS j JOIN run AS r ON r.run_id = j.run_id)
    """


def parts_usage_query(group: str, where: str, goal: str) -> str:
    """As ``usage_query``, by a column of the parts: a run counts in each group that it has a part in."""
    sums = ", ".join(f"SUM({name}) AS {name}" for name in (*SUMMED, "below_goal_seconds"))
    return f"""
    {_parts("NULL", where, goal)},
    bundle AS (SELECT {group} AS grp, MAX(running) AS running, MAX(kind) AS kind, {sums},
                   SUM(sigma_seconds) * SUM(sigma_seconds) AS tensor_ref_variance,
                   MIN(error_degrees) AS error_degrees
               FROM part WHERE {_counted(group)} GROUP BY run_id, {group}),
    sums AS (SELECT *, CASE WHEN error_degrees > 0
        THEN tensor_ref_variance * tensor_ref_variance / error_degrees END AS tensor_ref_variance_per_degree
        FROM bundle)
    SELECT grp, {_TOTALS} FROM sums GROUP BY grp ORDER BY grp
    """


def parts_query(group: str, where: str, goal: str) -> str:
    """Every part of the selected runs, those of a run together; ``group``: of run, or of the parts."""
    of_part = group in ("node_name", "gpu_model")
    its = f"{group} AS grp" if of_part else "grp"
    return f"""
    {_parts({"run_id": "j.run_id"}.get(group, "NULL" if of_part else group), where, goal)}
    SELECT run_id, node_name, gpu_model, {its}, running, kind, {", ".join(SUMMED)},
        sigma_seconds, error_degrees, has_cycles, told_until_epoch_s,
        {LOST} AS lost_seconds, {RANKED_SECONDS} AS ranked_seconds
    FROM part WHERE {_counted(group)} ORDER BY run_id, grp
    """


def _counted(group: str) -> str:
    """A node without GPUs has no model, not an unknown one; the time of GPUs that no record timed has one."""
    return "(gpu_count IS NOT 0 OR allocated_seconds > 0)" if group == "gpu_model" else "1"


def quarters_query(where: str) -> str:
    """The quarter hours of the selected runs, added up where ``cell_of`` says the same of them."""
    sums = ", ".join(f"SUM({name})" for name in QUARTERS)
    return f"""
    WITH selected AS (SELECT run_id, COALESCE(start_epoch_s, end_epoch_s) AS begin, end_epoch_s AS finish
        FROM run WHERE {where})
    SELECT q.run_id, node_name, gpu_model, cell_of(start_epoch_s, begin, finish) AS cell, start_epoch_s,
        {sums}
    FROM selected AS s JOIN quarter_hour AS q ON q.run_id = s.run_id
    GROUP BY q.run_id, node_name, gpu_model, cell ORDER BY q.run_id
    """


#: What is known of a quarter hour, in the order of windows' profiles.
QUARTERS: Final = (
    *("allocated_seconds", "covered_seconds", "tensor_active_seconds", "tensor_ref_seconds"),
    "tensor_ref_error_seconds * tensor_ref_error_seconds",
    *("idle_seconds", "idle_covered_seconds", "non_tensor_seconds", "non_tensor_covered_seconds"),
)


def labels_query(group: str, where: str) -> str:
    """What occurs in each group: (grp, estimator, reason, gpu_model), nodes without GPU rows included."""
    of_part = group in ("node_name", "gpu_model")
    of_gpu, of_node = ("s.grp", "s.grp") if not of_part else (f"g.{group}", f"n.{group}")
    if group == "gpu_model":
        of_node = "NULL"
    return f"""
    {_selected("NULL" if of_part else group, where)}
    SELECT {of_gpu} AS grp, g.estimator AS estimator, g.reason AS reason, g.gpu_model AS gpu_model
    FROM selected AS s JOIN gpu_accounted AS g ON g.run_id = s.run_id
    UNION
    SELECT {of_node}, NULL, n.reason, NULL FROM selected AS s JOIN run_node AS n ON n.run_id = s.run_id
    WHERE n.gpu_count IS NOT 0 AND NOT EXISTS
        (SELECT 1 FROM run_gpu AS g WHERE g.run_id = n.run_id AND g.node_name = n.node_name)
    """


def runs_query(where: str) -> str:
    """The selected rows of run, oldest first."""
    return f"SELECT * FROM run WHERE {where} ORDER BY {ORDER}"


def spans_query(where: str) -> str:
    """Which time the selected runs took, by run: (run_id, begin, end)."""
    return f"""
    SELECT run_id, COALESCE(start_epoch_s, end_epoch_s), end_epoch_s FROM run WHERE {where} ORDER BY run_id
    """


#: The runs that a course divides, as long as the connection is open.
DIVIDED: Final = "CREATE TEMP TABLE divided (run_id INTEGER PRIMARY KEY)"
AMONG_DIVIDED: Final = "run_id IN (SELECT run_id FROM divided)"


def fill_divided(where: str) -> str:
    """Note which they are."""
    return f"INSERT INTO divided SELECT run_id FROM run WHERE {where}"


def run_ids_query(where: str) -> str:
    """The selected runs, oldest first."""
    return f"SELECT run_id FROM run WHERE {where} ORDER BY {ORDER}"


def gpus_query(run_count: int) -> str:
    """The GPUs of some runs, without time-lines."""
    marks = ", ".join("?" * run_count)
    return f"""
    SELECT *, NULL AS timeline_json FROM gpu_accounted WHERE run_id IN ({marks})
    ORDER BY run_id, node_name, position
    """


ORDER: Final = "COALESCE(start_epoch_s, end_epoch_s), run_id"
