"""What the GPUs did by the minute, in words: idle, busy without tensor cores, busiest, slowed down."""

from collections.abc import Iterator

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.wording import (
    NOT_MEASURED,
    SM_UNKNOWN,
    count,
    duration,
    hour_digits,
    hours,
    no_tensor_work_at_all,
    percent,
)
from slurm_ofu.values import Figures, GpuRow, JobPage

#: A shorter idle stretch at a run's end is its tidying up.
TAIL_SECONDS = 300.0
_WORTH_SAYING_RATIO = 0.005
_NOT_JUDGED = "it could not be judged"


def minute_facts(page: JobPage, its: Figures) -> list[Fact]:
    """A line for each that has something to say; n/a where silence could be taken for a zero."""
    measured = its.tpa_mean_ratio is not None and bool(page.gpus)
    return [
        *([("Idle", _idle(its))] if measured or its.idle_gpu_hours is not None else []),
        *([("", tail)] if (tail := _tail(page)) is not None else []),
        *([("No tensor", text)] if (text := _non_tensor(its)) is not None else []),
        *([("Peak", text)] if (text := _peak(its)) is not None else []),
        *([("Throttled", _throttled(its))] if its.throttled_power_gpu_hours is not None else []),
    ]


def held_facts(its: Figures) -> list[Fact]:
    """What a job held while it was suspended."""
    held = its.held_suspended_gpu_hours
    return [("Suspended", f"{hours(held)} GPU-hours held meanwhile, not counted above")] if held else []


def least_tail_seconds(page: JobPage) -> float | None:
    """For how long all GPUs of a run had been idle at its end. 0: one was not; ``None``: not known."""
    known = [tail for tail in _tails(page) if tail is not None]
    if known and min(known) == 0:
        return 0.0
    return min(known) if known and len(known) == page.row.sums.gpu_count else None


def _idle(its: Figures) -> str:
    if its.idle_gpu_hours is None:
        return f"{NOT_MEASURED}: {_NOT_JUDGED}"
    return _of(its.idle_gpu_hours, its.idle_judged_gpu_hours)


def _of(part: float, known: float) -> str:
    share = part / known if known > 0 else None
    digits = hour_digits([part, known])
    return f"{hours(part, digits=digits)} of {hours(known, digits=digits)} GPU-hours ({percent(share)})"


def _tail(page: JobPage) -> str | None:
    """Which of the GPUs were idle up to the end, and for how long at least."""
    tails = list(_tails(page))
    long = [tail for tail in tails if tail is not None and tail >= TAIL_SECONDS]
    if not long:
        return None
    gpu_count, unknown = page.row.sums.gpu_count, page.row.sums.gpu_count - len(tails) + tails.count(None)
    which = "all GPUs" if len(long) == gpu_count else f"{len(long)} of {count(gpu_count)} GPUs"
    if gpu_count == 1:
        which = "the GPU"
    rest = f" ({count(unknown)} not known)" if unknown > 0 else ""
    return f"{which}{rest} for the last {duration(min(long))}" + (" or longer" if len(long) > 1 else "")


def _tails(page: JobPage) -> Iterator[float | None]:
    """Each GPU's, as time on the clock: rows hold a run's part of a GPU that it did not have to itself."""
    held = {node.node_name: node.allocated_seconds for node in page.nodes}
    for gpu in page.gpus:
        yield _on_the_clock(gpu, held.get(gpu.node_name))


def _on_the_clock(gpu: GpuRow, held_seconds: float | None) -> float | None:
    tail, own = gpu.totals.idle_tail_seconds, gpu.totals.allocated_seconds
    if tail is None or gpu.totals.reason == "suspect":
        return None
    return tail * held_seconds / own if own and held_seconds and own < held_seconds else tail


def _non_tensor(its: Figures) -> str | None:
    if its.non_tensor_gpu_hours is None:
        why = SM_UNKNOWN if its.sm_active_ratio is None else _NOT_JUDGED
        return f"{NOT_MEASURED}: {why}" if no_tensor_work_at_all(its) else None
    if its.non_tensor_gpu_hours < _WORTH_SAYING_RATIO * its.non_tensor_judged_gpu_hours:
        return None
    what = "busy without tensor cores, as plain FP32 and FP64 codes are: OFU does not measure that"
    return f"{_of(its.non_tensor_gpu_hours, its.non_tensor_judged_gpu_hours)}: {what}"


def _peak(its: Figures) -> str | None:
    """Of a run that was no longer, or steady, it is the OFU itself."""
    if its.peak_ofu_ratio is None or percent(its.peak_ofu_ratio) == percent(its.ofu_ratio):
        return None
    return f"{percent(its.peak_ofu_ratio)} OFU over each GPU's busiest 5 minutes"


def _throttled(its: Figures) -> str:
    power, heat = its.throttled_power_gpu_hours or 0.0, its.throttled_thermal_gpu_hours or 0.0
    digits = hour_digits([its.throttle_known_gpu_hours])
    known = f"of {hours(its.throttle_known_gpu_hours, digits=digits)} GPU-hours"
    if power == heat == 0:
        return f"never, {known}"
    by_heat = f"{hours(heat, digits=digits)} by heat"
    return f"{hours(power, digits=digits)} GPU-hours by the power limit, {by_heat}, {known}"
