"""A real munged on a socket of its own, if asked with another key or another clock."""

from __future__ import annotations

import functools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.services.processes import answers, poll
from tests.services.slurm_daemons import PATH

FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
NOBODY = 65534


@functools.cache
def missing(programs: tuple[str, ...] = ("munged", "munge", "unmunge", "setpriv")) -> str | None:
    """Why there can be no munged here, in one line."""
    if os.geteuid() != 0:
        return "a munged of its own needs root"
    if absent := [name for name in programs if not shutil.which(name, path=PATH)]:
        return f"a munged of its own needs {', '.join(absent)}"
    if "faketime" in programs and FAKETIME is None:
        return "another clock needs the library of faketime"
    try:
        pwd.getpwnam("munge")
    except KeyError:
        return "a munged of its own needs the unix user munge"
    return None


def require(*more: str) -> None:
    """Skip the test where it cannot run, or fail it when OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    reason = missing() or (missing(more) if more else None)
    if reason and os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def new_key() -> bytes:
    """A munge key."""
    return secrets.token_bytes(128)


class Munged:
    """One munged. ``clock``: what faketime makes of its time, such as "+1h"."""

    def __init__(self, key: bytes, clock: str | None = None) -> None:
        user = pwd.getpwnam("munge")
        self.folder = Path(tempfile.mkdtemp(prefix="ofu-munge-", dir="/tmp"))  # short: a socket's path is
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.folder.chmod(0o755)
        self.socket = self.folder / "socket"
        (self.folder / "key").write_bytes(key)
        (self.folder / "key").chmod(0o600)
        os.chown(self.folder / "key", user.pw_uid, user.pw_gid)
        environment = {"PATH": PATH}
        if clock is not None:
            environment |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME": clock}
        with (self.folder / "out").open("wb") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=TERM", "--", "munged", *self._options()],
                env=environment,
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        poll(self._answers, 30, "munged to answer")

    def _options(self) -> list[str]:
        names = ("pid", "log", "seed")
        files = [f"--{name}-file={self.folder}/{name}" for name in names]
        return [
            "--foreground",
            f"--socket={self.socket}",
            f"--key-file={self.folder}/key",
            "--num-threads=8",
            *files,
        ]

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"munged ended: {(self.folder / 'out').read_text()}")
        return answers(self.socket)

    def close(self) -> None:
        """End it and remove its folder."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)
