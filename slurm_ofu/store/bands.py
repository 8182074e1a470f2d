"""Tables run_band and band_count: what percentiles are read from.

A run that others may be compared to has one row, made anew from its sums whenever they may have changed;
triggers count the rows. Reading a percentile then takes one small query, however many runs there are.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from slurm_ofu.figures.percentiles import PERCENTILE_DAYS, percent_band, percentile
from slurm_ofu.store.views import GPU_SUMS, NODE_SUMS, RUN_SUMS
from slurm_ofu.values import BandCount, Percentile, UsageRow, UsageSums

DAY_SECONDS: Final = 86400
RUNS_AT_ONCE: Final = 500
#: GPU-seconds that no run has; beyond, a number is some mistake, and a million such could not be added up.
MOST_GPU_SECONDS: Final = 1e12


class _Band(NamedTuple):
    """A row of run_band, without its run."""

    gpu_model: str
    day: int  # UTC, since 1970, that the run ended on
    band: int
    gpu_seconds: int


def _sums_query(which: str) -> str:
    return f"""
    WITH g AS (SELECT run_id, MIN(gpu_model) AS a_model, MAX(gpu_model) AS z_model, {GPU_SUMS}
          FROM gpu_accounted WHERE run_id IN ({which}) GROUP BY run_id),
    n AS (SELECT run_id, {NODE_SUMS} FROM run_node WHERE run_id IN ({which}) GROUP BY run_id),
    sums AS (SELECT g.run_id AS run_id, g.a_model AS a_model, g.z_model AS z_model, {RUN_SUMS}
             FROM g JOIN n ON n.run_id = g.run_id)
    SELECT r.run_id, r.running, r.end_epoch_s, s.a_model, s.z_model, s.allocated_seconds,
        s.ofu_covered_seconds, s.tensor_ref_seconds, s.idle_seconds, s.non_tensor_seconds,
        s.non_tensor_covered_seconds, b.gpu_model, b.day, b.band, b.gpu_seconds
    FROM run AS r LEFT JOIN sums AS s ON s.run_id = r.run_id LEFT JOIN run_band AS b ON b.run_id = r.run_id
    WHERE r.run_id IN ({which})
    """


_RUN_IDS: Final = "SELECT run_id FROM run WHERE run_id > ? ORDER BY run_id LIMIT ?"
_DELETE: Final = "DELETE FROM run_band WHERE run_id = ?"
_INSERT: Final = "INSERT INTO run_band (run_id, gpu_model, day, band, gpu_seconds) VALUES (?, ?, ?, ?, ?)"
_COUNTS: Final = """
SELECT band, SUM(run_count), SUM(gpu_seconds) FROM band_count
WHERE gpu_model = ? AND day > ? AND day <= ? GROUP BY band ORDER BY band
"""


def keep_bands(opened: sqlite3.Connection, run_ids: Iterable[int]) -> None:
    """Bring the rows of these runs up to their sums, within the caller's transaction."""
    ids = sorted(set(run_ids))
    for begin in range(0, len(ids), RUNS_AT_ONCE):
        _keep(opened, ids[begin : begin + RUNS_AT_ONCE])


def keep_all_bands(opened: sqlite3.Connection) -> None:
    """The same, of every run that there is."""
    last = 0
    while ids := [run_id for (run_id,) in opened.execute(_RUN_IDS, (last, RUNS_AT_ONCE))]:
        _keep(opened, ids)
        last = ids[-1]


def counts(opened: sqlite3.Connection, *, gpu_model: str, until_day: int) -> list[BandCount]:
    """The runs on a GPU model that ended within PERCENTILE_DAYS, the last of which is ``until_day``."""
    asked = (gpu_model, until_day - PERCENTILE_DAYS, until_day)
    return [
        BandCount(band=band, run_count=run_count, gpu_seconds=gpu_seconds)
        for band, run_count, gpu_seconds in opened.execute(_COUNTS, asked)
    ]


def percentile_of(opened: sqlite3.Connection, row: UsageRow) -> Percentile | None:
    """Where a run stands among those of the PERCENTILE_DAYS up to its end, so that what is said of it does
    not change with the day on which it is read. ``None`` as well while it goes on."""
    run = row.run
    if run is None or run.running or run.end_epoch_s is None or percent_band(row.sums) is None:
        return None
    until_day = day_of(run.end_epoch_s)
    return percentile(row.sums, counts(opened, gpu_model=row.sums.gpu_models[0], until_day=until_day))


def day_of(epoch_s: float) -> int:
    """The UTC day of an instant, since 1970; what no calendar has is taken to its first or last."""
    return int(min(max(epoch_s, 0.0), 1e12)) // DAY_SECONDS


def _keep(opened: sqlite3.Connection, run_ids: Sequence[int]) -> None:
    marks = ", ".join("?" * len(run_ids))
    out, into = [], []
    for run_id, running, end, *sums, model, day, band, seconds in opened.execute(
        _sums_query(marks), [*run_ids] * 3
    ).fetchall():
        stored = None if model is None else _Band(model, day, band, seconds)
        its = None if running else _band(end, *sums)
        if its == stored:
            continue
        if stored is not None:
            out.append((run_id,))
        if its is not None:
            into.append((run_id, *its))
    opened.executemany(_DELETE, out)
    opened.executemany(_INSERT, into)


def _band(end_epoch_s: float, a_model: str | None, z_model: str | None, *sums: Any) -> _Band | None:
    """The row of one run that is over, if it is one that others are compared to."""
    allocated, covered, tensor_ref, idle, non_tensor, judged = sums
    run = UsageSums(
        run_count=1,
        gpu_count=0.0,
        gpu_count_unknown_time=0.0,
        allocated_seconds=allocated,
        covered_seconds=0.0,
        ofu_covered_seconds=covered or 0.0,
        ofu_tensor_active_seconds=None,
        tensor_active_seconds=None,
        tensor_ref_seconds=tensor_ref,
        tensor_ref_variance=None,
        tensor_ref_variance_per_degree=None,
        tpa_covered_seconds=0.0,
        sm_active_seconds=None,
        sm_active_covered_seconds=0.0,
        energy_joules=None,
        estimators=(),
        reasons=(),
        gpu_models=tuple(sorted({model for model in (a_model, z_model) if model is not None})),
        idle_seconds=idle,
        non_tensor_seconds=non_tensor,
        non_tensor_covered_seconds=judged or 0.0,
    )
    band = percent_band(run)
    if band is None or allocated > MOST_GPU_SECONDS:
        return None
    return _Band(run.gpu_models[0], day_of(end_epoch_s), band, round(allocated))
