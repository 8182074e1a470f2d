"""The entries of audits in words: a line that says what it is, and its evidence."""

from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from typing import Final

from slurm_ofu.reports.audit_figures import (
    Figures,
    counted,
    figure_words,
    is_array,
    jobs_of,
    known,
    label,
    number,
    ofu_words,
    run_line,
    runs_of,
)
from slurm_ofu.reports.audit_patterns import (
    claim_words,
    claims_overall,
    drop_words,
    hardware_overall,
    lag_words,
    regressions_overall,
    suspect_words,
)
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.run_words import ordinal
from slurm_ofu.reports.wording import (
    EXPLANATIONS,
    UNKNOWN,
    count,
    duration,
    hours,
    moment_of,
    name,
    percent,
)
from slurm_ofu.values import AuditEntry, AuditResult

_Words = Callable[[AuditEntry, tzinfo], Iterator[str]]


def entry_words(entry: AuditEntry, zone: tzinfo) -> tuple[str, ...]:
    """What an entry says: first what it is, then its evidence."""
    words = _WORDS.get((entry.audit, entry.kind), _any)
    return tuple(words(entry, zone))


def own_words(entry: AuditEntry, zone: tzinfo) -> tuple[str, ...]:
    """The same for whose it is: nobody is told who they are."""
    what, *evidence = entry_words(entry, zone)
    subject = printable(entry.subject)
    theirs_and_own = [
        (run_line(entry), run_line(entry, own=True)),
        (f"{subject}, {name(entry.user)}, ", f"{subject}, "),
        *([(f"{subject}: ", "")] if entry.kind == "user" else []),
    ]
    for theirs, own in theirs_and_own:
        if what.startswith(theirs):
            what = own + what[len(theirs) :]
            break
    return (what, *evidence)


def summary_words(result: AuditResult, zone: tzinfo) -> str:
    """What was found over all, without what is not known."""
    told = {figure: value for figure, value in result.summary.items() if value is not None}
    told.pop(_BELOW, None)
    words = _OVERALL.get(result.audit)
    if words is not None and told:
        return words(result.summary)
    return ", ".join(f"{label(figure)} {figure_words(figure, value, zone)}" for figure, value in told.items())


_BELOW: Final = "below_minimum_count"
_MOST_PLACES: Final = 8


