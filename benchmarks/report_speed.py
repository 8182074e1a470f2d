"""How long does a report over 10,000 runs take, beside a bare query?

The database holds 10,000 one-hour runs of 50 users, each with one to eight GPUs, written by the program.
``ofu-report -a --by user`` runs as a process of its own, in turn with a bare script that imports sqlite3
and click, sums one column per user over the same tables, and prints it; and with a bare interpreter.
"""

import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.finish_storm import traced
from benchmarks.node import own_group
from benchmarks.processes import run_to_end
from benchmarks.record_size import day_record
from benchmarks.rows import Row, count, median, ms, ratio
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.store.read import Reader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import GpuTotals, NodeRecord, Selection, Timeline

TITLE = "Report over 10,000 runs"
USERS = 50
START_EPOCH_S = 1_794_787_200.0
BATCH = 500
BARE = """
import sqlite3, sys, click
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT user_name, COUNT(DISTINCT run_id), SUM(g.allocated_seconds), SUM(g.tensor_ref_seconds)"
    " FROM run JOIN run_gpu AS g USING (run_id) GROUP BY user_name ORDER BY user_name").fetchall()
for row in rows:
    click.echo("|".join(map(str, row)))
"""


@dataclass(slots=True)
class ReportSpeed:
    """What was measured; seconds of each round."""

    runs: int
    database_bytes: int
    python: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    by_user: list[float] = field(default_factory=list)
    statements: int = 0
    one_job: list[float] = field(default_factory=list)
    every_job: list[float] = field(default_factory=list)

    @property
    def by_user_ratio(self) -> float:
        """The report per user, in bare queries."""
        return median(self.by_user) / median(self.bare)

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            count("runs", self.runs),
            Row(what="database, per run", value=self.database_bytes / self.runs, unit="B"),
            ms("python -I -c pass", median(self.python)),
            ms("bare query: imports, one join, one sum per user", median(self.bare)),
            ms("ofu-report -a --by user", median(self.by_user)),
            ratio("the same, in bare queries", self.by_user_ratio, 1),
            count("SQL statements of that report", self.statements),
            ms("ofu-report -j: one job's page", median(self.one_job)),
            ms("ofu-report -a --csv: every job", median(self.every_job)),
        ]


def measure(place: Path, runs: int = 10_000, rounds: int = 15) -> ReportSpeed:
    """Fill the database, then interleaved rounds."""
    database, config = place / "ofu.db", place / "slurm-ofu.toml"
    config.write_text(f'[database]\nurl = "sqlite://{database}"\ngroup = "{own_group()}"\n')
    _fill(database, runs)
    found = ReportSpeed(runs=runs, database_bytes=database.stat().st_size)
    with traced() as said:
        Reader(database).usage(Selection(), "user")
    found.statements = len(said)
    report = (str(Path(sys.executable).parent / "ofu-report"), "--config", str(config))
    everybody = (*report, "-a", "-S", "2026-01-01", "-E", "2027-12-31")
    commands = (
        ((sys.executable, "-I", "-c", "pass"), found.python),
        ((sys.executable, "-I", "-c", BARE, str(database)), found.bare),
        ((*everybody, "--by", "user"), found.by_user),
        ((*report, "-j", str(runs // 2)), found.one_job),
        ((*everybody, "--csv"), found.every_job),
    )
    for number in range(rounds + 1):
        for command, seconds in commands:
            took = run_to_end(command)
            if number:
                seconds.append(took)
    return found


def _fill(database: Path, runs: int) -> None:
    store = SqliteStore(database, group=None, world_readable=False, wait_seconds=30, expand_hostlist=expand)
    for begin in range(1, runs + 1, BATCH):
        store.write([_hour(job_id) for job_id in range(begin, min(begin + BATCH, runs + 1))])
    with closing(sqlite3.connect(database)) as opened:
        stored = opened.execute("SELECT COUNT(*) FROM run").fetchone()[0]
    if stored != runs:
        raise RuntimeError(f"{stored} runs were stored instead of {runs}")


def _hour(job_id: int) -> NodeRecord:
    """A run of one hour, of one of the users."""
    day = day_record(1)
    start = START_EPOCH_S + job_id * 60
    gpus = tuple(_hour_of(day.gpus[0], position, start) for position in range(1 + job_id % 8))
    user = f"user{job_id % USERS:02}"
    return replace(
        day,
        job=replace(
            day.job, key=replace(day.job.key, job_id=job_id), user=user, account=f"group{job_id % 7}"
        ),
        start_epoch_s=start,
        end_epoch_s=start + 3600,
        allocated_seconds=3600.0,
        gpus=gpus,
        quarters=day.quarters[1:6],
    )


def _hour_of(gpu: GpuTotals, position: int, start_epoch_s: float) -> GpuTotals:
    """A GPU's hour: its figures are of no interest, their number is."""
    assert gpu.timeline is not None
    return replace(
        gpu,
        position=position,
        allocated_seconds=3600.0,
        covered_seconds=3590.0,
        tensor_active_seconds=900.0,
        tensor_ref_seconds=800.0 + position,
        timeline=Timeline(
            start_epoch_s=start_epoch_s,
            bucket_seconds=40.0,
            buckets=tuple((12.0 + number % 7, 39.9) for number in range(90)),
        ),
    )
