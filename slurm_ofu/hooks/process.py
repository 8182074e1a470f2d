"""The sampler's own process: its name, its priority, its place among the host's services."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BUSCTL = "/usr/bin/busctl"
SYSTEMD = Path("/run/systemd/system")
#: Names that the epilog reads: it never kills a process that only delivers.
SAMPLING, DELIVERING = "ofu-sampler", "ofu-deliver"


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

    systemd is asked through ``busctl`` without waiting; :meth:`outcome` tells later what came of it.
    """

    def __init__(self, name: str, *, systemd: Path = SYSTEMD, busctl: str = BUSCTL) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._why_not = "stayed: no systemd here"
        if not systemd.is_dir():
            return
        if os.geteuid() != 0:
            self._why_not = "stayed: not root"
            return
        try:
            self._child = subprocess.Popen(
                scope_request(busctl, name, os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._why_not = f"stayed: {error}"

    def outcome(self) -> str:
        """Where the process runs, as far as is known now."""
        if self._child is None:
            return self._why_not
        code = self._child.poll()
        if code is None:
            return "asked for a scope"
        return "own scope" if code == 0 else f"stayed: busctl exited {code}"


def scope_request(busctl: str, name: str, pid: int) -> list[str]:
    """The call that starts a scope around a process."""
    return [
        busctl,
        "--timeout=20",
        "--allow-interactive-authorization=no",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        f"{name}.scope",
        "fail",
        "2",
        "PIDs",
        "au",
        "1",
        str(pid),
        "Description",
        "s",
        "slurm-ofu sampler",
        "0",
    ]


def close_device_files() -> None:
    """Let go of any NVIDIA device file that the driver's library left open in this process."""
    with contextlib.suppress(OSError):
        for entry in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("/dev/nvidia"):
                    os.close(int(entry.name))
