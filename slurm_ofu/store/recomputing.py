"""Old rows under a corrected reference clock.

Every GPU row holds the reference clock that it was made with, so that OFU can be put on another one
exactly: numerators are multiplied by old / new. A row of a GPU model that was unknown holds its active
cycles instead, and gets its figure from them; its time-line, quarter hours and peak stay without.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurm_ofu.store.bands import keep_bands
from slurm_ofu.store.opened import opened_at, transaction_at
from slurm_ofu.store.rows import timeline_from_json, timeline_json
from slurm_ofu.values import GpuModel, Reason, Timeline

#: A clock that differs by less is the same, written with fewer digits.
TOLERANCE: Final = 1e-6
#: A mean above the maximum clock by more than this is not to be believed (as in the sampler's totals).
CLOCK_TOLERANCE: Final = 0.02
RUNS_PER_TRANSACTION: Final = 200

_CLOCKS: Final = """
SELECT gpu_model, reference_clock_mhz, COUNT(*), COUNT(DISTINCT run_id),
    SUM(reference_clock_mhz IS NULL AND tensor_megacycles IS NULL)
FROM run_gpu
WHERE gpu_model IS NOT NULL AND tensor_active_seconds IS NOT NULL
GROUP BY gpu_model, reference_clock_mhz ORDER BY gpu_model, reference_clock_mhz
"""
_RUNS: Final = """
SELECT DISTINCT run_id FROM run_gpu
WHERE gpu_model = ? AND reference_clock_mhz IS ?
    AND (tensor_ref_seconds IS NOT NULL OR tensor_megacycles IS NOT NULL)
ORDER BY run_id
"""
_SCALE_GPUS: Final = """
UPDATE run_gpu SET reference_clock_mhz = :new, tensor_ref_seconds = tensor_ref_seconds * :factor,
    tensor_ref_error_seconds = tensor_ref_error_seconds * :factor,
    peak_tensor_ref_seconds = peak_tensor_ref_seconds * :factor,
    disagreement_ratio = disagreement_ratio * :factor
WHERE run_id = :run_id AND gpu_model = :gpu_model AND reference_clock_mhz = :old
"""
_SCALE_QUARTERS: Final = """
UPDATE quarter_hour SET tensor_ref_seconds = tensor_ref_seconds * :factor,
    tensor_ref_error_seconds = tensor_ref_error_seconds * :factor
WHERE run_id = :run_id AND gpu_model = :gpu_model AND node_name IN (SELECT node_name FROM run_gpu
    WHERE run_id = :run_id AND gpu_model = :gpu_model AND reference_clock_mhz = :old)
"""
_TIMELINES: Final = """
SELECT t.node_name, t.position, t.timeline_json FROM gpu_timeline AS t JOIN run_gpu AS g
    ON g.run_id = t.run_id AND g.node_name = t.node_name AND g.position = t.position
WHERE t.run_id = :run_id AND g.gpu_model = :gpu_model AND g.reference_clock_mhz = :old
"""
_SET_TIMELINE: Final = (
    "UPDATE gpu_timeline SET timeline_json = ? WHERE run_id = ? AND node_name = ? AND position = ?"
)
_UNKNOWN_GPUS: Final = """
SELECT g.node_name, g.position, g.reason, g.tensor_megacycles, g.tensor_megacycles_error, g.covered_seconds,
    g.interval_count, g.allocated_seconds, g.sm_share_ratio, n.allocated_seconds
FROM run_gpu AS g JOIN run_node AS n ON n.run_id = g.run_id AND n.node_name = g.node_name
WHERE g.run_id = ? AND g.gpu_model = ? AND g.reference_clock_mhz IS NULL AND g.tensor_megacycles IS NOT NULL
"""
_SET_UNKNOWN: Final = """
UPDATE run_gpu SET reference_clock_mhz = ?, reason = ?, tensor_ref_seconds = ?, tensor_ref_error_seconds = ?,
    tensor_megacycles = NULL, tensor_megacycles_error = NULL
