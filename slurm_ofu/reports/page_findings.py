"""Findings in plain words, each with one thing to try."""

from collections.abc import Sequence
from datetime import tzinfo

from slurm_ofu.figures.claims import NEARLY_ALL
from slurm_ofu.reports.finding_places import Places, places_of
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.wording import count, duration, hours, moment_of, percent
from slurm_ofu.values import Finding, JobPage

#: What is said, and what to try; ``None`` where there is nothing to be done.
Told = tuple[str, str | None]

_END_IT = "end the job when its work is done: let the script exit; leave, or scancel, a session"
_FIND_THE_GPU = (
    "see in the job whether the program finds its GPU (nvidia-smi, torch.cuda.is_available(), jax.devices()):"
    " a build for CPUs alone runs as well, only without it"
)


def as_findings(found: Sequence[Finding], page: JobPage, zone: tzinfo, *, width: int) -> list[str]:
    """The findings as numbered paragraphs under their title; no line where there is none."""
    lines = []
    for number, finding in enumerate(found, start=1):
        said, advice = told(finding, page, zone)
        head = f"  {number}. "
        paragraphs = [said[:1].upper() + said[1:] + ".", *([] if advice is None else [f"Try: {advice}."])]
        texts = [line for text in paragraphs for line in wrapped(text, width - len(head))]
        lines += [(head if at == 0 else " " * len(head)) + line for at, line in enumerate(texts)]
    return ["", "Findings", *lines] if lines else []


def told(finding: Finding, page: JobPage, zone: tzinfo) -> Told:
    """One finding in words, without a full stop, and what to try."""
    its = places_of(finding, page)
    match finding.kind:
        case "idle":
            return _idle(finding, page, zone)
        case "unused_gpus":
            return _unused(finding, page, its)
        case "idle_tail":
            return _idle_tail(finding, page, its, zone)
        case "slow_gpu" | "slow_node":
            return _slow(finding, page, its)
        case "throttled_thermal" | "throttled_power":
            return _throttled(finding, page, its)
        case "low_clock":
            return _low_clock(finding, page, its)
        case "unexplained":
            return _unexplained(finding, page)
        case "suspect":
            return _suspect(finding, its)
        case "short":
            seconds = finding.evidence.get("run_seconds")
            long = "" if seconds is None else f" ({duration(seconds)})"
            return f"too short to judge{_so_far(page)}{long}", None
        case _:
            return _busy(finding, page)


def _idle(finding: Finding, page: JobPage, zone: tzinfo) -> Told:
    ratio, tail = finding.evidence.get("idle_ratio"), finding.evidence.get("idle_tail_seconds")
    worked = tail is not None and ratio is not None and ratio < 1
    since = f", without a break {_since(page, tail, zone)}" if worked and tail is not None else ""
    said = (
        f"hardly anything ran on {_all_gpus(finding)}: idle for {percent(ratio)} of the time{_so_far(page)}"
        f"{since}{_gpu_hours(finding, 'idle_gpu_hours')}{_speaks_for(finding)}"
    )
    return said, _end_it(page) if worked else _FIND_THE_GPU


def _unused(finding: Finding, page: JobPage, its: Places) -> Told:
    idle = percent(finding.evidence.get("idle_ratio"))
    one = finding.gpu_count == 1
    said = (
        f"{_of(finding)} {'was' if one else 'were'} not used{_so_far(page)}: {its.text}, idle for {idle} of"
        f" {'its' if one else 'their'} time{_gpu_hours(finding, 'idle_gpu_hours')}{_not_known(finding)}"
    )
    used = (finding.of_gpu_count or 0) - (finding.gpu_count or 0)
    if its.whole_nodes and its.node_count > len(its.nodes):
        fewer = its.node_count - len(its.nodes)
        return (
            said,
            f"start the program on every node (srun, torchrun --nnodes={its.node_count}), or ask for"
            + (f" {fewer} node{'' if fewer == 1 else 's'} (--nodes={fewer})"),
        )
    each = f" --nproc-per-node={its.most_on_a_node}" if its.most_on_a_node else ""
    known = finding.evidence.get("judged_gpu_count") == finding.of_gpu_count
    fewer_gpus = (
        f"ask for {used} GPU{'' if used == 1 else 's'} (--gpus={used})" if known else "ask for fewer GPUs"
    )
    return said, f"{fewer_gpus}, or start a process for each (torchrun{each}, srun --ntasks-per-gpu=1)"


