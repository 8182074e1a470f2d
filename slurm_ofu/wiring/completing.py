"""Slurm's own accounting into ours: names, states, exact times, and the jobs that no node spoke of.

Read forward from where the last look ended, some way back each time, since slurmdbd may learn of an end
late. Runs that stay without their row are asked for by their ids: slurmctld hands over what happened
while slurmdbd was away with the times at which it happened, which may lie far back.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from slurm_ofu.config import url_path
from slurm_ofu.protocols import Accounting
from slurm_ofu.store.waiting import WaitingReader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingRow, Config, SamplerConfig
from slurm_ofu.wiring.accounting import open_accounting
from slurm_ofu.wiring.delivering import open_store

_Item = TypeVar("_Item")

BATCH = 500  # rows per transaction: nodes' records are stored in between
BACK_SECONDS = 900.0  # slurmdbd learns of an end no later than that, as a rule
LONGEST_FIRST_SECONDS = 30 * 86_400.0  # the first look goes no further back
YOUNG_SECONDS = 3600.0  # runs that ended so lately are asked for at every look, older ones once in that time
GIVEN_UP_SECONDS = 30 * 86_400.0  # `ofu-admin reconcile` still asks for those
MISSING_INTERIMS = 3
START_SETTLES = 10  # times settle_seconds after its end a start that slurmdbd has not heard of is lost
LOCAL = ""  # the cluster that Slurm's commands mean when none is named


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How many rows of Slurm's accounting a look brought, and what became of them."""

    rows: int = 0
    changed: int = 0
    refused: int = 0

    def __add__(self, other: "Completed") -> "Completed":
        return Completed(
            rows=self.rows + other.rows,
            changed=self.changed + other.changed,
            refused=self.refused + other.refused,
        )


class Completer:
    """Reads the accounting of the configured clusters into the accounting database.

    Its methods raise AccountingError and StoreError; what was stored till then stays.
    """

    def __init__(self, config: Config, accounting: Accounting | None = None) -> None:
        self._config = config
        self._accounting = open_accounting(config) if accounting is None else accounting
        self._store: SqliteStore = open_store(config)
        self._reader = WaitingReader(url_path(config.database))
        self._clusters = config.accounting.clusters or (LOCAL,)
        self._asked_all_epoch_s = float("-inf")

    def look(self, now_epoch_s: float) -> Completed:
        """Read what is new of every cluster, and ask for runs that wait for their row."""
        done = Completed()
        for cluster in self._clusters:
            since = self._store.read_until(cluster)
            if since is None:
                since = self._first(now_epoch_s)
                self._store.set_read_until(cluster, since)  # where it stays if slurmdbd is away
            done += self._read(cluster, since - self._back_seconds, now_epoch_s)
            self._store.set_read_until(cluster, now_epoch_s)
        everybody = now_epoch_s - self._asked_all_epoch_s >= YOUNG_SECONDS
        oldest = now_epoch_s - (GIVEN_UP_SECONDS if everybody else YOUNG_SECONDS)
        done += self.ask_for_waiting(oldest, now_epoch_s - self._config.accounting.settle_seconds)
        if everybody:
            self._asked_all_epoch_s = now_epoch_s
        return done

    def read(self, start_epoch_s: float, end_epoch_s: float) -> Completed:
        """Take in every row of every cluster with a part in start <= t < end."""
        done = Completed()
        for cluster in self._clusters:
            done += self._read(cluster, start_epoch_s, end_epoch_s)
        return done

    def ask_for_waiting(self, start_epoch_s: float, end_epoch_s: float) -> Completed:
        """Ask by their ids for runs without a row that ended within start <= t < end."""
        ids: dict[str, list[int]] = {}
        gone = gone_epoch_s(self._config, end_epoch_s)
        for run in self._reader.waiting(start_epoch_s, end_epoch_s, gone_epoch_s=gone):
            ids.setdefault(run.cluster, []).append(run.job_id)
        done = Completed()
        for cluster, job_ids in ids.items():
            if self._clusters == (LOCAL,):
                done += self._take(self._local_rows_of(cluster, job_ids), end_epoch_s)
            elif cluster in self._clusters:
                done += self._take(self._accounting.rows_of(cluster, job_ids), end_epoch_s)
        return done

    @property
    def _back_seconds(self) -> float:
        return max(BACK_SECONDS, self._config.accounting.settle_seconds)

    def _first(self, now_epoch_s: float) -> float:
        """Where the very first look begins: with the oldest run that waits for its row."""
        waiting = self._reader.waiting(0.0, now_epoch_s)
        starts = (run.end_epoch_s if run.start_epoch_s is None else run.start_epoch_s for run in waiting)
        return max(min(starts, default=now_epoch_s), now_epoch_s - LONGEST_FIRST_SECONDS)

    def _read(self, cluster: str, start_epoch_s: float, end_epoch_s: float) -> Completed:
        clusters = (cluster,) if cluster else ()
        return self._take(self._accounting.rows(start_epoch_s, end_epoch_s, clusters=clusters), end_epoch_s)

    def _local_rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """Of the local cluster, if it is this one: another's jobs by the same ids are none of its."""
        rows = self._accounting.rows_of(LOCAL, job_ids)
        return (row for row in rows if self._named(row).cluster == cluster)

    def _take(self, rows: Iterable[AccountingRow], now_epoch_s: float) -> Completed:
        done = Completed()
        lost_epoch_s = now_epoch_s - START_SETTLES * self._config.accounting.settle_seconds
        told = (known for row in rows if (known := without_start(row, lost_epoch_s)) is not None)
        for batch in _batches(map(self._named, told), BATCH):
            taken = self._store.take_accounting(batch)
            done += Completed(rows=len(batch), changed=taken.changed, refused=taken.refused)
        return done

    def _named(self, row: AccountingRow) -> AccountingRow:
        """The row under the name that the site gave its one cluster."""
        name = self._config.cluster_name
        return row if name is None or self._clusters != (LOCAL,) else replace(row, cluster=name)


def gone_epoch_s(config: Config, now_epoch_s: float) -> float:
    """Since when a running job must have been heard, or it is taken for over: three interim records are
    missing. Where this host's configuration asks for none, others' may: it is the usual interval then."""
    every_seconds = config.sampler.interim_seconds
    if every_seconds <= 0:
        every_seconds = SamplerConfig().interim_seconds
    return now_epoch_s - MISSING_INTERIMS * every_seconds


def without_start(row: AccountingRow, lost_epoch_s: float) -> AccountingRow | None:
    """A row as it can be believed; ``None``: the next look may find more.

    A row that slurmdbd makes of a job's end alone, on a busy controller, has uid 0 beside the user's name
    till it hears of the start, and a name that is none. A controller that went away in between never tells
    of it: what ended before ``lost_epoch_s`` is taken as it is, without these.
    """
    if row.uid != 0 or row.user in (None, "root"):
        return row
    if row.end_epoch_s is None or row.end_epoch_s >= lost_epoch_s:
        return None
    return replace(row, uid=None, job_name=None)


def _batches(items: Iterable[_Item], size: int) -> Iterator[Sequence[_Item]]:
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch
