"""Processes, started as Slurm's daemon starts hooks, and what they cost."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_CPUCLOCK_SCHED = 2  # linux/posix-timers.h: the clock of a whole process


def hook_seconds(script: Path, environment: Mapping[str, str]) -> float:
    """Run a hook as slurmd does, and how long slurmd would have waited for it.

    In a process group of its own, with no environment but Slurm's, standard output and standard error
    one pipe that is read to its end; then the group is killed.
    """
    reading, writing = os.pipe()
    begin = time.perf_counter()
    process_id = os.posix_spawn(
        script,
        [str(script)],
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_DUP2, writing, 2),
        ],
        setpgroup=0,
    )
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123  a descriptor, not a path
        said = pipe.readall()
    _, status = os.waitpid(process_id, 0)
    took = time.perf_counter() - begin
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)
    if status != 0 or said:
        raise RuntimeError(f"{script}: wait status {status}, said {said!r}")
    return took


def forks_so_far() -> int:
    """Processes and threads that this machine has started since it booted."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("processes "))


def cpu_seconds(process_id: int) -> float:
    """CPU time of a live process, all its threads, to the nanosecond."""
    return time.clock_gettime((~process_id << 3) | _CPUCLOCK_SCHED)


def memory_mb(process_id: int, field: str = "VmRSS") -> float:
    """A memory figure of a live process in MB (10^6 bytes)."""
    lines = Path(f"/proc/{process_id}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{field}:"))


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30.0, every: float = 0.002) -> None:
    """Wait until something holds. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def run_to_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Run a command, output thrown away; seconds it took. Raises CalledProcessError when it fails."""
    begin = time.perf_counter()
    subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - begin
