"""The reader's time zone, as the C library knows it."""

from datetime import datetime, timedelta, timezone, tzinfo


class LocalZone(tzinfo):
    """The local time zone, right on both sides of a change of clocks.

    ``datetime.astimezone()`` alone gives the offset of one moment only, and the zone's name in the tz
    database is nowhere to be had for certain (TZ may hold a rule instead).
    """

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """The offset at that local time."""
        return None if at is None else _as_local(at).utcoffset()

    def dst(self, at: datetime | None) -> timedelta | None:
        """Not known, and not needed."""
        return None

    def tzname(self, at: datetime | None) -> str | None:
        """The zone's abbreviation at that local time."""
        return None if at is None else _as_local(at).tzname()

    def fromutc(self, at: datetime) -> datetime:
        """A UTC time in this zone; of an hour that comes twice, the right one."""
        local = at.replace(tzinfo=timezone.utc).astimezone()
        first = local.replace(tzinfo=self, fold=0)
        return first if first.utcoffset() == local.utcoffset() else first.replace(fold=1)


def _as_local(at: datetime) -> datetime:
    return at.replace(tzinfo=None).astimezone()
