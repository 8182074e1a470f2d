"""Slurm's rows of one job id as the lives of jobs. Pure.

A requeued job has a row for each life; a job that was resized has several for one life, its segments.
Each segment has its own submission (the resize), SLUID and suspended time. What its start and elapsed time
count from differs between versions (the job's start on 22.05, the resize on 24.11), so the time of a
further segment is reckoned from the later of its start and its submission.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slurm_ofu.values import AccountingRow, Claim

DAY_SECONDS: Final = 86400.0
_NEVER_RAN: Final = frozenset(("REVOKED", "PENDING"))  # REVOKED: it ran on another cluster of the federation
_GOING_ON: Final = frozenset(
    (
        *("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STAGE_OUT", "SIGNALING"),
        "STOPPED",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row of Slurm's accounting as we keep it: with the claim in its comment and the run it belongs to."""

    row: AccountingRow
    claim: Claim | None = None
    run_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of one job."""

    segments: tuple[StoredRow, ...]
    job: int  # which of the jobs that had this id, by submission
    number: int  # how many lives of the same job came before it, by these rows

    @property
    def first(self) -> AccountingRow:
        """Its row, or the first of its segments."""
        return self.segments[0].row

    @property
    def last(self) -> AccountingRow:
        """Its row, or the last of its segments."""
        return self.segments[-1].row

    @property
    def start_epoch_s(self) -> int:
        """When it started."""
        return self.first.start_epoch_s or 0

    @property
    def end_epoch_s(self) -> int | None:
        """When it ended; ``None`` while it goes on."""
        return self.last.end_epoch_s if self.final else None

    @property
    def final(self) -> bool:
        """Whether it is over. A last segment that was resized has a successor that was not read yet."""
        return not goes_on(self.last)

    @property
    def sluids(self) -> frozenset[str]:
        """Slurm's unique ids of it: each segment has its own."""
        return frozenset(one.row.sluid for one in self.segments if one.row.sluid is not None)

    @property
    def elapsed_seconds(self) -> int:
        """How long it held its nodes, or those that were left, suspended time not counted."""
        return sum(seconds_of(self, at) for at in range(len(self.segments)))

    @property
    def suspended_seconds(self) -> int:
        """How long it was suspended."""
        return sum(one.row.suspended_seconds for one in self.segments)

    @property
    def gpu_count(self) -> int | None:
        """The most GPUs that it held at once; ``None``: Slurm does not say."""
        counts = [one.row.gpu_count for one in self.segments if one.row.gpu_count is not None]
        return max(counts, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What Slurm says of one node of one life. ``gpu_count``: its share where GPUs are spread evenly."""

    seconds: float
    suspended_seconds: float
    gpu_count: float | None


def lives_of(rows: Iterable[StoredRow]) -> list[Life]:
    """The lives of all jobs that had this id, in the order of their submission."""
    lives: list[list[StoredRow]] = []
    for one in sorted(rows, key=lambda one: one.row.submit_epoch_s):
        if one.row.start_epoch_s is None or one.row.state in _NEVER_RAN:
            continue
        if lives and _is_segment(one.row, lives[-1][-1].row):
            lives[-1].append(one)
        else:
            lives.append([one])
    return _numbered(lives)


def _numbered(lives: Iterable[Sequence[StoredRow]]) -> list[Life]:
    numbered: list[Life] = []
    job, number = 0, 0
    for segments in lives:
        if numbered:
            again = _is_requeued(segments[0].row, numbered[-1].last)
            job, number = (job, number + 1) if again else (job + 1, 0)
        numbered.append(Life(segments=tuple(segments), job=job, number=number))
    return numbered


def goes_on(row: AccountingRow) -> bool:
    """Whether more is to come of what this row is about."""
    return row.end_epoch_s is None or row.state in _GOING_ON


def seconds_of(life: Life, at: int) -> int:
    """How long one segment held its nodes, suspended time not counted."""
    row = life.segments[at].row
    if at == 0:
        return row.elapsed_seconds
    begin = max(row.start_epoch_s or 0, row.submit_epoch_s)
    end = begin if row.end_epoch_s is None else row.end_epoch_s
    return max(0, end - begin - row.suspended_seconds)


def node_shares(life: Life, node_names: Callable[[str], Sequence[str]]) -> dict[str, NodeShare]:
    """Slurm's word on each node of a life: how long, over the segments that contain it."""
    seconds: dict[str, float] = {}
    suspended: dict[str, float] = {}
    gpu_seconds: dict[str, float | None] = {}
    widest: dict[str, float | None] = {}
    for at, one in enumerate(life.segments):
        names = () if one.row.node_list is None else tuple(dict.fromkeys(node_names(one.row.node_list)))
        its, count = seconds_of(life, at), one.row.gpu_count
        gpus = None if count is None else count / len(names) if names else 0.0
        for name in names:
            seconds[name] = seconds.get(name, 0.0) + its
            suspended[name] = suspended.get(name, 0.0) + one.row.suspended_seconds
            gpu_seconds[name] = _plus(gpu_seconds.get(name, 0.0), gpus, its)
            widest[name] = _larger(widest.get(name), gpus)
    return {
        name: NodeShare(
            seconds=seconds[name],
            suspended_seconds=suspended[name],
            gpu_count=_mean(gpu_seconds[name], seconds[name], widest[name]),
        )
        for name in seconds
    }


def _plus(gpu_seconds: float | None, gpus: float | None, seconds: float) -> float | None:
    return None if gpu_seconds is None or gpus is None else gpu_seconds + gpus * seconds


def _larger(one: float | None, other: float | None) -> float | None:
    return max((count for count in (one, other) if count is not None), default=None)


def _mean(gpu_seconds: float | None, seconds: float, widest: float | None) -> float | None:
    return gpu_seconds / seconds if gpu_seconds is not None and seconds > 0 else widest


def _is_segment(row: AccountingRow, before: AccountingRow) -> bool:
    return before.state == "RESIZING" and _follows(row, before)


def _is_requeued(row: AccountingRow, before: AccountingRow) -> bool:
    """Whether a row is the next life of the same job, not another job by the same id."""
    if row.restart_count is not None and before.restart_count is not None:
        return row.restart_count > before.restart_count and _follows(row, before)
    return _follows(row, before)


def _follows(row: AccountingRow, before: AccountingRow) -> bool:
    """Whether a row may be of the same job as the one before it: ids come back after years."""
    end = before.submit_epoch_s if before.end_epoch_s is None else before.end_epoch_s
    return same_user(row, before.uid, before.user) and row.submit_epoch_s - end <= DAY_SECONDS


def same_user(row: AccountingRow, uid: int | None, user: str | None) -> bool:
    """Whether a row may be of this user; an unknown one fits everybody."""
    if row.uid is not None and uid is not None:
        return row.uid == uid
    return row.user is None or user is None or row.user == user
