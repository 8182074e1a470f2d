"""Read the accounting database: sums for reports, and everything kept about one run.

Readers need no right to write: with a rollback journal they work beside a writer and without one.
Each answer is one consistent snapshot, read quickly, since a reader holds up a writer's commit.
"""

import sqlite3
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeVar

from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.bands import percentile_of
from slurm_ofu.store.connection import connection, dicts, translated, user_version, wait_until
from slurm_ofu.store.playback import journal_path, played_back
from slurm_ofu.store.queries import COUNT, GPUS, NODES, ON_SLICES, gpus_query, run_ids_query
from slurm_ofu.store.rows import gpu_from_row
from slurm_ofu.store.run_rows import node_row
from slurm_ofu.store.schema import SCHEMA_VERSION
from slurm_ofu.store.selection import where
from slurm_ofu.store.sums import Asking
from slurm_ofu.values import (
    Claim,
    Goals,
    GpuRow,
    JobPage,
    RunGpu,
    Selection,
    StoredGroup,
    UsageRow,
)

_RUNS_AT_ONCE: Final = 200  # whose GPUs are read in one snapshot
_Answer = TypeVar("_Answer")
_JOURNAL_PAUSE_SECONDS: Final = 0.05
_JOURNAL_PATIENCE_SECONDS: Final = 0.5  # a living writer is done with its journal by then


class Reader:
    """The accounting database at ``path``, for anybody who may read the file.

    Raises StoreMissing where there is none, StoreBusy where a writer held it for ``wait_seconds``.
    ``held_against`` gives a claim what it is compared to, by the models of the run's GPUs, where no node
    has: Slurm's accounting knows none. ``goals``: what runs lose is held against them.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        wait_seconds: float = 10.0,
        held_against: Callable[[Claim, Sequence[str]], Claim | None] = lambda claim, _gpu_models: claim,
        goals: Goals | None = None,
    ) -> None:
        self.path = Path(path)
        self.wait_seconds = wait_seconds
        self._held_against = held_against
        self._goals = Goals() if goals is None else goals

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """Sums over the selected runs, a row per group; by job: a row per run, oldest first.

        By node and by GPU model errors are those of the GPUs there: of one run they add linearly, so that
        their variances do not add up to the whole's. Bands are of a run's OFU there, over all its time.
        """
        return self._answer(
            lambda opened: self._with_peaks(opened, Asking(opened, self._goals).usage(selection, by))
        )

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """A row per selected run, oldest first."""
        return self.usage(selection, "job")

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`. Only what lies in the selection's window counts."""
        return self._answer(lambda opened: Asking(opened, self._goals).course(selection, edges))

    def page(self, run_id: int) -> JobPage:
        """Everything kept about one run. Raises StoreError where there is no such run."""
        return self._answer(lambda opened: self._page(opened, run_id))

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """See :class:`~slurm_ofu.protocols.UsageReader`. Read some runs at a time, so that writers wait for
        none of it: what changes meanwhile is read as it is then."""
        clause, parameters = where(selection)
        query = run_ids_query(clause)
        run_ids = self._answer(lambda opened: [one[0] for one in opened.execute(query, parameters)])
        for begin in range(0, len(run_ids), _RUNS_AT_ONCE):
            yield from self._gpus_of(run_ids[begin : begin + _RUNS_AT_ONCE])

    def _gpus_of(self, run_ids: Sequence[int]) -> Iterator[RunGpu]:
        query = gpus_query(len(run_ids))
        rows = self._answer(lambda opened: dicts(opened, query, [*run_ids]))
        its: dict[int, list[RunGpu]] = {run_id: [] for run_id in run_ids}
        for row in rows:
            gpu = RunGpu(run_id=row["run_id"], node_name=row["node_name"], totals=gpu_from_row(row))
            its[gpu.run_id].append(gpu)
        return chain.from_iterable(its.values())

    def count(self) -> int:
        """How many runs there are."""
        return self._answer(lambda opened: int(opened.execute(COUNT).fetchone()[0]))

    def _page(self, opened: sqlite3.Connection, run_id: int) -> JobPage:
        row = Asking(opened, self._goals).run(run_id)
        if row is None:
            raise StoreError(f"{self.path}: no run with run_id {run_id}")
        return JobPage(
            row=self._with_peaks(opened, [row])[0],
            nodes=tuple(node_row(one) for one in dicts(opened, NODES, [run_id])),
            gpus=tuple(
                GpuRow(node_name=one["node_name"], totals=gpu_from_row(one))
                for one in dicts(opened, GPUS, [run_id])
            ),
            percentile=percentile_of(opened, row),
        )

    def _with_peaks(self, opened: sqlite3.Connection, rows: list[UsageRow]) -> list[UsageRow]:
        if not any(_wants_peak(row) for row in rows):
            return rows
        on_slices = {run_id for (run_id,) in opened.execute(ON_SLICES)}
        return [self._with_peak(row, on_slices) if _wants_peak(row) else row for row in rows]

    def _with_peak(self, row: UsageRow, on_slices: Container[int]) -> UsageRow:
        """A slice of a GPU has not the peak of its model, which is that of a GPU nobody knows."""
        if row.run is None or row.run.claim is None:
            return row
        models = () if row.run.run_id in on_slices else row.sums.gpu_models
        return replace(row, run=replace(row.run, claim=self._held_against(row.run.claim, models)))

    def _answer(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Ask within one read transaction; wait for writers up to the deadline."""
        deadline = time.monotonic() + self.wait_seconds
        patience = min(deadline, time.monotonic() + _JOURNAL_PATIENCE_SECONDS)
        with translated(self.path):
            while True:
                try:
                    return self._ask(self.path, "ro", deadline, question)
                except sqlite3.OperationalError as error:
                    if not self._journal_in_the_way(error):
                        raise
                if time.monotonic() > patience:
                    try:
                        with played_back(self.path) as copy:
                            return self._ask(copy, "rw", deadline, question)
                    except StoreBusy:
                        if time.monotonic() > deadline:
                            raise
                time.sleep(_JOURNAL_PAUSE_SECONDS)

    def _ask(
        self,
        path: Path,
        mode: Literal["ro", "rw"],
        deadline: float,
        question: Callable[[sqlite3.Connection], _Answer],
    ) -> _Answer:
        with connection(path, mode) as opened:
            wait_until(opened, deadline)
            opened.execute("BEGIN")
            self._check_version(opened)
            return question(opened)

    def _check_version(self, opened: sqlite3.Connection) -> None:
        version = user_version(opened)
        if version != SCHEMA_VERSION:
            newer = version > SCHEMA_VERSION
            remedy = (
                "upgrade slurm-ofu here" if newer else "ofu-admin init upgrades it, and so does the next job"
            )
            raise StoreError(
                f"{self.path}: has schema {version}, this slurm-ofu reads schema {SCHEMA_VERSION}: {remedy}"
            )

    def _journal_in_the_way(self, error: sqlite3.OperationalError) -> bool:
        """A journal that only a writer may play back: either one is about to, or it has died."""
        said = str(error)
        blocked = "readonly" in said or "unable to open" in said
        return blocked and journal_path(self.path).exists()


def _wants_peak(row: UsageRow) -> bool:
    claim = None if row.run is None else row.run.claim
    return claim is not None and claim.peak_tflops is None
