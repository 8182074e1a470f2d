"""`ofu-admin backfill`: OFU of past jobs, out of samples that a Prometheus keeps and of Slurm's accounting.

Slurm's accounting goes into ours first. Then every node is gone through on its own, window by window: each
is asked for once and serves all runs in it, so that queries follow nodes and hours, not jobs, and memory
holds one window of one node. What is stored is not asked for again: a backfill may end anywhere and begin
anew.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from slurm_ofu import __version__
from slurm_ofu.config import url_path
from slurm_ofu.counters.prometheus import Prometheus
from slurm_ofu.counters.stored_series import Course, Device, StoredSeries, looks_of
from slurm_ofu.errors import SamplesTooMany, UsageError
from slurm_ofu.protocols import Accounting
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.store.backfilling import Asked, BackfillReader, RunCounts, RunOnNode
from slurm_ofu.store.opened import trial_copy
from slurm_ofu.values import Config, NodeRecord
from slurm_ofu.wiring.backfilled_runs import RunFilling
from slurm_ofu.wiring.completing import Completed, Completer
from slurm_ofu.wiring.delivering import open_store
from slurm_ofu.wiring.stored_nodes import NodeSelectors, grid

WINDOW_SECONDS = 6 * 3600  # of one query, at most; a day is a multiple of it
SHORTEST_WINDOW_SECONDS = 300
#: Asked for before a run and after it: the samples around its ends lie there.
MARGIN_SECONDS = 300
BATCH = 50  # records per transaction

Outcome = Literal["measured", "short", "unmapped", "without_figure", "without_samples"]


class Progress(Protocol):
    """Whoever wants to know how far it is."""

    def start(self, total: int) -> None:
        """So many runs on nodes are to be done."""

    def done(self, count: int) -> None:
        """So many more are."""


@dataclass(slots=True)
class Backfilled:
    """What came out. Runs are counted by the best of their nodes."""

    counts: RunCounts
    completed: Completed
    runs: dict[Outcome, set[int]] = field(default_factory=dict)
    query_count: int = 0
    record_count: int = 0

    def note(self, outcome: Outcome, run_id: int) -> None:
        """Of one run on one node."""
        self.runs.setdefault(outcome, set()).add(run_id)

    def count(self, outcome: Outcome) -> int:
        """Runs with this outcome and no better one."""
        better = ORDER[: ORDER.index(outcome)]
        return len(self.runs.get(outcome, set()).difference(*(self.runs.get(one, ()) for one in better)))

    @property
    def late_count(self) -> int:
        """Runs that ended so lately that their last samples may not be there yet: left for another time."""
        return self.counts.due_count - len(set().union(*self.runs.values()))


ORDER: tuple[Outcome, ...] = ("measured", "short", "without_figure", "unmapped", "without_samples")


def open_prometheus(config: Config, url: str | None) -> Prometheus:
    """The one that ``url`` names, else the configuration. Raises SamplesError, UsageError."""
    named = url or config.prometheus.url
    if named is None:
        raise UsageError(f"{config.path}: [prometheus] url is not set: name one with --prometheus")
    settings = config.prometheus
    return Prometheus(
        named,
        timeout_seconds=settings.timeout_seconds,
        ca_file=settings.ca_file,
        token_file=settings.token_file,
    )


def backfill(
    config: Config,
    asked: Asked,
    now_epoch_s: float,
    *,
    prometheus: Prometheus,
    progress: Progress,
    say: Callable[[NodeRecord], None] | None = None,
    accounting: Accounting | None = None,
) -> Backfilled:
    """Backfill what is due. With ``say`` each record is told, and all that is stored is a copy's.

    Raises SamplesError, AccountingError and StoreError; what was stored till then stays.
    """
    if say is not None:
        with trial_copy(url_path(config.database), config.delivery_wait_seconds) as copy:
            trial = replace(config, database=f"sqlite://{copy}", database_owner=None)
            return _backfill(trial, asked, now_epoch_s, prometheus, progress, say, accounting)
    return _backfill(config, asked, now_epoch_s, prometheus, progress, None, accounting)


def _backfill(
    config: Config,
    asked: Asked,
    now_epoch_s: float,
    prometheus: Prometheus,
    progress: Progress,
    say: Callable[[NodeRecord], None] | None,
    accounting: Accounting | None,
) -> Backfilled:
    prometheus.check()  # a mistyped address must not fill the database with silent jobs
    asked = replace(asked, clusters=asked.clusters or _clusters(config))
    settled = now_epoch_s - config.accounting.settle_seconds
    completer = Completer(_with_clusters(config, asked.clusters), accounting)
    completed = completer.read(asked.start_epoch_s, min(asked.end_epoch_s, now_epoch_s))
    store = open_store(config)
    store.read_until("")  # makes the database, or upgrades it, where no row did
    reader = BackfillReader(url_path(config.database), node_names=expand)
    result = Backfilled(counts=reader.counts(asked), completed=completed)
    nodes = reader.nodes(asked)
    progress.start(sum(count for _, count in nodes))
    keep = _Batches(store.write if say is None else lambda records: [say(one) for one in records])
    selectors = NodeSelectors(prometheus)
    try:
        for node_name, _ in nodes:
            runs = reader.on_node(node_name, asked)
            for filling in _Node(node_name, runs, prometheus, selectors, settled).finished():
                record = filling.record(config, __version__)
                result.note(outcome_of(record), filling.run.run_id)
                if record is not None:
                    result.record_count += 1
                    keep.add(record)
                progress.done(1)
    finally:
        keep.flush()
    result.query_count = prometheus.query_count
    return result


def outcome_of(record: NodeRecord | None) -> Outcome:
    """What became of one run on one node."""
    if record is None:
        return "without_samples"
    if record.reason == "unmapped":
        return "unmapped"
    if record.reason == "short":
        return "short"
    covered = any(gpu.tensor_ref_seconds is not None for gpu in record.gpus)
    return "measured" if covered else "without_figure"


class _Batches:
    """Records, many to a transaction."""

    def __init__(self, write: Callable[[Sequence[NodeRecord]], object]) -> None:
        self._write = write
        self._waiting: list[NodeRecord] = []

    def add(self, record: NodeRecord) -> None:
        self._waiting.append(record)
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        self._write(self._waiting)
        self._waiting = []


class _Node:
    """The runs on one node, gone through in the order of time."""

    def __init__(
        self,
        node_name: str,
        runs: Sequence[RunOnNode],
        prometheus: Prometheus,
        selectors: NodeSelectors,
        settled_epoch_s: float,
    ) -> None:
        self._node_name = node_name
        self._prometheus, self._selectors = prometheus, selectors
        self._window_seconds = WINDOW_SECONDS
        # Of runs on several nodes Slurm counts the sum: a small node of theirs may have had fewer.
        most_gpus = max((run.gpu_count or 0 for run in runs if run.node_count == 1), default=0)
        self._waiting = deque(
            RunFilling(run, node_name, others, most_gpus)
            for run, others in at_once(runs)
            if run.wanted and run.end_epoch_s + MARGIN_SECONDS <= settled_epoch_s
        )

    def finished(self) -> Iterator[RunFilling]:
        """Each run as soon as all of its samples were seen."""
        courses: dict[Device, Course] = {}
        spans = [_span(one.run) for one in self._waiting]
        active: list[RunFilling] = []
        for start, end in grid(_joined(spans), WINDOW_SECONDS):
            while self._waiting and _span(self._waiting[0].run)[0] < end:
                active.append(self._waiting.popleft())
            for series in self._series(start, end):
                looks = looks_of(series, courses)
                for filling in active:
                    filling.add(looks, courses)
            yield from (one for one in active if _span(one.run)[1] <= end)
            active = [one for one in active if _span(one.run)[1] > end]

    def _series(self, start: int, end: int) -> Iterator[list[StoredSeries]]:
        """The series of a window, in parts as large as the server gives."""
        selectors = self._selectors.of(self._node_name, start, end)
        while selectors and start < end:
            following = min(end, start + self._window_seconds)
            try:
                yield [
                    one
                    for selector in selectors
                    for one in self._prometheus.samples(selector, start, following)
                ]
            except SamplesTooMany:
                if following - start <= SHORTEST_WINDOW_SECONDS:
                    raise
                self._window_seconds = max(SHORTEST_WINDOW_SECONDS, (following - start) // 2)
                continue
            start = following


def at_once(runs: Sequence[RunOnNode]) -> list[tuple[RunOnNode, list[RunOnNode]]]:
    """Each run, in the order of their starts, with those that were there at the same time."""
    found: list[tuple[RunOnNode, list[RunOnNode]]] = []
    present: list[tuple[RunOnNode, list[RunOnNode]]] = []
    for run in sorted(runs, key=lambda run: run.start_epoch_s):
        present = [one for one in present if one[0].end_epoch_s > run.start_epoch_s]
        for _, others in present:
            others.append(run)
        one = (run, [other for other, _ in present])
        present.append(one)
        found.append(one)
    return found


def _span(run: RunOnNode) -> tuple[int, int]:
    return int(run.start_epoch_s) - MARGIN_SECONDS, int(run.end_epoch_s) + MARGIN_SECONDS


def _joined(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans, ordered by their start, without overlaps."""
    if not spans:
        return
    begin, finish = spans[0]
    for start, end in spans[1:]:
        if start > finish:
            yield begin, finish
            begin, finish = start, end
        finish = max(finish, end)
    yield begin, finish


def _clusters(config: Config) -> tuple[str, ...]:
    if config.accounting.clusters:
        return config.accounting.clusters
    return () if config.cluster_name is None else (config.cluster_name,)


def _with_clusters(config: Config, clusters: tuple[str, ...]) -> Config:
    """Slurm knows its local cluster by no name that the site gave it."""
    if not clusters or (not config.accounting.clusters and clusters == (config.cluster_name,)):
        return config
    return replace(config, accounting=replace(config.accounting, clusters=clusters))
