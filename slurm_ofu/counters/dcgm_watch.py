"""One ``dcgmi dmon`` kept running over the entities that somebody wants, with as many fields as it takes.

dmon fails as a whole where one field cannot be watched, so larger sets of fields are tried before smaller
ones, and the set that gave a figure stays. A child that ends is started again after 1, 2, 4 … seconds, so a
restart of the host engine is a gap and no more; after 1, 2, 4 … minutes where somebody else has the profiling
hardware: whoever profiles does so several times, and should find it free. We never start a host engine: a
second one shuts out the first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from slurm_ofu.counters.dcgm_child import DmonChild, Failure, failure_of
from slurm_ofu.counters.dcgm_rows import (
    DRAM_ACTIVE,
    POWER,
    SM_ACTIVE,
    SM_CLOCK,
    TENSOR_ACTIVE,
    UTILISATION,
    Entity,
    Row,
    Table,
)

FieldSet = tuple[int, ...]
FIELD_SETS: tuple[FieldSet, ...] = (
    (TENSOR_ACTIVE, SM_CLOCK, SM_ACTIVE, DRAM_ACTIVE, UTILISATION, POWER),
    (TENSOR_ACTIVE, SM_CLOCK, SM_ACTIVE),
    (TENSOR_ACTIVE, SM_CLOCK),
)
LONGEST_DOUBLINGS = 4
LONGEST_BACK_OFF_S = 240.0
#: A child that prints nothing for so long is no good any more.
SILENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at the child gave: rows that were printed between two instants."""

    rows: Sequence[Row] = ()
    earliest_ns: int
    latest_ns: int
    begun: bool = False  # by a child that was not there at the last look


@dataclass(slots=True)
class Watch:
    """The child, and how it fares. ``command``: dcgmi and where its engine is."""

    command: Callable[[str], list[str]]
    delay_seconds: float
    now_ns: Callable[[], int]
    field_sets: Sequence[FieldSet] = FIELD_SETS
    locked_back_off_seconds: float = 60.0
    entities: set[Entity] = field(default_factory=set)
    trouble: Failure | None = None  # why no rows come
    trouble_words: str = ""
    start_count: int = 0
    _child: DmonChild | None = None
    _table: Table = field(default_factory=lambda: Table(FIELD_SETS[0]))
    _watched: frozenset[Entity] = frozenset()
    _place: int = 0  # in field_sets
    _settled: bool = False  # that set gave a figure
    _failures: int = 0  # in a row
    _retry_ns: int = 0
    _looked_ns: int = 0
    _heard_ns: int = 0
    _begun: bool = False
    _gathering: bool = False

    def want(self, entities: Iterable[Entity]) -> None:
        """Watch these as well, from the look after the next: others may be wanted at the same time, and
        are then watched by the same child."""
        before = len(self.entities)
        self.entities.update(entities)
        self._gathering = self._gathering or len(self.entities) > before

    @property
    def is_starting_anew(self) -> bool:
        """Whether the next look starts a child after one that ended, perhaps with its host engine: another
        engine may number its entities otherwise."""
        ended = self._child is None and self.trouble in ("no_engine", "ended", "entity")
        return ended and self.now_ns() >= self._retry_ns

    def put_off(self, why: str) -> None:
        """Not yet: no host engine answers."""
        self.trouble_words = why
        self._fail("no_engine", self.now_ns())

    def look(self) -> Look:
        """The rows that came since the last look. Never waits."""
        now = self.now_ns()
        gathering, self._gathering = self._gathering, False
        if self._child is not None and not gathering and not self.entities <= self._watched:
            self._end()
        if self._child is None and not gathering and self.entities and now >= self._retry_ns:
            self._start(now)
        earliest, self._looked_ns = self._looked_ns, now
        if self._child is None:
            return Look(earliest_ns=earliest, latest_ns=now)
        ended = self._child.has_ended()  # before its last lines are read
        rows = self._rows(self._child)
        if rows:
            self._flourish(rows, now)
        elif ended:
            self._fail(failure_of(self._child.words), now)
        elif now - self._heard_ns > SILENCE_S * 1e9:
            self._fail("ended", now)
        begun, self._begun = self._begun and bool(rows), self._begun and not rows
        return Look(rows=rows, earliest_ns=earliest, latest_ns=now, begun=begun)

    def close(self) -> None:
        """End the child. Calling it twice is fine."""
        self.entities.clear()
        self._end()

    def _rows(self, child: DmonChild) -> list[Row]:
        rows = []
        for line in child.lines():
            row = self._table.row(line)
            if row is not None:
                rows.append(row)
            elif "rror" in line:  # DCGM 2 complains on stdout
                child.heard(line + "\n")
        return [row for row in rows if row.entity in self._watched]

    def _start(self, now: int) -> None:
        fields = self.field_sets[self._place]
        entities = sorted(self.entities, key=Entity.argument)
        options = [
            *("-e", ",".join(map(str, fields))),
            *("-i", ",".join(entity.argument() for entity in entities)),
            *("-d", str(round(self.delay_seconds * 1000))),
        ]
        self._table, self._watched = Table(fields), frozenset(entities)
        self._looked_ns = self._heard_ns = now
        self.start_count += 1
        self._begun = True
        try:
            self._child = DmonChild([*self.command("dmon"), *options])
        except OSError as error:
            self.trouble_words = str(error)
            self._fail("ended", now)

    def _flourish(self, rows: Sequence[Row], now: int) -> None:
        self._heard_ns = now
        self.trouble = None
        if any(TENSOR_ACTIVE in row.values for row in rows):
            self._settled = True
            self._failures = 0

    def _fail(self, failure: Failure, now: int) -> None:
        if self._child is not None:
            self.trouble_words = " ".join(self._child.words.split())
        self._end()
        self.trouble = failure
        if failure == "fields" and not self._settled:
            self._place = (self._place + 1) % len(self.field_sets)
            if self._place:
                return  # a smaller set at once
        seconds = min(2.0**self._failures, LONGEST_BACK_OFF_S)
        if failure == "locked":
            seconds = self.locked_back_off_seconds * 2 ** min(self._failures, LONGEST_DOUBLINGS)
        self._retry_ns = now + int(seconds * 1e9)
        self._failures = min(self._failures + 1, 10)

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None
