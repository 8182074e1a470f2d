"""The figures of an audit's entry in words, by the units in their names."""

import math
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Final

from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.reports.wording import count, duration, error_points, hours, moment_of, name, percent
from slurm_ofu.values import AuditEntry, AuditValue, RunRow

MOST_JOBS: Final = 5
Figures = Mapping[str, AuditValue]


def figure_words(figure: str, value: AuditValue, zone: tzinfo) -> str:
    """A figure's value by the unit in its name."""
    if value is None or isinstance(value, str):
        return name(value)
    if "gpu_hours" in figure:
        return f"{hours(value)} GPU-hours"
    for ending, words in _BY_ENDING:
        if figure.endswith(ending):
            return words(value, zone)
    return count(value) if isinstance(value, int) else f"{value:.3g}"


_BY_ENDING: Final[tuple[tuple[str, Callable[[float, tzinfo], str]], ...]] = (
    ("_over_measured", lambda value, _: f"{value:.2f}×"),
    ("_factor", lambda value, _: f"{value:.2f}×"),
    ("_ratio", lambda value, _: percent(value)),
    ("_error_pp", lambda value, _: f"±{error_points(value)}"),
    ("_pp", lambda value, _: f"{value:.1f} points"),
    ("_epoch_s", moment_of),
    ("_seconds", lambda value, _: duration(value)),
    ("_count", lambda value, _: count(value)),
)
_UNIT_ENDINGS: Final = ("_ratio", "_error_pp", "_pp", "_epoch_s", "_seconds", "_factor", "_gpu_hours")
_LABELS: Final = {
    "gpu_hours": "held",
    "gpu_hours_measured": "measured",
    "gpu_hours_unmeasured": "not measured",
}


def label(figure: str) -> str:
    """A figure's name for people: without its unit."""
    if figure in _LABELS:
        return _LABELS[figure]
    for ending in _UNIT_ENDINGS:
        if figure.endswith(ending):
            figure = figure[: -len(ending)]
            break
    else:
        figure = _plural(figure[: -len("_count")]) if figure.endswith("_count") else figure
    return figure.replace("_", " ").replace("gpu", "GPU").replace("ofu", "OFU").replace("mfu", "MFU")


def _plural(thing: str) -> str:
    return f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"


def jobs_of(entry: AuditEntry) -> str:
    """The jobs that an entry rests on, the most telling first; each once."""
    ids = list(dict.fromkeys(display_job_id(run) for run in entry.runs))
    return ", ".join(ids[:MOST_JOBS])


def number(entry: AuditEntry, figure: str) -> float | None:
    """A figure of an entry, where it is known and a number."""
    return known(entry.figures, figure)


def known(figures: Figures, figure: str) -> float | None:
    """The same of any figures."""
    value = figures.get(figure)
    return None if value is None or isinstance(value, str) else float(value)


def ofu_words(figures: Figures, *, gpu_model: str | None = None, prefix: str = "") -> str:
    """With its error bar and coverage, which stand beside it wherever it stands; ``mixed`` where several GPU
    models are pooled. ``prefix``: of the figures' names, as in ``before_``."""
    return f"OFU {measured_words(figures, 'ofu_ratio', gpu_model=gpu_model, prefix=prefix)}"


def measured_words(figures: Figures, ratio: str, *, gpu_model: str | None = None, prefix: str = "") -> str:
    """The same without the word, of an OFU by another name."""
    value = known(figures, prefix + ratio)
    error, coverage = (known(figures, f"{prefix}{name}") for name in ("ofu_error_pp", "coverage_ratio"))
    beside = [
        *(["mixed"] if gpu_model == "mixed" and value is not None else []),
        *([] if coverage is None else [f"coverage {percent(coverage, digits=0)}"]),
    ]
    return (
        percent(value)
        + ("" if error is None else f" ±{error_points(error)}")
        + (f" ({', '.join(beside)})" if beside else "")
    )


def run_line(entry: AuditEntry, *, own: bool = False) -> str:
    """``job 4711, wilma (physics), partition gpu``; ``9 tasks of array 47, …``. ``own``: for whose it is."""
    run = entry.runs[0] if entry.runs else None
    account = "" if entry.account is None else f" ({printable(entry.account)})"
    whose = "" if own else f"{name(entry.user)}{account}, "
    return f"{_job(entry, run)}, {whose}partition {name(entry.partition)}" + _job_name(run)


def told_run(entry: AuditEntry, short_seconds: float) -> RunRow | None:
    """The first of its runs that was long enough for its page to say why it is as it is."""
    return next((run for run in entry.runs if (_seconds(run) or math.inf) >= short_seconds), None)


def _seconds(run: RunRow) -> float | None:
    if run.elapsed_seconds is not None and not run.running:
        return run.elapsed_seconds
    if run.start_epoch_s is None or run.end_epoch_s is None:
        return None
    return run.end_epoch_s - run.start_epoch_s


def is_array(entry: AuditEntry) -> bool:
    """Whether it is about several tasks of one array, which is its subject."""
    return (number(entry, "run_count") or 1) > 1 and all(run.array_job_id is not None for run in entry.runs)


def _job(entry: AuditEntry, run: RunRow | None) -> str:
    if is_array(entry):
        return f"{counted(number(entry, 'run_count'), 'task')} of array {printable(entry.subject)}"
    if run is None:
        return f"job {printable(entry.subject)}"
    restart = f" (restart {run.restart_count})" if run.restart_count > 0 else ""
    return f"job {display_job_id(run)}{restart}"


def _job_name(run: RunRow | None) -> str:
    return "" if run is None or run.job_name is None else f", {printable(run.job_name)}"


def runs_of(entry: AuditEntry) -> str:
    """How many runs it is about."""
    return counted(number(entry, "run_count"), "run")


def counted(how_many: float | None, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count(how_many)} {what}{'' if how_many == 1 else 's'}"
