"""How fast is Slurm's accounting read, beside slurm2sql on the same jobs?

A real slurmdbd, with jobs put straight into its database: copies of one real GPU job and its steps, ten days
of them. slurm2sql (PyPI) makes an SQLite file of the window, with steps as it does by default, and with its
--jobs-only; ours reads the same window and counts the rows. All are processes of their own, in turn. The time
of sacct, slurmdbd and MariaDB is in each: wall time, and CPU time, which other work on the machine changes
less. What ours takes in memory is measured on the window and on a quarter of it: our process, and the sacct
that it started.
"""

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.processes import cpu_seconds
from benchmarks.rows import Row, count, median, ratio
from tests.services.fixtures import missing_requirements, new_prefix
from tests.services.invented_jobs import invent_jobs
from tests.services.slurm_cluster import SlurmCluster
from tests.services.unix_users import ALICE

TITLE = "Slurm's accounting, beside slurm2sql"
DAYS = 10
FIRST_ID = 100_000
SHORT_OF_NOW_SECONDS = 86_400
OURS = """
import resource, sys
from pathlib import Path
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.values import AccountingConfig
sacct = Sacct(AccountingConfig(slurm_conf=sys.argv[1]))
rows = sum(1 for row in sacct.rows(float(sys.argv[2]), float(sys.argv[3])) if row.gpu_count)
status = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss counts the parent's memory, too
peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
print(rows, peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class CannotMeasure(Exception):
    """What is compared, or a cluster, cannot be had here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one reading of a window cost; CPU time with that of slurmdbd and MariaDB."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a window by our reader."""

    rows: int
    cost: Cost
    rss_mb: float
    sacct_rss_mb: float


@dataclass(slots=True)
class AccountingRate:
    """What was measured, round by round."""

    jobs: int
    quarter: list[Reading] = field(default_factory=list)
    ours: list[Reading] = field(default_factory=list)
    theirs: list[Cost] = field(default_factory=list)
    theirs_jobs_only: list[Cost] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Our wall time, in slurm2sql's as it is by default."""
        return _wall(self._ours) / _wall(self.theirs)

    @property
    def cpu_ratio(self) -> float:
        """Our CPU time, in slurm2sql's as it is by default."""
        return _cpu(self._ours) / _cpu(self.theirs)

    @property
    def memory_growth(self) -> float:
        """Our peak of memory, in that with a quarter of the rows."""
        return max(one.rss_mb for one in self.ours) / min(one.rss_mb for one in self.quarter)

    @property
    def _ours(self) -> list[Cost]:
        return [one.cost for one in self.ours]

    def rows(self) -> list[Row]:
        """For the table."""
        ours, jobs_only = self._ours, self.theirs_jobs_only
        return [
            count("jobs in the window", self.jobs),
            count("slurm2sql: jobs per second", round(self.jobs / _wall(self.theirs))),
            count("slurm2sql --jobs-only: jobs per second", round(self.jobs / _wall(jobs_only))),
            count("ours: jobs per second", round(self.jobs / _wall(ours))),
            Row(what="ours: wall time, in slurm2sql's", value=self.ratio, unit="x", goal=0.1),
            ratio("the same, in that of slurm2sql --jobs-only", _wall(ours), _wall(jobs_only)),
            Row(what="ours: CPU time, in slurm2sql's", value=self.cpu_ratio, unit="x", goal=0.1),
            ratio("the same, in that of slurm2sql --jobs-only", _cpu(ours), _cpu(jobs_only)),
            Row(what="ours: peak of RSS", value=max(one.rss_mb for one in self.ours), unit="MB"),
            ratio("the same, in that with a quarter of the jobs", self.memory_growth, 1, 1.2),
            Row(what="its sacct: peak of RSS", value=max(one.sacct_rss_mb for one in self.ours), unit="MB"),
        ]


def _wall(costs: Sequence[Cost]) -> float:
    return median([cost.seconds for cost in costs])


