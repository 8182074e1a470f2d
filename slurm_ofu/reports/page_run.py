"""Which run a job's page is about: whose, where, when, and what Slurm's accounting says of it."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.free_text import shortened
from slurm_ofu.reports.run_words import display_job_id, elapsed, is_passing, ordinal, shown_state
from slurm_ofu.reports.wording import UNKNOWN, count, duration, moment_of, name, span
from slurm_ofu.values import Figures, GpuRow, RunRow

_LONGEST_TEXT = 300  # a comment may be of any length; the page shows so much of it
SILENT = (
    "no node ever reported on this job. What its GPUs did is not known, which does not mean that they did"
    " nothing: the hooks did not run there, or the records still wait on the nodes (ofu-node check)"
)
BACKFILLED = (
    "no node ever reported on this job: the figures were made afterwards, of samples that others had stored"
    " (ofu-admin backfill)"
)
_NOT_READ = "Slurm's accounting not read yet"


def run_facts(run: RunRow, its: Figures, gpus: Sequence[GpuRow], zone: tzinfo) -> list[Fact]:
    """Which run it was. What only accounting knows is said to be missing until it was read."""
    return [
        *([("Name", _cut(run.job_name))] if run.job_name is not None else []),
        ("User", _whose(run)),
        ("State", _state(run)),
        *_which(run),
        ("Nodes", f"{count(run.node_count)}: {_cut(run.node_list)}"),
        ("GPUs", _gpus(run, its, gpus)),
        *([("Submitted", moment_of(run.submit_epoch_s, zone))] if run.submit_epoch_s is not None else []),
        *_time(run, zone),
        *([("Comment", _cut(run.comment))] if run.comment is not None else []),
        *([] if run.heard else [("Silent", BACKFILLED if gpus else SILENT)]),
    ]


def _whose(run: RunRow) -> str:
    qos = "" if run.qos is None else f", QOS {name(run.qos)}"
    return f"{name(run.user)}, account {name(run.account)}, partition {name(run.partition)}{qos}"


def _state(run: RunRow) -> str:
    """How it ended. A state that a job only passes through is not shown as its last."""
    state = shown_state(run)
    if state is not None:
        said = _cut(state)
    elif run.state is not None and is_passing(run.state):
        said = f"not final: {_cut(run.state)} when Slurm's accounting was read"
    else:
        said = UNKNOWN if run.accounted else f"{UNKNOWN}: {_NOT_READ}"
    return said if run.exit_code is None else f"{said}, exit code {_cut(run.exit_code)}"


def _which(run: RunRow) -> list[Fact]:
    """Which life of the job it was, and which part of an array or heterogeneous job."""
    facts = []
    if run.restart_count > 0:
        facts.append(("Run", f"{ordinal(run.restart_count + 1)} run of this job (requeued)"))
    if run.array_job_id is not None and run.array_task_id is not None:
        facts.append(("Array", f"task {run.array_task_id} of array {run.array_job_id}{_raw_id(run)}"))
    elif run.het_job_id is not None and run.het_offset is not None:
        part = f"component {run.het_offset} of heterogeneous job {run.het_job_id}"
        facts.append(("Part", part + _raw_id(run)))
    return facts


def _raw_id(run: RunRow) -> str:
    return "" if display_job_id(run) == str(run.job_id) else f", raw job id {run.job_id}"


def _gpus(run: RunRow, its: Figures, gpus: Sequence[GpuRow]) -> str:
    if not (run.heard or gpus) and run.slurm_gpu_count is not None:
        return f"{run.slurm_gpu_count} by Slurm's accounting"
    return f"{count(its.gpu_count)}: {_gpu_models(gpus) if gpus else name(its.gpu_model)}"


def _time(run: RunRow, zone: tzinfo) -> list[Fact]:
    """From when to when, and how long by Slurm's count; before that was read, by the nodes' clocks."""
    start, end = run.start_epoch_s, run.end_epoch_s
    if run.running:
        since = ("Time", f"since {moment_of(start, zone)}")
        if start is None or end is None:
            return [since]
        so_far = f"figures of its first {duration(max(0.0, end - start))}"
        return [(since[0], f"{since[1]}; {so_far}"), ("", f"as of {moment_of(end, zone)}")]
    if start is None or end is None:
        text = f"{moment_of(start, zone)} to {moment_of(end, zone)}"
    else:
        text = span(datetime.fromtimestamp(start // 1, zone), datetime.fromtimestamp(end // 1, zone))
    if run.elapsed_seconds is not None:
        suspended = (
            f"; suspended {elapsed(run.suspended_seconds)}, not counted" if run.suspended_seconds else ""
        )
        return [("Time", text), ("", f"elapsed {elapsed(run.elapsed_seconds)}{suspended}")]
    if start is not None and end is not None:
        text += f", {duration(max(0.0, end - start))}"
    return [("Time", text)]


def _gpu_models(gpus: Sequence[GpuRow]) -> str:
    """Each model and MIG profile once, with its reference clock where any of its GPUs has one."""
    clocks: dict[str, float | None] = {}
    for totals in (gpu.totals for gpu in gpus):
        if totals.gpu_model is None:
            continue
        model = totals.gpu_model + ("" if totals.mig_profile is None else f", MIG {totals.mig_profile}")
        if clocks.get(model) is None:
            clocks[model] = totals.reference_clock_mhz
    return "; ".join(_gpu_model(model, clocks[model]) for model in sorted(clocks)) or UNKNOWN


def _gpu_model(gpu_model: str, reference_clock_mhz: float | None) -> str:
    clock = UNKNOWN if reference_clock_mhz is None else f"{count(reference_clock_mhz)} MHz"
    return f"{name(gpu_model)} (reference clock {clock})"


def _cut(text: str | None) -> str:
    return shortened(name(text), _LONGEST_TEXT)
