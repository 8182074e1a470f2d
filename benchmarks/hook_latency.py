"""How long do our hooks hold up a job, beside a hook that does nothing?

Each round runs, one after the other: an empty hook, our prolog for a job without GPUs, our prolog for a
job with GPUs, (the sampler takes its first readings,) the empty hook again, our epilog with that sampler
alive, our epilog for the job without GPUs. All as slurmd runs hooks (see ``processes.hook_seconds``).
The GPUs are a synthetic source, the record goes into an SQLite file on the same disk.

The number of processes that a hook starts is the least that the kernel's own count (``processes`` in
/proc/stat) grew by in any round: whatever else runs on the machine can only add to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.node import Node, empty_hook
from benchmarks.processes import forks_so_far, hook_seconds, wait_for
from benchmarks.rows import Row, count, median, ms, percentile, ratio

TITLE = "Hook latency"


@dataclass(slots=True)
class Times:
    """One kind of hook: seconds of each round, and the fewest processes it started."""

    seconds: list[float] = field(default_factory=list)
    processes: int = 1_000_000

    def take(self, hook: Callable[[], float]) -> None:
        """Run it once."""
        before = forks_so_far()
        self.seconds.append(hook())
        self.processes = min(self.processes, forks_so_far() - before)

    @property
    def median(self) -> float:
        """Median seconds."""
        return median(self.seconds)


@dataclass(slots=True)
class Latency:
    """What was measured."""

    empty: Times = field(default_factory=Times)
    cpu_prolog: Times = field(default_factory=Times)
    cpu_epilog: Times = field(default_factory=Times)
    prolog: Times = field(default_factory=Times)
    epilog: Times = field(default_factory=Times)

    def rows(self) -> list[Row]:
        """For the table."""
        empty = self.empty.median
        return [
            ms("empty hook, median", empty),
            ms("prolog, GPU job: median added to an empty hook", self.prolog.median - empty, 10),
            ms("the same, 95th percentile of the whole", percentile(self.prolog.seconds, 0.95)),
            ratio("prolog, GPU job: median, in empty hooks", self.prolog.median, empty),
            ms("prolog, CPU job: median added", self.cpu_prolog.median - empty, 2),
            ms("epilog, CPU job: median added", self.cpu_epilog.median - empty, 2),
            ms("epilog, GPU job, sampler alive: median", self.epilog.median, 300),
            ms("the same, 95th percentile", percentile(self.epilog.seconds, 0.95)),
            count("processes: empty hook", self.empty.processes),
            count("processes: prolog, GPU job", self.prolog.processes),
            count("processes: prolog, CPU job", self.cpu_prolog.processes),
        ]


def measure(place: Path, rounds: int = 120) -> Latency:
    """Run the rounds; the first, in which the database is made, does not count."""
    node, empty, found = Node(place / "node", gpu_count=2), empty_hook(place), Latency()
    for job_id in range(1, rounds + 2):
        if job_id == 2:
            found = Latency()
        _round(node, empty, job_id, found)
    return found


def _round(node: Node, empty: Path, job_id: int, found: Latency) -> None:
    without_gpus = node.environment(1_000_000 + job_id, gpu_count=0)
    found.empty.take(lambda: hook_seconds(empty, node.environment(job_id)))
    found.cpu_prolog.take(lambda: hook_seconds(node.prolog, without_gpus))
    found.prolog.take(lambda: node.run_prolog(job_id))
    wait_for(lambda: node.has_checkpoint(job_id), "the sampler's first checkpoint")
    found.empty.take(lambda: hook_seconds(empty, node.environment(job_id)))
    found.epilog.take(lambda: node.run_epilog(job_id))
    wait_for(lambda: node.is_delivered(job_id), "the record to leave")
    found.cpu_epilog.take(lambda: hook_seconds(node.epilog, without_gpus))
