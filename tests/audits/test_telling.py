"""What users are told, and how seldom."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.audits.telling import DAY_SECONDS, MOST_TOLD, least_seconds, told_subject, what_to_tell
from slurm_ofu.values import AuditEntry, MailConfig
from tests.audits.rows import run

NOW = 1_750_000_000.0
SETTINGS = MailConfig(days_between=7.0, again_days=28.0)


def entry(job_id: int = 1, *, audit: Any = "idle", kind: str = "ended", weight: float = 1.0) -> AuditEntry:
    """An entry about one run."""
    its = run(job_id).run
    assert its is not None
    return AuditEntry(
        audit=audit,
        kind=kind,
        subject=str(job_id),
        weight_gpu_hours=weight,
        figures={},
        user="ada",
        runs=(its,),
    )


def jobs(*entries: AuditEntry, told: dict[tuple[str, str], float] | None = None) -> list[tuple[str, str]]:
    """What is told, in its order."""
    return [(one.audit, one.subject) for one in what_to_tell(entries, told or {}, SETTINGS, NOW).entries]


def test_what_goes_on_comes_first() -> None:
    """Then the most at stake: a job that is running can still be ended."""
    found = jobs(entry(1, weight=5.0), entry(2, weight=9.0), entry(3, kind="running"))
    assert [("idle", "3"), ("idle", "2"), ("idle", "1")] == found


def test_a_run_is_told_of_once() -> None:
    """Unused GPUs explain idle time; a user's sum adds nothing to its runs, and stands alone without them."""
    total = replace(entry(audit="unused", kind="user"), subject="ada")
    single = entry(1, audit="unused", kind="run")
    assert [("unused", "1"), ("idle", "2")] == jobs(total, single, entry(1), entry(2))
    assert [("unused", "ada")] == jobs(total)


def test_what_a_user_lost_is_told_where_it_says_more() -> None:
    """Where all of the worst jobs are told by themselves, the sum of them is the same thing twice."""
    lost = replace(entry(1, audit="waste", kind="user"), subject="ada")
    assert [("idle", "1")] == jobs(lost, entry(1))
    more = replace(lost, runs=(*lost.runs, *entry(2).runs))
    assert [("idle", "1"), ("waste", "ada")] == jobs(more, entry(1, weight=2.0))
    assert [("waste", "ada")] == jobs(lost)


def test_an_array_is_told_of_once() -> None:
    """Also where its worst tasks are not the same by both; but the two lives of a requeued job are two."""
    two = [replace(one, figures={"run_count": 9}) for one in (entry(1), entry(1, audit="unused", kind="run"))]
    other = replace(two[0], runs=tuple(replace(run, run_id=77) for run in two[0].runs))
    assert [("unused", "1")] == jobs(other, two[1])
    again = replace(entry(1), runs=tuple(replace(run, restart_count=1) for run in entry(1).runs))
    assert 2 == len(jobs(again, entry(1, audit="unused", kind="run")))


def test_good_news_alone_are_no_mail() -> None:
    """They stand beside what is amiss."""
    good = entry(2, audit="regressions", kind="recovery")
    assert "nothing to tell" == what_to_tell([good], {}, SETTINGS, NOW).why_not
    assert (good,) == what_to_tell([entry(1), good], {}, SETTINGS, NOW).recoveries


def test_a_long_list_is_cut() -> None:
    """What is left out is counted."""
    its = what_to_tell([entry(number) for number in range(MOST_TOLD + 3)], {}, SETTINGS, NOW)
    assert (MOST_TOLD, 3) == (len(its.entries), its.more_count)


def test_what_the_calendar_tells_apart() -> None:
    """A job by its cluster; a family also by its GPUs, so that one does not silence another of its name."""
    family = replace(
        entry(audit="regressions", kind="drop"), subject="train", runs=(), figures={"gpu_count": 8.0}
    )
    assert told_subject(family) != told_subject(replace(family, figures={"gpu_count": 4.0}))
    assert told_subject(family) != told_subject(replace(family, partition="other"))
    assert "train" == told_subject(replace(family, audit="waste"))
    here = entry(1)
    there = replace(here, runs=tuple(replace(one, cluster="beta") for one in here.runs))
    assert told_subject(here) != told_subject(there)


@pytest.mark.parametrize(("hours_early", "told"), [(0.0, True), (1.5, True), (2.5, False)])
def test_a_weekly_timer_is_weekly(hours_early: float, told: bool) -> None:
    """One that fires some seconds, or the hour of summer time, before seven days are over skips no week."""
    last = {("idle", "alpha:2"): NOW - 7 * DAY_SECONDS + hours_early * 3600}
    assert ([("idle", "1")] if told else []) == jobs(entry(1), told=last)


@pytest.mark.property
@given(
    steps=st.lists(st.tuples(st.floats(0.01, 20.0), st.sets(st.integers(1, 6))), max_size=30),
    between=st.floats(0.5, 14.0),
    again=st.floats(0.5, 60.0),
)
def test_the_calendar_is_kept(steps: list[tuple[float, set[int]]], between: float, again: float) -> None:
    """Whenever it is asked: mails of one user lie days_between apart, and the same thing again_days, but for
    what a timer is off; what is due by both is told."""
    settings = MailConfig(days_between=between, again_days=again)
    told: dict[tuple[str, str], float] = {}
    last, now = None, NOW
    for days, job_ids in steps:
        now += days * DAY_SECONDS
        its = what_to_tell([entry(job_id) for job_id in sorted(job_ids)], told, settings, now)
        due = last is None or now - last >= least_seconds(between)
        new = {
            job_id
            for job_id in job_ids
            if now - told.get(("idle", told_subject(entry(job_id))), -1e18) >= least_seconds(again)
        }
        assert (new if due else set()) == {int(one.subject) for one in its.entries}
        assert (its.why_not is None) == bool(its.entries)
        if its.entries:
            last = now
            told |= {(one.audit, told_subject(one)): now for one in its.entries}
