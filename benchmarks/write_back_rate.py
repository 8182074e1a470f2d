"""What does it cost to write many jobs' tokens into Slurm's accounting, beside one sacctmgr for each?

A real slurmdbd and an array of real jobs. Ours (`slurm.write_back`): read all rows, write, read back. Bare:
the command that an administrator would type, once for each job, without looking before or after. In turn,
new tokens each time. The processes are counted by wrappers around sacct and sacctmgr.
"""

import os
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.rows import Row, count, median, ms, ratio
from slurm_ofu.records.token import has_newer_token, with_token
from slurm_ofu.slurm.comments import Composing, Target, address
from slurm_ofu.slurm.write_back import CommentWriter
from slurm_ofu.values import AccountingConfig
from tests.services.fixtures import missing_requirements, new_prefix
from tests.services.slurm_cluster import SlurmCluster
from tests.services.unix_users import ALICE

#: The columns, the version, the rows, the writing, the rows again.
PROCESSES = 5
TITLE = "Writing into Slurm's accounting"
TOKEN = "ofu1:ofu=0.41237;tpa=0.44821;clk=0.92;cov=0.9812;gpuh=12.5;err=0.1;gpus=8;est=cycles;round={}"


@dataclass(slots=True)
class WriteBackRate:
    """What was measured, round by round."""

    jobs: int
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    processes: int = 0

    @property
    def ratio(self) -> float:
        """Wall time of ours, in the bare one."""
        return median(self.ours) / median(self.bare)

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            count("jobs", self.jobs),
            ms("one sacctmgr for each, unchecked: per job", median(self.bare) / self.jobs),
            ms("ours, checked before and after: per job", median(self.ours) / self.jobs),
            ratio("ours, in the unchecked one", median(self.ours), median(self.bare), 1.5),
            count("ours: processes of Slurm for all jobs", self.processes, PROCESSES),
        ]


def measure(place: Path, jobs: int = 25, rounds: int = 5) -> WriteBackRate:
    """Run the rounds."""
    if reason := missing_requirements():
        raise RuntimeError(reason)
    found = WriteBackRate(jobs=jobs)
    with SlurmCluster(new_prefix(), nodes=1) as cluster:
        targets = _targets(cluster, jobs)
        log = place / "processes"
        config = AccountingConfig(
            slurm_conf=str(cluster.layout.slurm_conf), bin_dir=str(_counted(place / "bin", log))
        )
        composing = Composing(with_token=with_token, has_newer_token=has_newer_token)
        for number in range(rounds):
            log.write_text("")
            writer = CommentWriter(config, "SystemComment", composing)
            found.ours.append(_ours(writer, [replace(one, token=TOKEN.format(number)) for one in targets]))
            found.processes = max(found.processes, len(log.read_text().split()))
            found.bare.append(_bare(cluster, targets))
    return found


def _targets(cluster: SlurmCluster, jobs: int) -> list[Target]:
    array = cluster.sbatch("true", f"--array=0-{jobs - 1}", "--mem=1", "-o", "/dev/null", user=ALICE)

    def ended() -> list[dict[str, str]]:
        rows = cluster.job_rows(array)
        whole = len(rows) == jobs and all(row["State"] == "COMPLETED" for row in rows)
        return rows if whole and all("_" in row["JobID"] for row in rows) else []

    rows = cluster.wait_for(ended, 180, f"{jobs} tasks in accounting", interval=0.5)
    return [
        Target(
            run_id=number,
            cluster=row["Cluster"],
            job_id=int(row["JobIDRaw"]),
            submit_epoch_s=int(row["Submit"]),
            token="",
            array_job_id=array,
            array_task_id=int(row["JobID"].partition("_")[2]),
        )
        for number, row in enumerate(rows)
    ]


def _counted(folder: Path, log: Path) -> Path:
    """A bin_dir whose commands leave a line each."""
    folder.mkdir()
    for name in ("sacct", "sacctmgr"):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho {name} >> "{log}"\nexec /usr/bin/{name} "$@"\n')
        script.chmod(0o755)
    return folder


def _ours(writer: CommentWriter, targets: list[Target]) -> float:
    begin = time.perf_counter()
    steps = writer.write(targets)
    seconds = time.perf_counter() - begin
    if {"written"} != {step.kind for step in steps}:
        raise RuntimeError(f"not all was written: {steps}")
    return seconds


def _bare(cluster: SlurmCluster, targets: list[Target]) -> float:
    begin = time.perf_counter()
    for target in targets:
        subprocess.run(
            ["sacctmgr", "-i", "modify", "job", "where", f"jobid={address(target)}", "set", "SystemComment="],
            env={**os.environ, **cluster.environment()},
            capture_output=True,
            check=True,
        )
    return time.perf_counter() - begin
