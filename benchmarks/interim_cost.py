"""What does a running job's word of how it fares cost its node?

A job with 8 GPUs, sampled for a day: the process that the sampler starts makes an interim record of the
latest checkpoint and stores it in the place of the one before, again and again. Its CPU time, by the kernel,
is held against that of an empty Python process in turn; every 15 minutes one of them runs, at nice 19. The
sampler's own part is to start it: for how long that keeps a process from sampling is measured, too.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.day import day_folds
from benchmarks.node import Node
from benchmarks.rows import Row, count, median, ms, ratio
from slurm_ofu.config import load_config
from slurm_ofu.hooks.publishing import Publishing, interim_command
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, encode_checkpoint
from slurm_ofu.samples.ticks import Rounds
from slurm_ofu.wiring.host import boot_id

TITLE = "Interim record of a running job with 8 GPUs, after a day"
GPU_COUNT, JOB = 8, 1
EVERY_SECONDS = 900.0
PEAK = """
import sys
from slurm_ofu.hooks import interim
interim.main(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@dataclass(slots=True)
class InterimCost:
    """What was measured; seconds of each round."""

    child: list[float] = field(default_factory=list)  # CPU time
    bare: list[float] = field(default_factory=list)  # of an empty Python process
    start: list[float] = field(default_factory=list)  # wall time in which the sampler does nothing else
    stored: tuple[int, int] = (0, 0)  # runs that go on, nodes of them
    peak_mb: float = 0.0

    def rows(self) -> list[Row]:
        """For the table."""
        share = median(self.child) / EVERY_SECONDS * 100
        return [
            ms("CPU time of one, median", median(self.child)),
            ratio("the same, in empty Python processes", median(self.child), median(self.bare)),
            Row(what="of one core, every 15 minutes", value=share, unit="%"),
            Row(what="peak of RSS, while it lives", value=self.peak_mb, unit="MB"),
            ms("starting it, for the sampler: median", median(self.start)),
            ms("starting it, for the sampler: slowest", max(self.start)),
            count("runs in the database, of as many interim records as rounds", self.stored[0], 1),
        ]


def measure(place: Path, rounds: int = 20) -> InterimCost:
    """Ours and the bare process in turn."""
    node, found = Node(place, GPU_COUNT), InterimCost()
    tag, checkpoint = _leave_run(node)
    command = interim_command(tag, node.spool, load_config(str(node.config)))[3:]
    _cpu_seconds(command)  # makes the database
    for number in range(1, rounds + 1):
        later = replace(checkpoint, saved_ns=checkpoint.saved_ns + number * 10**9)
        node.spool.write_checkpoint(tag, encode_checkpoint(later))
        found.child.append(_cpu_seconds(command))
        found.bare.append(_cpu_seconds((sys.executable, "-I", "-c", "")))
        found.start.append(_start_seconds(node, tag))
    found.peak_mb = _peak_mb(command)
    with closing(sqlite3.connect(node.database)) as opened:
        query = "SELECT COUNT(DISTINCT run_id), COUNT(*) FROM run JOIN run_node USING (run_id) WHERE running"
        [found.stored] = opened.execute(query).fetchall()
    return found


def _leave_run(node: Node) -> tuple[str, Checkpoint]:
    """What there is of a run while it is sampled: the prolog's word and a checkpoint."""
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    offset_ns = time.time_ns() - now_ns
    folds = day_folds(GPU_COUNT, now_ns - 86_400 * 10**9, offset_ns, True, 86_400)
    gpus = tuple(
        GpuState(
            position=position,
            uuid=f"GPU-5c1b3a1e-9d3f-4f0e-8a77-{position:012x}",
            gpu_model="NVIDIA H100 80GB HBM3",
            mapped_by="minor",
            sm_count=132,
            fold=fold.state(),
        )
        for position, fold in enumerate(folds)
    )
    tag = f"{JOB}.0.{now_ns // 10**7 - 6000}"
    entries = "".join(f"{name}={value}\0" for name, value in node.environment(JOB).items())
    text = f"OFU1 {boot_id()} {now_ns / 1e9 - 60:.2f}\n{entries}OFU_END=1\0"
    (node.spool.state / f"{tag}.prolog").write_bytes(text.encode())
    checkpoint = Checkpoint(
        saved_ns=now_ns, wall_offset_ns=offset_ns, interval_seconds=10.0, refresh_seconds=0.1, gpus=gpus
    )
    node.spool.write_checkpoint(tag, encode_checkpoint(checkpoint))
    return tag, checkpoint


def _cpu_seconds(command: Sequence[str]) -> float:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command}: exit status {child.returncode}")
    return used.ru_utime + used.ru_stime


def _start_seconds(node: Node, tag: str) -> float:
    publishing = Publishing(
        interim_command(tag, node.spool, load_config(str(node.config))), Rounds(next_ns=0, every_ns=1)
    )
    begin = time.perf_counter()
    publishing.look(0)
    took = time.perf_counter() - begin
    publishing.stop()
    return took


def _peak_mb(command: Sequence[str]) -> float:
    """By the process's own word."""
    own = (sys.executable, "-I", "-c", PEAK, *command[4:])
    said = subprocess.run(own, capture_output=True, text=True, check=True).stdout
    return int(said.split()[1]) * 1024 / 1e6
