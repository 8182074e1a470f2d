"""Reports without an accounting database: from the tokens that write-back left in Slurm's accounting.

Who may see what is sacct's to say. A token says nothing of single nodes and GPUs, nor of time within a run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slurm_ofu.errors import AccountingError, StoreError
from slurm_ofu.figures import pool
from slurm_ofu.figures.reasons import NO_TOKEN
from slurm_ofu.protocols import Accounting
from slurm_ofu.records.token import find_token, sums_of
from slurm_ofu.slurm.claim import claim_of
from slurm_ofu.slurm.comments import text_in
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.store.lives import Life, StoredRow, lives_of, seconds_of
from slurm_ofu.values import (
    AccountingRow,
    Config,
    JobPage,
    RunGpu,
    RunRow,
    Selection,
    StoredGroup,
    UsageRow,
    UsageSums,
)
from slurm_ofu.wiring.accounting import open_accounting

_BEGINNING, _END = 0.0, 2.0**40  # of times, where a window has no limit


#: Cluster and ids as people write them → all that belongs to them, see `Sacct.rows_addressed`.
RowsById = Callable[[str | None, Sequence[str]], Iterable[AccountingRow]]


class SlurmReader:
    """A :class:`~slurm_ofu.protocols.UsageReader` over Slurm's accounting. No ``clusters``: the local one."""

    def __init__(
        self, accounting: Accounting, by_id: RowsById, *, field: str, clusters: tuple[str, ...] = ()
    ) -> None:
        self._accounting, self._by_id = accounting, by_id
        self._field, self._clusters = field, clusters
        self._answered: tuple[Selection, list[UsageRow]] | None = None

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        rows = self.jobs(selection)
        if by == "job":
            return rows
        groups: dict[str | None, list[UsageSums]] = {}
        for row in rows:
            groups.setdefault(getattr(row.run, by), []).append(row.sums)
        names = sorted(groups, key=lambda name: (name is not None, name or ""))
        return [UsageRow(group=name, sums=pool(groups[name])) for name in names]

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        if self._answered is None or self._answered[0] != selection:
            self._answered = selection, self._asked(selection)
        return self._answered[1]

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        raise NotImplementedError

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        raise NotImplementedError

    def page(self, run_id: int) -> JobPage:
        """See :class:`~slurm_ofu.protocols.UsageReader`; of a run among those last asked for."""
        rows = [] if self._answered is None else self._answered[1]
        for row in rows:
            if row.run is not None and row.run.run_id == run_id:
                return JobPage(row=row, nodes=(), gpus=())
        raise StoreError(f"no run {run_id} is among those that Slurm's accounting was last asked for")

    def _asked(self, selection: Selection) -> list[UsageRow]:
        try:
            rows = (row for row in self._rows(selection) if row.gpu_count or self._token(row))
            lives = [life for life in _lives(rows) if _selected(life, selection)]
        except AccountingError as error:
            raise StoreError(f"Slurm's accounting: {error}") from error
        lives.sort(key=lambda life: (life.start_epoch_s, life.last.cluster, life.last.job_id))
        sums = [(life, self._sums(life)) for life in lives]
        known = [(life, its) for life, its in sums if its is not None]
        return [_usage_row(run_id, life, its) for run_id, (life, its) in enumerate(known, start=1)]

    def _rows(self, selection: Selection) -> Iterator[AccountingRow]:
        clusters = selection.clusters or self._clusters
        if addresses := _addresses(selection):
            for cluster in clusters or (None,):
                yield from self._by_id(cluster, addresses)
            return
        start, end = selection.start_epoch_s, selection.end_epoch_s
        yield from self._accounting.rows(
            _BEGINNING if start is None else start, _END if end is None else end, clusters=clusters
        )

    def _sums(self, life: Life) -> UsageSums | None:
        """What the token of a run says; without one, its GPUs and their time; ``None``: it has no GPUs."""
        token = self._token(life.last)
        sums = None if token is None else sums_of(token)
        if sums is None:
            return _without_token(life) if life.gpu_count else None
        return sums if sums.gpu_count else replace(sums, gpu_count=float(life.gpu_count or 0))

    def _token(self, row: AccountingRow) -> str | None:
        return find_token(text_in(row, self._field))


