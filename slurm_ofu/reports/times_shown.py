"""Times as Slurm's commands show them, by what SLURM_TIME_FORMAT says."""

import re
from datetime import datetime, tzinfo

from slurm_ofu.errors import UsageError
from slurm_ofu.reports.free_text import printable

_STANDARD = "%Y-%m-%dT%H:%M:%S"
_PARTS = re.compile(r"%(.)", re.DOTALL)
_LONGEST = 256


def shown_time(epoch_s: float, time_format: str | None, *, zone: tzinfo, now: datetime) -> str:
    """The time to the second: ``standard`` (or nothing said) is ISO 8601 without an offset, ``relative``
    Slurm's shorter forms, and anything else is given to strftime."""
    at = datetime.fromtimestamp(epoch_s // 1, zone)
    if time_format in (None, "", "standard"):
        return at.strftime(_STANDARD)
    if time_format == "relative":
        return at.strftime(_relative(at, now.astimezone(zone)))
    return printable(at.strftime(_with_epoch(time_format or "", int(epoch_s // 1))))


def checked_time_format(text: str | None, *, now: datetime) -> str | None:
    """SLURM_TIME_FORMAT if it can be used. Raises UsageError."""
    if text in (None, "", "standard", "relative"):
        return text
    try:
        if len(text or "") > _LONGEST or "%" not in (text or ""):
            raise ValueError
        now.strftime(_with_epoch(text or "", 0))
    except ValueError as error:
        shown = printable(text or "")[:40]
        raise UsageError(
            f"SLURM_TIME_FORMAT={shown!r} cannot be used: standard, relative, or as strftime has it"
        ) from error
    return text


def _with_epoch(time_format: str, epoch_s: int) -> str:
    """``%s`` filled in: strftime would take the time for one of the C library's zone."""
    return _PARTS.sub(lambda part: str(epoch_s) if part[1] == "s" else part[0], time_format)


def _relative(at: datetime, now: datetime) -> str:
    """As Slurm has it: days apart by number of year and day, so that New Year's Eve is far away."""
    apart = 1000 * (at.year - now.year) + at.timetuple().tm_yday - now.timetuple().tm_yday
    if apart in (-1, 0, 1):
        return ("Ystday %H:%M", "%H:%M:%S", "Tomorr %H:%M")[apart + 1]
    if not -365 <= apart <= 365:
        return f"{at.day} %b %Y"
    if not -1 <= apart <= 6:
        return f"{at.day} %b %H:%M"
    return "%a %H:%M"
