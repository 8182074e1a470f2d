"""What `ofu-admin audit` says to people: who was judged, what came out, and by which thresholds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Final

from slurm_ofu.reports.audit_entries import entry_words, summary_words
from slurm_ofu.reports.audit_figures import counted, told_run
from slurm_ofu.reports.free_text import printable, wrapped
from slurm_ofu.reports.grid import painter
from slurm_ofu.reports.question import Question, filters, window
from slurm_ofu.reports.wording import duration, error_points, hours, percent
from slurm_ofu.values import AuditConfig, AuditEntry, AuditName, AuditResult, Goals

TITLES: Final[Mapping[AuditName, str]] = {
    "waste": "users and accounts with a low OFU, by the GPU-hours that they lost",
    "idle": "runs that held GPUs and did nothing with them",
    "unused": "GPUs that stayed idle while others of the same run worked",
    "regressions": "like-named runs that became slower, or fast again",
    "claims": "what jobs say of their efficiency, against what was measured",
    "hardware": "GPUs that lag their siblings in the same runs",
    "coverage": "GPU time that nobody measured, and why",
}
#: What the entries of one kind are called, and what to do about them.
_SECTIONS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("waste", "user"): ("Users", "ofu-report -j ID says of each of these jobs why, and what to try"),
    ("waste", "account"): ("Accounts", ""),
    ("idle", "running"): ("Running now", "ask whether they are still needed, else scancel them"),
    ("idle", "ended"): ("Ended", "ofu-report -j ID says when: from the start, in part, or at the end"),
    ("unused", "user"): ("Users", "ask for as many GPUs as are used, or start a process for each"),
    ("unused", "run"): ("Runs", ""),
    ("regressions", "drop"): ("Slower", "compare the two sides' jobs: software, input, nodes"),
    ("regressions", "recovery"): ("Fast again", ""),
    ("claims", "stated_above"): ("More stated than measured", ""),
    ("claims", "stated_below"): ("Less stated than measured", ""),
    ("hardware", "gpu_clock"): ("GPUs with a lower clock", ""),
    ("hardware", "gpu_thermal"): ("GPUs that heat slows down", "look at their cooling"),
    ("hardware", "gpu_ofu"): ("GPUs that do less", ""),
    ("hardware", "node_clock"): ("Nodes with a lower clock", ""),
    ("hardware", "node_thermal"): ("Nodes that heat slows down", "look at their cooling"),
    ("hardware", "node_ofu"): ("Nodes that do less", ""),
    ("hardware", "gpu_suspect"): ("GPUs whose counters contradict each other", "reset them, or DCGM"),
    ("coverage", "partition"): ("Partitions", ""),
    ("coverage", "node"): ("Nodes", "ofu-node check on the node says what is amiss"),
}
#: What is to be done is to look at pages, which say nothing of short runs.
_ON_PAGES: Final = (("waste", "user"), ("idle", "ended"))
#: Why runs were not judged.
_LEFT_OUT: Final[Mapping[str, str]] = {
    "excluded": "excluded",
    "opted_out": "opted out",
    "suspect": "with counters that contradict each other",
    "shared": "that shared GPUs",
    "short": "too short",
    "unmeasured": "not measured",
    "low_coverage": "measured too little",
    "non_tensor": "busy without tensor cores",
    "unknown_work": "of which it is not known whether they were busy without tensor cores",
    "suspended": "that go on and were suspended",
    "stale": "not heard of lately",
    "one_gpu": "with a single GPU",
    "idle": "idle",
    "running": "that go on",
    "unaccounted": "whose names are not known (yet)",
    "generic_name": "with a name that says nothing",
    "few_runs": "with too few like-named ones",
    "short_of_family": "much shorter than others of the name",
    "imprecise": "with too wide an error bar",
    "mixed_gpu_models": "on several GPU models",
    "several_gpu_models": "on several GPU models",
    "no_claim": "that state nothing",
    "no_ofu": "without OFU",
    "doubtful": "with a doubtful figure",
    "no_peak": "on GPUs whose peak is not known",
}
#: Where a run must be measured for so much of its time.
_BY_COVERAGE: Final = ("waste", "idle", "unused", "regressions")
_OF_ONE_USER: Final = 5
_INDENT: Final = "     "


def as_audit(
    result: AuditResult,
    question: Question,
    settings: AuditConfig,
    goals: Goals,
    *,
    width: int,
    colour: bool,
    most: int | None,
    only_check: bool = False,
    short_seconds: float = 0.0,
) -> str:
    """One audit. ``most``: how many entries of a kind are shown, None: all. ``only_check``: none is, only
    what would be looked at. ``short_seconds``: the page of a run that was shorter says no more than that."""
    paint = painter(colour=colour)
    asked = "; ".join(text for text in (filters(question), window(question)) if text)
    head = [
        *(paint(line, "bold") for line in wrapped(f"Audit {result.audit}: {TITLES[result.audit]}", width)),
        *wrapped(asked, width),
        *wrapped(judged_words(result, settings), width),
    ]
    overall = "" if only_check or not result.examined_count else summary_words(result, question.zone)
    parts = [[*head, *(wrapped(f"Over all: {overall}", width) if overall else [])]]
    if not only_check:
        others = _others(result, settings)
        for title, lines in _sections(result, question.zone, width, most, short_seconds):
            of_users = others if title == "Users" else ""
            parts.append([paint(title, "bold"), *lines, *(wrapped(of_users, width) if of_users else [])])
        if others and not any(entry.kind == "user" for entry in result.entries):
            parts.append(wrapped(others, width))
        if not result.entries:
            parts.append(["Nothing to report."])
    parts.append(_foot(result, settings, goals, width))
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in parts)


def judged_words(result: AuditResult, settings: AuditConfig) -> str:
    """What was judged, and why what was not."""
    left = ", ".join(
        f"{number} {_LEFT_OUT.get(why, printable(why.replace('_', ' ')))}"
        for why, number in sorted(result.left_out.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    if result.audit == "hardware":
        return _gpus_judged(result, settings) + (f"; runs not judged: {left}" if left else "")
    text = counted(result.examined_count, "run") + " judged"
    return f"{text}; not judged: {left}" if left else f"{text}, none left out"


def _gpus_judged(result: AuditResult, settings: AuditConfig) -> str:
    """A GPU that was alone in its jobs has nobody to be held against."""
    few = result.summary.get("few_jobs_gpu_count")
    judged = result.examined_count
    seen = judged + (few if isinstance(few, int) else 0)
    if seen == judged:
        return counted(judged, "GPU") + " judged"
    was = "none was" if judged == 0 else f"{judged} {'was' if judged == 1 else 'were'}"
    return (
        f"{counted(seen, 'GPU')} compared to others of the same job; {was} in enough such jobs to be judged"
        f" ({settings.hardware_jobs})"
    )


def _others(result: AuditResult, settings: AuditConfig) -> str:
    """Who lost something, and is not listed."""
    users, lost = (result.summary.get(f"other_{name}") for name in ("user_count", "lost_gpu_hours"))
    if result.audit != "waste" or not isinstance(users, int) or not isinstance(lost, float) or users == 0:
        return ""
    least = percent(settings.waste_ofu_ratio, digits=0)
    more = "more " if any(entry.kind == "user" for entry in result.entries) else ""
    return (
        f"{users} {more}{'user' if users == 1 else 'users'} lost {hours(lost)} GPU-hours at an OFU of {least}"
        " or more"
    )


def _sections(
    result: AuditResult, zone: tzinfo, width: int, most: int | None, short_seconds: float
) -> Iterator[tuple[str, list[str]]]:
    """The entries by kind, in the order of the sections above."""
    kinds: dict[str, list[AuditEntry]] = {}
    for entry in result.entries:
        kinds.setdefault(entry.kind, []).append(entry)
    for kind in sorted(kinds, key=lambda kind: _KINDS.index(kind) if kind in _KINDS else len(_KINDS)):
        title, advice = _SECTIONS.get((result.audit, kind), (kind.replace("_", " ").capitalize(), ""))
        shown = _shown(kinds[kind], most)
        if (result.audit, kind) in _ON_PAGES and not any(told_run(its, short_seconds) for its in shown):
            advice = ""
        elif (result.audit, kind) in _ON_PAGES and short_seconds > 0:
            advice += f" (jobs of at least {duration(short_seconds)})"
        yield title, _lines(kinds[kind], advice, zone, width, most)


_KINDS: Final = tuple(dict.fromkeys(kind for _, kind in _SECTIONS))


def _shown(entries: Sequence[AuditEntry], most: int | None) -> Sequence[AuditEntry]:
    """The first ones; where there are more, of one user the first few, so that there is room for others."""
    if most is None or len(entries) <= most:
        return entries
    seen: Counter[str] = Counter()
    early: list[int] = []
    late: list[int] = []
    for number, entry in enumerate(entries):
        seen[entry.user or ""] += 1
        (late if entry.user is not None and seen[entry.user] > _OF_ONE_USER else early).append(number)
    return [entries[number] for number in sorted([*early, *late][:most])]


def _lines(
    entries: Sequence[AuditEntry], advice: str, zone: tzinfo, width: int, most: int | None
) -> list[str]:
    shown = _shown(entries, most)
    lines = []
    for number, entry in enumerate(shown, 1):
        what, *evidence = entry_words(entry, zone)
        first, *more = wrapped(what, width - len(_INDENT))
        lines.append(f"{number:3}. {first}")
        lines += [f"{_INDENT}{line}" for line in more]
        for text in evidence:
            lines += [f"{_INDENT}{line}" for line in wrapped(text, width - len(_INDENT))]
    if len(entries) > len(shown):
        passed_over = any(entry not in shown for entry in entries[: len(shown)])
        why = f"; of one user {_OF_ONE_USER} come first" if passed_over else ""
        lines.append(f"…and {len(entries) - len(shown)} more (--top 0 for all{why})")
    if advice:
        lines += [
            f"→ {line}" if not at else f"  {line}" for at, line in enumerate(wrapped(advice, width - 2))
        ]
    return lines


def _foot(result: AuditResult, settings: AuditConfig, goals: Goals, width: int) -> list[str]:
    """What was in effect."""
    below = result.summary.get("below_minimum_count")
    small = f" ({below} with less at stake)" if isinstance(below, int) and below > 0 else ""
    least = "" if result.audit == "coverage" else f"; runs of at least {duration(settings.minimum_seconds)}"
    needed = percent(settings.minimum_coverage_ratio, digits=0)
    covered = f", measured for at least {needed}" if result.audit in _BY_COVERAGE else ""
    thresholds = (
        f"Thresholds ([audits] of the configuration): {_thresholds(result.audit, settings, goals)};"
        f" at least {hours(settings.minimum_gpu_hours)} GPU-hours at stake{small}{least}{covered}."
    )
    excluded = [
        f"{what} {printable(', '.join(names))}"
        for what, names in (
            ("users", settings.exclude_users),
            ("accounts", settings.exclude_accounts),
            ("QOS", settings.exclude_qos),
            ("partitions", settings.exclude_partitions),
        )
        if names
    ]
    return [
        *wrapped(thresholds, width),
        *(wrapped(f"Excluded: {'; '.join(excluded)}.", width) if excluded else []),
    ]


def _thresholds(audit: AuditName, its: AuditConfig, goals: Goals) -> str:
    match audit:
        case "waste":
            others = f" ({len(goals.by_partition)} partitions have their own)" if goals.by_partition else ""
            goal = percent(goals.default_ratio, digits=0)
            return f"OFU below {percent(its.waste_ofu_ratio, digits=0)}; lost is what is below {goal}{others}"
        case "idle":
            running = duration(its.idle_seconds)
            return f"{percent(its.idle_ratio, digits=0)} of the time idle, or running and idle for {running}"
        case "unused":
            return f"GPUs idle for {percent(its.unused_ratio, digits=0)} of the time"
        case "regressions":
            return f"a factor of {its.regression_factor:g} after at least {its.regression_runs} runs"
        case "claims":
            points = error_points(its.claim_difference_pp)
            return f"{points} points, or {its.claim_ratio:g} times what was measured"
        case "hardware":
            lag = percent(its.hardware_lag_ratio, digits=0)
            return f"{lag} behind the others, in at least {its.hardware_jobs} runs"
        case "coverage":
            return f"less than {percent(its.coverage_ratio, digits=0)} of the GPU time with OFU"
