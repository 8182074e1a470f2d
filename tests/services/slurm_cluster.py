"""A throw-away Slurm cluster on this machine, as tests use it: submit jobs, read their accounting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType

from .node_namespace import Mount
from .processes import ClusterError
from .slurm_conf import Hooks, NodeSpec
from .slurm_daemons import DATABASE, SlurmDaemons

__all__ = ["DATABASE", "FIELDS", "ClusterError", "Hooks", "Mount", "NodeSpec", "SlurmCluster"]

FIELDS = (
    "JobID",
    "JobIDRaw",
    "Cluster",
    "User",
    "UID",
    "Account",
    "Partition",
    "JobName",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "NNodes",
    "NodeList",
    "ReqTRES",
    "AllocTRES",
    "AdminComment",
)
FINAL_STATES = {
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "DEADLINE",
    "BOOT_FAIL",
    "PREEMPTED",
}
DELIMITER = "\x1f"
STEADY_S = 0.4


class SlurmCluster(SlurmDaemons):
    """One cluster; `start` and `stop`, or use it as a context manager (which also removes its folder)."""

    def __enter__(self) -> SlurmCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()

    def sbatch(self, script_or_wrap: str, *args: str, user: str) -> int:
        """Submit a script (its text, starting with #!) or a command; the job's id."""
        if script_or_wrap.startswith("#!"):
            done = self.run("sbatch", "--parsable", *args, user=user, stdin=script_or_wrap)
        else:
            done = self.run("sbatch", "--parsable", *args, "--wrap", script_or_wrap, user=user)
        return int(done.stdout.split(";")[0])

    def until_told(self, word: str) -> str:
        """A line of a job's script that lasts until `tell`, however slow the machine is."""
        return f"until [ -e {self.layout.home}/told-{word} ]; do sleep 0.1; done"

    def tell(self, word: str) -> None:
        """Let jobs go on that wait for this word."""
        (self.layout.home / f"told-{word}").touch()

    def job_active(self, job_id: int) -> bool:
        """Whether the job is pending, running, suspended or completing (its Epilog may still run)."""
        return bool(self.run("squeue", "-h", "-j", str(job_id), "-o", "%T", check=False).stdout.strip())

    def wait_state(self, job_id: int, state: str, timeout: float = 30) -> None:
        """Wait until squeue shows the job in a state such as RUNNING."""
        argv = ("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T")

        def states() -> list[str]:
            return self.run(*argv, check=False).stdout.split()

        self.wait_for(lambda: state in states(), timeout, f"job {job_id} to be {state}")

    def wait_ended(self, job_id: int, timeout: float = 60) -> None:
        """Wait until the job and its Epilogs are over."""
        self.wait_for(lambda: not self.job_active(job_id), timeout, f"job {job_id} to end")

    def job_rows(
        self, job_id: int, *, duplicates: bool = True, fields: Sequence[str] = FIELDS
    ) -> list[dict[str, str]]:
        """The job's sacct lines now, times as epochs; accounting lags, so see `wait_accounted`."""
        options = ["-nPX", f"--delimiter={DELIMITER}", "-j", str(job_id), "-o", ",".join(fields)]
        done = self.run("sacct", *options, *(["-D"] if duplicates else []), env={"SLURM_TIME_FORMAT": "%s"})
        return [dict(zip(fields, line.split(DELIMITER), strict=True)) for line in done.stdout.splitlines()]

    def wait_accounted(self, job_id: int, timeout: float = 60) -> list[dict[str, str]]:
        """The job's sacct lines once it is over and they have stopped changing."""
        self.wait_ended(job_id, timeout)
        last: list[list[dict[str, str]]] = [[]]

        def steady() -> list[dict[str, str]]:
            before, last[0] = last[0], self.job_rows(job_id)
            return last[0] if last[0] == before and self.rows_final(last[0]) else []

        return self.wait_for(steady, timeout, f"final accounting of job {job_id}", interval=STEADY_S)

    def rows_final(self, rows: Sequence[Mapping[str, str]]) -> bool:
        """Whether nothing more is to come: last state final, starts heard of, ends known, all nodes named.

        slurmdbd makes a row of a job's end alone where it has not heard of the start yet, with uid 0; the
        start, heard later, writes over what anybody has changed in that row meanwhile.
        """
        if any(row["UID"] == "0" and row["User"] not in {"", "root"} for row in rows):
            return False
        if not rows or rows[-1]["State"].split()[0] not in FINAL_STATES:
            return False
        return all(row["End"].isdigit() and self.nodes_named(row) for row in rows)

    def nodes_named(self, row: Mapping[str, str]) -> bool:
        allocated = re.search(r"\bnode=(\d+)", row["AllocTRES"])
        if not allocated:
            return True
        if allocated[1] == "1":
            return "[" not in row["NodeList"]
        names = self.run("scontrol", "show", "hostnames", row["NodeList"]).stdout.split()
        return len(names) == int(allocated[1])
