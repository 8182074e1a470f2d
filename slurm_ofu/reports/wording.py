"""How figures are put into words: the only place where ratios become per cent."""

from collections.abc import Iterable
from datetime import datetime, tzinfo

from slurm_ofu.figures.claims import NEARLY_ALL
from slurm_ofu.reports.free_text import printable
from slurm_ofu.values import Figures

UNKNOWN = "unknown"
NOT_MEASURED = "n/a"

#: What each reason means to the person whose job it is, and what to do about it.
EXPLANATIONS = {
    "ok": "measured",
    "short": "the job was over before two intervals were measured",
    "no_source": "no counter source on this GPU: NVML GPM (Hopper or later), DCGM or a dcgm-exporter",
    "unknown_model": "no reference clock for this GPU model: add it under [gpu_models] in slurm-ofu.toml,"
    " then ofu-admin recompute",
    "unmapped": "which GPU it was is unknown: see [gpu_map] in slurm-ofu.toml",
    "source_lost": "the counters stopped answering before the job ended",
    "profiling_locked": "another profiler held the GPU's counters (Nsight, DCGM)",
    "suspect": "the counters contradict each other: what they said is left out",
    "shared": "several jobs used the same GPU: the figure includes the others' work, and the GPU-hours are"
    " divided between the jobs",
    "sampler_died": "the sampler did not start, or did not live to the job's end",
    "not_started": "no prolog ran on the node, so nothing was measured there",
    "not_delivered": "the node was never heard from; its GPUs count as allocated",
    "no_token": "Slurm's accounting holds no OFU of it: not measured, not written there (yet), or a former"
    " life of a requeued job",
    "not_charged": "Slurm's accounting charges no time for it: what was measured has no weight",
    "opted_out": "the job asked not to be profiled (--comment=ofu=off)",
}
ABOVE_ONE = "OFU above 100 %: the SM clock was above the GPU model's reference clock; shown as measured"
MEASURED_PART = "± is for the measured part only: where Coverage is below 95 % the rest may differ"
IDLE_IN_PART = "Idle: some of the measured time could not be judged, so there may be more of it (≥)"
SM_UNKNOWN = "SM activity is not known, so that other work cannot be told from none"
OTHER_WORK_UNKNOWN = f"OFU next to 0: {SM_UNKNOWN} (FP64 and plain FP32 codes use no tensor cores)"
SCRAPED = "scraped: the clock was read at a fixed rate; for a program in step with it ± is too small"
RUNNING = "so far"
STILL_RUNNING = "so far: not over yet; the figures are those up to the last record of its nodes"
MIXED_MODELS = "mixed: several GPU models are pooled here: an hour of each weighs the same"

#: How an OFU was found.
ESTIMATORS = {
    "cycles": "the hardware counted the tensor cycles",
    "sampled": "tensor activity × SM clock, read at random instants",
    "scraped": "as somebody else published it",
    "mixed": "not the same for all GPUs",
}

IDLE = "idle"
NO_TENSOR_WORK = "no tensor work"

_IDLE_SM_RATIO = 0.01
_BUSY_SM_RATIO = 0.10
_NO_TENSOR_RATIO = 0.005
_MUCH_WORK_RATIO = 0.1
_FIRST_READING_HOURS = 2 / 3600  # of a GPU's run: it lies before the first minute, and much of a short run
_NO_TROUBLE = ("ok", "short")


def percent(ratio: float | None, *, digits: int = 1, absent: str = UNKNOWN) -> str:
    """A ratio in per cent; one that is not quite 0 (or 1) is never rounded to look like it."""
    if ratio is None:
        return absent
    text = f"{100 * ratio:.{digits}f}"
    if ratio > 0 and float(text) == 0:
        text = "<" + f"{10**-digits:.{digits}f}"
    elif ratio < 1 and float(text) == 100:
        text = ">" + f"{100 - 10**-digits:.{digits}f}"
    return text + " %"


def ofu(figures: Figures, *, error: bool = True) -> str:
    """OFU with its error bar, or why there is none; what qualifies it stands behind it."""
    if figures.ofu_ratio is None:
        return not_measured(figures.reason, more=len(other_reasons(figures)))
    marks = [mark for mark in _marks(figures) if mark is not None]
    known = error and figures.ofu_error_pp is not None
    bar = f" ±{error_points(figures.ofu_error_pp)}" if known and figures.ofu_error_pp is not None else ""
    return f"{percent(figures.ofu_ratio):>7}{bar}" + (f" ({', '.join(marks)})" if marks else "")


def error_points(percentage_points: float) -> str:
    """A half-width in percentage points, as precise as the figure it belongs to."""
    if percentage_points == 0:
        return "0.0"
    return "<0.1" if percentage_points < 0.05 else f"{percentage_points:.1f}"


def not_measured(reason: str | None, *, more: int = 0) -> str:
    """What stands in the place of a figure that is not there: the reason, and how many others there are."""
    return NOT_MEASURED if reason is None else f"{NOT_MEASURED} ({_reason(reason, more)})"


def other_reasons(figures: Figures) -> tuple[str, ...]:
    """What else is amiss besides the reason shown."""
    return tuple(reason for reason in figures.reasons if reason not in (figures.reason, *_NO_TROUBLE))


def in_part(figures: Figures) -> bool:
    """Whether what was measured does not stand for the whole."""
    return figures.coverage_ratio is None or figures.coverage_ratio < NEARLY_ALL


