"""What held busy GPUs up: the driver's limits, memory, and work that did not come."""

from collections.abc import Collection, Mapping
from typing import Final, Literal

from slurm_ofu.audits.seen import NO_TENSOR_RATIO, Part, Seen, together, working
from slurm_ofu.figures import figures
from slurm_ofu.figures.gpu_use import GpuUse, use_of_sums
from slurm_ofu.figures.work import work_kind
from slurm_ofu.values import Finding, FindingKind, FindingRules

Limit = Literal["throttled_power", "throttled_thermal"]
_LIMITS: Final[tuple[Limit, Limit]] = ("throttled_power", "throttled_thermal")


def throttled(run: Seen, kind: Limit, rules: FindingRules, *, told: Collection[str]) -> list[Finding]:
    """The used GPUs that the driver slowed down for much of their time, without those ``told`` of already."""
    if not run.page.gpus:
        use = use_of_sums(run.page.row.sums)
        return [_throttled(run, kind, use, (), run.gpu_count)] if _is_throttled(use, kind, rules) else []
    others = [gpu for gpu in run.gpus if not gpu.unused and gpu.place not in told]
    found = [gpu for gpu in others if _is_throttled(gpu.use, kind, rules)]
    if not found:
        return []
    where = () if len(found) == run.gpu_count else tuple(gpu.place for gpu in found)
    return [_throttled(run, kind, together(found), where, len(found))]


def low_clock(run: Seen, rules: FindingRules, *, told: Collection[str]) -> list[Finding]:
    """The GPUs at work whose clock was low by more than its error, though the driver does not say that it
    slowed them down: a limit set by an operator, or reasons that were not read. One that waits may."""
    if not run.page.gpus:
        use = use_of_sums(run.page.row.sums)
        doubtful = {"suspect", "shared"} & set(run.page.row.sums.reasons)
        low = not doubtful and _is_low(use, rules)
        return [_limited(run, "low_clock", _clock_evidence(use), (), run.gpu_count)] if low else []
    found = [
        gpu
        for gpu in run.gpus
        if not gpu.unused and not gpu.shared and gpu.place not in told and _is_low(gpu.use, rules)
    ]
    if not found:
        return []
    where = () if len(found) == run.gpu_count else tuple(gpu.place for gpu in found)
    return [_limited(run, "low_clock", _clock_evidence(together(found)), where, len(found))]


def unexplained(run: Seen, rules: FindingRules, *, goal_ratio: float) -> list[Finding]:
    """What the GPUs did of a run whose loss is counted, and is more than its error, where nothing else is
    said of it."""
    part, sums = working(run), run.page.row.sums
    if part is None or part.spoken_for_ratio < rules.judged_ratio or work_kind(sums) != "tensor":
        return []
    its = figures(sums)
    if its.ofu_ratio is None or its.ofu_error_pp is None:
        return []
    if its.ofu_ratio + its.ofu_error_pp / 100 >= rules.goal_share_ratio * goal_ratio:
        return []
    return [_of_the_busy_time(run, "unexplained", part, _BUSY)]


def why_not_higher(run: Seen, rules: FindingRules, *, goal_ratio: float) -> list[Finding]:
    """The one thing that keeps the used GPUs from tensor work, if any; work of another kind is not blamed."""
    part = working(run)
    if part is None or part.spoken_for_ratio < rules.judged_ratio:
        return []
    use = part.use
    if use.non_tensor_ratio is not None and use.non_tensor_ratio >= rules.non_tensor_ratio:
        return [_of_the_busy_time(run, "non_tensor", part, ("non_tensor_ratio", *_BUSY))]
    ofu = run.page.row.sums.tensor_ref_seconds, run.page.row.sums.ofu_covered_seconds
    if _reaches(ofu, rules.goal_share_ratio * goal_ratio):
        return []
    if _is_memory_bound(use, rules):
        return [_of_the_busy_time(run, "memory_bound", part, ("busy_memory_ratio", *_BUSY))]
    if _is_starved(use, rules):
        return [_of_the_busy_time(run, "starved", part, _BUSY)]
    return []


#: Evidence by its names in GpuUse; those of the busy time in the order in which they are told.
_BUSY = ("busy_sm_ratio", "busy_tensor_ratio", "busy_memory_ratio", "idle_ratio")


def _is_memory_bound(use: GpuUse, rules: FindingRules) -> bool:
    memory, tensor = use.busy_memory_ratio, use.busy_tensor_ratio
    return (
        memory is not None
        and tensor is not None
        and memory >= rules.memory_bound_ratio
        and tensor < rules.memory_bound_tensor_ratio
    )


def _is_starved(use: GpuUse, rules: FindingRules) -> bool:
    """Where it is not known whether the rest was tensor work, nobody is said to have done too little."""
    sm_ratio = use.busy_sm_ratio
    return sm_ratio is not None and use.non_tensor_ratio is not None and sm_ratio < rules.starved_ratio


def _reaches(ofu: tuple[float | None, float], least_ratio: float) -> bool:
    tensor_ref_seconds, covered_seconds = ofu
    return tensor_ref_seconds is not None and tensor_ref_seconds >= least_ratio * covered_seconds > 0


def _is_throttled(use: GpuUse, kind: Limit, rules: FindingRules) -> bool:
    ratio = _ratio(use, kind)
    return ratio is not None and ratio >= rules.throttled_ratio


def _ratio(use: GpuUse, kind: Limit) -> float | None:
    return use.throttled_power_ratio if kind == "throttled_power" else use.throttled_thermal_ratio


def _is_low(use: GpuUse, rules: FindingRules) -> bool:
    its, clock = use.figures, use.figures.active_clock_ratio
    if clock is None or its.ofu_ratio is None or its.ofu_error_pp is None or its.ofu_ratio <= 0:
        return False
    if any(_is_throttled(use, kind, rules) for kind in _LIMITS):
        return False
    if use.busy_sm_ratio is None or use.busy_sm_ratio < rules.starved_ratio:
        return False
    if use.busy_tensor_ratio is None or use.busy_tensor_ratio < NO_TENSOR_RATIO:
        return False
    return clock * (1 + its.ofu_error_pp / 100 / its.ofu_ratio) < rules.low_clock_ratio


def _clock_evidence(use: GpuUse) -> Mapping[str, float | None]:
    return {
        "active_clock_ratio": use.figures.active_clock_ratio,
        **{f"{kind}_ratio": _ratio(use, kind) for kind in _LIMITS},
    }


def _throttled(run: Seen, kind: Limit, use: GpuUse, where: tuple[str, ...], gpu_count: int) -> Finding:
    known = {"throttled_ratio": _ratio(use, kind), "active_clock_ratio": use.figures.active_clock_ratio}
    return _limited(run, kind, known, where, gpu_count)


def _limited(
    run: Seen,
    kind: FindingKind,
    known: Mapping[str, float | None],
    where: tuple[str, ...],
    gpu_count: int,
) -> Finding:
    return Finding(
        kind=kind,
        evidence={name: ratio for name, ratio in known.items() if ratio is not None},
        where=where,
        gpu_count=gpu_count,
        of_gpu_count=run.gpu_count,
    )


def _of_the_busy_time(run: Seen, kind: FindingKind, part: Part, names: tuple[str, ...]) -> Finding:
    evidence: Mapping[str, float] = {
        name: ratio for name in names if (ratio := getattr(part.use, name)) is not None
    }
    return Finding(
        kind=kind,
        evidence={**evidence, "spoken_for_ratio": part.spoken_for_ratio},
        gpu_count=part.gpu_count,
        of_gpu_count=run.gpu_count,
    )