def _cpu(costs: Sequence[Cost]) -> float:
    return median([cost.cpu_seconds for cost in costs])


def missing() -> str | None:
    """Why this cannot be measured here; None when it can."""
    if importlib.util.find_spec("slurm2sql") is None:
        return "slurm2sql is not installed: pip install 'slurm-ofu[bench]'"
    return missing_requirements()


def measure(place: Path, jobs: int = 50_000, rounds: int = 3) -> AccountingRate:
    """Fill slurmdbd's database, then interleaved rounds."""
    if reason := missing():
        raise CannotMeasure(reason)
    found = AccountingRate(jobs=jobs)
    with _cluster() as cluster:
        start, end = _fill(cluster, jobs)
        a_quarter = start + (end - start) // 4
        for _ in range(rounds):
            found.ours.append(_ours(cluster, start, end))
            found.theirs.append(_theirs(cluster, place, start, end))
            found.quarter.append(_ours(cluster, start, a_quarter))
            found.theirs_jobs_only.append(_theirs(cluster, place, start, end, "--jobs-only"))
    if {jobs} != {one.rows for one in found.ours}:
        raise RuntimeError(f"{jobs} jobs, of which we read {[one.rows for one in found.ours]}")
    return found


@contextmanager
def _cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(new_prefix(), nodes=1) as cluster:
        yield cluster


def _fill(cluster: SlurmCluster, jobs: int) -> tuple[int, int]:
    """Jobs of half an hour, evenly over ten days; the window that they lie in."""
    # Long enough to be sampled: slurm2sql ends at a step without figures.
    template = cluster.sbatch("sleep 12", "--gres=gpu:2", user=ALICE)
    cluster.wait_accounted(template)
    start = int(time.time()) - DAYS * 86_400 - SHORT_OF_NOW_SECONDS
    invent_jobs(
        cluster,
        template,
        count=jobs,
        first_id=FIRST_ID,
        start_epoch_s=start,
        every_seconds=DAYS * 86_400 / jobs,
        run_seconds=1800,
        columns={"job_name": "concat('train_', s.seq % 97)"},
    )
    return start, start + DAYS * 86_400


def _ours(cluster: SlurmCluster, start: int, end: int) -> Reading:
    argv = [sys.executable, "-c", OURS, str(cluster.layout.slurm_conf), str(start), str(end)]
    cost, said = _run(cluster, argv, os.environ)
    rows, ours, sacct = map(int, said.split())
    return Reading(rows=rows, cost=cost, rss_mb=ours * 1024 / 1e6, sacct_rss_mb=sacct * 1024 / 1e6)


def _theirs(cluster: SlurmCluster, place: Path, start: int, end: int, *options: str) -> Cost:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        window = [f"-{name}{_local(epoch)}" for name, epoch in (("S", start), ("E", end))]
        tool = str(Path(sys.executable).parent / "slurm2sql")
        argv = [tool, "--quiet", *options, f"{folder}/jobs.db", "-a", *window]
        environment = {**os.environ, "SLURM_CONF": str(cluster.layout.slurm_conf), "TZ": "UTC"}
        return _run(cluster, argv, environment)[0]


def _run(cluster: SlurmCluster, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[Cost, str]:
    """Run a tool to its end: what it cost, and what it said."""
    before, begin = _cpu_so_far(cluster), time.perf_counter()
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    cost = Cost(seconds=time.perf_counter() - begin, cpu_seconds=_cpu_so_far(cluster) - before)
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: exit code {done.returncode}: {done.stdout}{done.stderr}"[:2000])
    return cost, done.stdout


def _cpu_so_far(cluster: SlurmCluster) -> float:
    """CPU seconds of slurmdbd, of its database, and of the tools that have ended."""
    daemons = (cluster.processes[name].pid for name in ("slurmdbd", "mariadbd"))
    tools = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(map(cpu_seconds, daemons)) + tools.ru_utime + tools.ru_stime


def _local(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
