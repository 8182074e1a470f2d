"""What a report answers: which runs, grouped how, in whose time zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from slurm_ofu.reports.asked_jobs import AskedJob
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.order import SortBy
from slurm_ofu.reports.wording import moment, span
from slurm_ofu.values import GroupBy, Selection
from slurm_ofu.values.states import RUNNING

_MOST_LISTED = 50  # of what was asked for, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``zone`` is the reader's: the accounting database knows only seconds since 1970.

    ``jobs`` is how the selection's jobs were asked for, in that order; ``worst`` how many of the runs that
    lost most are to be listed (``None``: not said). ``slack_seconds``: by so much the selection ends
    later than the window that people are told of. ``own``: it is about the reader's own jobs since no user
    was named.
    """

    selection: Selection
    by: GroupBy
    zone: tzinfo
    jobs: tuple[AskedJob, ...] = ()
    sort: SortBy = "name"
    worst: int | None = None
    slack_seconds: float = 0.0
    own: bool = False

    @property
    def start(self) -> datetime | None:
        """Where the window begins; ``None``: at the beginning of the accounting."""
        return _local(self.selection.start_epoch_s, self.zone)

    @property
    def end(self) -> datetime | None:
        """Where the window ends, not included."""
        end = self.selection.end_epoch_s
        return None if end is None else _local(end - self.slack_seconds, self.zone)


def window(question: Question) -> str:
    """The time that was searched, with its zone."""
    start, end = question.start, question.end
    if start is None and end is None:
        return "all times"
    if start is None or end is None:
        return f"until {moment(end)}" if end else f"since {moment(start)}" if start else ""
    return span(start, end)


def filters(question: Question) -> str:
    """Which runs were asked for, as in ``user wilma; partition gpu,gpu-long``; empty for all."""
    selection = question.selection
    named = (
        ("user", selection.users),
        ("partition", selection.partitions),
        ("account", selection.accounts),
        ("cluster", selection.clusters),
        ("qos", selection.qos),
        ("job name", selection.job_names),
        ("node", selection.node_names),
        ("state", selection.states),
        ("job", tuple(job.text for job in question.jobs)),
    )
    return "; ".join(f"{name} {_listed(values)}" for name, values in named if values)


def _listed(values: Sequence[str]) -> str:
    """All of them, where they are not very many."""
    shown = printable(",".join(values[:_MOST_LISTED]))
    return shown if len(values) <= _MOST_LISTED else f"{shown},… ({len(values)} in all)"


def headline(question: Question) -> str:
    """The first line of a report."""
    return f"OFU by {question.by}, {filters(question) or 'all users'}, {window(question)}"


def nothing_found(question: Question) -> str:
    """What to say instead of an empty report."""
    asked = filters(question)
    first = "; a job appears here with its first record, at the latest when it has ended"
    later = first if question.jobs else ""
    if any(job.job_id is None for job in question.jobs):
        later += ", under such an id only once Slurm's accounting was read (till then: by its JobIDRaw)"
    if RUNNING in question.selection.states:
        later += "; a running job appears with its nodes' first record ([sampler] interim_seconds)"
    if question.own:
        later += "; -a asks for everybody's jobs, -u NAME for another's"
    return f"no jobs match{': ' + asked if asked else ''} ({window(question)}){later}"


def states_unknown(run_count: int) -> str:
    """What to say of runs that are in none of the states asked for because Slurm has not said theirs."""
    runs, their, were = ("1 run", "its", "was") if run_count == 1 else (f"{run_count} runs", "their", "were")
    return (
        f"{runs} of unknown state {were} left out: Slurm's accounting has not said {their} end yet"
        " (-s UNKNOWN asks for such)"
    )


def _local(epoch_s: float | None, zone: tzinfo) -> datetime | None:
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, zone)
