"""GPUs as Slurm's accounting charges them: what is measured, on the time that is charged.

The view gpu_accounted has the columns of run_gpu. Where nothing is accounted they are those of run_gpu. Else,
on a node that Slurm charges for a seconds (suspended time not counted) and that says it was held for o,

    allocated  = the GPU's own times a/o; a, where either is unknown
    covered    = covered times a/(a + suspended), but not less than its numerators; at most allocated

and a figure whose covered seconds exceed the allocated ones weighs less, numerators, errors and all, so that
its ratio stays as measured. Suspended time is idle time: what it takes from the time that was judged it takes
from the idle part, and from the idle stretch at the end as if all of it had been there. The busiest five
minutes, energy, power and the GPU's memory stay as they are.

Of a node of a run that is over, whose final word never came, the figures are those up to its last interim
record: what was measured there is not_delivered, and of the stretch at its end nothing is known.
"""

from typing import Final, NamedTuple

#: Reasons that say no more than that it was measured.
MEASURED: Final = ("ok", "short", "shared")


class _Figure(NamedTuple):
    """One figure's columns."""

    covered: str
    active: tuple[str, ...]  # the time in which something happened: suspended time takes nothing of it
    other: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()  # the time in which nothing did, and parts of that: suspended time was there
    suspends: bool = True


_FIGURES: Final = (
    _Figure(
        "covered_seconds",
        active=("tensor_active_seconds",),
        other=("tensor_ref_seconds", "tensor_ref_error_seconds"),
    ),
    _Figure("sm_active_covered_seconds", active=("sm_active_seconds",)),
    _Figure("dram_active_covered_seconds", active=("dram_active_seconds",)),
    _Figure("utilisation_covered_seconds", active=("utilisation_seconds",)),
    _Figure("throttle_covered_seconds", active=("throttled_power_seconds", "throttled_thermal_seconds")),
    _Figure("idle_covered_seconds", active=(), idle=("idle_seconds", "idle_tail_seconds")),
    _Figure("non_tensor_covered_seconds", active=("non_tensor_seconds",)),
    _Figure("peak_covered_seconds", active=(), other=("peak_tensor_ref_seconds",), suspends=False),
)
_COLUMNS: Final = (
    *("run_id", "node_name", "position", "reason", "allocated_seconds", "covered_seconds", "uuid"),
    *("gpu_model", "mapped_by", "source", "source_note", "mig_profile", "sm_share_ratio"),
    *("reference_clock_mhz", "estimator", "interval_count"),
    *("tensor_active_seconds", "tensor_ref_seconds", "tensor_ref_error_seconds"),
    *("error_degrees", "disagreement_ratio"),
    *("sm_active_seconds", "sm_active_covered_seconds", "dram_active_seconds", "dram_active_covered_seconds"),
    *("utilisation_seconds", "utilisation_covered_seconds", "power_joules", "power_covered_seconds"),
    *("energy_joules", "memory_max_bytes"),
    *("throttled_power_seconds", "throttled_thermal_seconds", "throttle_covered_seconds"),
    *("idle_seconds", "idle_covered_seconds", "idle_tail_seconds"),
    *("non_tensor_seconds", "non_tensor_covered_seconds"),
    *("peak_tensor_ref_seconds", "peak_covered_seconds", "tensor_megacycles", "tensor_megacycles_error"),
)

_CHARGED: Final = """
SELECT g.*,
    CASE WHEN n.accounted_seconds IS NULL THEN g.allocated_seconds
        WHEN n.allocated_seconds_assumed = 0 AND n.allocated_seconds > 0
            AND g.allocated_seconds <> n.allocated_seconds
            THEN g.allocated_seconds * (n.accounted_seconds / n.allocated_seconds)
        ELSE n.accounted_seconds END AS charged_seconds,
    n.accounted_seconds AS accounted_seconds,
    n.interim = 1 AND n.accounted_seconds IS NOT NULL AS cut_short,
    CASE WHEN n.accounted_suspended_seconds > 0
        THEN n.accounted_seconds / (n.accounted_seconds + n.accounted_suspended_seconds)
    END AS running_ratio
FROM run_gpu AS g JOIN run_node AS n ON n.run_id = g.run_id AND n.node_name = g.node_name
"""


def _running(figure: _Figure) -> str:
    """The covered seconds without suspended time, in which no GPU computes."""
    covered = figure.covered
    if not figure.suspends:
        return f"{covered} AS running_{covered}"
    least = [f"COALESCE({name}, 0.0)" for name in figure.active]
    least += [f"{covered} - COALESCE({name}, 0.0)" for name in figure.idle[:1]]
    return f"""
    CASE WHEN running_ratio IS NULL THEN {covered}
        ELSE MAX({covered} * running_ratio, {", ".join(least)}) END AS running_{covered}"""


def _weight(figure: _Figure) -> str:
    running = f"running_{figure.covered}"
    return f"""
    CASE WHEN accounted_seconds IS NOT NULL AND {running} > charged_seconds
        THEN charged_seconds / {running} END AS weight_{figure.covered}"""


def _expression(column: str) -> str:
    if column == "allocated_seconds":
        return "charged_seconds AS allocated_seconds"
    if column == "reason":
        return f"CASE WHEN cut_short AND reason IN {MEASURED} THEN 'not_delivered' ELSE reason END AS reason"
    for figure in _FIGURES:
        covered, weight = figure.covered, f"weight_{figure.covered}"
        if column == covered:
            return f"CASE WHEN {weight} IS NULL THEN running_{covered} ELSE charged_seconds END AS {column}"
        if column in figure.active + figure.other:
            return f"CASE WHEN {weight} IS NULL THEN {column} ELSE {column} * {weight} END AS {column}"
        if column in figure.idle:
            left = f"({column} - MIN({column}, {covered} - running_{covered}))"
            if column == "idle_tail_seconds":
                left = f"(CASE WHEN NOT cut_short THEN {left} END)"
            return f"CASE WHEN {weight} IS NULL THEN {left} ELSE {left} * {weight} END AS {column}"
    return column


_RUNNING: Final = f"SELECT *, {', '.join(map(_running, _FIGURES))} FROM ({_CHARGED})"
_WEIGHED: Final = f"SELECT *, {', '.join(map(_weight, _FIGURES))} FROM ({_RUNNING})"

#: The definition of the view.
GPU_ACCOUNTED: Final = f"SELECT {', '.join(_expression(name) for name in _COLUMNS)} FROM ({_WEIGHED})"