def _idle_tail(finding: Finding, page: JobPage, its: Places, zone: tzinfo) -> Told:
    since = _since(page, finding.evidence.get("idle_tail_seconds", 0.0), zone)
    is_all = finding.gpu_count == finding.of_gpu_count
    which = _all_gpus(finding) if is_all else f"{_of(finding)} ({its.text})"
    verb = ("has" if finding.gpu_count == 1 else "have") + " been" if _running(page) else "were"
    if finding.gpu_count == 1 and not _running(page):
        verb = "was"
    said = f"{which} {verb} idle {since}{_gpu_hours(finding, 'idle_tail_gpu_hours')}{_not_known(finding)}"
    if is_all:
        return said, _end_it(page)
    return said, "give the GPUs equal amounts of work, or run its parts as jobs of their own (an array)"


def _slow(finding: Finding, page: JobPage, its: Places) -> Told:
    evidence = finding.evidence
    one = finding.gpu_count == 1 or (finding.kind == "slow_node" and len(finding.where) == 1)
    what = f"node {its.text}" if finding.kind == "slow_node" else f"GPU {its.text}"
    if "active_clock_ratio" not in evidence:
        said = (
            f"{what} did less than {'its' if one else 'their'} siblings{_so_far(page)}: OFU"
            f" {percent(evidence.get('ofu_ratio'))}, theirs {percent(evidence.get('siblings_ofu_ratio'))}"
            " (median)"
        )
        return said, (
            "see whether the work is divided evenly (batch per rank, pipeline stages, experts); if it is this"
            f" {'node' if finding.kind == 'slow_node' else 'GPU'} in other jobs too, tell the operators"
        )
    said = (
        f"{what} ran slower than {'its' if one else 'their'} siblings{_so_far(page)}: clock"
        f" {percent(evidence['active_clock_ratio'])} of reference while computing, theirs"
        f" {percent(evidence.get('siblings_active_clock_ratio'))} (median){_slowed_by(finding)}; what works"
        " in step waits for it"
    )
    return said, (
        f"leave the node out (--exclude={its.node_text}) until the operators have looked at it (cooling,"
        " power limit, clocks)"
        if len(its.nodes) == 1
        else f"ask the operators to look at {its.node_text} (cooling, power limit, clocks)"
    )


def _slowed_by(finding: Finding) -> str:
    heat = finding.evidence.get("throttled_thermal_ratio", 0.0)
    power = finding.evidence.get("throttled_power_ratio", 0.0)
    if max(heat, power) == 0:
        return ""
    by, ratio = ("heat", heat) if heat >= power else ("the power limit", power)
    return f", slowed by {by} for {percent(ratio)} of the time"


def _throttled(finding: Finding, page: JobPage, its: Places) -> Told:
    heat = finding.kind == "throttled_thermal"
    is_all = finding.gpu_count == finding.of_gpu_count
    which = _all_gpus(finding) if is_all else f"{_of(finding)} ({its.text})"
    ratio = percent(finding.evidence.get("throttled_ratio"))
    clock = finding.evidence.get("active_clock_ratio")
    at = "" if clock is None else f"; clock {percent(clock)} of reference while computing"
    said = (
        f"{'heat' if heat else 'the power limit'} slowed {which} for {ratio} of the time{_so_far(page)}{at}"
    )
    if heat:
        return said, f"ask the operators to look at the cooling of {its.node_text}"
    return said, (
        "nothing in the job: GPUs at full load often reach it; where the clock stays low, ask the operators"
        f" about the power limit of {its.node_text}"
    )


def _low_clock(finding: Finding, page: JobPage, its: Places) -> Told:
    shares = [finding.evidence.get(f"throttled_{by}_ratio") for by in ("power", "thermal")]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        why = "whether the driver slowed it down is not known"
    elif max(known) == 0:
        why = "the driver named no reason"
    else:
        why = f"the driver named a reason for {percent(max(known))} of the time only"
    clock = percent(finding.evidence.get("active_clock_ratio"))
    which = _all_or_some(finding, its)
    said = f"the clock of {which} while computing was {clock} of reference{_so_far(page)}; {why}"
    return said, (
        f"ask the operators whether a limit of clock or power is set on {its.node_text} (nvidia-smi -q -d"
        " CLOCK,POWER)"
    )


