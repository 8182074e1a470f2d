"""How much a run made of its GPUs, and how far that can be trusted, in words."""

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.page_goal import goal_facts
from slurm_ofu.reports.page_minutes import held_facts, minute_facts
from slurm_ofu.reports.page_percentile import percentile_facts
from slurm_ofu.reports.page_side import side_facts
from slurm_ofu.reports.page_sources import source_facts
from slurm_ofu.reports.wording import (
    ESTIMATORS,
    EXPLANATIONS,
    RUNNING,
    UNKNOWN,
    error_points,
    hour_digits,
    hours,
    mixed,
    name,
    not_measured,
    other_reasons,
    percent,
    workload,
)
from slurm_ofu.values import Figures, Goals, JobPage


def headline_facts(page: JobPage, its: Figures, goals: Goals | None = None) -> list[Fact]:
    """The figure, its two factors, its place among others and beside its goal, and how far it can be
    trusted."""
    return [
        ("OFU", _ofu(its, running=page.row.run is not None and page.row.run.running)),
        *([("", _factors(its))] if its.ofu_ratio is not None else []),
        *percentile_facts(page.percentile),
        *goal_facts(page, goals),
        *(
            [("Tensor", _tensor_only(its))]
            if its.ofu_ratio is None and its.tpa_mean_ratio is not None
            else []
        ),
        ("Coverage", _coverage(its)),
        *([("Reason", _reason(its))] if its.reason != "ok" or len(its.reasons) > 1 else []),
    ]


def detail_facts(page: JobPage, its: Figures) -> list[Fact]:
    """How it was found, and what else the GPUs did."""
    return [
        ("Estimator", _estimator(its.estimator)),
        *source_facts(page.gpus),
        *([("SM active", _sm_active(its.sm_active_ratio))] if its.sm_active_ratio is not None else []),
        *minute_facts(page, its),
        *held_facts(its),
        *side_facts(page.gpus, its),
    ]


def _ofu(its: Figures, *, running: bool) -> str:
    if its.ofu_ratio is None:
        return not_measured(its.reason)
    told = (workload(its), "mixed" if mixed(its) else None, RUNNING if running else None)
    marks = [mark for mark in told if mark is not None]
    error = (
        ", error unknown"
        if its.ofu_error_pp is None
        else f" ±{error_points(its.ofu_error_pp)} percentage points (95 %)"
    )
    return ", ".join([percent(its.ofu_ratio) + error, *marks])


def _factors(its: Figures) -> str:
    tensor = f"= tensor activity {percent(its.tpa_mean_ratio)}"
    if its.active_clock_ratio is None:
        return tensor + ", hence no clock to weigh with it" if its.tpa_mean_ratio == 0 else tensor
    return f"{tensor} × clock {percent(its.active_clock_ratio)} of reference"


def _tensor_only(its: Figures) -> str:
    return f"{percent(its.tpa_mean_ratio)} activity, not to be put into OFU"


def _coverage(its: Figures) -> str:
    if its.gpu_hours is None:
        return "unknown, since nobody knows how long the GPUs were held"
    digits = hour_digits([its.gpu_hours])
    measured = hours(its.gpu_hours_measured, digits=digits)
    parts = f"{measured} measured, {hours(its.gpu_hours_unmeasured, digits=digits)} not measured"
    if its.ofu_ratio is None and its.coverage_ratio:
        parts = "measured, but not as an OFU"
    return f"{percent(its.coverage_ratio)} of {hours(its.gpu_hours, digits=digits)} GPU-hours ({parts})"


def _estimator(estimator: str | None) -> str:
    if estimator is None:
        return "none"
    return f"{name(estimator)} ({ESTIMATORS.get(estimator, 'see the documentation')})"


def _sm_active(ratio: float | None) -> str:
    return f"{percent(ratio)} (share of time with any work on an SM, mean of the SMs)"


def _reason(its: Figures) -> str:
    if its.reason is None:
        return UNKNOWN
    others = other_reasons(its)
    also = f"; also {', '.join(map(name, others))}" if others else ""
    return f"{its.reason}: {EXPLANATIONS.get(its.reason, 'see the documentation')}{also}"
