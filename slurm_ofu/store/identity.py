"""Which stored run does a record belong to? Pure.

A job id comes back: after a requeue with another restart count, and after years (or after the
controller lost its state) for another job altogether, which is another *incarnation* of the same key.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slurm_ofu.values import NodeRecord

SAME_RUN_SECONDS: Final = 86400.0  # nodes of one run may disagree by this much about when it was
EPILOG_SECONDS: Final = 120.0  # and their epilogs run within this much of each other


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """What tells one stored run of a (cluster, job id) from another: its nodes' words, not accounting's."""

    run_id: int
    restart_count: int
    restart_certain: bool
    incarnation: int
    sluid: str | None
    uid: int | None
    start_epoch_s: float | None
    end_epoch_s: float
    goes_on: bool = False  # the final word of one of its nodes has not come: its end is later


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a record tells of the run that it belongs to."""

    restart_count: int
    sluid: str | None
    uid: int | None
    start_epoch_s: float
    end_epoch_s: float


def told_by(record: NodeRecord) -> Told:
    """What a record tells. An epilog alone knows no start."""
    start = record.start_epoch_s if record.job.restart_certain else None
    return Told(
        restart_count=record.job.key.restart_count,
        sluid=record.job.key.sluid,
        uid=record.job.uid,
        start_epoch_s=record.end_epoch_s if start is None else start,
        end_epoch_s=record.end_epoch_s,
    )


def certain_run(told: Told, runs: Iterable[StoredRun]) -> StoredRun | None:
    """The run of a record whose restart count is the prolog's; ``None``: a new incarnation."""
    fitting = [
        run
        for run in runs
        if run.restart_certain
        and run.restart_count == told.restart_count
        and _same_life(told, run, SAME_RUN_SECONDS)
    ]
    return _nearest(told, fitting)


def epilog_run(told: Told, runs: Iterable[StoredRun]) -> StoredRun | None:
    """The certain run that a record of an epilog alone belongs to.

    Its restart count may be one too high (and its SLUID the next life's), so its end decides; that of a run
    that goes on is not known, and there the restart count does.
    """
    fitting = [
        run
        for run in runs
        if run.restart_certain
        and run.restart_count <= told.restart_count
        and _same_user(told, run)
        and _gap_seconds(told, run) <= _epilog_seconds(told, run)
    ]
    return _nearest(told, fitting)


def _epilog_seconds(told: Told, run: StoredRun) -> float:
    is_its_end = (
        run.goes_on and run.restart_count == told.restart_count and told.end_epoch_s >= run.end_epoch_s
    )
    return SAME_RUN_SECONDS if is_its_end else EPILOG_SECONDS


def uncertain_run(told: Told, runs: Iterable[StoredRun]) -> StoredRun | None:
    """The run that only epilogs have spoken of, and that this epilog speaks of too."""
    fitting = [
        run
        for run in runs
        if not run.restart_certain
        and run.restart_count == told.restart_count
        and _same_life(told, run, EPILOG_SECONDS)
    ]
    return _nearest(told, fitting)


def _same_life(told: Told, run: StoredRun, widened_seconds: float) -> bool:
    if told.sluid is not None and run.sluid is not None:
        return told.sluid == run.sluid
    return _gap_seconds(told, run) <= widened_seconds and _same_user(told, run)


def _gap_seconds(told: Told, run: StoredRun) -> float:
    """Seconds between the two spans; 0 where they overlap."""
    start = run.end_epoch_s if run.start_epoch_s is None else run.start_epoch_s
    return max(0.0, told.start_epoch_s - run.end_epoch_s, start - told.end_epoch_s)


def _same_user(told: Told, run: StoredRun) -> bool:
    return told.uid is None or run.uid is None or told.uid == run.uid


def _same_sluid(told: Told, run: StoredRun) -> bool:
    return told.sluid is not None and told.sluid == run.sluid


def _nearest(told: Told, runs: list[StoredRun]) -> StoredRun | None:
    def distance(run: StoredRun) -> tuple[bool, float, float, int]:
        apart = abs(run.end_epoch_s - told.end_epoch_s)
        return not _same_sluid(told, run), _gap_seconds(told, run), apart, -run.restart_count

    return min(runs, key=distance, default=None)
