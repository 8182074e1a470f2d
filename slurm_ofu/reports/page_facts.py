"""How much a run made of its GPUs, and how far that can be trusted, in words."""

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.wording import (
    ESTIMATORS,
    EXPLANATIONS,
    UNKNOWN,
    error_points,
    hours,
    in_part,
    mixed,
    name,
    not_measured,
    other_reasons,
    percent,
    workload,
)
from slurm_ofu.values import Figures

_JOULES_PER_KWH = 3.6e6


def measured_facts(its: Figures) -> list[Fact]:
    """The figure, its two factors, and how far it can be trusted."""
    return [
        ("OFU", _ofu(its)),
        *([("", _factors(its))] if its.ofu_ratio is not None else []),
        *(
            [("Tensor", _tensor_only(its))]
            if its.ofu_ratio is None and its.tpa_mean_ratio is not None
            else []
        ),
        ("Coverage", _coverage(its)),
        ("Estimator", _estimator(its.estimator)),
        ("Reason", _reason(its)),
        *([("SM active", _sm_active(its.sm_active_ratio))] if its.sm_active_ratio is not None else []),
        *([("Energy", _energy(its, its.energy_joules))] if its.energy_joules is not None else []),
    ]


def _ofu(its: Figures) -> str:
    if its.ofu_ratio is None:
        return not_measured(its.reason)
    marks = [mark for mark in (workload(its), "mixed" if mixed(its) else None) if mark is not None]
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
    parts = f"{hours(its.gpu_hours_measured)} measured, {hours(its.gpu_hours_unmeasured)} not measured"
    if its.ofu_ratio is None and its.coverage_ratio:
        parts = "measured, but not as an OFU"
    return f"{percent(its.coverage_ratio)} of {hours(its.gpu_hours)} GPU-hours ({parts})"


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


def _energy(its: Figures, joules: float) -> str:
    return f"{joules / _JOULES_PER_KWH:.3g} kWh" + (" (measured part)" if in_part(its) else "")
