"""Table write_back: which runs' tokens are to be written into Slurm's accounting, and what became of it.

A run is due once it is over in Slurm's accounting and its nodes had time to report: when nothing was
written yet, when something has been said of it since, or when the last attempt failed and its pause is over.
Only the run of a job id's last row is: Slurm shows that one, and no other can be written to.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from slurm_ofu.store.opened import opened_at, transaction_at
from slurm_ofu.store.sole import alone

Status = Literal["written", "left_alone", "superseded", "failed"]

FIRST_PAUSE_SECONDS: Final = 60.0  # after a failure; twice as long after each further one
MOST_ATTEMPTS: Final = 10  # over some 17 hours

_DUE: Final = """
FROM run AS r LEFT JOIN write_back AS w ON w.run_id = r.run_id
WHERE r.end_epoch_s >= :start AND r.end_epoch_s <= :end AND r.accounted = 1 AND r.heard = 1
    AND (w.run_id IS NULL OR r.updated_epoch_s >= w.updated_epoch_s
        OR w.status = 'failed' AND w.next_epoch_s <= :now)
    AND COALESCE(w.status, '') <> 'superseded'
    AND (SELECT MAX(a.submit_epoch_s) FROM accounting_row AS a WHERE a.run_id = r.run_id)
        = (SELECT MAX(a.submit_epoch_s) FROM accounting_row AS a
           WHERE a.cluster = r.cluster AND a.job_id = r.job_id)
"""
_DUE_RUNS: Final = f"""
SELECT r.run_id, r.cluster, r.job_id, r.array_job_id, r.array_task_id, r.het_job_id, r.het_offset,
    (SELECT MAX(a.submit_epoch_s) FROM accounting_row AS a WHERE a.run_id = r.run_id),
    w.status, w.field, w.token, w.attempts
{_DUE} ORDER BY r.end_epoch_s DESC, r.run_id LIMIT :most
"""
_COUNT_DUE: Final = f"SELECT COUNT(*) {_DUE}"
_WRITTEN_SINCE: Final = """
SELECT COUNT(*) FROM write_back WHERE updated_epoch_s > ? AND status IN ('written', 'failed')
"""
_RECORD: Final = """
INSERT INTO write_back (run_id, status, field, token, attempts, next_epoch_s, message, updated_epoch_s)
SELECT run_id, ?, ?, ?, ?, ?, ?, ? FROM run WHERE run_id = ?
ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, field = excluded.field, token = excluded.token,
    attempts = excluded.attempts, next_epoch_s = excluded.next_epoch_s, message = excluded.message,
    updated_epoch_s = excluded.updated_epoch_s
"""
_TOUCH: Final = "UPDATE write_back SET updated_epoch_s = ? WHERE run_id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A run whose token may have to be written, and what became of it before (``status``: never tried)."""

    run_id: int
    cluster: str
    job_id: int
    array_job_id: int | None
    array_task_id: int | None
    het_job_id: int | None
    het_offset: int | None
    last_submit_epoch_s: int  # of the last of its rows in Slurm's accounting
    status: Status | None
    field: str | None
    token: str | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """At what time it is asked, and when the runs in question ended (both ends included)."""

    now_epoch_s: float
    ended_from_epoch_s: float
    ended_by_epoch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What became of writing one run's token."""

    run_id: int
    status: Status
    field: str
    token: str
    attempts: int  # failed ones in a row
    message: str | None


class WriteBackQueue:
    """The queue in the accounting database at ``path``. Raises StoreBusy and StoreError."""

    def __init__(self, path: str | Path, *, wait_seconds: float) -> None:
        self.path = Path(path)
        self.wait_seconds = wait_seconds

    def due(self, when: Window, most: int) -> list[DueRun]:
        """The runs that are due, the latest first, at most so many."""
        with opened_at(self.path, self.wait_seconds) as opened:
            rows = opened.execute(_DUE_RUNS, {**_asked(when), "most": most}).fetchall()
        return [_due_run(row) for row in rows]

    def count_due(self, when: Window) -> int:
        """How many are due."""
        with opened_at(self.path, self.wait_seconds) as opened:
            return int(opened.execute(_COUNT_DUE, _asked(when)).fetchone()[0])

    def written_since(self, epoch_s: float) -> int:
        """How many jobs Slurm's accounting was asked to change since then."""
        with opened_at(self.path, self.wait_seconds) as opened:
            return int(opened.execute(_WRITTEN_SINCE, (epoch_s,)).fetchone()[0])

    def record(self, attempts: Sequence[Attempt], as_of_epoch_s: float) -> None:
        """Note what became of runs. ``as_of_epoch_s``: before their figures were read, so that whatever is
        said of them since makes them due again."""
        rows = [_row(attempt, as_of_epoch_s) for attempt in attempts]
        with transaction_at(self.path, self.wait_seconds) as opened:
            opened.executemany(_RECORD, rows)

    def unchanged(self, run_ids: Sequence[int], as_of_epoch_s: float) -> None:
        """Note that what has been said of these runs since leaves their token as it is."""
        with transaction_at(self.path, self.wait_seconds) as opened:
            opened.executemany(_TOUCH, [(as_of_epoch_s, run_id) for run_id in run_ids])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the right to write back, which one process has. Raises StoreBusy at once."""
        with alone(self.path, ".write-back", "writing back"):
            yield


def pause_seconds(attempts: int) -> float | None:
    """How long after so many failures in a row the next attempt is made; ``None``: it is given up."""
    return None if attempts >= MOST_ATTEMPTS else FIRST_PAUSE_SECONDS * 2.0 ** max(0, attempts - 1)


def _asked(when: Window) -> dict[str, float]:
    return {"now": when.now_epoch_s, "start": when.ended_from_epoch_s, "end": when.ended_by_epoch_s}


def _due_run(row: tuple[object, ...]) -> DueRun:
    names = (
        *("run_id", "cluster", "job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset"),
        *("last_submit_epoch_s", "status", "field", "token", "attempts"),
    )
    values: dict[str, object] = dict(zip(names, row, strict=True))
    return DueRun(**{**values, "attempts": values["attempts"] or 0})  # type: ignore[arg-type]


def _row(attempt: Attempt, as_of_epoch_s: float) -> tuple[str | int | float | None, ...]:
    pause = pause_seconds(attempt.attempts) if attempt.status == "failed" else None
    return (
        *(attempt.status, attempt.field, attempt.token, attempt.attempts),
        None if pause is None else as_of_epoch_s + pause,
        *(attempt.message, as_of_epoch_s, attempt.run_id),
    )
