"""What the options of ofu-report ask for: a question, and the shape of its answer."""

import os
import pwd
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final

from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.errors import UsageError
from slurm_ofu.reports.as_csv import PARSABLE, Separation, separation_of
from slurm_ofu.reports.as_formatted import Formatting
from slurm_ofu.reports.asked_jobs import AskedJob
from slurm_ofu.reports.formatting import FormatColumn, parse_format
from slurm_ofu.reports.order import SortBy
from slurm_ofu.reports.question import Question
from slurm_ofu.reports.times_shown import checked_time_format
from slurm_ofu.slurm.times import parse_time
from slurm_ofu.values import GroupBy, Selection
from slurm_ofu.values.states import RUNNING

_WIDTH_WITHOUT_TERMINAL = 100
_NARROWEST = 60
_MOST_VALUES = 32_000  # of one SQL statement; SQLite refuses more than 32,766
_EVERY_CLUSTER = "all"  # as sacct has it
_LEAP_YEARS_APART = 8  # at most, as in 1896 and 1904
#: A window that ends now reaches so far beyond: its end is a whole second, and nodes' clocks may be ahead.
#: Else it would cut runs that ended a moment ago.
_CLOCKS_APART_SECONDS = 5.0
_YEARLESS: Final = re.compile(r"([0-9]{2}|[0-9](?=[./]))[./]?([0-9]{1,2})((?:\s+|[-T])[0-9]{1,2}:.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How an answer is to look. ``output``: json, csv, parsable, or ``None`` for people; ``columns``: those
    that were chosen."""

    output: str | None
    colour: bool
    header: bool
    width: int
    separation: Separation = PARSABLE
    columns: tuple[FormatColumn, ...] | None = None
    time_format: str | None = None

    def formatting(self, zone: tzinfo, now: datetime) -> Formatting:
        """The chosen columns, and how times are shown in them."""
        return Formatting(columns=self.columns or (), time_format=self.time_format, zone=zone, now=now)


def output_of(
    *, json: bool, csv: bool, parsable: bool = False, parsable_trailing: bool = False
) -> str | None:
    """The one format that is wanted, ``None`` for people. Raises UsageError where there are several."""
    if sum((json, csv, parsable, parsable_trailing)) > 1:
        raise UsageError("--json, --csv, --parsable and --parsable2 exclude each other: choose one")
    return "json" if json else "csv" if csv else "parsable" if parsable or parsable_trailing else None


def shape_of(*, output: str | None, colour: str, header: bool) -> Shape:
    """The shape for the stdout and the environment at hand."""
    wanted = colour == "always" or (colour == "auto" and _terminal_likes_colours())
    columns = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 24)).columns
    return Shape(output=output, colour=wanted, header=header, width=max(_NARROWEST, columns))


def clusters_of(names: tuple[str, ...], *, every: bool, from_slurm: bool) -> tuple[str, ...]:
    """Which clusters -M and -L ask for; () for all that the database knows. Raises UsageError."""
    every = every or _EVERY_CLUSTER in names
    if every and from_slurm:
        raise UsageError("--from-slurm asks for clusters one by one: name them, as in -M alpha,beta")
    return () if every else names


def with_format(
    shape: Shape,
    question: Question,
    *,
    fields: str | None,
    delimiter: str | None,
    trailing: bool,
    now: datetime,
) -> Shape:
    """The shape with the columns that --format or OFU_FORMAT choose. Raises UsageError.

    OFU_FORMAT is for lines by job: where others, pages or JSON are asked for it has no part.
    """
    if delimiter is not None and shape.output != "parsable":
        raise UsageError("--delimiter belongs to -p or -P")
    if fields is not None and shape.output == "json":
        raise UsageError("--format has no part in --json, which has every field: leave it out, or take --csv")
    said_by = "--format"
    if fields is None and question.by == "job" and shape.output != "json":
        paged = question.jobs and shape.output is None
        fields, said_by = None if paged else os.environ.get("OFU_FORMAT", "").strip() or None, "OFU_FORMAT"
    shape = replace(shape, separation=separation_of(delimiter, trailing=trailing))
    if fields is None:
        return shape
    return replace(
        shape,
        columns=parse_format(fields, question.by, said_by=said_by),
        time_format=checked_time_format(os.environ.get("SLURM_TIME_FORMAT"), now=now),
    )


def question_of(
    *,
    now: datetime,
    by: GroupBy,
    jobs: tuple[AskedJob, ...],
    users: tuple[str, ...],
    allusers: bool,
    partitions: tuple[str, ...],
    accounts: tuple[str, ...],
    clusters: tuple[str, ...],
    starttime: str | None,
    endtime: str | None,
    qos: tuple[str, ...] = (),
    job_names: tuple[str, ...] = (),
    node_names: tuple[str, ...] = (),
    states: tuple[str, ...] = (),
    sort: SortBy = "name",
    worst: int | None = None,
    from_slurm: bool = False,
) -> Question:
    """The question that these options ask. Raises UsageError."""
    zone = LocalZone()
    # Slurm's accounting has to be read for all of a window, and knows no figures so far.
    are_running = not from_slurm and starttime is endtime is None and _run_now(states, by)
    unlimited = bool(jobs) or are_running
    start, end = _window(starttime, endtime, unlimited=unlimited, now=now, zone=zone)
    slack = _CLOCKS_APART_SECONDS if _ends_now(start, end, now) else 0.0
    selection = Selection(
        start_epoch_s=None if start is None else start.timestamp(),
        end_epoch_s=None if end is None else end.timestamp() + slack,
        users=_users(users, everybody=allusers or bool(jobs)),
        partitions=partitions,
        accounts=accounts,
        clusters=clusters,
        qos=qos,
        job_names=job_names,
        node_names=node_names,
        states=states,
        **_ids(jobs),
    )
    return Question(
        selection=_askable(selection),
        by=by,
        zone=zone,
        jobs=jobs,
        sort=sort,
        worst=worst,
        slack_seconds=slack,
        own=not users and bool(selection.users),
    )


def _run_now(states: tuple[str, ...], by: GroupBy) -> bool:
    """As with sacct, a state without a window is that of this moment: a running job as it fares so far."""
    return states == (RUNNING,) and by not in ("month", "day", "hour")


def _ids(jobs: Sequence[AskedJob]) -> dict[str, Any]:
    return {
        "job_ids": tuple(job.job_id for job in jobs if job.job_id is not None),
        "array_tasks": tuple(dict.fromkeys(task for job in jobs for task in job.array_tasks)),
        "het_components": tuple(job.het_component for job in jobs if job.het_component is not None),
    }


def _askable(selection: Selection) -> Selection:
    """The selection. Raises UsageError for one that names more than a database takes at once."""
    jobs = len(selection.job_ids) + len(selection.array_tasks) + len(selection.het_components)
    names = (selection.users, selection.partitions, selection.accounts, selection.clusters, selection.qos)
    lists = (*names, selection.job_names, selection.node_names, selection.states)
    if 3 * jobs + sum(map(len, lists)) > _MOST_VALUES:
        raise UsageError(
            f"too much is named for one question (at most {_MOST_VALUES // 3} jobs, or {_MOST_VALUES} names):"
            " ask for a part at a time, for whole arrays, or for a window (--starttime, --endtime)"
        )
    return selection


def _ends_now(start: datetime | None, end: datetime | None, now: datetime) -> bool:
    """Whether a window, if it has any length, ends in this very second."""
    if end is None or end.timestamp() != now.timestamp() // 1:
        return False
    return start is None or _is_before(start, end)


def _window(
    starttime: str | None, endtime: str | None, *, unlimited: bool, now: datetime, zone: tzinfo
) -> tuple[datetime | None, datetime | None]:
    """From today's midnight until now, where the options do not say otherwise."""
    start_text = starttime if starttime is not None else None if unlimited else "today"
    end_text = endtime if endtime is not None else None if unlimited else "now"
    start = None if start_text is None else parse_time(start_text, now=now, zone=zone)
    end = None if end_text is None else parse_time(end_text, now=now, zone=zone)
    if start is not None and end is not None and _is_before(end, start) and starttime is not None:
        end = _next_after(start, end_text or "", now=now, zone=zone) or end
    if start is not None and end is not None and _is_before(end, start):
        default = " (the default)" if starttime is None else ""
        raise UsageError(
            f"the window ends before it begins: --endtime {end_text} is {end:%Y-%m-%d %H:%M:%S},"
            f" --starttime {start_text}{default} is {start:%Y-%m-%d %H:%M:%S}"
        )
    return start, end


def _is_before(one: datetime, other: datetime) -> bool:
    """By the moments: times of one zone compare by what clocks show, and those go back in autumn."""
    return one.timestamp() < other.timestamp()


def _next_after(start: datetime, text: str, *, now: datetime, zone: tzinfo) -> datetime | None:
    """The first time after ``start`` that a date without a year can mean; ``None`` for any other text.

    Slurm takes such a date for a past one, so that in November 1201 would end a window a year ago.
    """
    match = _YEARLESS.fullmatch(text.strip())
    if match is None:
        return None
    month, day, clock = match.groups(default="")
    for year in range(start.year, start.year + _LEAP_YEARS_APART + 1):
        try:
            end = parse_time(f"{int(month):02}{int(day):02}{year % 100:02}{clock}", now=now, zone=zone)
        except UsageError:  # 29 February
            continue
        if _is_before(start, end):
            return end
    return None


def _users(names: Sequence[str], *, everybody: bool) -> tuple[str, ...]:
    """Those named, by name or uid; else the caller, unless that is root."""
    if names:
        return tuple(_user_name(int(name)) or name if name.isdecimal() else name for name in names)
    if everybody or os.getuid() == 0:
        return ()
    own = _user_name(os.getuid())
    if own is None:
        raise UsageError(f"the user with uid {os.getuid()} has no name on this host: say --user NAME")
    return (own,)


def _user_name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def _terminal_likes_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
