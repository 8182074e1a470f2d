"""What a user is told of entries of audits, and when: sparingly, or nobody reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slurm_ofu.values import AuditEntry, AuditName, MailConfig, RunRow

DAY_SECONDS: Final = 86400.0
MOST_TOLD: Final = 10  # entries at once; the others come another time
#: Audits whose entries are about what one user can change.
FOR_USERS: Final[tuple[AuditName, ...]] = ("waste", "idle", "unused", "regressions", "claims")
_GOOD_NEWS: Final = "recovery"
#: A timer does not fire to the second, and summer time moves it by an hour: a weekly one is weekly.
_TIMER_SLACK_SECONDS: Final = 7200.0

#: When something was told last, by its audit and `told_subject`.
ToldAt = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What to tell one user now: nothing where there are no entries, and ``why_not`` says why."""

    entries: tuple[AuditEntry, ...] = ()
    more_count: int = 0  # others, that are left for another time
    recoveries: tuple[AuditEntry, ...] = ()  # what has become better
    why_not: str | None = None


def what_to_tell(
    entries: Sequence[AuditEntry], told: ToldAt, settings: MailConfig, now_epoch_s: float
) -> Telling:
    """Of the entries of one user, what was not told within ``again_days``; nothing at all within
    ``days_between`` of whatever was told last. Good news alone are none."""
    bad = _without_repetition([entry for entry in entries if entry.kind != _GOOD_NEWS])
    if not bad:
        return Telling(why_not="nothing to tell")
    last = max(told.values(), default=None)
    if last is not None and now_epoch_s - last < least_seconds(settings.days_between):
        days = f"{(now_epoch_s - last) / DAY_SECONDS:.1f}"
        least = f"{settings.days_between:g}"
        return Telling(why_not=f"not now: the last mail was {days} days ago, and {least} must lie between")
    known = {what for what, at in told.items() if now_epoch_s - at < least_seconds(settings.again_days)}
    new = [entry for entry in bad if (entry.audit, told_subject(entry)) not in known]
    if not new:
        return Telling(why_not=f"nothing new: all {len(bad)} were told before")
    return Telling(
        entries=tuple(new[:MOST_TOLD]),
        more_count=max(0, len(new) - MOST_TOLD),
        recoveries=tuple(entry for entry in entries if entry.kind == _GOOD_NEWS),
    )


def least_seconds(days: float) -> float:
    """So many days as a timer means them."""
    seconds = days * DAY_SECONDS
    return seconds - min(_TIMER_SLACK_SECONDS, seconds / 10)


def told_subject(entry: AuditEntry) -> str:
    """What an entry is about, in the calendar: job ids are their cluster's, and a family of runs is what its
    jobs have in common, not their name alone."""
    clusters = {run.cluster for run in entry.runs}
    subject = f"{clusters.pop()}:{entry.subject}" if len(clusters) == 1 else entry.subject
    if entry.audit != "regressions":
        return subject
    own = (entry.account, entry.partition, entry.gpu_model, entry.figures.get("gpu_count"))
    return " ".join((subject, *(str(part) for part in own if part is not None)))


def _without_repetition(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """What runs on first, then the most at stake. A user's sum only where none of its runs is told (what a
    user lost: where not all of the worst runs are), and of a run that left some of its GPUs unused not that
    it was idle as well."""
    single = {entry.audit for entry in entries if entry.kind == "run"}
    unused = {_whose(entry) for entry in entries if (entry.audit, entry.kind) == ("unused", "run")}
    kept = [
        entry
        for entry in entries
        if not (entry.kind == "user" and entry.audit in single)
        and not (entry.audit == "idle" and entry.runs and _whose(entry) in unused)
    ]
    told = {_life(run) for entry in kept if entry.audit in _OF_RUNS for run in entry.runs}
    kept = [
        entry
        for entry in kept
        if not (entry.audit == "waste" and entry.runs and told.issuperset(map(_life, entry.runs)))
    ]
    return sorted(kept, key=lambda entry: (entry.kind != "running", -entry.weight_gpu_hours))


_OF_RUNS: Final[tuple[AuditName, ...]] = ("idle", "unused")  # whose entries say why GPU-hours were lost


def _life(run: RunRow) -> tuple[str, int, int]:
    return run.cluster, run.job_id, run.restart_count


def _whose(entry: AuditEntry) -> tuple[str, object]:
    """The run that an entry is about, or the array, whichever of its tasks it names."""
    several = (entry.figures.get("run_count") or 1) != 1
    return told_subject(entry), None if several else entry.runs
