"""Slurm's time syntax: expected values are those of Slurm 22.05.8's own parser unless said otherwise."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.errors import UsageError
from slurm_ofu.slurm.times import FORMS, format_time, parse_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 29, 15, 9, 11, 500_000, tzinfo=BERLIN)


def parse(text: str) -> str:
    return parse_time(text, now=NOW, zone=BERLIN).isoformat()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-11-29T15:09:11+01:00"),
        ("NOW", "2026-11-29T15:09:11+01:00"),
        ("now-7days", "2026-11-22T15:09:11+01:00"),
        ("now-7 days", "2026-11-22T15:09:11+01:00"),
        ("now-1hour", "2026-11-29T14:09:11+01:00"),
        ("now+60", "2026-11-29T15:10:11+01:00"),
        ("now+1week", "2026-12-06T15:09:11+01:00"),
        ("now - 5 minutes", "2026-11-29T15:04:11+01:00"),
        ("now-90seconds", "2026-11-29T15:07:41+01:00"),
        ("2026-11-29T14:03", "2026-11-29T14:03:00+01:00"),
        ("2026-11-29 14:03:04", "2026-11-29T14:03:04+01:00"),
        ("2026-11-29", "2026-11-29T00:00:00+01:00"),
        ("2026-03-1", "2026-03-01T00:00:00+01:00"),
        ("1129", "2026-11-29T00:00:00+01:00"),
        ("112925", "2025-11-29T00:00:00+01:00"),
        ("11/29", "2026-11-29T00:00:00+01:00"),
        ("1/5", "2026-01-05T00:00:00+01:00"),
        ("11.29.25", "2025-11-29T00:00:00+01:00"),
        ("11/29/25-10:00", "2025-11-29T10:00:00+01:00"),
        ("11/29-10:00", "2026-11-29T10:00:00+01:00"),
        ("1129-10:00:01", "2026-11-29T10:00:01+01:00"),
        ("1129T10:00", "2026-11-29T10:00:00+01:00"),
        ("12/29", "2025-12-29T00:00:00+01:00"),
        ("12:00AM", "2026-11-29T00:00:00+01:00"),
        ("12:00pm", "2026-11-29T12:00:00+01:00"),
        ("1:30 PM", "2026-11-29T13:30:00+01:00"),
        ("0:30am", "2026-11-29T00:30:00+01:00"),
        ("9:05", "2026-11-29T09:05:00+01:00"),
        ("23:59:59", "2026-11-29T23:59:59+01:00"),
        ("today", "2026-11-29T00:00:00+01:00"),
        ("Tomorrow", "2026-11-30T00:00:00+01:00"),
        ("midnight", "2026-11-29T00:00:00+01:00"),
        ("elevenses", "2026-11-29T11:00:00+01:00"),
        ("noon", "2026-11-29T12:00:00+01:00"),
        ("fika", "2026-11-29T15:00:00+01:00"),
        ("teatime", "2026-11-29T16:00:00+01:00"),
        ("noon tomorrow", "2026-11-30T12:00:00+01:00"),
        ("midnight-1128", "2026-11-28T00:00:00+01:00"),
        ("uts1700000000", "2023-11-14T23:13:20+01:00"),
    ],
)
def test_reads_what_sacct_reads(text: str, moment: str) -> None:
    """Each form means what it means to Slurm."""
    assert moment == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "T", "-", "yesterday", "now-", "now-5x", "now+", "now5", "now-5minutesx", "2026-3-1",
        "2026-13-01", "13:00PM", "24:00", "09:5", "23:59:60", "12:00x", "noonx", "@1700000000", "1700000000",
        "2026-11-29T14:03Z", "2026-10-25T02:30:00+01:00", "2026-11-29T14:03:00.5", "10/32", "13/01", "1",
        "11", "11123", "uts1", "2026", "20261129", "11/29/2025",
        "now-" + "9" * 30, "now-99999999999weeks", "1١29", "next week",
    ],
)  # fmt: skip
def test_nonsense_names_the_forms(text: str) -> None:
    """What Slurm refuses is refused, with the text and every form that would do."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert [] == [part for part in (repr(text), *FORMS) if part not in str(caught.value)]


@pytest.mark.parametrize("text", ["2026-02-30", "0229", "noon midnight", "1129 1128", "noon-10:00"])
def test_stricter_than_slurm(text: str) -> None:
    """Slurm turns 30 February into 2 March and takes the last of two times; we refuse to."""
    with pytest.raises(UsageError):
        parse(text)


def test_time_the_clocks_skip() -> None:
    """A local time in the gap of spring moves forward by the gap."""
    assert "2026-03-29T03:30:00+02:00" == parse("2026-03-29T02:30")


def test_time_that_comes_twice() -> None:
    """A local time in the fold of autumn is its first occurrence."""
    assert "2026-10-25T02:30:00+02:00" == parse("2026-10-25T02:30")


def test_relative_days_are_absolute_seconds() -> None:
    """A day before now is 86,400 seconds before, also over a change of the clocks."""
    now = datetime(2026, 10, 25, 12, 0, tzinfo=BERLIN)
    assert "2026-10-24T13:00:00+02:00" == parse_time("now-1day", now=now, zone=BERLIN).isoformat()


def test_today_is_the_zones_day() -> None:
    """The day begins in the given zone, whatever zone now is written in."""
    now = datetime(2026, 11, 29, 23, 30, tzinfo=timezone.utc)
    assert "2026-11-30T00:00:00+01:00" == parse_time("today", now=now, zone=BERLIN).isoformat()


def test_now_must_be_aware() -> None:
    """A naive now is a programming error, not the user's."""
    with pytest.raises(ValueError, match="aware"):
        parse_time("now", now=datetime(2026, 11, 29), zone=BERLIN)


def test_formats_as_slurm_prints() -> None:
    """Whole seconds, local to the zone, without an offset."""
    epoch_s = datetime(2026, 11, 29, 14, 3, tzinfo=BERLIN).timestamp() + 0.9
    assert "2026-11-29T14:03:00" == format_time(epoch_s, BERLIN)


@pytest.mark.property
@given(st.integers(0, 4_000_000_000))
def test_what_is_printed_can_be_read(epoch_s: int) -> None:
    """A printed time names the same second, outside the hour that comes twice."""
    read = parse_time(format_time(epoch_s, BERLIN), now=NOW, zone=BERLIN)
    assert read.timestamp() in (epoch_s, epoch_s - 3600)


@pytest.mark.property
@given(st.text(alphabet="0129:-/.T nowamp+days", max_size=12))
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    """No text brings anything but an aware time in the zone or a UsageError."""
    try:
        moment = parse_time(text, now=NOW, zone=BERLIN)
    except UsageError:
        return
    assert moment.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
