"""What stands under the figures, and how they are coloured: what a reader should not overlook."""

from collections.abc import Sequence

from slurm_ofu.figures.reasons import SEVERITY
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.wording import (
    ABOVE_ONE,
    EXPLANATIONS,
    IDLE_IN_PART,
    MEASURED_PART,
    MIXED_MODELS,
    NO_TENSOR_WORK,
    OTHER_WORK_UNKNOWN,
    SCRAPED,
    STILL_RUNNING,
    count,
    idle_in_part,
    in_part,
    mixed,
    other_reasons,
    other_work_unknown,
    workload,
)
from slurm_ofu.values import Figures

_LOW, _GOOD = 0.15, 0.35  # good training of large language models sits at 0.35 to 0.50


def style(its: Figures) -> str:
    """The colour of an OFU. It marks what to look at; how good it is, the number alone says."""
    ratio = its.ofu_ratio
    if ratio is None or other_work_unknown(its):
        return "dim"
    if ratio > 1 or its.reason == "suspect":
        return "magenta"
    if workload(its) == NO_TENSOR_WORK:
        return "cyan"
    if ratio == 0:
        return "bold red"
    return "red" if ratio < _LOW else "yellow" if ratio < _GOOD else "green"


def explanations(shown: Sequence[Figures], *, total: Figures, but: str | None = None) -> list[str]:
    """One text per thing that needs explaining, each only once; none where all is well.

    ``total`` is what all of ``shown`` is part of, and ``but`` a reason that is explained elsewhere.
    """
    found = {reason for its in shown for reason in (its.reason, *other_reasons(its))} - {None, "ok", but}
    texts = [f"{reason}: {EXPLANATIONS[reason]}" for reason in SEVERITY if reason in found]
    if any(its.ofu_ratio is not None and its.ofu_ratio > 1 for its in shown):
        texts.append(ABOVE_ONE)
    if any(map(other_work_unknown, shown)):
        texts.append(OTHER_WORK_UNKNOWN)
    if any(its.ofu_ratio is not None and its.estimator == "scraped" for its in shown):
        texts.append(SCRAPED)
    if any(0 < its.running_run_count == its.run_count for its in shown):
        texts.append(STILL_RUNNING)
    elif total.running_run_count > 0:
        texts.append(_still_running(total.running_run_count))
    if any(mixed(its) for its in shown):
        texts.append(MIXED_MODELS)
    if any(its.ofu_error_pp is not None and in_part(its) for its in shown):
        texts.append(MEASURED_PART)
    if any(idle_in_part(its) for its in (*shown, total)):
        texts.append(IDLE_IN_PART)
    if total.gpu_count_unknown_time > 0:
        texts.append(_unknown_time(total.gpu_count_unknown_time))
    if total.prorated_run_count > 0:
        texts.append(_prorated(total.prorated_run_count))
    return texts


def _unknown_time(gpu_count: float) -> str:
    gpus = "1 GPU of unknown time is" if gpu_count == 1 else f"{count(gpu_count)} GPUs of unknown time are"
    return f"{gpus} not in GPU-h and Coverage"


def _still_running(run_count: int) -> str:
    runs, their = ("1 run is", "its") if run_count == 1 else (f"{run_count} runs are", "their")
    return f"{runs} not over: {their} figures are those so far"


def _prorated(run_count: int) -> str:
    runs = "1 run is" if run_count == 1 else f"{run_count} runs are"
    return f"{runs} cut by the window where only the time is known: the figures are taken for even over it"


def as_notes(texts: Sequence[str], *, width: int) -> str:
    """Texts as indented paragraphs under a blank line and a title."""
    if not texts:
        return ""
    lines = ["", "Notes"]
    for text in texts:
        first, *others = wrapped(text, width - 4)
        lines += [f"  {first}", *(f"    {other}" for other in others)]
    return "".join(line + "\n" for line in lines)
