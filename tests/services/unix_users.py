"""Unix users for jobs, created for the tests and removed again by the last cluster that needs them."""

from __future__ import annotations

import fcntl
import pwd
import subprocess
from pathlib import Path
from typing import TextIO

ALICE, BOB, CAROL = "ofu-alice", "ofu-bob", "ofu-carol"
ACCOUNTS = {"astro": (ALICE, BOB), "bio": (CAROL,)}
MARK = "slurm-ofu test user"
LOCKS = Path("/run/lock")


def user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def locked(name: str, mode: int) -> TextIO:
    """An open lock file; closing it, or the end of the process, gives the lock back."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    file = (LOCKS / name).open("a")
    fcntl.flock(file, mode)
    return file


class UnixUsers:
    """A hold on the test users: they exist between `acquire` and `release`.

    Holders share one lock, so the last one to leave, in whatever process, can tell; only accounts that
    carry the tests' mark are removed.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.hold: TextIO | None = None

    def acquire(self) -> None:
        with locked("slurm-ofu-test-users.change", fcntl.LOCK_EX):
            self.hold = locked("slurm-ofu-test-users.hold", fcntl.LOCK_SH)
            for name in self.names:
                if not user_exists(name):
                    subprocess.run(
                        [
                            "/usr/sbin/useradd",
                            "--no-create-home",
                            "--home-dir",
                            "/nonexistent",
                            "--user-group",
                            "--shell",
                            "/bin/sh",
                            "--comment",
                            MARK,
                            name,
                        ],
                        check=True,
                        capture_output=True,
                    )

    def release(self) -> None:
        if self.hold is None:
            return
        self.hold.close()
        self.hold = None
        with locked("slurm-ofu-test-users.change", fcntl.LOCK_EX):
            try:
                last = locked("slurm-ofu-test-users.hold", fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            with last:
                self.remove_marked()

    def remove_marked(self) -> None:
        for name in self.names:
            if user_exists(name) and pwd.getpwnam(name).pw_gecos == MARK:
                subprocess.run(["/usr/sbin/userdel", name], check=True, capture_output=True)