def open_slurm_reader(config: Config) -> SlurmReader:
    """The reader of the configured accounting. Raises StoreError where there is none."""
    try:
        accounting = open_accounting(config)
    except AccountingError as error:
        raise StoreError(f"Slurm's accounting: {error}") from error
    return SlurmReader(
        accounting,
        Sacct(config.accounting).rows_addressed,
        field=config.write_back.field,
        clusters=config.accounting.clusters,
    )


def _addresses(selection: Selection) -> list[str]:
    """The jobs asked for, as Slurm's commands take them."""
    return [
        *map(str, selection.job_ids),
        *(f"{array}_{task}" for array, task in selection.array_tasks),
        *(f"{leader}+{offset}" for leader, offset in selection.het_components),
    ]


def _lives(rows: Iterable[AccountingRow]) -> Iterator[Life]:
    """The lives in these rows, each row counted once."""
    jobs: dict[tuple[str, int], dict[int, AccountingRow]] = {}
    for row in rows:
        jobs.setdefault((row.cluster, row.job_id), {})[row.submit_epoch_s] = row
    for its in jobs.values():
        yield from lives_of(StoredRow(row=row) for row in its.values())


def _selected(life: Life, selection: Selection) -> bool:
    row, start, end = life.last, life.start_epoch_s, life.end_epoch_s
    since, until = selection.start_epoch_s, selection.end_epoch_s
    if end is None or (until is not None and start >= until):
        return False
    if since is not None and end <= since and start < since:
        return False
    wanted = (
        (selection.users, row.user),
        (selection.partitions, row.partition),
        (selection.accounts, row.account),
        (selection.clusters, row.cluster),
    )
    return all(not names or name in names for names, name in wanted) and _asked_for(row, selection)


def _asked_for(row: AccountingRow, selection: Selection) -> bool:
    if not _addresses(selection):
        return True
    return (
        not {row.job_id, row.array_job_id, row.het_job_id}.isdisjoint(selection.job_ids)
        or (row.array_job_id, row.array_task_id) in selection.array_tasks
        or (row.het_job_id, row.het_offset) in selection.het_components
    )


def _without_token(life: Life) -> UsageSums:
    segments = enumerate(life.segments)
    return UsageSums(
        run_count=1,
        gpu_count=float(life.gpu_count or 0),
        gpu_count_unknown_time=0.0,
        allocated_seconds=float(sum(seconds_of(life, at) * (one.row.gpu_count or 0) for at, one in segments)),
        covered_seconds=0.0,
        ofu_covered_seconds=0.0,
        ofu_tensor_active_seconds=None,
        tensor_active_seconds=None,
        tensor_ref_seconds=None,
        tensor_ref_variance=None,
        tensor_ref_variance_per_degree=None,
        tpa_covered_seconds=0.0,
        sm_active_seconds=None,
        sm_active_covered_seconds=0.0,
        energy_joules=None,
        estimators=(),
        reasons=(NO_TOKEN,),
        gpu_models=(),
    )


_claim = partial(claim_of, source="accounting")


def _usage_row(run_id: int, life: Life, sums: UsageSums) -> UsageRow:
    row = life.last
    same: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            *("cluster", "job_id", "sluid", "user", "account", "partition", "job_name", "state", "node_list"),
            *("node_count", "comment", "exit_code", "qos"),
            *("array_job_id", "array_task_id", "het_job_id", "het_offset"),
        )
    }
    count = life.number if row.restart_count is None else row.restart_count
    run = RunRow(
        run_id=run_id,
        restart_count=count,
        start_epoch_s=float(life.start_epoch_s),
        end_epoch_s=None if life.end_epoch_s is None else float(life.end_epoch_s),
        submit_epoch_s=float(life.first.submit_epoch_s),
        elapsed_seconds=float(life.elapsed_seconds),
        suspended_seconds=float(life.suspended_seconds),
        alloc_tres=life.first.alloc_tres,
        slurm_gpu_count=life.gpu_count,
        accounted=True,
        claim=_claim(row.comment),
        **same,
    )
    return UsageRow(group=str(row.job_id), sums=sums, run=run)
