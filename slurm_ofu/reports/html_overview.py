"""The few figures that stand on top: each with what it is of."""

from dataclasses import dataclass

from slurm_ofu.reports.html_figures import hours_text
from slurm_ofu.reports.wording import (
    NOT_MEASURED,
    error_points,
    hour_digits,
    idle_in_part,
    mixed,
    not_measured,
    percent,
)
from slurm_ofu.values import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure, and in words what it is of."""

    label: str
    text: str
    note: str


def cards(its: Figures) -> list[Card]:
    """OFU, coverage, GPU-hours, jobs; idle, busy without tensor work, lost."""
    digits = hour_digits([its.gpu_hours])
    return [
        _ofu(its),
        Card(
            label="Coverage",
            text=percent(its.coverage_ratio),
            note="of the GPU-hours is what the OFU speaks for",
        ),
        Card(
            label="GPU-hours",
            text=hours_text(its.gpu_hours, digits=digits),
            note=f"{hours_text(its.gpu_hours_measured, digits=digits)} measured,"
            f" {hours_text(its.gpu_hours_unmeasured, digits=digits)} not measured" + _unknown_time(its),
        ),
        Card(
            label="Jobs",
            text=f"{its.run_count:,}",
            note=f"{its.unmeasured_run_count:,} not measured,"
            f" {its.non_tensor_run_count:,} without tensor work"
            + (f", {its.running_run_count:,} still running" if its.running_run_count else ""),
        ),
        Card(
            label="Idle GPU-hours",
            text=("≥ " if idle_in_part(its) else "") + hours_text(its.idle_gpu_hours, absent=NOT_MEASURED),
            note=_of(its.idle_judged_gpu_hours, its.idle_gpu_hours, "of which that is known"),
        ),
        Card(
            label="GPU-hours without tensor work",
            text=hours_text(its.non_tensor_gpu_hours, absent=NOT_MEASURED),
            note=_of(
                its.non_tensor_judged_gpu_hours,
                its.non_tensor_gpu_hours,
                "of which that is known; busy with FP64 or plain FP32, neither idle nor wasteful",
            ),
        ),
        Card(
            label="Lost GPU-hours",
            text=hours_text(its.lost_gpu_hours, absent=NOT_MEASURED),
            note=_of(its.ranked_gpu_hours, its.lost_gpu_hours, "of jobs that are ranked, below their goal"),
        ),
    ]


def _ofu(its: Figures) -> Card:
    if its.ofu_ratio is None:
        return Card(label="OFU", text=not_measured(its.reason), note="nothing was measured: this is no zero")
    error = (
        "error unknown"
        if its.ofu_error_pp is None
        else f"± {error_points(its.ofu_error_pp)} percentage points (95 %)"
    )
    note = error + (", mixed: several GPU models" if mixed(its) else "") + ", pooled by GPU time"
    return Card(label="OFU", text=percent(its.ofu_ratio), note=note)


def _of(whole_hours: float, part_hours: float | None, what: str) -> str:
    return "not known of any" if part_hours is None else f"of {hours_text(whole_hours)} {what}"


def _unknown_time(its: Figures) -> str:
    count = its.gpu_count_unknown_time
    return f"; {count:g} GPUs of unknown time are not in it" if count > 0 else ""
