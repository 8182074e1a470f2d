"""What slurm-ofu asks of the outside, and the laws each answer obeys.

The contract tests run these laws over every implementation.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from slurm_ofu.values import (
    AccountingRow,
    DeviceIdentity,
    JobPage,
    NodeRecord,
    Reading,
    RunGpu,
    Selection,
    SourceChoice,
    StoredGroup,
    UsageRow,
)


class CounterSource(Protocol):
    """A way to read GPU counters.

    Laws. A figure is a finite number or ``None``, and a ``None`` tensor figure carries a fault or is
    ``waiting``; then it carries no cycles either.
    ``read`` never raises for a sick GPU: the fault says what happened, and the other GPUs go on.
    ``since_ns`` of a reading equals ``taken_ns`` of the last good reading of that GPU; it is ``None`` where
    its figures begin: at first, and after faults or waits whose time no figure can cover. A source whose
    figures others pace may put it later, where time before it was lost; earlier never: no time counts twice.
    After ``close`` no GPU handle and no device file stays open.
    """

    name: str
    #: True once cumulative cycle counters answered on every GPU that gives figures; known after each was
    #: read twice.
    has_cycles: bool
    #: Seconds that two readings must lie apart.
    min_interval_seconds: float

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Every GPU that this source sees, in its own order."""

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """Which source speaks for a GPU that will be read; where there are several to choose from, its first
        readings settle it."""

    def read(self, device: DeviceIdentity) -> Reading:
        """The counters of one GPU now, ratios over the time since its last good reading."""

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The SM clock of one GPU now; ``None`` where it does not answer or is published with the rest."""

    def close(self) -> None:
        """Let go of every GPU. Calling it twice is fine."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def boottime_ns(self) -> int:
        """CLOCK_BOOTTIME: neither steps nor stops."""

    def wall_ns(self) -> int:
        """Wall clock, for labels only."""

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait for a boottime instant. True: somebody asked us to stop before it came."""


class Delivery(Protocol):
    """Where records go from the outbox.

    Laws. Handing on the same record twice, also at once, leaves one result. When ``send`` returns,
    the records are safe with the receiver; when it raises DeliveryError, none may be forgotten; with
    RecordRefused, one of them will never be taken, and taking the others again changes nothing.
    """

    def send(self, records: Sequence[tuple[NodeRecord, bytes]]) -> None:
        """Hand on records, each with the bytes it was decoded from; raises DeliveryError or RecordRefused."""


class Accounting(Protocol):
    """Slurm's own accounting (slurmdbd), read.

    Laws. Every implementation gives the same rows for the same question, oldest submission first within
    a job; a row appears once. What Slurm does not say is ``None``, never 0 or an empty text. Rows come
    one by one: memory does not grow with the window. Raises AccountingError when slurmdbd does not
    answer, also in the middle; then nothing may be concluded from the rows that came.
    """

    name: str

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """Every row of all users with any part in start <= t < end, former lives and segments included.

        ``clusters``: (): the local one.
        """

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """Every row, of all times, of these raw job ids."""


class UsageReader(Protocol):
    """Whoever knows of runs that are over: the accounting database, or Slurm's own accounting.

    Laws. A run counts when any part of it lies in the selection's window, once. The sums of a group are
    those of its runs pooled; groups come in the order of their names, runs the oldest first. What nobody
    measured is ``None``, and its GPUs and their time count as allocated. Raises StoreError, and UsageError
    for a group or a filter that it knows nothing of.

    A run that the window cuts counts with what lies inside: exactly at quarter hours where they were kept,
    else by time, and then it is in ``prorated_run_count``. Of windows that follow each other the sums add up
    to those of the whole.
    """

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """Sums over the selected runs, a row per group; by job: a row per run. By node a run counts on each
        of its nodes, by GPU model on each of its models."""

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """Sums over the selected runs within each of the spans from one edge (seconds since 1970, ascending)
        to the next, a row for each, whether anything ran or not; ``group`` is its beginning as text."""

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """A row per selected run."""

    def page(self, run_id: int) -> JobPage:
        """Everything known of one run, whole. Its ``run_id`` holds for this reader alone."""

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """The GPUs of the selected runs, whole, in the order of `jobs`; none where single GPUs are not
        known."""
