"""A node without Slurm: the hook scripts as installed, called as slurmd calls them."""

import contextlib
import grp
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from slurm_ofu.samples.checkpoint import Checkpoint, decode_checkpoint
from tests.services.processes import Process

ROOT = Path(__file__).parents[2]
DEFAULT_SPOOL = "/var/spool/slurm-ofu"
T = TypeVar("T")
STEADY = [{"seconds": 1, "tensor_active_ratio": 0.5, "sm_clock_mhz": 1830}]


def poll(what: str, ask: Callable[[], T], seconds: float = 20.0) -> T:
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}; last answer: {answer!r}"
        time.sleep(0.01)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """How a hook went. ``seconds`` ends when its output reached end-of-file, as slurmd waits for it."""

    code: int
    output: bytes
    seconds: float


@dataclass
class Node:
    """One node's spool, configuration, hook scripts and accounting database, all below ``folder``."""

    folder: Path
    python: str = sys.executable
    sampler: Mapping[str, Any] = field(
        default_factory=lambda: {"interval_seconds": 0.2, "clock_readings": 3, "checkpoint_seconds": 0.2}
    )
    gpus: int = 2
    wait_seconds: float = 5.0

    def __post_init__(self) -> None:
        self.spool = self.folder / "spool"
        self.config = self.folder / "slurm-ofu.toml"
        self.database = self.folder / "ofu.db"
        self.source = self.folder / "source.json"
        self.source.write_text(
            json.dumps({"gpu_model": "NVIDIA H100 80GB HBM3", "gpus": self.gpus, "default": STEADY})
        )
        self.write_config()
        for hook in ("prolog/00-slurm-ofu", "epilog/zz-slurm-ofu"):
            self.install(hook)

    def install(self, hook: str) -> None:
        """Write a hook script as ``ofu-node install`` does; no default path leads out of the folder."""
        text = (ROOT / hook).read_text(encoding="utf-8")
        for before, after in (
            ("@OFU_PYTHON@", self.python),
            ("@OFU_CONFIG@", str(self.config)),
            (DEFAULT_SPOOL, str(self.folder / "default-spool")),
        ):
            assert before in text
            text = text.replace(before, after)
        path = self.folder / hook.partition("/")[0]
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def write_config(self, **sampler: Any) -> None:
        """The configuration: a source whose truth is known, short intervals."""
        source = f"synthetic://{self.source}"
        # The first interim record comes at a random time: only where a test asks for them.
        settings = {"source": source, "interim_seconds": 0, **self.sampler, **sampler}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        self.config.write_text(
            "\n".join(
                (
                    "[node]",
                    f'spool_dir = "{self.spool}"',
                    "[sampler]",
                    *lines,
                    "[delivery]",
                    f'to = "sqlite://{self.database}"',
                    f"wait_seconds = {self.wait_seconds}",
                    "[database]",
                    f'url = "sqlite://{self.database}"',
                    f'group = "{grp.getgrgid(os.getegid()).gr_name}"',
                    "",
                )
            )
        )

    # ---- what Slurm does

    def environment(self, job: int = 7, **said: str | None) -> dict[str, str]:
        """All that a hook sees: Slurm's variables and nothing else."""
        values: dict[str, str | None] = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_GPUS": ",".join(map(str, range(self.gpus))),
            "SLURM_CLUSTER_NAME": "trial",
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_USER": "somebody",
            "SLURM_JOB_UID": "1234",
            "SLURM_JOB_ACCOUNT": "physics",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_RESTART_COUNT": "0",
            "SLURM_JOB_START_TIME": "1764424800",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            **said,
        }
        return {name: value for name, value in values.items() if value is not None}

    def start(self, hook: str, job: int = 7, *, prefix: tuple[str, ...] = (), **said: str | None) -> Any:
        """Start a hook in a process group of its own."""
        return subprocess.Popen(
            [*prefix, str(self.folder / hook)],
            env=self.environment(job, **said),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def call(self, hook: str, job: int = 7, *, prefix: tuple[str, ...] = (), **said: str | None) -> Called:
        """Run a hook to its end, then kill what is left of its process group, as slurmd does."""
        begin = time.monotonic()
        process = self.start(hook, job, prefix=prefix, **said)
        output, _ = process.communicate(timeout=20)
        seconds = time.monotonic() - begin
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return Called(code=process.returncode, output=output, seconds=seconds)

    def prolog(self, job: int = 7, **said: Any) -> Called:
        """The prolog."""
        return self.call("prolog", job, **said)

    def finisher(self) -> None:
        """What the timer starts."""
        module = ("-I", "-m", "slurm_ofu.hooks.finish")
        where = ("--config", str(self.config), "--spool", str(self.spool))
        subprocess.run([self.python, *module, *where], env={}, check=True, timeout=60)

    def epilog(self, job: int = 7, **said: Any) -> Called:
        """The epilog."""
        return self.call("epilog", job, SLURM_JOB_EXIT_CODE2="0:0", **said)

    # ---- what is to be seen

    def state(self, suffix: str, job: int = 7) -> Path:
        """A file that the hooks left of a job's latest run, once it is there and not empty."""

        def found() -> Path | None:
            files = sorted(self.spool.glob(f"state/{job}.*.{suffix}"))
            return files[-1] if files and files[-1].stat().st_size else None

        file = poll(f"state of job {job}: {suffix}", found)
        assert file is not None
        return file

    def sampler_process(self, job: int = 7) -> Process:
        """The process that the prolog started."""
        pid, began = self.state("sampler", job).read_text().split()
        return Process(int(pid), int(began))

    def covered_seconds(self, job: int = 7) -> float:
        """What the job's latest checkpoint has measured of its first GPU."""
        files = sorted(self.spool.glob(f"state/{job}.*.checkpoint"))
        if not files:
            return 0.0
        checkpoint: Checkpoint = decode_checkpoint(files[-1].read_bytes())
        fold = checkpoint.gpus[0].fold if checkpoint.gpus else None
        return fold["sampled"]["covered_seconds"] if fold else 0.0

    def sampling(self, seconds: float = 0.5, job: int = 7) -> Process:
        """The sampler's process, once so much has been measured and saved."""
        poll(f"{seconds} s of job {job} measured", lambda: self.covered_seconds(job) >= seconds)
        return self.sampler_process(job)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of the accounting database; none where there is no database yet."""
        if not self.database.exists():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            try:
                return [dict(row) for row in connection.execute(query)]
            except sqlite3.OperationalError:
                return []  # not migrated yet, or locked

    def stored(self, job: int = 7) -> list[dict[str, Any]]:
        """The job's GPUs in the accounting database, once they are there."""
        query = (
            f"SELECT * FROM run JOIN run_gpu USING (run_id) WHERE job_id = {job} ORDER BY run_id, position"
        )
        return poll(f"job {job} in the database", lambda: self.rows(query))

    def is_settled(self) -> bool:
        """Whether nothing of any run is left in the spool: all is finished and delivered."""
        return not list(self.spool.glob("outbox/*")) and not list(self.spool.glob("state/*.prolog"))

    def processes(self) -> list[Process]:
        """Every process that has this folder on its command line: those that our hooks started."""
        mark, found = str(self.folder).encode() + b"/", []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and mark in (entry / "cmdline").read_bytes():
                    found.append(Process.of(int(entry.name)))
        return found

    def gone(self) -> None:
        """Wait until nothing of ours runs any more."""
        deadline = time.monotonic() + 30
        while left := self.processes():
            assert time.monotonic() < deadline, [self.command(process) for process in left]
            time.sleep(0.01)

    @staticmethod
    def command(process: Process) -> str:
        """What a process is called, for a message."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
        return "nobody"

    def close(self) -> None:
        """End what is still there, each by its pid and start time."""
        for process in self.processes():
            process.send(signal.SIGKILL)
