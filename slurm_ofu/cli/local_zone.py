"""The reader's time zone, as the C library knows it."""

import time
from datetime import datetime, timedelta, timezone, tzinfo


class LocalZone(tzinfo):
    """The local time zone, right on both sides of a change of clocks.

    ``datetime.astimezone()`` alone gives the offset of one moment only, and of a time that the clocks
    skip whatever this version of Python makes of it; the zone's name in the tz database is nowhere to
    be had for certain (TZ may hold a rule instead).
    """

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """The offset at that local time."""
        return None if at is None else _local(at)[0]

    def dst(self, at: datetime | None) -> timedelta | None:
        """Not known, and not needed."""
        return None

    def tzname(self, at: datetime | None) -> str | None:
        """The zone's abbreviation at that local time."""
        return None if at is None else _local(at)[1]

    def fromutc(self, at: datetime) -> datetime:
        """A UTC time in this zone; of an hour that comes twice, the right one."""
        local = at.replace(tzinfo=timezone.utc).astimezone()
        first = local.replace(tzinfo=self, fold=0)
        return first if first.utcoffset() == local.utcoffset() else first.replace(fold=1)


def _local(at: datetime) -> tuple[timedelta, str]:
    """Offset and abbreviation at a local time, as PEP 495 has them: of a time that comes twice the first
    (or by ``fold`` the second), of one that is skipped the offset before (or by ``fold`` after)."""
    naive = at.replace(tzinfo=timezone.utc)
    before, after = _at(naive - timedelta(days=1)), _at(naive + timedelta(days=1))
    right = [found for found in (before, after) if _at(naive - found[0])[0] == found[0]]
    both = right if len(right) == 1 else [before, after]
    return both[min(at.fold, len(both) - 1)]


def _at(moment: datetime) -> tuple[timedelta, str]:
    local = time.localtime(moment.timestamp())
    return timedelta(seconds=local.tm_gmtoff), local.tm_zone
