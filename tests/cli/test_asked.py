"""From options to a question."""

from datetime import datetime, timezone
from typing import Any

import pytest

from slurm_ofu.cli.asked import question_of
from slurm_ofu.errors import UsageError
from slurm_ofu.reports.asked_jobs import AskedJob
from slurm_ofu.reports.question import Question, headline, window

JOB = AskedJob(text="1", job_id=1)
NOW = datetime(2026, 11, 5, 13, 0, tzinfo=timezone.utc)  # 14:00 in Berlin


def asked(*, now: datetime = NOW, **changes: Any) -> Question:
    """The question of these options."""
    options: dict[str, Any] = {
        "by": "job",
        "jobs": (),
        "users": ("ada",),
        "allusers": False,
        "partitions": (),
        "accounts": (),
        "clusters": (),
        "starttime": None,
        "endtime": None,
    }
    return question_of(now=now, **{**options, **changes})


def test_today_until_now_by_default() -> None:
    """The default window is from midnight, local time, until now."""
    assert "2026-11-05 00:00:00 to 2026-11-05 14:00:00 CET (UTC+01:00)" == window(asked())


IN_THE_SECOND_HOUR = datetime(
    2026, 10, 25, 1, 10, tzinfo=timezone.utc
)  # 02:10 in Berlin, for the second time


def test_a_window_over_the_hour_that_comes_twice() -> None:
    """Half an hour before 02:10 it was 02:40: the window is of half an hour, not one that runs backwards."""
    its = asked(now=IN_THE_SECOND_HOUR, starttime="now-30minutes")
    assert its.start is not None and its.end is not None
    now = IN_THE_SECOND_HOUR.timestamp()
    assert (now - 1800, now) == (its.start.timestamp(), its.end.timestamp())


@pytest.mark.parametrize(
    ("endtime", "slack"), [(None, 5.0), ("now", 5.0), ("13:59", 0.0), ("now-1hour", 0.0)]
)
def test_a_window_that_ends_now_cuts_nothing(endtime: str | None, slack: float) -> None:
    """A run that ended within this second, or by a clock that is a little ahead, is whole; what is said of
    the window is what was asked for."""
    its = asked(endtime=endtime)
    assert its.end is not None and its.selection.end_epoch_s is not None
    assert slack == its.selection.end_epoch_s - its.end.timestamp()


def test_a_window_that_runs_backwards_in_that_hour() -> None:
    """02:40 is its first occurrence, which lies before the second 02:10."""
    with pytest.raises(UsageError, match="ends before it begins"):
        asked(now=IN_THE_SECOND_HOUR, starttime="now", endtime="2026-10-25T02:40")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"states": ("RUNNING",)}, "all times"),
        ({"states": ("RUNNING",), "from_slurm": True}, "2026-11-05 00:00:00 to 2026-11-05 14:00:00"),
        ({"states": ("RUNNING",), "starttime": "13:00"}, "2026-11-05 13:00:00 to 2026-11-05 14:00:00"),
        ({"states": ("RUNNING", "FAILED")}, "2026-11-05 00:00:00 to 2026-11-05 14:00:00"),
        ({"states": ("RUNNING",), "by": "hour"}, "2026-11-05 00:00:00 to 2026-11-05 14:00:00"),
    ],
)
def test_what_runs_now_is_shown_as_it_fares_so_far(options: dict[str, Any], expected: str) -> None:
    """Not since midnight: its latest figures may be of yesterday, and it would be missing."""
    assert window(asked(**options)).startswith(expected)


def test_jobs_are_of_any_time_and_anybodys() -> None:
    """With job ids the window is unlimited and the user is not asked for, unless said."""
    selection = asked(jobs=(JOB,), users=()).selection
    assert (None, None, ()) == (selection.start_epoch_s, selection.end_epoch_s, selection.users)
    assert ("ada",) == asked(jobs=(JOB,)).selection.users
    assert "since 2026-11-01 00:00:00 CET (UTC+01:00)" == window(asked(jobs=(JOB,), starttime="2026-11-01"))
    assert "until 2026-11-01 00:00:00 CET (UTC+01:00)" == window(asked(jobs=(JOB,), endtime="2026-11-01"))


def test_ids_tasks_and_components_are_selected_apart() -> None:
    """Ids, tasks of arrays and components of heterogeneous jobs each have a place of their own in the
    selection; the question keeps how they were asked for."""
    jobs = (
        AskedJob(text="7_[1,3]", array_tasks=((7, 1), (7, 3))),
        AskedJob(text="9", job_id=9),
        AskedJob(text="7_3", array_tasks=((7, 3),)),
        AskedJob(text="8+1", het_component=(8, 1)),
    )
    question = asked(jobs=jobs)
    assert ((9,), ((7, 1), (7, 3)), ((8, 1),)) == (
        question.selection.job_ids,
        question.selection.array_tasks,
        question.selection.het_components,
    )
    assert jobs == question.jobs


