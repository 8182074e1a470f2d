"""A cluster with jobs in its accounting, and every way to ask about them that works here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_ofu.errors import AccountingUnusable
from slurm_ofu.protocols import Accounting
from slurm_ofu.slurm.accounting_catalogue import WAYS, open_accounting_source
from slurm_ofu.values import AccountingConfig, AccountingRow
from tests.services.slurm_cluster import SlurmCluster
from tests.slurm.accounting_jobs import Jobs

FOREVER = 4_000_000_000


@dataclass(frozen=True)
class Stage:
    """Who can be asked, and why others cannot."""

    cluster: SlurmCluster
    jobs: Jobs
    ways: tuple[Accounting, ...]
    unusable: dict[str, str]

    @property
    def name(self) -> str:
        """The cluster's."""
        return self.cluster.settings.cluster_name

    def every(self, question: Callable[[Accounting], object]) -> dict[str, object]:
        """What each way answers."""
        return {way.name: question(way) for way in self.ways}

    def same(self, answer: object) -> dict[str, object]:
        """The answer that is expected of each."""
        return {way.name: answer for way in self.ways}

    def rows_of(self, job_id: int) -> dict[str, list[AccountingRow]]:
        """A job's rows, each way."""
        return {way.name: list(way.rows_of(self.name, [job_id])) for way in self.ways}


def ways(cluster: SlurmCluster) -> tuple[tuple[Accounting, ...], dict[str, str]]:
    """Every way that works on a cluster, which has had a job, and why the others do not."""
    config = AccountingConfig(slurm_conf=str(cluster.layout.slurm_conf))
    usable, unusable = [], {}
    for name in WAYS:
        way = open_accounting_source(replace(config, source=name))  # type: ignore[arg-type]
        try:
            list(way.rows_of(cluster.settings.cluster_name, [1]))
        except AccountingUnusable as error:
            unusable[name] = str(error)
        else:
            usable.append(way)
    return tuple(usable), unusable


def one(rows: Sequence[AccountingRow]) -> AccountingRow:
    """The only row."""
    [row] = rows
    return row


def columns(*names: str) -> Callable[[Sequence[AccountingRow]], list[tuple[Any, ...]]]:
    """Some columns of each row."""
    return lambda rows: [tuple(getattr(row, name) for name in names) for row in rows]


def key(row: AccountingRow) -> tuple[int, int]:
    """What a row of one cluster is known by."""
    return row.job_id, row.submit_epoch_s


def touches(row: AccountingRow, first: int, last: int) -> bool:
    """Whether a row that started has a part in a window, by the law of Accounting."""
    begin = max(row.start_epoch_s or 0, row.submit_epoch_s)
    end = FOREVER if row.end_epoch_s is None else row.end_epoch_s
    return begin < last and (end > first or begin == end == first)
