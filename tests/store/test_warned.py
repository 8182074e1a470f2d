"""Who was told of what: kept, overwritten, forgotten, and one sender at a time."""

import os
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreBusy, StoreError, StoreMissing
from slurm_ofu.store.warned import KEPT_SECONDS, Told, WarnedReader, WarningCalendar
from tests.store.databases import make_store

NOW = 1_750_000_000.0


def told(user: str = "ada", subject: str = "alpha:1", at: float = NOW) -> Told:
    """One thing."""
    return Told(user=user, audit="idle", subject=subject, sent_epoch_s=at)


@pytest.fixture
def calendar(tmp_path: Path) -> WarningCalendar:
    """An empty one."""
    return WarningCalendar(make_store(tmp_path / "ofu.db").path, wait_seconds=10.0)


def test_what_was_told_is_known(calendar: WarningCalendar) -> None:
    """Oldest first; told again, the later time counts."""
    calendar.record([told(at=NOW), told("bob", at=NOW + 1)])
    calendar.record([told(at=NOW + 2)])
    assert [told("bob", at=NOW + 1), told(at=NOW + 2)] == WarnedReader(calendar.path).told()


def test_what_is_long_past_is_forgotten(calendar: WarningCalendar) -> None:
    """The table does not grow without end."""
    calendar.record([told(at=NOW)])
    calendar.record([told(subject="alpha:2", at=NOW + KEPT_SECONDS + 1)])
    assert ["alpha:2"] == [one.subject for one in WarnedReader(calendar.path).told()]


def test_one_sender_at_a_time(calendar: WarningCalendar) -> None:
    """The second one is told at once, and may try when the first is done; writers are not held up."""
    with calendar.alone():
        calendar.record([told()])
        with pytest.raises(StoreBusy, match="another process is sending mail"), calendar.alone():
            pass
    with calendar.alone():
        pass


def test_noting_nothing_tells_whether_something_could_be(tmp_path: Path) -> None:
    """Where there is no database, it is said before anything is sent."""
    with pytest.raises(StoreMissing):
        WarningCalendar(tmp_path / "none.db", wait_seconds=1.0).record([])
    with pytest.raises(StoreMissing), WarningCalendar(tmp_path / "none.db", wait_seconds=1.0).alone():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_the_lock_is_the_database_owners(calendar: WarningCalendar) -> None:
    """Root leaves a service user a lock that it can take."""
    os.chown(calendar.path, 12345, -1)
    with calendar.alone():
        pass
    assert 12345 == calendar.path.with_name("ofu.db.mail.lock").stat().st_uid


def test_a_database_that_is_none(tmp_path: Path) -> None:
    """A file of something else is not written to."""
    path = tmp_path / "ofu.db"
    path.write_text("something else, and long enough to be looked at as a database file" * 20)
    with pytest.raises(StoreError):
        WarningCalendar(path, wait_seconds=1.0).record([])
