"""What a job's page says in words: which run it was, and how much it made of its GPUs."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.free_text import shortened
from slurm_ofu.reports.wording import (
    ESTIMATORS,
    EXPLANATIONS,
    UNKNOWN,
    count,
    duration,
    error_points,
    hours,
    in_part,
    mixed,
    moment_of,
    name,
    not_measured,
    other_reasons,
    percent,
    span,
    workload,
)
from slurm_ofu.values import Figures, GpuRow, RunRow

_LONGEST_TEXT = 300  # a comment may be of any length; the page shows so much of it
_JOULES_PER_KWH = 3.6e6


def run_facts(run: RunRow, its: Figures, gpus: Sequence[GpuRow], zone: tzinfo) -> list[Fact]:
    """Which run it was. What only accounting knows is said to be missing until it says so."""
    facts = [
        ("User", f"{name(run.user)}, account {name(run.account)}, partition {name(run.partition)}"),
        *_name(run),
        ("Nodes", f"{count(run.node_count)}: {_cut(run.node_list)}"),
        ("GPUs", f"{count(its.gpu_count)}: {_gpu_models(gpus)}"),
        ("Time", _time(run, zone)),
    ]
    return facts if run.comment is None else [*facts, ("Comment", _cut(run.comment))]


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


def _name(run: RunRow) -> list[Fact]:
    """Its name, state and exit code as far as they are known, and in a line of its own what is not yet."""
    said = (("Name", run.job_name), ("State", run.state), ("Exit code", run.exit_code))
    known = [(label, _cut(text)) for label, text in said if text is not None]
    facts = [(known[0][0], ", ".join([known[0][1], *map(_in_passing, known[1:])]))] if known else []
    missing = [label.lower() for label, text in said[:2] if text is None]
    if missing:  # label and text make one sentence
        them = "them" if len(missing) > 1 else "it"
        facts.append(("Not known", f"yet: {', '.join(missing)} (accounting may still fill {them} in)"))
    return facts


def _in_passing(fact: Fact) -> str:
    label, text = fact
    return f"{label.lower()} {text}"


def _time(run: RunRow, zone: tzinfo) -> str:
    if run.start_epoch_s is None or run.end_epoch_s is None:
        return f"{moment_of(run.start_epoch_s, zone)} to {moment_of(run.end_epoch_s, zone)}"
    start, end = (datetime.fromtimestamp(at // 1, zone) for at in (run.start_epoch_s, run.end_epoch_s))
    return f"{span(start, end)}, {duration(max(0.0, run.end_epoch_s - run.start_epoch_s))}"


def _gpu_models(gpus: Sequence[GpuRow]) -> str:
    """Each model once, with its reference clock where any of its GPUs has one."""
    clocks: dict[str, float | None] = {}
    for totals in (gpu.totals for gpu in gpus):
        if totals.gpu_model is not None and clocks.get(totals.gpu_model) is None:
            clocks[totals.gpu_model] = totals.reference_clock_mhz
    return "; ".join(_gpu_model(model, clocks[model]) for model in sorted(clocks)) or UNKNOWN


def _gpu_model(gpu_model: str, reference_clock_mhz: float | None) -> str:
    clock = UNKNOWN if reference_clock_mhz is None else f"{count(reference_clock_mhz)} MHz"
    return f"{name(gpu_model)} (reference clock {clock})"


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


def _cut(text: str | None) -> str:
    return shortened(name(text), _LONGEST_TEXT)
