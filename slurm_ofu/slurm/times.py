"""Slurm's time syntax, as `sacct -S` and `-E` take it.

The meaning follows Slurm's: a date without a year lies in the past twelve months or later in this month,
a time without a date is today's, and `now-1day` is 86,400 seconds ago whatever the clocks did.
Two things differ on purpose: 30 February is refused (Slurm makes 2 March of it), and a repeated part is too.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo

from slurm_ofu.errors import UsageError

FORMS = (
    "HH:MM[:SS][AM|PM]",
    "MMDD[YY], MM/DD[/YY] or MM.DD[.YY], each with [-HH:MM[:SS]]",
    "YYYY-MM-DD[THH:MM[:SS]]",
    "today, tomorrow, midnight, elevenses (11:00), noon, fika (15:00), teatime (16:00)",
    "now[{+|-}count[seconds|minutes|hours|days|weeks]]",
    "utsSECONDS (since 1970)",
)

_HOURS = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}
_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

_NOW = re.compile(r"now(?:\s*([+-])\s*([0-9]+)\s*(?:(second|minute|hour|day|week)s?)?)?", re.IGNORECASE)
_EPOCH = re.compile(r"uts([0-9]{7,12})", re.IGNORECASE)
_END = r"(?=[\sT-]|$)"
_WORD = re.compile(r"(today|tomorrow|midnight|elevenses|noon|fika|teatime)" + _END, re.IGNORECASE)
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s*(am|pm))?" + _END, re.IGNORECASE)
_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{1,2})" + _END)
# A one-digit month or day needs a separator or the end after it: 11123 is not 1 November 2023.
_DATE = re.compile(r"([0-9]{2}|[0-9](?=[./]))[./]?([0-9]{2}|[0-9](?![0-9]))(?:[./]?([0-9]{2}))?" + _END)
_SEPARATOR = re.compile(r"\s+|-|T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What one text named: a day, a time of day, or both."""

    day: date | None = None
    clock: time | None = None


def parse_time(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """The moment that `text` names, aware and in `zone`; `now` must be aware.

    A local time that the clocks skip is moved forward by what they skip (02:30 is read as 03:30), as
    Slurm does. One that comes twice is read as its first occurrence; Slurm leaves that to the C library.
    Raises UsageError, naming the forms, for anything else.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    try:
        return _parse(text.strip(), now.astimezone(zone), zone)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{text!r} is not a time; Slurm's forms are: {'; '.join(FORMS)}") from error


def format_time(epoch_s: float, zone: tzinfo) -> str:
    """Seconds since 1970 as Slurm prints them, local to `zone`, whole seconds: 2026-11-29T14:03:00."""
    return datetime.fromtimestamp(epoch_s // 1, zone).strftime("%Y-%m-%dT%H:%M:%S")


def _parse(text: str, now: datetime, zone: tzinfo) -> datetime:
    """`parse_time` with plain ValueErrors; `now` is local to `zone`."""
    if match := _NOW.fullmatch(text):
        return (now.astimezone(timezone.utc) + _delta(match)).replace(microsecond=0).astimezone(zone)
    if match := _EPOCH.fullmatch(text):
        return datetime.fromtimestamp(int(match[1]), zone)
    parts = _parts(text, now)
    local = datetime.combine(parts.day or now.date(), parts.clock or time(), zone)
    # Through UTC and back: a time inside a gap comes out moved forward by the gap.
    return local.astimezone(timezone.utc).astimezone(zone)


def _delta(match: re.Match[str]) -> timedelta:
    """The signed distance from now."""
    sign, count, unit = match.groups()
    if count is None:
        return timedelta()
    seconds = int(count) * _UNIT_SECONDS[(unit or "second").lower()]
    return timedelta(seconds=-seconds if sign == "-" else seconds)


def _parts(text: str, now: datetime) -> _Parts:
    """Reads days and times of day, in either order, with blanks, '-' or 'T' between them."""
    parts, at = _next_part(text, 0, now)
    while at < len(text):
        separator = _SEPARATOR.match(text, at)
        if separator is None:
            raise ValueError("two parts without a separator")
        more, at = _next_part(text, separator.end(), now)
        if (parts.day and more.day) or (parts.clock and more.clock):
            raise ValueError("a second day or time of day")
        parts = _Parts(day=parts.day or more.day, clock=parts.clock or more.clock)
    return parts


def _next_part(text: str, at: int, now: datetime) -> tuple[_Parts, int]:
    """The day or time of day at a place in the text, and where it ends."""
    if match := _WORD.match(text, at):
        return _named(match[1].lower(), now.date()), match.end()
    if match := _CLOCK.match(text, at):
        return _Parts(clock=_clock(match)), match.end()
    if match := _ISO_DATE.match(text, at):
        return _Parts(day=date(int(match[1]), int(match[2]), int(match[3]))), match.end()
    if match := _DATE.match(text, at):
        return _Parts(day=_date(match, now.date())), match.end()
    raise ValueError("neither a day nor a time of day")


def _named(word: str, today: date) -> _Parts:
    if word == "today":
        return _Parts(day=today)
    if word == "tomorrow":
        return _Parts(day=today + timedelta(days=1))
    return _Parts(clock=time(_HOURS[word]))


def _clock(match: re.Match[str]) -> time:
    """HH:MM[:SS] with AM or PM: 12:00 AM is midnight, 12:00 PM noon, 13:00 PM an error."""
    hour, half = int(match[1]), (match[4] or "").lower()
    if half and hour > 12:
        raise ValueError("an hour past 12 with AM or PM")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(match[2]), int(match[3] or 0))


def _date(match: re.Match[str], today: date) -> date:
    """MMDD[YY]; without a year, a month that has not begun yet is last year's."""
    month, day = int(match[1]), int(match[2])
    if match[3] is not None:
        return date(2000 + int(match[3]), month, day)
    return date(today.year - 1 if month > today.month else today.year, month, day)
