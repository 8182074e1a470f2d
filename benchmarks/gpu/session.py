"""What every part of the script works with: two processes, a deadline, and how fast things go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.gpu.gemm import Product
from benchmarks.gpu.results import Results
from benchmarks.gpu.worker import Refused, Worker, WorkerFailed


class OutOfTime(Exception):
    """The deadline is too near for what was to be done next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take, in seconds. ``faster`` divides all of it, to try the script out."""

    faster: float = 1.0

    def __call__(self, seconds: float) -> float:
        """A stretch of time at this pace."""
        return seconds / self.faster


@dataclass(slots=True)
class Session:
    """One run of the script."""

    results: Results
    observer: Worker
    load: Worker
    pace: Pace
    deadline: float  # by time.monotonic()

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def within(self, seconds: float) -> float:
        """At most so long to wait. Raises OutOfTime where the deadline is too near for anything."""
        left = self.left()
        if left < 1.0:
            raise OutOfTime
        return min(seconds, left)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the script: what keeps it from being done is noted, and the next one follows."""
        begin = time.monotonic()
        try:
            yield
        except (Refused, WorkerFailed) as error:
            self.results.problem(name, str(error))
        except OutOfTime:
            self.results.problem(name, "no time was left")
        self.results.put(f"part_seconds.{name}", round(time.monotonic() - begin, 2))

    @contextmanager
    def multiplying(self, product: Product, seconds: float) -> Iterator[list[list[int]]]:
        """The GPU multiplies meanwhile; afterwards the list holds the marks."""
        marks: list[list[int]] = []
        self.load.begin("multiply", product=product.plain(), seconds=seconds + 60)
        self.load.event(self.within(60))
        try:
            yield marks
        finally:
            self.load.tell({})
            marks += self.load.answer(self._to_stop())["marks"]

    @contextmanager
    def alternating(self, product: Product, busy: float, idle: float) -> Iterator[None]:
        """The GPU multiplies and rests by turns meanwhile."""
        self.load.begin(
            "alternate", product=product.plain(), busy_seconds=busy, idle_seconds=idle, seconds=120
        )
        self.load.event(self.within(60))
        try:
            yield
        finally:
            self.load.tell({})
            self.load.answer(self._to_stop())

    def _to_stop(self) -> float:
        """How long a load may take to stop: the deadline may pass by a little for it."""
        return min(30.0, max(3.0, self.left()))
