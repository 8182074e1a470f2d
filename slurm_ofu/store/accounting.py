"""Tables accounting_row and accounting_progress: Slurm's own rows, and how far they were read."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from slurm_ofu.store.facts import ClaimColumns, claim_columns, claim_from
from slurm_ofu.store.lives import StoredRow, goes_on
from slurm_ofu.store.rows import clean_text
from slurm_ofu.values import AccountingRow, Claim

#: What becomes of a row, as values.Taken counts it.
Fate = Literal["changed", "known", "ignored", "refused"]

_KEY: Final = ("cluster", "job_id", "submit_epoch_s")
_WORDS: Final = (
    *("start_epoch_s", "end_epoch_s", "elapsed_seconds", "suspended_seconds", "state", "exit_code"),
    *("user_name", "uid", "account", "partition", "qos", "job_name"),
    *("array_job_id", "array_task_id", "het_job_id", "het_offset"),
    *("node_list", "node_count", "alloc_tres", "gpu_count", "restart_count", "sluid", "comment"),
)
_CLAIM: Final = ("claim_kind", "claim_value", "claim_text", "claim_peak_tflops")
_COLUMNS: Final = (*_KEY, *_WORDS, *_CLAIM)
_FIELDS: Final = tuple({"user_name": "user"}.get(name, name) for name in (*_KEY, *_WORDS))

_ROW: Final = f"""
SELECT {", ".join(_COLUMNS)} FROM accounting_row WHERE cluster = ? AND job_id = ? AND submit_epoch_s = ?
"""
_ROWS_OF_JOB: Final = f"""
SELECT {", ".join(_COLUMNS)}, run_id FROM accounting_row WHERE cluster = ? AND job_id = ?
"""
_HAS_RUN: Final = "SELECT 1 FROM run WHERE cluster = ? AND job_id = ? LIMIT 1"
_STORE: Final = f"""
INSERT INTO accounting_row ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (cluster, job_id, submit_epoch_s) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in (*_WORDS, *_CLAIM))}
"""
_LINK: Final = """
UPDATE accounting_row SET run_id = ? WHERE cluster = ? AND job_id = ? AND submit_epoch_s = ?
"""
_READ_UNTIL: Final = "SELECT read_until_epoch_s FROM accounting_progress WHERE cluster = ?"
_SET_READ_UNTIL: Final = """
INSERT INTO accounting_progress (cluster, read_until_epoch_s) VALUES (?, ?)
ON CONFLICT (cluster) DO UPDATE SET read_until_epoch_s = MAX(read_until_epoch_s, excluded.read_until_epoch_s)
"""


def take_row(opened: sqlite3.Connection, row: AccountingRow, claim_of: Callable[[str], Claim | None]) -> Fate:
    """Keep one row, if it has GPUs or is of a job id that a run has.

    What was read last stays, but what is over never goes on again.
    """
    claim = None if row.comment is None else claim_of(row.comment)
    values = (*(_clean(getattr(row, name)) for name in _FIELDS), *claim_columns(claim))
    stored = opened.execute(_ROW, values[: len(_KEY)]).fetchone()
    if stored is None:
        wanted = row.gpu_count or opened.execute(_HAS_RUN, values[:2]).fetchone()
        if not wanted:
            return "ignored"
    elif stored == values or _stage(row) < _stage(_stored_row((*stored, None)).row):
        return "known"
    opened.execute(_STORE, values)
    return "changed"


def rows_of_job(opened: sqlite3.Connection, cluster: str, job_id: int) -> list[StoredRow]:
    """Every row that is kept of a job id."""
    return [_stored_row(row) for row in opened.execute(_ROWS_OF_JOB, (cluster, job_id)).fetchall()]


def set_links(opened: sqlite3.Connection, links: Iterable[tuple[AccountingRow, int | None]]) -> None:
    """Note of rows which run they belong to."""
    opened.executemany(
        _LINK, [(run_id, row.cluster, row.job_id, row.submit_epoch_s) for row, run_id in links]
    )


def read_until(opened: sqlite3.Connection, cluster: str) -> float | None:
    """Up to when the accounting of a cluster was read; ``None``: never."""
    row = opened.execute(_READ_UNTIL, (cluster,)).fetchone()
    return None if row is None else float(row[0])


def set_read_until(opened: sqlite3.Connection, cluster: str, epoch_s: float) -> None:
    """Note how far it was read; an earlier instant changes nothing."""
    opened.execute(_SET_READ_UNTIL, (cluster, float(epoch_s)))


def _stage(row: AccountingRow) -> tuple[bool, bool]:
    """How far a life or segment has come: it goes on, it was resized, it is over."""
    return row.end_epoch_s is not None, not goes_on(row)


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _stored_row(row: tuple[Any, ...]) -> StoredRow:
    *values, run_id = row
    words, claim = values[: -len(_CLAIM)], values[-len(_CLAIM) :]
    columns: ClaimColumns = (claim[0], claim[1], claim[2], claim[3])
    told = dict(zip(_FIELDS, words, strict=True))
    return StoredRow(row=AccountingRow(**told), claim=claim_from(columns, "accounting"), run_id=run_id)
