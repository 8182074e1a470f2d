"""A thousand runs that finish at once into one database: is each there once?

Half as many spools as runs, two runs in each, as their samplers would have left them had they been
killed: what the hooks wrote, and a checkpoint with a day's sums of one GPU. Then as many real
``slurm_ofu.hooks.finish`` processes as runs, two per spool, at most 250 at a time: both of a spool try to
finish both runs and to deliver what is in its outbox, while all wait for the one database. It does not
exist at first: the first run of all makes it. Afterwards every run must be there once.

SQL statements are counted by SQLite's own trace, PRAGMAs and every row of a bulk insert included.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.day import day_fold
from benchmarks.node import Node
from benchmarks.processes import run_to_end
from benchmarks.record_size import day_record
from benchmarks.rows import Row, count
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, encode_checkpoint
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.wiring.host import boot_id

TITLE = "Many runs finishing at once"
FIRST_JOB = 1000
RUNS_PER_SPOOL = 2
AT_ONCE = 250
PEAK = """
import sys
from slurm_ofu.hooks import finish
finish.main(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What came of it."""

    runs: int
    stored_runs: int
    stored_gpus: int
    left_behind: int  # files in any spool
    failed: int  # processes that did not end with 0
    wall_seconds: float
    alone_seconds: float  # one finish process on its own
    finisher_peak_mb: float
    database_bytes: int  # per run
    statements_alone: int
    statements_in_batch: float
    quarters: int

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            count("runs", self.runs),
            count("runs in the database", self.stored_runs),
            count("GPU rows in the database", self.stored_gpus),
            count("files left in any spool", self.left_behind, 0),
            count("processes that failed", self.failed, 0),
            Row(what="from the first start to the last end", value=self.wall_seconds, unit="s"),
            Row(what="the same, per run", value=self.wall_seconds / self.runs * 1000, unit="ms"),
            Row(what="one finish process on its own", value=self.alone_seconds * 1000, unit="ms"),
            Row(what="one finish process on its own: peak of RSS", value=self.finisher_peak_mb, unit="MB"),
            Row(what="database per day-long one-GPU run", value=self.database_bytes, unit="B"),
            count("quarter hours of such a run", self.quarters),
            count("SQL statements to store one on its own", self.statements_alone),
            count("SQL statements per record in a batch of 100", self.statements_in_batch),
        ]


def measure(place: Path, runs: int = 1000) -> Storm:
    """One storm, then the counting."""
    checkpoint = _checkpoint()
    shared = Node(place / "first", 1)
    _leave_run(shared, FIRST_JOB - 1, checkpoint)
    run_to_end(_command(shared))  # makes the database
    nodes = [_node(place / f"node{number}", shared.database) for number in range(runs // RUNS_PER_SPOOL)]
    for number in range(runs):
        _leave_run(nodes[number // RUNS_PER_SPOOL], FIRST_JOB + number, checkpoint)
    begin = time.perf_counter()
    failed = _run_all([_command(nodes[number % len(nodes)]) for number in range(runs)])
    took = time.perf_counter() - begin
    left = sum(len(node.spool.tags()) + len(node.spool.waiting()) for node in nodes)
    stored_runs, stored_gpus = _stored(shared.database)
    database_bytes = shared.database.stat().st_size // (runs + 1)
    _leave_run(nodes[0], FIRST_JOB + runs, checkpoint)
    alone = run_to_end(_command(nodes[0]))
    _leave_run(nodes[1], FIRST_JOB + runs + 1, checkpoint)
    record = day_record(1)
    return Storm(
        runs=runs,
        stored_runs=stored_runs,
        stored_gpus=stored_gpus,
        left_behind=left,
        failed=failed,
        wall_seconds=took,
        alone_seconds=alone,
        finisher_peak_mb=_peak_mb(nodes[1]),
        database_bytes=database_bytes,
        statements_alone=statements(place / "alone.db", 1),
        statements_in_batch=statements(place / "batch.db", 100) / 100,
        quarters=len(record.quarters),
    )


def _node(place: Path, database: Path) -> Node:
    node = Node(place, 1)
    own = node.config.read_text()
    node.config.write_text(own.replace(str(node.database), str(database)))
    return node


def _checkpoint() -> bytes:
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    offset_ns = time.time_ns() - now_ns
    fold = day_fold(now_ns - 86_400 * 10**9, offset_ns)
    gpu = GpuState(
        position=0,
        uuid="GPU-5c1b3a1e-0000-4000-8000-000000000000",
        gpu_model="NVIDIA H100 80GB HBM3",
        mapped_by="minor",
        sm_count=132,
        fold=fold.state(),
    )
    return encode_checkpoint(
        Checkpoint(
            saved_ns=now_ns, wall_offset_ns=offset_ns, interval_seconds=10.0, refresh_seconds=0.1, gpus=(gpu,)
        )
    )


def _leave_run(node: Node, job_id: int, checkpoint: bytes) -> None:
    """What a run whose sampler was killed leaves when its epilog has spoken."""
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    stem = node.spool.state / f"{job_id}.0.{int((uptime - 60) * 100)}"
    entries = "".join(f"{name}={value}\0" for name, value in node.environment(job_id).items())
    for hook, at in (("prolog", uptime - 60), ("epilog", uptime)):
        text = f"OFU1 {boot_id()} {at:.2f}\n{entries}OFU_END=1\0"
        stem.with_name(f"{stem.name}.{hook}").write_bytes(text.encode())
    stem.with_name(f"{stem.name}.checkpoint").write_bytes(checkpoint)


def _command(node: Node) -> tuple[str, ...]:
    options = ("--config", str(node.config), "--spool", str(node.spool.directory))
    return (sys.executable, "-I", "-m", "slurm_ofu.hooks.finish", *options)


def _peak_mb(node: Node) -> float:
    """The peak of a finisher's RSS, by its own word: what wait4() says counts its parent's too."""
    command = (sys.executable, "-I", "-c", PEAK, *_command(node)[4:])
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(said.split()[1]) * 1024 / 1e6


def _run_all(commands: Sequence[Sequence[str]]) -> int:
    """Run them all, ``AT_ONCE`` at a time; how many failed."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    failed = 0
    for command in commands:
        if len(running) >= AT_ONCE:
            failed += _reap(running)
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        running[child.pid] = child
    while running:
        failed += _reap(running)
    return failed


def _reap(running: dict[int, subprocess.Popen[bytes]]) -> int:
    """Wait for one of them to end: 1 if it failed."""
    process_id, status = os.waitpid(-1, 0)
    child = running.pop(process_id)
    child.returncode = os.waitstatus_to_exitcode(status)
    return int(child.returncode != 0)


def _stored(database: Path) -> tuple[int, int]:
    """Distinct runs of the storm, as long as none is there twice, and their GPUs."""
    with closing(sqlite3.connect(database)) as opened:
        jobs = [row[0] for row in opened.execute("SELECT job_id FROM run WHERE job_id >= ?", (FIRST_JOB,))]
        (gpus,) = opened.execute(
            "SELECT COUNT(*) FROM run_gpu JOIN run USING (run_id) WHERE job_id >= ?", (FIRST_JOB,)
        ).fetchone()
    if len(jobs) != len(set(jobs)):
        raise RuntimeError(f"{len(jobs) - len(set(jobs))} runs are in the database more than once")
    return len(jobs), int(gpus)


def statements(database: Path, records: int) -> int:
    """SQL statements that storing so many day-long one-GPU records takes, in one delivery."""
    store = SqliteStore(database, group=None, world_readable=False, wait_seconds=30, expand_hostlist=expand)
    store.write([day_record(1, job_id=1)])  # makes the database
    given = [day_record(1, job_id=job_id) for job_id in range(2, records + 2)]
    with traced() as said:
        store.write(given)
    return len(said)


@contextmanager
def traced() -> Iterator[list[str]]:
    """Every statement that any new connection executes; what triggers do is not counted."""
    said: list[str] = []
    connect = sqlite3.connect

    def traced_connect(*given: object, **named: object) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(*given, **named)  # type: ignore[call-overload]
        opened.set_trace_callback(lambda text: None if text.startswith("--") else said.append(text))
        return opened

    sqlite3.connect = traced_connect  # type: ignore[assignment]
    try:
        yield said
    finally:
        sqlite3.connect = connect