def _unexplained(finding: Finding, page: JobPage) -> Told:
    evidence = finding.evidence
    parts = [
        f"{what} {percent(evidence[figure])}"
        for what, figure in (
            ("SMs busy", "busy_sm_ratio"),
            ("tensor pipes", "busy_tensor_ratio"),
            ("memory", "busy_memory_ratio"),
        )
        if figure in evidence
    ]
    idle = evidence.get("idle_ratio", 0.0)
    beside = f"; idle for {percent(idle)} of the time" if idle > 0 else ""
    return (
        f"below the goal for no known cause: {', '.join(parts) or 'little is known'} while at"
        f" work{_so_far(page)}{beside}{_speaks_for(finding)}",
        "profile the kernels of a few steps (nsys profile, ncu, torch.profiler): small or odd matrix sizes,"
        " and time between matrix products, keep the tensor pipes waiting",
    )


def _busy(finding: Finding, page: JobPage) -> Told:
    evidence = finding.evidence
    sm, tensor = percent(evidence.get("busy_sm_ratio")), percent(evidence.get("busy_tensor_ratio"))
    memory = percent(evidence.get("busy_memory_ratio"))
    scope = f"{_so_far(page)}{_speaks_for(finding)}"
    if finding.kind == "non_tensor":
        beside = f" (memory active {memory})" if "busy_memory_ratio" in evidence else ""
        return (
            f"busy without tensor cores for {percent(evidence.get('non_tensor_ratio'))} of the time at work"
            f"{_so_far(page)}{beside}, as FP64 and plain FP32 codes are: nothing is wrong with that, OFU does"
            f" not measure it{_speaks_for(finding)}",
            "if it trains a network, mixed precision (bf16) puts it on the tensor cores; else nothing",
        )
    if finding.kind == "memory_bound":
        return (
            f"limited by memory bandwidth: memory active {memory} of the time at work, tensor pipes {tensor}"
            f"{scope}",
            "a larger batch, fused kernels (torch.compile, XLA, FlashAttention), or 16-bit data (bf16)",
        )
    return (
        f"the GPUs waited for work: SM activity {sm} while at work, tensor pipes {tensor}{scope}",
        "profile some steps to see for what (nsys profile, torch.profiler); most often it is input: more"
        " data-loader workers (num_workers), or a larger batch",
    )


def _suspect(finding: Finding, its: Places) -> Told:
    which = "its GPUs" if finding.gpu_count is None else _all_or_some(finding, its)
    return f"the counters of {which} contradict each other: what they said is left out of every figure", (
        f"tell the operators of {its.node_text}: its profiling counters are stuck (a restart of DCGM or of"
        " the driver helps); the job can do nothing"
    )


def _all_or_some(finding: Finding, its: Places) -> str:
    return _all_gpus(finding) if finding.gpu_count == finding.of_gpu_count else f"{_of(finding)} ({its.text})"


def _all_gpus(finding: Finding) -> str:
    if finding.of_gpu_count == 1:
        return "its GPU"
    if finding.gpu_count is None or finding.gpu_count == finding.of_gpu_count:
        return f"its {count(finding.of_gpu_count)} GPUs"
    return f"those {count(finding.gpu_count)} of its {count(finding.of_gpu_count)} GPUs that were seen"


def _of(finding: Finding) -> str:
    return f"{count(finding.gpu_count)} of {count(finding.of_gpu_count)} GPUs"


def _not_known(finding: Finding) -> str:
    judged = finding.evidence.get("judged_gpu_count")
    unknown = 0.0 if judged is None or finding.of_gpu_count is None else finding.of_gpu_count - judged
    return f"; of {count(unknown)} it is not known" if unknown > 0 else ""


def _gpu_hours(finding: Finding, figure: str) -> str:
    known = finding.evidence.get(figure)
    return "" if known is None else f" ({hours(known)} GPU-hours)"


def _speaks_for(finding: Finding) -> str:
    ratio = finding.evidence.get("spoken_for_ratio")
    if ratio is None or ratio >= NEARLY_ALL:
        return ""
    return f"; this speaks for {percent(ratio)} of the GPU time"


def _since(page: JobPage, seconds: float, zone: tzinfo) -> str:
    run = page.row.run
    if run is not None and run.running and run.end_epoch_s is not None:
        last = moment_of(run.end_epoch_s, zone)
        return f"since {moment_of(run.end_epoch_s - seconds, zone)}, as of its last record, {last}"
    return f"for the last {duration(seconds)}"


def _end_it(page: JobPage) -> str:
    run = page.row.run
    return f"end it if it is done, or hangs (scancel {run.job_id})" if run and run.running else _END_IT


def _running(page: JobPage) -> bool:
    return page.row.run is not None and page.row.run.running


def _so_far(page: JobPage) -> str:
    return " so far" if _running(page) else ""
