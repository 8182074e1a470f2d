"""Days and hours of a window."""

from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import UsageError
from slurm_ofu.reports.spans import SpanLength, hours_for_people, labelled, span_edges
from slurm_ofu.values import UsageRow
from tests.figures.examples import measured

ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Havana", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("Pacific/Apia", "Asia/Beirut", "America/St_Johns", "UTC", "Africa/Cairo"),
)
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: tzinfo = BERLIN) -> float:
    """Seconds since 1970 of this local time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def shown(length: SpanLength, start: str, end: str) -> list[str]:
    """How the spans of this window are called."""
    edges = span_edges(length, at(start), at(end), BERLIN)
    rows = [UsageRow(group=None, sums=measured()) for _ in edges[1:]]
    return [row.group or "" for row in labelled(rows, edges, length, BERLIN)]


def test_days_of_a_window() -> None:
    """Each local day that the window touches, cut at the window's own ends."""
    assert ["2026-11-04", "2026-11-05", "2026-11-06"] == shown("day", "2026-11-04T14:00", "2026-11-06T08:00")
    edges = span_edges("day", at("2026-11-04T14:00"), at("2026-11-06T08:00"), BERLIN)
    assert [10.0, 24.0, 8.0] == [(after - before) / 3600 for before, after in pairwise(edges)]
    assert ["2026-11-04"] == shown("day", "2026-11-04T00:00", "2026-11-05T00:00")


def test_months_of_a_window() -> None:
    """Each local month that the window touches, over the year's end and where clocks change."""
    assert ["2026-12", "2027-01"] == shown("month", "2026-12-31T23:00", "2027-02-01T00:00")
    edges = span_edges("month", at("2026-03-01"), at("2026-05-01"), BERLIN)
    assert [31 * 24.0 - 1, 30 * 24.0] == [(after - before) / 3600 for before, after in pairwise(edges)]
    assert at("2026-12-15") == span_edges("month", at("2026-12-01"), at("2026-12-15"), BERLIN)[-1]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23.0), ("2026-10-25", 25.0), ("2026-10-26", 24.0)])
def test_days_on_which_clocks_change(day: str, hours: float) -> None:
    """Such a day has 23 or 25 hours."""
    following = (datetime.fromisoformat(day) + timedelta(days=1)).isoformat()
    first, second = span_edges("day", at(day), at(following), BERLIN)
    assert hours == (second - first) / 3600
    assert int(hours) == len(shown("hour", day, following))


def test_an_hour_that_comes_twice() -> None:
    """Both are there, told apart by their offset; for people all others go without."""
    groups = shown("hour", "2026-10-25T01:00", "2026-10-25T04:00")
    assert [
        *(
            "2026-10-25T01:00+02:00",
            "2026-10-25T02:00+02:00",
            "2026-10-25T02:00+01:00",
            "2026-10-25T03:00+01:00",
        ),
    ] == groups
    assert [
        *("2026-10-25 01:00", "2026-10-25 02:00 UTC+02:00", "2026-10-25 02:00 UTC+01:00", "2026-10-25 03:00"),
    ] == hours_for_people(groups)


def test_midnight_that_the_clocks_skip() -> None:
    """In Beirut a day began at 01:00: with it the next span begins."""
    beirut = ZoneInfo("Asia/Beirut")
    start, end = at("2025-03-29T12:00", beirut), at("2025-03-30T12:00", beirut)
    edges = span_edges("day", start, end, beirut)
    assert "2025-03-30T01:00:00+03:00" == datetime.fromtimestamp(edges[1], beirut).isoformat()


def test_too_many_spans() -> None:
    """A window of too many hours is refused with what to do."""
    with pytest.raises(UsageError, match="over 10000 hours: ask for a shorter window"):
        span_edges("hour", 0.0, 1e9, timezone.utc)


@pytest.mark.property
@settings(max_examples=200)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(("day", "hour")),
    # From 2012 on: before, clocks in St. John's went back over midnight, from 00:01 on.
    st.integers(min_value=1_325_376_000, max_value=1_900_000_000),
    st.integers(min_value=1, max_value=8 * 86400),
)
def test_spans_are_local_days_and_hours(name: str, length: SpanLength, start: int, seconds: int) -> None:
    """In any zone the spans follow each other from end to end of the window, none is empty, each lies in one
    local day (hour), and one that is not cut by the window begins where a local day (hour) does."""
    zone = ZoneInfo(name)
    edges = span_edges(length, float(start), float(start + seconds), zone)
    assert (start, start + seconds) == (edges[0], edges[-1])
    assert edges == sorted(set(edges))
    for begin, end in pairwise(edges):
        first, last = (datetime.fromtimestamp(moment, zone) for moment in (begin, end - 1))
        before = datetime.fromtimestamp(begin - 1, zone)
        if length == "day":
            assert first.date() == last.date()
            assert begin == start or before.date() < first.date()
        else:
            assert end - begin <= 3600
            assert begin == start or (before.hour, before.minute) != (first.hour, first.minute)
            assert first.hour == last.hour
