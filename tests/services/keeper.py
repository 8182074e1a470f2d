"""Parent of every process of one test cluster (a program; standard library only).

It starts the daemons, collects what the nodes write to /dev/log, and in the end kills exactly its own
descendants: it is their subreaper, so whatever a daemon, a hook or a job leaves behind becomes its child.
Standard input is a socket that carries one JSON request a line; when that closes (also because the test
process died), everything is ended.  The arguments are the node names, after which Slurm names its cgroups.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUTS = 0x04000000
SWEEP_S = 10.0
CGROUP_S = 3.0


def reap() -> None:
    """Collect every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants() -> list[int]:
    """Every living process below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def sweep() -> None:
    """Kill descendants until none is left; new ones may appear while their parents still run."""
    end = time.monotonic() + SWEEP_S
    while (left := descendants()) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        reap()


def remove_cgroups(nodes: list[str]) -> None:
    """Remove the version 1 cgroups that the killed daemons could not remove themselves."""
    end = time.monotonic() + CGROUP_S
    while time.monotonic() < end:
        roots = [r for n in nodes for r in Path("/sys/fs/cgroup").glob(f"*/slurm_{n}")]
        if not roots:
            return
        for root in roots:
            for folder, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        time.sleep(0.02)


def spawn(request: dict[str, Any]) -> dict[str, Any]:
    """Start one process in its own session, output appended to its log file."""
    identity: dict[str, Any] = {}
    if request["user"]:
        entry = pwd.getpwnam(request["user"])
        identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    with Path(request["log"]).open("ab") as log:
        process = subprocess.Popen(
            request["argv"],
            env=request["env"],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **identity,
        )
    return {"pid": process.pid}


class Syslog:
    """The datagram sockets that the nodes see as /dev/log, each copied to a text file."""

    def __init__(self) -> None:
        self.files: dict[socket.socket, Path] = {}

    def listen(self, path: str, file: str) -> dict[str, Any]:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(path)
        Path(path).chmod(0o666)
        receiver.setblocking(False)
        self.files[receiver] = Path(file)
        return {}

    def drain(self) -> None:
        """Write down every message that has arrived, one a line."""
        for receiver, file in self.files.items():
            with contextlib.suppress(BlockingIOError), file.open("ab") as out:
                while True:
                    out.write(receiver.recv(1 << 20).rstrip(b"\0\n") + b"\n")


def answer(line: bytes, syslog: Syslog) -> bytes:
    request = json.loads(line)
    reply: dict[str, Any] = {}
    try:
        if request["op"] == "spawn":
            reply = spawn(request)
        elif request["op"] == "syslog":
            reply = syslog.listen(request["path"], request["file"])
        elif request["op"] == "descendants":
            reply = {"pids": descendants()}
    except (OSError, KeyError) as error:
        reply = {"error": str(error)}
    syslog.drain()
    return json.dumps(reply).encode() + b"\n"


def serve(control: socket.socket) -> None:
    """Answer requests until the other end closes."""
    syslog, pending = Syslog(), b""
    while True:
        ready, _, _ = select.select([control, *syslog.files], [], [], 0.2)
        reap()
        syslog.drain()
        if control not in ready:
            continue
        received = control.recv(1 << 16)
        if not received:
            return
        pending += received
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            control.sendall(answer(line, syslog))


def adopt() -> None:
    """Become the descendants' reaper, on a host called localhost: daemons bind to what its name means."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if libc.unshare(CLONE_NEWUTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname("localhost")


def main(nodes: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    adopt()
    try:
        with contextlib.suppress(ConnectionError):
            serve(socket.socket(fileno=os.dup(0)))
    finally:
        sweep()
        remove_cgroups(nodes)


if __name__ == "__main__":
    main(sys.argv[1:])