WHERE run_id = ? AND node_name = ? AND position = ?
"""
_UNKNOWN_NODES: Final = "SELECT node_name FROM run_node WHERE run_id = ? AND reason = 'unknown_model'"
_REASONS: Final = "SELECT reason FROM run_gpu WHERE run_id = ? AND node_name = ? ORDER BY position"
_SET_NODE_REASON: Final = "UPDATE run_node SET reason = ? WHERE run_id = ? AND node_name = ?"
_TOUCH: Final = "UPDATE run SET updated_epoch_s = MAX(updated_epoch_s, ?) WHERE run_id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedRows:
    """Rows of one GPU model and reference clock that the catalogue now says otherwise of."""

    gpu_model: str
    old_clock_mhz: float | None  # None: the model was unknown
    new_clock_mhz: float | None  # None: nobody knows it now, and the rows are left as they are
    gpu_row_count: int
    run_count: int
    lost_count: int  # of these, rows made without a clock that kept no cycles either


class Recomputation:
    """Brings the database at ``path`` up to the reference clocks that ``model_of`` knows.

    ``node_reason`` gives a node's reason from those of its GPUs. Raises StoreBusy and StoreError.
    """

    def __init__(
        self,
        path: Path,
        *,
        wait_seconds: float,
        model_of: Callable[[str], GpuModel | None],
        node_reason: Callable[[Sequence[Reason]], Reason],
    ) -> None:
        self.path = path
        self.wait_seconds = wait_seconds
        self._model_of = model_of
        self._node_reason = node_reason

    def outdated(self) -> list[OutdatedRows]:
        """What there is to do, and what cannot be done."""
        with opened_at(self.path, self.wait_seconds) as opened:
            rows = opened.execute(_CLOCKS).fetchall()
        found = []
        for name, old, gpu_rows, runs, lost in rows:
            model = self._model_of(name)
            new = None if model is None else float(model.reference_clock_mhz)
            if new is None or not _same(old, new):
                found.append(
                    OutdatedRows(
                        gpu_model=name,
                        old_clock_mhz=old,
                        new_clock_mhz=new,
                        gpu_row_count=gpu_rows,
                        run_count=runs,
                        lost_count=lost,
                    )
                )
        return found

    def recompute(self, rows: OutdatedRows, now_epoch_s: float) -> Iterator[int]:
        """Put them on the new clock; yields how many runs are done, transaction by transaction. What was
        done stays done: it may be interrupted, and started again."""
        model = self._model_of(rows.gpu_model)
        if model is None:
            return
        with opened_at(self.path, self.wait_seconds) as opened:
            runs = [run for (run,) in opened.execute(_RUNS, (rows.gpu_model, rows.old_clock_mhz))]
        for begin in range(0, len(runs), RUNS_PER_TRANSACTION):
            its = runs[begin : begin + RUNS_PER_TRANSACTION]
            with transaction_at(self.path, self.wait_seconds) as opened:
                for run_id in its:
                    if rows.old_clock_mhz is None:
                        self._give_clock(opened, run_id, rows.gpu_model, model)
                    else:
                        _scale(opened, run_id, rows, float(model.reference_clock_mhz))
                    opened.execute(_TOUCH, (now_epoch_s, run_id))
                keep_bands(opened, its)
            yield min(begin + RUNS_PER_TRANSACTION, len(runs))

    def _give_clock(self, opened: sqlite3.Connection, run_id: int, gpu_model: str, model: GpuModel) -> None:
        clock = float(model.reference_clock_mhz)
        for row in opened.execute(_UNKNOWN_GPUS, (run_id, gpu_model)).fetchall():
            node, position, reason, cycles, error, *_ = row
            reason = _reason(row, model) if reason == "unknown_model" else reason
            sigma = None if error is None else error / clock
            opened.execute(_SET_UNKNOWN, (clock, reason, cycles / clock, sigma, run_id, node, position))
        for (node,) in opened.execute(_UNKNOWN_NODES, (run_id,)).fetchall():
            reasons = [reason for (reason,) in opened.execute(_REASONS, (run_id, node))]
            opened.execute(_SET_NODE_REASON, (self._node_reason(reasons), run_id, node))


def _same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) <= TOLERANCE * new


def _scale(opened: sqlite3.Connection, run_id: int, rows: OutdatedRows, new: float) -> None:
    old = rows.old_clock_mhz
    assert old is not None
    bound: Mapping[str, Any] = {
        "run_id": run_id,
        "gpu_model": rows.gpu_model,
        "old": old,
        "new": new,
        "factor": old / new,
    }
    opened.execute(_SCALE_QUARTERS, bound)
    for node, position, text in opened.execute(_TIMELINES, bound).fetchall():
        line = timeline_from_json(text)
        assert line is not None
        opened.execute(_SET_TIMELINE, (timeline_json(_scaled(line, old / new)), run_id, node, position))
    opened.execute(_SCALE_GPUS, bound)  # last: the others find their rows by the old clock


def _scaled(line: Timeline, factor: float) -> Timeline:
    return Timeline(
        start_epoch_s=line.start_epoch_s,
        bucket_seconds=line.bucket_seconds,
        buckets=tuple((None if part is None else part * factor, seconds) for part, seconds in line.buckets),
    )


def _reason(row: Sequence[Any], model: GpuModel) -> Reason:
    """What a row of an unknown model would have been with its clock."""
    *_, cycles, _, covered, intervals, allocated, sm_share, node_allocated = row
    if model.max_clock_mhz is not None and cycles > covered * model.max_clock_mhz * (1 + CLOCK_TOLERANCE):
        return "suspect"
    if None not in (allocated, node_allocated) and allocated < 0.99 * sm_share * node_allocated:
        return "shared"
    return "ok" if intervals >= 2 else "short"
