"""The sampler's own process: its name, its priority, its place among the host's services."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BUSCTL, TIMEOUT = "/usr/bin/busctl", "/usr/bin/timeout"
ANSWER_LIMIT_S, STOP_LIMIT_S = 20, 5
TIMED_OUT = 124  # as timeout(1) exits
SYSTEMD = Path("/run/systemd/system")
#: Names that the epilog reads: it never kills a process that only delivers.
SAMPLING, DELIVERING = "ofu-sampler", "ofu-deliver"
#: How the process of an interim record ends: handed on, or there was none; not this time; never.
DONE, NOT_NOW, NEVER = 0, 1, 2


def options_of(arguments: Sequence[str] | None) -> dict[str, str]:
    """``--name value`` pairs, as our own hook scripts write them (argparse would cost 1 MB and 8 ms)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def rename(name: str) -> None:
    """Set the process's short name (at most 15 characters)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def step_back() -> None:
    """Run after everybody else."""
    with contextlib.suppress(OSError):
        os.nice(19)


class OwnScope:
    """A transient systemd scope for this process: out of slurmd's cgroup and out of the job's, so that
    neither a restart of slurmd nor the job's end takes the sampler with it.

    systemd is asked over the system bus, through ``busctl``, without waiting; :meth:`outcome` tells later
    what came of it. Without a system bus the process stays: systemd's private socket refuses busctl.
    """

    def __init__(
        self,
        name: str,
        *,
        systemd: Path = SYSTEMD,
        busctl: str = BUSCTL,
        limit_seconds: int = ANSWER_LIMIT_S,
    ) -> None:
        self._limit_seconds = limit_seconds
        self._cgroup = f"/{name}.scope"
        self._child: subprocess.Popen[bytes] | None = None
        self._why_not = "stayed: no systemd here"
        if not systemd.is_dir():
            return
        if os.geteuid() != 0:
            self._why_not = "stayed: not root"
            return
        try:
            self._child = subprocess.Popen(
                scope_request(busctl, name, os.getpid(), limit_seconds),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={},
            )
        except OSError as error:
            self._why_not = f"stayed: {error}"

    def outcome(self) -> str:
        """Where the process runs, as far as is known now."""
        if self._child is None:
            return self._why_not
        code = self._child.poll()
        if self._has_moved():
            return "own scope"
        if not code:  # unanswered, or answered but not yet carried out
            return "asked for a scope"
        if code == TIMED_OUT:
            return f"stayed: busctl took over {self._limit_seconds} s"
        return f"stayed: busctl exited {code}"

    def _has_moved(self) -> bool:
        """Whether the kernel has this process in the scope."""
        with contextlib.suppress(OSError):
            lines = Path("/proc/self/cgroup").read_text().splitlines()
            return any(line.endswith(self._cgroup) for line in lines)
        return False


def scope_request(busctl: str, name: str, pid: int, limit_seconds: int) -> list[str]:
    """The call that starts a scope around a process; ended from outside when the bus itself hangs.

    A process that ignores the scope's end is killed after a few seconds, not the 90 that would hold up a
    shutdown, and a scope that ended badly is forgotten like any other.
    """
    properties = {
        "PIDs": ["au", "1", str(pid)],
        "Description": ["s", "slurm-ofu sampler"],
        "TimeoutStopUSec": ["t", str(STOP_LIMIT_S * 10**6)],
        "CollectMode": ["s", "inactive-or-failed"],
    }
    return [
        TIMEOUT,
        "--kill-after=1",
        str(limit_seconds),
        busctl,
        "--allow-interactive-authorization=no",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        f"{name}.scope",
        "fail",
        str(len(properties)),
        *(word for key, value in properties.items() for word in (key, *value)),
        "0",
    ]


def close_device_files() -> None:
    """Let go of any NVIDIA device file that the driver's library left open in this process."""
    with contextlib.suppress(OSError):
        for entry in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("/dev/nvidia"):
                    os.close(int(entry.name))