def no_tensor_work_at_all(figures: Figures) -> bool:
    """Whether the tensor cores were hardly used, or not at all."""
    return figures.tpa_mean_ratio is not None and figures.tpa_mean_ratio < _NO_TENSOR_RATIO


def workload(figures: Figures) -> str | None:
    """Tells the two kinds of OFU 0 apart, where that is known: idle, and busy without tensor cores."""
    if not no_tensor_work_at_all(figures):
        return None
    if figures.idle_gpu_hours is not None and not idle_in_part(figures):
        return _workload_by_minutes(figures, figures.idle_gpu_hours)
    sm_active = figures.sm_active_ratio
    if sm_active is None:
        return None
    if sm_active < _IDLE_SM_RATIO:
        # Where some minutes were judged, SM activity is known in them alone, for all that one can tell.
        return IDLE if figures.idle_gpu_hours is None else None
    return NO_TENSOR_WORK if sm_active >= _BUSY_SM_RATIO else None


def _workload_by_minutes(figures: Figures, idle: float) -> str | None:
    """Idle is who never did anything to speak of; who did, whatever it was, is not."""
    if idle >= NEARLY_ALL * figures.idle_judged_gpu_hours:
        return IDLE
    work = figures.non_tensor_gpu_hours
    enough = work is not None and work >= _MUCH_WORK_RATIO * figures.non_tensor_judged_gpu_hours
    return NO_TENSOR_WORK if enough else None


def other_work_unknown(figures: Figures) -> bool:
    """Whether an OFU next to 0 may as well be that of a busy GPU."""
    hardly = figures.ofu_ratio is not None and no_tensor_work_at_all(figures)
    return hardly and figures.sm_active_ratio is None and workload(figures) is None


def idle_in_part(figures: Figures) -> bool:
    """Whether much of the measured time could not be judged."""
    judged = figures.idle_judged_gpu_hours + figures.gpu_count * _FIRST_READING_HOURS
    return figures.idle_gpu_hours is not None and judged < NEARLY_ALL * figures.gpu_hours_measured


def mixed(figures: Figures) -> bool:
    """Whether an OFU pools several GPU models."""
    return figures.ofu_ratio is not None and figures.gpu_model == "mixed"


def bands(figures: Figures) -> str:
    """Runs in each band of OFU, as in 3/1/0/4/2; what is in no band stands elsewhere."""
    return "/".join(map(str, figures.band_run_counts))


def hour_digits(values: Iterable[float | None], *, most_digits: int = 5) -> int:
    """How many decimals GPU-hours get that stand together: by the most of them; in columns up to three."""
    most = max((value for value in values if value is not None), default=0.0)
    return 1 if most == 0 or most >= 0.95 else 3 if most >= 0.0095 else most_digits


def hours(value: float | None, *, absent: str = UNKNOWN, digits: int | None = None) -> str:
    """GPU-hours with one decimal; more where they are few. ``digits``: so many, since others stand beside."""
    if value is None:
        return absent
    if digits is not None:
        least = f"{10**-digits:.{digits}f}"
        if value == 0:
            return "0.0" if digits == 1 else "0"
        return f"<{least}" if value < float(least) / 2 else f"{value:.{digits}f}"
    if value == 0:
        return "0.0"
    if value < 0.0005:
        return "<0.001"
    return f"{value:.3f}" if value < 0.95 else f"{value:.1f}"


def name(text: str | None) -> str:
    """A name that somebody else gave, safe to show."""
    return UNKNOWN if text is None else printable(text)


def count(value: float | None) -> str:
    """A number of things, which may have been estimated as a fraction."""
    return UNKNOWN if value is None else f"{value:.1f}".removesuffix(".0")


def moment(at: datetime) -> str:
    """A time to the second with its zone, as in ``2026-11-05 14:03:00 CET (UTC+01:00)``."""
    return f"{at:%Y-%m-%d %H:%M:%S} {zone_name(at)}"


def moment_of(epoch_s: float | None, zone: tzinfo) -> str:
    """The same of seconds since 1970."""
    return UNKNOWN if epoch_s is None else moment(datetime.fromtimestamp(epoch_s // 1, zone))


def span(start: datetime, end: datetime) -> str:
    """From when to when, the zone said once if it is the same."""
    if start.utcoffset() == end.utcoffset() and start.tzname() == end.tzname():
        return f"{start:%Y-%m-%d %H:%M:%S} to {moment(end)}"
    return f"{moment(start)} to {moment(end)}"


def zone_name(at: datetime) -> str:
    """The zone at that moment: its name and its offset."""
    offset = at.strftime("%z")
    utc = f"UTC{offset[:3]}:{offset[3:5]}"
    zone = at.tzname()
    if zone == "UTC" and not at.utcoffset():
        return "UTC"
    return utc if zone is None or zone.startswith("UTC") else f"{zone} ({utc})"


def duration(seconds: float) -> str:
    """A length of time in the largest unit of which it holds at least one."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _marks(figures: Figures) -> tuple[str | None, ...]:
    told = figures.reason not in (None, "ok")
    reason = _reason(name(figures.reason), len(other_reasons(figures))) if told else None
    running = RUNNING if 0 < figures.running_run_count == figures.run_count else None
    return reason, workload(figures), "mixed" if mixed(figures) else None, running


def _reason(reason: str, more: int) -> str:
    return printable(reason) + (f" +{more}" if more else "")
