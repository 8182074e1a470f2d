"""Why a run is as it is: a pure function from its figures to a closed list of findings (metric.md 9)."""

from collections.abc import Sequence

from slurm_ofu.audits.eligible import is_stopped, runtime_seconds
from slurm_ofu.audits.limits import low_clock, throttled, unexplained, why_not_higher
from slurm_ofu.audits.seen import Seen, SeenGpu, everything, place, seen, together
from slurm_ofu.audits.siblings import slow
from slurm_ofu.figures.gpu_use import GpuUse
from slurm_ofu.values import Finding, FindingRules, Goals, JobPage


def findings(page: JobPage, rules: FindingRules, goals: Goals) -> tuple[Finding, ...]:
    """What there is to say of a run, what matters most first; () where all is well, or nothing is known.

    They do not contradict each other: an idle run is nothing else, GPUs that were not used are not slow, and
    work without tensor cores is not blamed. Of a run that Slurm has suspended it is not said that it is idle.
    """
    run = seen(page, rules)
    doubt = _suspect(run)
    if (short := _short(page, rules)) is not None:
        return (*doubt, *short)
    stopped = page.row.run is not None and is_stopped(page.row.run)
    if idle := _idle(run, rules):
        return (*doubt, *([] if stopped else idle))
    lagging = slow(run, rules)
    told = {gpu.place for gpu in run.gpus for its in lagging if {gpu.place, gpu.node_name} & set(its.where)}
    partition = None if page.row.run is None else page.row.run.partition
    found = (
        *_unused(run),
        *([] if stopped else _idle_tail(run, rules)),
        *lagging,
        *throttled(run, "throttled_thermal", rules, told=told),
        *throttled(run, "throttled_power", rules, told=told),
        *low_clock(run, rules, told=told),
        *why_not_higher(run, rules, goal_ratio=goals.of(partition)),
    )
    if found or stopped:
        return (*doubt, *found)
    return (*doubt, *unexplained(run, rules, goal_ratio=goals.of(partition)))


def _suspect(run: Seen) -> list[Finding]:
    """The GPUs whose counters contradict each other: that is about the node, never about the job."""
    rows = sorted(run.page.gpus, key=lambda gpu: (gpu.node_name, gpu.totals.position))
    found = [gpu for gpu in rows if gpu.totals.reason == "suspect"]
    if not found and "suspect" not in run.page.row.sums.reasons:
        return []
    return [
        Finding(
            kind="suspect",
            evidence={},
            where=tuple(place(gpu.node_name, gpu.totals) for gpu in found),
            gpu_count=len(found) if found else None,
            of_gpu_count=run.gpu_count,
        )
    ]


def _short(page: JobPage, rules: FindingRules) -> list[Finding] | None:
    """``None``: the run was long enough. A short one of which nothing was measured is not spoken of."""
    sums, seconds = page.row.sums, None if page.row.run is None else runtime_seconds(page.row.run)
    too_few_looks = "short" in sums.reasons and "ok" not in sums.reasons
    if not too_few_looks and (seconds is None or seconds >= rules.short_seconds):
        return None
    if sums.covered_seconds <= 0 and not too_few_looks:
        return []
    return [Finding(kind="short", evidence={} if seconds is None else {"run_seconds": seconds})]


def _idle(run: Seen, rules: FindingRules) -> list[Finding]:
    """Hardly anything ran on any of the GPUs; of as much of their time as is needed to say so."""
    part = everything(run)
    if part is None or part.spoken_for_ratio < rules.judged_ratio:
        return []
    ratios = [gpu.use.idle_ratio for gpu in run.gpus if not gpu.unused] if run.gpus else [part.use.idle_ratio]
    if any(ratio is None or ratio < rules.idle_ratio for ratio in ratios):
        return []
    return [
        Finding(
            kind="idle",
            evidence={
                **_idleness(part.use),
                **_tail_evidence([gpu for gpu in run.gpus if _has_tail(gpu, rules)], of=run.gpus),
                "spoken_for_ratio": part.spoken_for_ratio,
            },
            gpu_count=part.gpu_count,
            of_gpu_count=run.gpu_count,
        )
    ]


def _unused(run: Seen) -> list[Finding]:
    found = [gpu for gpu in run.gpus if gpu.unused]
    if not found:
        return []
    return [
        Finding(
            kind="unused_gpus",
            evidence={**_idleness(together(found)), "judged_gpu_count": float(len(run.gpus))},
            where=tuple(gpu.place for gpu in found),
            gpu_count=len(found),
            of_gpu_count=run.gpu_count,
        )
    ]


def _idle_tail(run: Seen, rules: FindingRules) -> list[Finding]:
    """The used GPUs that were held after their work was done; some may have had more to do than others."""
    used = [gpu for gpu in run.gpus if not gpu.unused]
    found = [gpu for gpu in used if _has_tail(gpu, rules)]
    if not found:
        return []
    judged = sum(gpu.tail_seconds is not None for gpu in used)
    return [
        Finding(
            kind="idle_tail",
            evidence={**_tail_evidence(found, of=found), "judged_gpu_count": float(judged)},
            where=() if len(found) == run.gpu_count else tuple(gpu.place for gpu in found),
            gpu_count=len(found),
            of_gpu_count=run.gpu_count,
        )
    ]


def _has_tail(gpu: SeenGpu, rules: FindingRules) -> bool:
    seconds, ratio = gpu.tail_seconds, gpu.tail_ratio
    return (
        seconds is not None
        and ratio is not None
        and seconds >= rules.idle_tail_seconds
        and ratio >= rules.idle_tail_ratio
    )


def _tail_evidence(found: Sequence[SeenGpu], *, of: Sequence[SeenGpu]) -> dict[str, float]:
    """For how long all of them had been idle at the end; nothing where one of them was not."""
    if not found or len(found) < len(of):
        return {}
    hours = together(found).figures.idle_tail_gpu_hours
    seconds = min(gpu.tail_seconds or 0.0 for gpu in found)
    return {"idle_tail_seconds": seconds, **({} if hours is None else {"idle_tail_gpu_hours": hours})}


def _idleness(use: GpuUse) -> dict[str, float]:
    known = {"idle_ratio": use.idle_ratio, "idle_gpu_hours": use.figures.idle_gpu_hours}
    return {name: value for name, value in known.items() if value is not None}
