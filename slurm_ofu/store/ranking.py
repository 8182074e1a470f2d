"""What kind of work runs did, what they lost, and their bands: figures.work's rules, in SQL."""

from typing import Final

from slurm_ofu.figures.bands import BAND_COUNT, BAND_EDGES
from slurm_ofu.figures.work import LEAST_JUDGED_RATIO, RANKED
from slurm_ofu.values import Goals

#: What a run's kind of work is told by.
KIND_COLUMNS: Final = (
    *("tensor_ref_seconds", "ofu_covered_seconds", "idle_seconds", "non_tensor_seconds"),
    "non_tensor_covered_seconds",
)
BANDS: Final = tuple(f"band_{number}_run_count" for number in range(BAND_COUNT))
COUNTS: Final = ("non_tensor_run_count", "unmeasured_run_count", "running_run_count", *BANDS)

_RANKED: Final = ", ".join(f"'{kind}'" for kind in RANKED)
LOST: Final = f"CASE WHEN kind IN ({_RANKED}) THEN below_goal_seconds END"
RANKED_SECONDS: Final = f"CASE WHEN kind IN ({_RANKED}) THEN ofu_covered_seconds END"


def kind_by(prefix: str = "") -> str:
    """work_kind of a run whose sums are in these columns."""
    tensor_ref, covered, idle, non_tensor, judged = (prefix + name for name in KIND_COLUMNS)
    busy = f"MAX(0.0, {judged} - COALESCE({idle}, 0.0))"
    return f"""
    CASE WHEN {tensor_ref} IS NULL OR COALESCE({covered}, 0.0) <= 0 THEN 'unmeasured'
        WHEN COALESCE({judged}, 0.0) < {LEAST_JUDGED_RATIO!r} * {covered} THEN 'unknown'
        WHEN COALESCE({non_tensor}, 0.0) > {busy} / 2 THEN 'non_tensor'
        WHEN {busy} > 0 THEN 'tensor' ELSE 'idle' END
    """


def goal_by_partition(goals: Goals) -> tuple[str, list[str | int | float]]:
    """The goal of the partition of a row of gpu_accounted (``a``), and its parameters."""
    if not goals.by_partition:
        return "?", [float(goals.default_ratio)]
    cases = " ".join(["WHEN ? THEN ?"] * len(goals.by_partition))
    parameters: list[str | int | float] = []
    for partition, ratio in goals.by_partition.items():
        parameters += [partition, float(ratio)]
    of_run = f"SELECT CASE r.partition {cases} ELSE ? END FROM run AS r WHERE r.run_id = a.run_id"
    return f"({of_run})", [*parameters, float(goals.default_ratio)]


def below_goal(goal: str) -> str:
    """Over rows of gpu_accounted: what they lost, should the run be ranked."""
    return f"""
    SUM(CASE WHEN reason <> 'suspect' THEN MAX(0.0, covered_seconds - tensor_ref_seconds / {goal}) END)
    """


def counts() -> str:
    """Sums over runs, or what they had of a group, by ``kind`` of the whole run and OFU of the part."""
    measured = "tensor_ref_seconds IS NOT NULL AND COALESCE(ofu_covered_seconds, 0.0) > 0"
    banded = f"{measured} AND kind <> 'non_tensor'"
    ofu = "tensor_ref_seconds / ofu_covered_seconds"
    lower = ("", *(f" AND {ofu} >= {edge!r}" for edge in BAND_EDGES))
    upper = (*(f" AND {ofu} < {edge!r}" for edge in BAND_EDGES), "")
    bands = (
        f"SUM({banded}{above}{below}) AS {name}"
        for name, above, below in zip(BANDS, lower, upper, strict=True)
    )
    return f"""
    SUM({measured} AND kind = 'non_tensor') AS non_tensor_run_count,
    SUM(NOT ({measured})) AS unmeasured_run_count,
    SUM(running) AS running_run_count,
    {", ".join(bands)}
    """
