"""The flat fields of a machine-readable report, named as everywhere else in slurm-ofu, in base units."""

import math
from collections.abc import Mapping
from dataclasses import fields

from slurm_ofu.figures import ClaimComparison, compare_claim, figures
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.run_words import display_job_id, shown_state, sums_of
from slurm_ofu.values import Claim, Figures, GroupBy, RunRow, UsageRow

Value = str | int | float | list[str] | list[int] | None

_RUN_ROW = tuple(field.name for field in fields(RunRow) if field.name not in ("run_id", "claim"))
RUN_FIELDS = (*_RUN_ROW, "display_job_id")
FIGURE_FIELDS = tuple(field.name for field in fields(Figures))
CLAIM_FIELDS = tuple(field.name for kind in (Claim, ClaimComparison) for field in fields(kind))

_UNITS: Mapping[str, str] = {
    "gpu_count": "GPUs allocated, summed over runs",
    "gpu_count_unknown_time": "GPUs allocated for an unknown time: not in gpu_hours nor coverage_ratio",
    "gpu_hours": "GPU-hours allocated",
    "gpu_hours_measured": "GPU-hours that the OFU speaks for",
    "gpu_hours_unmeasured": "GPU-hours allocated that it does not speak for",
    "ofu_ratio": "1 (legally above 1 where the SM clock exceeds the reference clock)",
    "ofu_ratios": "1 (null: not measured in that bucket)",
    "ofu_error_pp": "percentage points, half-width of the 95 % interval",
    "tpa_mean_ratio": "1 (over the GPUs that the OFU is about; without an OFU, over all that were measured)",
    "active_clock_ratio": "1 (of the reference clock, weighted by tensor activity)",
    "coverage_ratio": "1 (of the allocated GPU time; without an OFU, what was measured at all)",
    "idle_gpu_hours": "GPU-hours of minutes without SM activity and tensor work",
    "idle_judged_gpu_hours": "GPU-hours of minutes of which it is known whether they were idle",
    "idle_tail_gpu_hours": "of idle_gpu_hours, those up to the runs' ends without a break",
    "non_tensor_gpu_hours": "GPU-hours of minutes with SM activity and without tensor work",
    "non_tensor_judged_gpu_hours": "GPU-hours of minutes of which that is known",
    "peak_ofu_ratio": "1 (OFU over each GPU's busiest five minutes)",
    "throttled_power_gpu_hours": "GPU-hours slowed down by the power limit",
    "throttled_thermal_gpu_hours": "GPU-hours slowed down by heat",
    "throttle_known_gpu_hours": "GPU-hours of which that is known",
    "held_suspended_gpu_hours": "GPU-hours held while suspended: not in gpu_hours",
    "lost_gpu_hours": "measured GPU-hours below the partitions' goals (null: no run is ranked)",
    "ranked_gpu_hours": "measured GPU-hours of the runs that lost_gpu_hours is about",
    "band_run_counts": "runs with an OFU below 0.02, 0.1, 0.2, 0.4 and from there on",
    "non_tensor_run_count": "runs busy without tensor cores: in no band",
    "unmeasured_run_count": "runs without an OFU",
    "running_run_count": "runs that go on",
    "work_kind": "what the runs did: tensor, idle, non_tensor (busy without tensor cores), unknown (one of"
    " the two before, or both), unmeasured; mixed: not all the same, or not known to be; null: no runs",
    "prorated_run_count": "runs cut by the window where only their time says how much lies inside",
    "idle_tail_seconds": "seconds (of a run: for how long all its GPUs had been idle when it ended;"
    " of a GPU: its idle time up to the run's end, times what the run had of the GPU)",
    "error_degrees": "degrees of freedom (null: very many)",
    "late_max_seconds": "seconds",
    "missed_ticks": "ticks",
    "job_id": "raw Slurm job id",
    "array_job_id": "Slurm job id of the array",
    "array_task_id": "index in the array",
    "het_job_id": "Slurm job id of the heterogeneous job",
    "het_offset": "component of the heterogeneous job",
    "elapsed_seconds": "seconds, as Slurm counts them: without suspended_seconds",
    "slurm_gpu_count": "GPUs by Slurm's accounting (gpu_count is the prologs')",
    "position": "position in the node's Slurm device list",
    "value": "1 (kind mfu) or TFLOP/s per GPU (kind tflops)",
    "stated_ratio": "1 (of the dense 16-bit peak)",
    "measured_ratio": "1 (of the dense 16-bit peak: OFU)",
    "difference_pp": "percentage points, stated minus measured",
    "stated_over_measured": "1 (above 1: more is stated than was measured)",
}
_UNITS_BY_ENDING: Mapping[str, str] = {
    "_gpu_hours": "GPU-hours",
    "_pp": "percentage points",
    "factor": "1",
    "_rank": "1",
    "_errors": "1",
    "_epoch_s": "seconds since 1970-01-01T00:00:00Z",
    "_error_seconds": "seconds, one sigma",
    "_seconds": "seconds",
    "_joules": "joules",
    "_bytes": "bytes",
    "_mhz": "MHz",
    "_tflops": "TFLOP/s per GPU, dense 16-bit",
    "_ratio": "1",
    "_count": "1",
}