def test_root_and_all_users_see_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root sees all users, everybody else only themselves unless they say otherwise."""
    monkeypatch.setattr("os.getuid", lambda: 0)
    assert () == asked(users=()).selection.users
    monkeypatch.setattr("os.getuid", lambda: 1)
    assert ("daemon",) == asked(users=()).selection.users
    assert () == asked(users=(), allusers=True).selection.users
    assert ("bob",) == asked(users=("bob",), allusers=True).selection.users


def test_a_caller_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uid that has no name on this host asks for --user."""
    monkeypatch.setattr("os.getuid", lambda: 987654321)
    with pytest.raises(UsageError, match=r"987654321.*--user"):
        asked(users=())


def test_users_by_uid() -> None:
    """A user may be given by uid; one without a name here stays as given."""
    assert ("root", "987654321", "9" * 30) == asked(users=("0", "987654321", "9" * 30)).selection.users


CHANGES = [
    ("2026-03-29T02:30:00", 1774747800.0),  # does not exist: read as 03:30 CEST
    ("2026-10-25T02:30:00", 1792888200.0),  # comes twice: the first, CEST
    ("2026-10-25", 1792879200.0),
    ("2026-10-26", 1792969200.0),
]


@pytest.mark.parametrize(("text", "epoch_s"), CHANGES)
def test_changes_of_clocks(text: str, epoch_s: float) -> None:
    """Local times on the days when clocks change name the right second; that autumn day has 25 hours."""
    assert epoch_s == asked(starttime=text).selection.start_epoch_s


def test_both_occurrences_of_an_hour_are_told_apart() -> None:
    """A moment in the hour that comes twice is shown with its own offset."""
    zone = asked().zone
    shown = [datetime.fromtimestamp(at, zone).isoformat() for at in (1792888200, 1792891800)]
    assert ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"] == shown


def test_an_empty_window_is_allowed() -> None:
    """A window may begin and end at the same moment; it may not end before it begins."""
    assert asked(starttime="now", endtime="now").start == asked().end
    with pytest.raises(UsageError, match="ends before it begins"):
        asked(starttime="now", endtime="now-1second")


YEARLESS = [
    ("1101", "1201", "2026-12-01T00:00:00+01:00"),
    ("11/01", "12/1", "2026-12-01T00:00:00+01:00"),
    ("1101", "12.01-10:30", "2026-12-01T10:30:00+01:00"),
    ("2025-12-24", "0106", "2026-01-06T00:00:00+01:00"),  # after the start as it is
    ("2026-03-01", "0229", None),  # no such day this year: Slurm's reading refuses it
    ("1101", "2025-12-01", None),
    ("1101", "120125", None),
    (None, "1201", None),  # today until December is not what was meant
]


@pytest.mark.parametrize(("start", "end", "expected"), YEARLESS)
def test_an_end_without_a_year_comes_after_the_start(
    start: str | None, end: str, expected: str | None
) -> None:
    """A window from 1101 to 1201 is this November, though Slurm reads 1201 as last December's first."""
    if expected is None:
        with pytest.raises(UsageError):
            asked(starttime=start, endtime=end)
    else:
        shown = asked(starttime=start, endtime=end).end
        assert shown is not None
        assert expected == shown.isoformat()


def test_what_else_narrows_a_question() -> None:
    """QOS, names, nodes and states go into the selection as they are; order and worst list stay outside."""
    question = asked(
        qos=("high",), job_names=("train",), node_names=("n1",), states=("FAILED",), sort="lost", worst=3
    )
    selection = question.selection
    assert (("high",), ("train",), ("n1",), ("FAILED",)) == (
        *(selection.qos, selection.job_names, selection.node_names, selection.states),
    )
    assert ("lost", 3) == (question.sort, question.worst)


def test_more_than_a_database_takes_is_refused() -> None:
    """SQLite takes so many values and no more: more is a usage error, not the database's."""
    tasks = tuple((1, number) for number in range(20_000))
    for many in (
        {"jobs": (AskedJob(text="1_[0-19999]", array_tasks=tasks),)},
        {"users": tuple(map(str, range(100_000, 120_000))), "job_names": tuple(map(str, range(20_000)))},
    ):
        with pytest.raises(UsageError, match="too much is named for one question"):
            asked(**many)


def test_a_long_list_is_not_said_in_full() -> None:
    """What was asked for is said by name, but of very many names how many there are."""
    assert "job name 0,1,2;" in headline(asked(job_names=("0", "1", "2"), node_names=("n1",))) + ";"
    assert "49,… (2000 in all), 2026" in headline(asked(users=(), job_names=tuple(map(str, range(2000)))))
