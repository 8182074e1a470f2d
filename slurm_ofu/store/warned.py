"""Table warning: who was told of what, and when, so that nobody is told too often."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_ofu.errors import NotPermitted
from slurm_ofu.store.opened import transaction_at
from slurm_ofu.store.read import Reader
from slurm_ofu.store.sole import alone, owner_id_of

#: Rows that nobody asks for any more go.
KEPT_SECONDS: Final = 400 * 86400.0

_TOLD: Final = "SELECT user_name, audit, subject, sent_epoch_s FROM warning ORDER BY sent_epoch_s"
_RECORD: Final = """
INSERT INTO warning (user_name, audit, subject, sent_epoch_s) VALUES (?, ?, ?, ?)
ON CONFLICT (user_name, audit, subject) DO UPDATE SET sent_epoch_s = excluded.sent_epoch_s
"""
_FORGET: Final = "DELETE FROM warning WHERE sent_epoch_s < ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that a user was told of."""

    user: str
    audit: str
    subject: str
    sent_epoch_s: float


class WarnedReader(Reader):
    """The accounting database as somebody sees it who asks who was told of what."""

    def told(self) -> list[Told]:
        """All that is known, the oldest first."""
        return self._answer(
            lambda opened: [
                Told(user=user, audit=audit, subject=subject, sent_epoch_s=sent)
                for user, audit, subject, sent in opened.execute(_TOLD)
            ]
        )


class WarningCalendar:
    """The same table, to be written. Raises StoreBusy and StoreError."""

    def __init__(self, path: str | Path, *, wait_seconds: float) -> None:
        self.path = Path(path)
        self.wait_seconds = wait_seconds

    def record(self, told: Sequence[Told]) -> None:
        """Note what somebody was told. Of nothing: whether that could be noted."""
        with transaction_at(self.path, self.wait_seconds) as opened:
            _record(opened, told)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the right to send, which one process has. Raises StoreBusy at once, and NotPermitted for who
        could not note what was sent."""
        owner_id_of(self.path)
        if not os.access(self.path, os.W_OK):
            raise NotPermitted(
                f"{self.path}: this user may not write to it, where it is noted who was told what: send mail"
                " as its owner, or as root"
            )
        with alone(self.path, ".mail", "sending mail"):
            yield


def _record(opened: sqlite3.Connection, told: Sequence[Told]) -> None:
    opened.executemany(_RECORD, [(one.user, one.audit, one.subject, one.sent_epoch_s) for one in told])
    if told:
        opened.execute(_FORGET, (max(one.sent_epoch_s for one in told) - KEPT_SECONDS,))
