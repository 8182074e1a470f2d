"""Processes by pid and start time, the client side of the keeper, free ports and log tails."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
POLL_S, LONGEST_PAUSE_S = 0.03, 0.5
FIRST_PORT, BLOCK = 10240, 100
T = TypeVar("T")


class ClusterError(Exception):
    """A test cluster could not do what a test asked of it."""


def start_time(pid: int) -> int | None:
    """Kernel start time of a process, None when it has ended: tells a reused pid apart."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


@dataclass(frozen=True)
class Process:
    """One process, identified beyond the reuse of its pid."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, start_time(pid) or 0)

    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens when it has ended."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


class Keeper:
    """The process that owns all others of one cluster; ends with this object's `close`, or with its owner."""

    def __init__(self, names: Sequence[str], log: Path) -> None:
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-IS", str(HERE / "keeper.py"), *names],
                stdin=theirs.fileno(),
                stdout=out,
                stderr=out,
                cwd="/",
                start_new_session=True,
            )
        self.control = ours
        self.control.settimeout(30)
        self.replies = ours.makefile("rb")

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        self.control.sendall(json.dumps({"op": op, **request}).encode() + b"\n")
        reply: dict[str, Any] = json.loads(self.replies.readline() or '{"error": "the keeper has ended"}')
        if "error" in reply:
            raise ClusterError(f"{op} {request}: {reply['error']}")
        return reply

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], user: str | None, log: Path) -> Process:
        reply = self.ask("spawn", argv=list(argv), env=dict(env), user=user, log=str(log))
        return Process.of(reply["pid"])

    def descendants(self) -> list[Process]:
        return [Process.of(pid) for pid in self.ask("descendants")["pids"]]

    def close(self) -> None:
        """End every process of the cluster and remove its cgroups."""
        self.replies.close()
        self.control.close()
        self.popen.wait(timeout=30)


def poll(predicate: Callable[[], T], timeout: float, what: str, *, interval: float = POLL_S) -> T:
    """The first true value of a predicate; an error that names `what` when there is none in time.

    It looks again after `interval`, and less often the longer it has waited: many a look is a process.
    """
    begin = time.monotonic()
    while not (value := predicate()):
        waited = time.monotonic() - begin
        if waited > timeout:
            raise ClusterError(f"timed out after {timeout:g} s waiting for {what}; last seen: {value!r}")
        time.sleep(max(interval, min(waited / 10, LONGEST_PAUSE_S)))
    return value


#: What this process has claimed of the ports, and which of those it has not given away.
claims: list[socket.socket] = []
unused_ports: list[int] = []


def claim_ports() -> None:
    """Claim a block of ports until this process ends, by a name that a network namespace has only once."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    blocks = list(range(FIRST_PORT, max(lowest, FIRST_PORT + 2000) - BLOCK + 1, BLOCK))
    random.SystemRandom().shuffle(blocks)
    for first in blocks:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0slurm-ofu-tests-ports-{first}")
        except OSError:
            claim.close()
            continue
        claims.append(claim)
        unused_ports.extend(range(first, first + BLOCK))
        return
    raise ClusterError(f"other test processes hold all {len(blocks)} blocks of ports")


def free_ports(count: int) -> list[int]:
    """Loopback ports nobody listens on, below the range that outgoing connections take theirs from.

    No other test process is given them, though what is to listen there has yet to start.
    """
    found: list[int] = []
    while len(found) < count:
        if not unused_ports:
            claim_ports()
        port = unused_ports.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(path: Path) -> bool:
    """Whether something accepts connections on a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def tail(file: Path, lines: int = 15) -> str:
    """The last lines of a log, with its name, for an error message."""
    try:
        text = file.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return f"--- {file.name}\n" + "\n".join(text.splitlines()[-lines:]) + "\n" if text else ""
