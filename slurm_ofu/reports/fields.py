"""The flat fields of a machine-readable report, named as everywhere else in slurm-ofu, in base units."""

import math
from collections.abc import Mapping
from dataclasses import fields

from slurm_ofu.figures import figures
from slurm_ofu.reports.free_text import printable
from slurm_ofu.values import Figures, GroupBy, RunRow, UsageRow

Value = str | int | float | list[str] | None

RUN_FIELDS = tuple(field.name for field in fields(RunRow) if field.name != "run_id")
FIGURE_FIELDS = tuple(field.name for field in fields(Figures))

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
    "error_degrees": "degrees of freedom (null: very many)",
    "late_max_seconds": "seconds",
    "missed_ticks": "ticks",
    "job_id": "raw Slurm job id",
    "position": "position in the node's Slurm device list",
}
_UNITS_BY_ENDING: Mapping[str, str] = {
    "_epoch_s": "seconds since 1970-01-01T00:00:00Z",
    "_error_seconds": "seconds, one sigma",
    "_seconds": "seconds",
    "_joules": "joules",
    "_bytes": "bytes",
    "_mhz": "MHz",
    "_ratio": "1",
    "_count": "1",
}


def unit_of(name: str) -> str | None:
    """The unit of a field; ``None`` for text."""
    endings = (unit for ending, unit in _UNITS_BY_ENDING.items() if name.endswith(ending))
    return _UNITS.get(name) or next(endings, None)


def row_fields(by: GroupBy) -> tuple[str, ...]:
    """The names of a row's fields, in order."""
    return (*RUN_FIELDS, *FIGURE_FIELDS) if by == "job" else (by, *FIGURE_FIELDS)


def row_values(row: UsageRow, by: GroupBy) -> dict[str, Value]:
    """A row's fields; ``None`` is "unknown" or "not measured", never zero."""
    if by != "job":
        named: dict[str, Value] = {by: safe(row.group)}
    elif row.run is not None:
        named = {name: safe(getattr(row.run, name)) for name in RUN_FIELDS}
    else:
        named = {**dict.fromkeys(RUN_FIELDS), "job_id": safe(row.group)}
    return {**named, **figure_values(figures(row.sums))}


def figure_values(its: Figures) -> dict[str, Value]:
    """The figures by name."""
    return {name: safe(getattr(its, name)) for name in FIGURE_FIELDS}


def safe(value: Value | tuple[str, ...]) -> Value:
    """Text without control characters, numbers finite and without the dust of binary fractions."""
    if isinstance(value, tuple | list):
        return [printable(text) for text in value]
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return rounded(value)
    return value


def rounded(value: float) -> float | None:
    """Twelve significant digits: finer than any measurement here, coarser than rounding errors."""
    return float(f"{value:.12g}") if math.isfinite(value) else None
