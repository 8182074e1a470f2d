"""Reports without an accounting database: from the tokens that write-back left in Slurm's accounting.

Who may see what is sacct's to say. A token says nothing of single nodes and GPUs, nor of time within a run:
a run that a window cuts counts by time alone, and without its busiest five minutes. Nor does it say whether a
run was busy without tensor cores: no run is ranked, and none has lost anything. A run that goes on has no
token yet; it is shown only where runs in the state RUNNING are asked for, its GPUs and their time until now.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slurm_ofu.errors import AccountingError, StoreError, UsageError
from slurm_ofu.figures import pool
from slurm_ofu.figures.pooling import part_in_time
from slurm_ofu.figures.reasons import NO_TOKEN
from slurm_ofu.figures.work import with_counts
from slurm_ofu.protocols import Accounting
from slurm_ofu.records.token import find_token, sums_of
from slurm_ofu.slurm.claim import claim_of
from slurm_ofu.slurm.comments import text_in
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.store.lives import Life, StoredRow, lives_of, seconds_of
from slurm_ofu.store.selection import RUNNING
from slurm_ofu.store.windows import Edges
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
from slurm_ofu.values.states import UNKNOWN_STATE
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
        if by in ("node", "gpu-model"):
            raise UsageError(
                f"Slurm's accounting does not say what a job did on each {by}: --by {by} needs the accounting"
                " database, without --from-slurm"
            )
        rows = self.jobs(selection)
        if by == "job":
            return rows
        groups: dict[str | None, list[UsageSums]] = {}
        for row in rows:
            groups.setdefault(getattr(row.run, by.replace("-", "_")), []).append(row.sums)
        names = sorted(groups, key=lambda name: (name is not None, name or ""))
        return [UsageRow(group=name, sums=pool(groups[name])) for name in names]

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        edges = Edges((_start(selection), _end(selection)))
        return [replace(row, sums=_pieces(row, edges)[0]) for row in self._whole(selection)]

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        lower, upper = _start(selection), _end(selection)
        spans = Edges(tuple(min(max(edge, lower), upper) for edge in edges))
        found: list[list[UsageSums]] = [[] for _ in range(spans.span_count)]
        if spans.span_count > 0 and spans.at[0] < spans.at[-1]:
            window = replace(selection, start_epoch_s=spans.at[0], end_epoch_s=spans.at[-1])
            for row in self._whole(window):
                for span, sums in _pieces(row, spans).items():
                    found[span].append(sums)
        return [UsageRow(group=str(edge), sums=pool(its)) for edge, its in zip(edges, found, strict=False)]

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """See :class:`~slurm_ofu.protocols.UsageReader`."""
        return iter(())

    def page(self, run_id: int) -> JobPage:
        """See :class:`~slurm_ofu.protocols.UsageReader`; of a run among those last asked for."""
        rows = [] if self._answered is None else self._answered[1]
        for row in rows:
            if row.run is not None and row.run.run_id == run_id:
                return JobPage(row=row, nodes=(), gpus=())
        raise StoreError(f"no run {run_id} is among those that Slurm's accounting was last asked for")

    def _whole(self, selection: Selection) -> list[UsageRow]:
        """The selected runs, whole. Slurm's accounting knows a state of each."""
        if selection.states == (UNKNOWN_STATE,):
            return []
        if self._answered is None or self._answered[0] != selection:
            self._answered = selection, self._asked(selection)
        return self._answered[1]

    def _asked(self, selection: Selection) -> list[UsageRow]:
        try:
            rows = (row for row in self._rows(selection) if row.gpu_count or self._token(row))
            lives = [life for life in _lives(rows) if _selected(life, selection)]
        except AccountingError as error:
            raise StoreError(f"Slurm's accounting: {error}") from error
        lives.sort(key=lambda life: (life.start_epoch_s, life.last.cluster, life.last.job_id))
        sums = [(life, self._sums(life)) for life in lives]
        known = [(life, with_counts(its)) for life, its in sums if its is not None]
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
    if until is not None and (start >= until or (since is not None and since >= until)):
        return False
    if since is not None and end is not None and end <= since and start < since:
        return False
    if not _in_state(life, selection.states):
        return False
    wanted = (
        (selection.users, row.user),
        (selection.partitions, row.partition),
        (selection.accounts, row.account),
        (selection.clusters, row.cluster),
        (selection.qos, row.qos),
        (selection.job_names, row.job_name),
    )
    asked = all(not names or name in names for names, name in wanted) and _asked_for(row, selection)
    return asked and (not selection.node_names or _had_any(life, selection.node_names))


def _in_state(life: Life, states: Sequence[str]) -> bool:
    """Slurm says "CANCELLED by 1000". A run that goes on is in no state but that, and has to be asked for."""
    if not life.final:
        return RUNNING in states
    return not states or (life.last.state or "").partition(" ")[0] in states


def _had_any(life: Life, node_names: Sequence[str]) -> bool:
    lists = (one.row.node_list for one in life.segments)
    return any(not set(node_names).isdisjoint(expand(names)) for names in lists if names is not None)


def _start(selection: Selection) -> float:
    return -math.inf if selection.start_epoch_s is None else selection.start_epoch_s


def _end(selection: Selection) -> float:
    return math.inf if selection.end_epoch_s is None else selection.end_epoch_s


def _pieces(row: UsageRow, edges: Edges) -> dict[int, UsageSums]:
    """Span → what of a run lies in it."""
    assert row.run is not None and row.run.start_epoch_s is not None and row.run.end_epoch_s is not None
    parts = list(edges.parts(row.run.start_epoch_s, row.run.end_epoch_s))
    return {
        span: row.sums if len(parts) == 1 else part_in_time(row.sums, share)
        for span, share in parts
        if 0 <= span < edges.span_count and edges.at[span] < edges.at[span + 1]
    }


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
    end = life.start_epoch_s + life.elapsed_seconds + life.suspended_seconds
    run = RunRow(
        run_id=run_id,
        restart_count=count,
        start_epoch_s=float(life.start_epoch_s),
        end_epoch_s=float(end if life.end_epoch_s is None else life.end_epoch_s),
        running=not life.final,
        submit_epoch_s=float(life.first.submit_epoch_s),
        elapsed_seconds=float(life.elapsed_seconds),
        suspended_seconds=float(life.suspended_seconds),
        alloc_tres=life.first.alloc_tres,
        slurm_gpu_count=life.gpu_count,
        accounted=True,
        claim=_claim(row.comment),
        **same,
    )
    return UsageRow(group=str(row.job_id), sums=replace(sums, running_run_count=int(not life.final)), run=run)
