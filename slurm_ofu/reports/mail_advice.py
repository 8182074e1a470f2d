"""One thing to try about an entry of an audit, in words for whose job it is."""

from collections.abc import Mapping
from typing import Final

from slurm_ofu.reports.audit_figures import is_array, number, told_run
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.reports.wording import duration
from slurm_ofu.values import AuditEntry

_ADVICE: Final[Mapping[tuple[str, str], str]] = {
    ("idle", "running"): "if the job is not needed any more, end it: scancel {job}",
    ("idle", "ended"): "let a job end when its work is done (a shell that is left open keeps its GPUs), and"
    " give interactive sessions a short --time",
    ("unused", "run"): "ask for as many GPUs as the program uses, or start one process for each GPU; a line"
    " such as print(torch.cuda.device_count()) says how many it sees",
    ("unused", "user"): "ask for as many GPUs as the program uses, or start one process for each GPU",
    ("regressions", "drop"): "compare the jobs before and after: code, container, input files, batch size,"
    " debug settings",
    ("waste", "user"): "look at the job's page (ofu-report -j {job}): it says what holds the GPUs back",
    (
        "claims",
        "stated_above",
    ): "check how the FLOPs of a step are counted (recomputation, experts that are not"
    " active), and whether the peak is that of these GPUs, without sparsity",
    ("claims", "stated_below"): "check how the FLOPs of a step are counted, and whether the peak is that of"
    " these GPUs",
}
_NEVER_WORKED: Final = (
    "see in the job whether the program finds its GPU (nvidia-smi, torch.cuda.is_available(), jax.devices())"
)
_TOO_SHORT: Final = (
    "let a job run for {least} at least: its page (ofu-report -j, with its id) then says what holds the"
    " GPUs back"
)
_NOTHING_AT_ALL_RATIO: Final = 0.999  # idle: but for a first reading
_OF_RUNS: Final = ("idle", "unused", "claims")  # what is about a run, or tasks of one array
_OTHERWISE: Final = "look at the job's page: it says what holds the GPUs back"


def advice(entry: AuditEntry, short_seconds: float = 0.0) -> str:
    """One thing to try. ``short_seconds``: pages of jobs that were shorter do not say why."""
    if (entry.audit, entry.kind) == ("idle", "ended") and _never_worked(entry):
        return _NEVER_WORKED
    job = job_of(entry)
    if entry.audit == "waste" and entry.runs:
        run = told_run(entry, short_seconds)
        if run is None:
            return _TOO_SHORT.format(least=duration(short_seconds))
        job = display_job_id(run)
    words = _ADVICE.get((entry.audit, entry.kind), _OTHERWISE)
    return words.format(job=job or printable(entry.subject))


def _never_worked(entry: AuditEntry) -> bool:
    ratio = number(entry, "idle_ratio")
    return ratio is not None and ratio >= _NOTHING_AT_ALL_RATIO


def job_of(entry: AuditEntry) -> str | None:
    """The job that tells most about it; of an array all of it."""
    if is_array(entry) and entry.audit in _OF_RUNS:
        return printable(entry.subject)
    return display_job_id(entry.runs[0]) if entry.runs else None
