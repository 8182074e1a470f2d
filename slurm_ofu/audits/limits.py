"""What held busy GPUs up: the driver's limits, memory, and work that did not come."""

from collections.abc import Collection, Mapping
from typing import Literal

from slurm_ofu.audits.seen import Part, Seen, together, working
from slurm_ofu.figures.gpu_use import GpuUse, use_of_sums
from slurm_ofu.values import Finding, FindingKind, FindingRules

Limit = Literal["throttled_power", "throttled_thermal"]


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


def _throttled(run: Seen, kind: Limit, use: GpuUse, where: tuple[str, ...], gpu_count: int) -> Finding:
    known = {"throttled_ratio": _ratio(use, kind), "active_clock_ratio": use.figures.active_clock_ratio}
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