def _waste(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    goal = number(entry, "goal_ratio")
    against = "" if goal is None else f", goal {percent(goal, digits=0)}"
    lost = hours(number(entry, "lost_gpu_hours"))
    ofu = ofu_words(entry.figures, gpu_model=entry.gpu_model)
    yield f"{printable(entry.subject)}: {lost} GPU-hours lost, {ofu}{against}"
    place = number(entry, "gpu_hours_rank")
    of = number(entry, f"of_{entry.kind}_count")
    most = ""
    if place is not None and of is not None and place <= min(_RANKED, of / 2):
        most = f"{_most(int(place))} GPU-hours of {counted(of, entry.kind)}; "
    judged = f"{hours(number(entry, 'gpu_hours'))} GPU-hours in {runs_of(entry)} judged"
    yield f"{most}{judged}{_others(entry)}{_idle_part(entry)}"
    if entry.runs:
        yield f"worst jobs: {jobs_of(entry)}"


_RANKED: Final = 10  # nor anybody in the second half: a rank is said of those with the most


def _most(place: int) -> str:
    return "most" if place == 1 else f"{ordinal(place)} most"


def _others(entry: AuditEntry) -> str:
    """What else there is of whoever it is about."""
    others = number(entry, "not_judged_gpu_hours")
    return f", {hours(others)} not" if others is not None and others > 0 else ""


def _idle_part(entry: AuditEntry) -> str:
    idle = number(entry, "idle_lost_ratio")
    return "" if idle is None else f"; {percent(idle, digits=0)} of the loss is idle time"


def _idle_running(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    gpu_count, tail = count(number(entry, "gpu_count")), number(entry, "idle_tail_seconds")
    since = UNKNOWN if tail is None else duration(tail)
    least = "at least " if is_array(entry) else ""
    at_stake = hours(entry.weight_gpu_hours)
    yield f"{run_line(entry)}: {_gpus(gpu_count)} idle for {least}{since}, {at_stake} GPU-hours"
    yield f"still running when last heard of, {moment_of(number(entry, 'as_of_epoch_s'), zone)}"


def _idle_ended(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    idle, judged = (number(entry, figure) for figure in ("idle_gpu_hours", "idle_judged_gpu_hours"))
    share = percent(number(entry, "idle_ratio"), digits=0)
    yield f"{run_line(entry)}: {hours(idle)} of {hours(judged)} GPU-hours idle ({share})"
    yield f"{_held(entry)}, {ofu_words(entry.figures, gpu_model=entry.gpu_model)}"


def _unused_run(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    idle, held = count(number(entry, "unused_gpu_count")), count(number(entry, "gpu_count"))
    unknown = number(entry, "unknown_gpu_count") or 0.0
    rest = f" ({count(unknown)} not known)" if unknown > 0 else ""
    at_stake = hours(entry.weight_gpu_hours)
    so_far = any(run.running for run in entry.runs)
    did = "has so far not used" if so_far else "did not use"
    yield f"{run_line(entry)}: {did} {idle} of {held} GPUs{rest}, {at_stake} GPU-hours"
    yield f"{_held(entry)}{_places(entry)}"


def _places(entry: AuditEntry) -> str:
    """Which GPUs were not used: some of many, JSON has all."""
    its = str(entry.figures.get("unused_gpus") or "").split(",")
    more = f" and {len(its) - _MOST_PLACES} more" if len(its) > _MOST_PLACES else ""
    return f"; not used: {name(', '.join(its[:_MOST_PLACES]))}{more}" if its[0] else ""


def _unused_user(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    yield (
        f"{printable(entry.subject)}: {hours(entry.weight_gpu_hours)} GPU-hours of GPUs never used, of"
        f" {hours(number(entry, 'gpu_hours'))} in {runs_of(entry)}"
    )
    if entry.runs:
        yield f"worst jobs: {jobs_of(entry)}"


def _not_covered(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    reason = str(entry.figures.get("reason"))
    share = percent(number(entry, "measured_ratio"), digits=0)
    hours_held = hours(number(entry, "gpu_hours"))
    node = str(entry.figures.get("node", entry.subject))
    whose = name(entry.partition if entry.kind == "partition" else node)
    without = hours(entry.weight_gpu_hours)
    yield f"{entry.kind} {whose}: {without} of {hours_held} GPU-hours without OFU, {name(reason)}"
    jobs = f", such as {jobs_of(entry)}" if entry.runs else ""
    yield f"{share} of the {entry.kind}'s GPU time has an OFU; {runs_of(entry)}{jobs}"
    if reason == _GAPS:
        yield "before the sampler's first reading, after its last, or where readings were lost"
    elif reason in EXPLANATIONS:
        yield EXPLANATIONS[reason]


_GAPS: Final = "gaps"


def _any(entry: AuditEntry, zone: tzinfo) -> Iterator[str]:
    """An entry of which nothing but its figures is known."""
    whose = ", ".join(printable(text) for text in (entry.user, entry.partition) if text is not None)
    yield f"{printable(entry.subject)}{f' ({whose})' if whose else ''}: {printable(entry.kind)}"
    yield ", ".join(
        f"{label(figure)} {figure_words(figure, value, zone)}" for figure, value in entry.figures.items()
    )
    if entry.runs:
        yield f"jobs: {jobs_of(entry)}"


def _waste_overall(its: Figures) -> str:
    lost, users = hours(known(its, "lost_gpu_hours")), counted(known(its, "user_count"), "user")
    return f"{ofu_words(its)}; {lost} of {hours(known(its, 'gpu_hours_measured'))} GPU-hours lost by {users}"


def _idle_overall(its: Figures) -> str:
    idle, judged = hours(known(its, "idle_gpu_hours")), hours(known(its, "idle_judged_gpu_hours"))
    return f"{idle} of {judged} GPU-hours idle ({percent(known(its, 'idle_ratio'))})"


def _unused_overall(its: Figures) -> str:
    runs = counted(known(its, "run_count"), "run")
    return f"{hours(known(its, 'unused_gpu_hours'))} GPU-hours of unused GPUs in {runs}"


def _coverage_overall(its: Figures) -> str:
    measured, held = hours(known(its, "gpu_hours_measured")), hours(known(its, "gpu_hours"))
    unknown = known(its, "gpu_count_unknown_time") or 0.0
    more = f"; {counted(unknown, 'GPU')} held for an unknown time" if unknown > 0 else ""
    return f"{measured} of {held} GPU-hours have an OFU ({percent(known(its, 'measured_ratio'))}){more}"


def _gpus(gpu_count: str) -> str:
    return "its GPU" if gpu_count == "1" else f"all {gpu_count} GPUs"


def _held(entry: AuditEntry) -> str:
    """``8 GPUs held for 2.0 h``; of an array which jobs."""
    gpus = counted(number(entry, "gpu_count"), "GPU")
    if is_array(entry):
        return f"{gpus} in all, most at stake in {jobs_of(entry)}"
    seconds = number(entry, "runtime_seconds")
    return f"{gpus} held for {UNKNOWN if seconds is None else duration(seconds)}"


_OVERALL: Final[Mapping[str, Callable[[Figures], str]]] = {
    "waste": _waste_overall,
    "idle": _idle_overall,
    "unused": _unused_overall,
    "regressions": regressions_overall,
    "claims": claims_overall,
    "hardware": hardware_overall,
    "coverage": _coverage_overall,
}
_WORDS: Final[Mapping[tuple[str, str], _Words]] = {
    ("waste", "user"): _waste,
    ("waste", "account"): _waste,
    ("idle", "running"): _idle_running,
    ("idle", "ended"): _idle_ended,
    ("unused", "run"): _unused_run,
    ("unused", "user"): _unused_user,
    ("regressions", "drop"): drop_words,
    ("regressions", "recovery"): drop_words,
    ("claims", "stated_above"): claim_words,
    ("claims", "stated_below"): claim_words,
    **{
        ("hardware", f"{what}_{by}"): lag_words
        for what in ("gpu", "node")
        for by in ("clock", "thermal", "ofu")
    },
    ("hardware", "gpu_suspect"): suspect_words,
    ("coverage", "partition"): _not_covered,
    ("coverage", "node"): _not_covered,
}