def unit_of(name: str) -> str | None:
    """The unit of a field; ``None`` for text."""
    endings = (unit for ending, unit in _UNITS_BY_ENDING.items() if name.endswith(ending))
    return _UNITS.get(name) or next(endings, None)


def group_field(by: GroupBy) -> str:
    """The name of the field that says what a group's line is about, as in gpu_model."""
    return by.replace("-", "_")


def flat_fields(by: GroupBy) -> tuple[str, ...]:
    """The names of a flat row's fields, in order; those of a claim begin with ``claim_``."""
    if by != "job":
        return tuple(dict.fromkeys((group_field(by), *FIGURE_FIELDS)))
    return (*RUN_FIELDS, *FIGURE_FIELDS, *(f"claim_{name}" for name in CLAIM_FIELDS))


def flat_values(row: UsageRow, by: GroupBy) -> dict[str, Value]:
    """A row's fields in the order of :func:`flat_fields`."""
    values = row_values(row, by)
    if by != "job":
        return values
    claim = claim_values(row) or dict.fromkeys(CLAIM_FIELDS)
    return {**values, **{f"claim_{name}": value for name, value in claim.items()}}


def row_values(row: UsageRow, by: GroupBy) -> dict[str, Value]:
    """A row's fields without its claim; ``None`` is "unknown" or "not measured", never zero."""
    if by != "job":
        named: dict[str, Value] = {group_field(by): safe(row.group)}
    elif row.run is not None:
        named = _run_values(row.run)
    else:
        named = {**dict.fromkeys(RUN_FIELDS), "job_id": safe(row.group)}
    its = figure_values(figures(sums_of(row)))
    return {**named, **its} if by == "job" else {**named, **its, **named}


def _run_values(run: RunRow) -> dict[str, Value]:
    values = {name: safe(getattr(run, name)) for name in _RUN_ROW}
    return {**values, "state": safe(shown_state(run)), "display_job_id": display_job_id(run)}


def claim_values(row: UsageRow) -> dict[str, Value] | None:
    """What a run claims of itself, and what that is held against; ``None`` where it claims nothing."""
    claim = None if row.run is None else row.run.claim
    if claim is None:
        return None
    compared = compare_claim(claim, figures(sums_of(row)))
    return {
        field.name: safe(getattr(value, field.name)) for value in (claim, compared) for field in fields(value)
    }


def figure_values(its: Figures) -> dict[str, Value]:
    """The figures by name."""
    return {name: safe(getattr(its, name)) for name in FIGURE_FIELDS}


def safe(value: Value | tuple[str, ...] | tuple[int, ...]) -> Value:
    """Text without control characters, numbers finite and without the dust of binary fractions."""
    if isinstance(value, tuple | list):
        return [item if isinstance(item, int) else printable(item) for item in value]  # type: ignore[return-value]
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return rounded(value)
    return value


def rounded(value: float) -> float | None:
    """Twelve significant digits: finer than any measurement here, coarser than rounding errors."""
    return float(f"{value:.12g}") if math.isfinite(value) else None
