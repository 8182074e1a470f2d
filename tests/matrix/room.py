"""A chroot to run tests in: its own mounts and processes, nothing of it left when its first process ends.

As a program (standard library only, inside `unshare --mount --pid --fork`) it makes the mounts that a JSON
text describes, moves into the root and runs a command there below the namespace's first process. The root
is read-only, so that runs can share it; /etc, /run, /tmp and /var/tmp are the room's own, in memory.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: Where things are in a room; the root has these folders. The environment is where `make` puts it.
REPOSITORY, INPUT, OUTPUT = FOLDERS = "/repository", "/input", "/output"
VENV = f"{REPOSITORY}/.venv"

PATH = f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTS = "127.0.0.1 localhost\n::1 ip6-localhost\n"
NOT_COPIED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info")
MNT_DETACH = 2

#: The kernel kills unshare when the process that started it ends, and the first process when unshare ends.
UNSHARE = (
    "setpriv", "--pdeathsig=KILL", "--", "unshare", "--mount", "--propagation=private", "--pid", "--fork",
    "--kill-child", "--",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Room:
    """A root, folders bound into it by place (those in ``writable`` can be written), a tree to copy."""

    root: str
    binds: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    repository: str | None = None

    def command(
        self, command: Sequence[str], environment: Mapping[str, str], directory: str = "/"
    ) -> list[str]:
        """The command line that runs a command in this room; it exits as the command does."""
        told = {
            "room": asdict(self),
            "command": list(command),
            "environment": {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root", **environment},
            "directory": directory,
        }
        return [*UNSHARE, sys.executable, "-IS", __file__, json.dumps(told)]


# ------------------------------------------------------------------------------ inside


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def bind(source: Path | str, target: Path, *, writable: bool = True) -> None:
    mount("--bind", str(source), str(target))
    if not writable:
        mount("-o", "remount,bind,ro", str(target))


def furnish(room: Room) -> None:
    """Make every mount below the root."""
    root = Path(room.root)
    bind(root, root, writable=False)
    mount("-t", "proc", "proc", str(root / "proc"))
    for name in ("dev", "sys"):
        mount("--rbind", f"/{name}", str(root / name))
    for name, mode in (("dev/shm", "1777"), ("tmp", "1777"), ("run", "755"), ("root", "700"), ("mnt", "755")):
        mount("-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", str(root / name))
    own_copies(room, root / "mnt", root)
    for place, source in room.binds.items():
        bind(source, root / place.lstrip("/"), writable=place in room.writable)
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "var/tmp"))


def own_copies(room: Room, scratch: Path, root: Path) -> None:
    """/etc and the repository as copies in memory: the tests add users, and Python its byte code."""
    shutil.copytree(root / "etc", scratch / "etc", symlinks=True)
    (scratch / "etc/hosts").write_text(HOSTS)
    bind(scratch / "etc", root / "etc")
    if room.repository is not None:
        ignored = shutil.ignore_patterns(*NOT_COPIED)
        copy = shutil.copytree(room.repository, scratch / "repository", symlinks=True, ignore=ignored)
        (copy / ".venv").mkdir()
        bind(copy, root / REPOSITORY.lstrip("/"))
    subprocess.run(["umount", "--lazy", str(scratch)], check=True)


def move_in(root: str) -> None:
    """Make the root that of this process, and let go of the old one."""
    umount = ctypes.CDLL(None, use_errno=True).umount2
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    if umount(b".", MNT_DETACH):
        raise OSError(ctypes.get_errno(), "the old root could not be unmounted")
    os.chdir("/")


def run(command: Sequence[str], environment: Mapping[str, str], directory: str) -> int:
    """Run the command, collect every process that ends here, return the command's exit status."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(directory)
            os.execvpe(command[0], list(command), environment)
        except OSError as error:
            os.write(2, f"{command[0]}: {error}\n".encode())
        os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main(told: Mapping[str, Any]) -> int:
    room = Room(**told["room"])
    furnish(room)
    move_in(room.root)
    code = run(told["command"], told["environment"], told["directory"])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
