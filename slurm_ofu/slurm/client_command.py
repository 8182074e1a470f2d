"""Running one of Slurm's client commands: sacct, sacctmgr.

A command gets an environment in which its output does not depend on who runs it: UTC, epochs for times,
none of the variables that change what Slurm's commands ask or print. It is found by its absolute path, is
ended with all that it started when it takes too long or nobody wants its output any more, and what it says
on stderr is kept up to a bound. What an exit code means is for the caller to say; `failure` words it.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.values import AccountingConfig

STDERR_BYTES = 8192
ANSWER_BYTES = 64 << 20
CHUNK_BYTES = 1 << 16
#: What of the caller's environment Slurm's commands may see of their own variables.
KEPT_VARIABLES = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_SOCKET"})
FOREIGN_PREFIXES = ("SLURM", "SACCT", "SQUEUE", "SINFO", "LC_")
_UNREACHABLE = (
    "Connection refused",
    "Unable to connect to database",
    "Unable to connect to dbd",
    "Problem talking to the database",
    "Failed to connect",
    "Unable to contact slurmdbd",
    "Communication connection failure",
    "connection to slurmdbd",
)
_UNCONFIGURED = ("Unable to process configuration file", "Could not establish a configuration source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended: exit code (or minus a signal), output, the beginning of stderr."""

    returncode: int
    stdout: bytes
    stderr: str


def run(
    argv: Sequence[str],
    *,
    config: AccountingConfig,
    stdin: bytes | None = None,
    timeout_seconds: float,
    variables: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command to its end, whatever it exits with; `argv[0]` is its name in `config.bin_dir`, and
    `variables` go before those of `environment`.

    Raises AccountingUnusable where it cannot be started, and AccountingError where it takes longer than
    `timeout_seconds` in all or prints more than 64 MiB.
    """
    deadline = time.monotonic() + timeout_seconds
    with _started(argv, config, stdin, variables) as child:
        parts: list[bytes] = []
        size = 0
        while chunk := child.read(deadline, f"within {timeout_seconds:g} s"):
            size += len(chunk)
            if size > ANSWER_BYTES:
                raise AccountingError(f"{child.name} printed more than {ANSWER_BYTES >> 20} MiB: ended")
            parts.append(chunk)
        return Finished(returncode=child.wait(deadline), stdout=b"".join(parts), stderr=child.stderr())


def stream(
    argv: Sequence[str], *, config: AccountingConfig, silence_seconds: float
) -> Generator[bytes, None, Finished]:
    """Run a command and yield what it prints while it runs; the generator's value is how it ended.

    Nothing is read ahead: a slow consumer makes the command wait, and closing the generator ends it. Raises
    as `run` does; here the time without any output is bounded.
    """
    with _started(argv, config, None) as child:
        bound = f"for {silence_seconds:g} s"
        while chunk := child.read(time.monotonic() + silence_seconds, bound):
            yield chunk
        returncode = child.wait(time.monotonic() + silence_seconds)
        return Finished(returncode=returncode, stdout=b"", stderr=child.stderr())


def failure(name: str, finished: Finished) -> AccountingError:
    """What to raise for a command that ended badly: what it said, and whether slurmdbd was away."""
    said = " / ".join(line.strip() for line in finished.stderr.splitlines() if line.strip())[:500]
    ended = (
        f"exit code {finished.returncode}" if finished.returncode >= 0 else f"signal {-finished.returncode}"
    )
    if is_unreachable(finished.stderr):
        return AccountingError(f"{name}: slurmdbd or its database does not answer ({ended}): {said}")
    if any(phrase in finished.stderr for phrase in _UNCONFIGURED):
        return AccountingError(
            f"{name} finds no slurm.conf that it can use: name it in [accounting] slurm_conf or SLURM_CONF"
            f" ({ended}: {said})"
        )
    return AccountingError(f"{name} failed ({ended}): {said or 'without a word on stderr'}")


def is_unreachable(stderr: str) -> bool:
    """Whether a command complains that slurmdbd, or the database behind it, is away."""
    return any(phrase.lower() in stderr.lower() for phrase in _UNREACHABLE)


def environment(config: AccountingConfig, caller: Mapping[str, str]) -> dict[str, str]:
    """The variables of a client command; `caller`: the environment that we run in."""
    kept = {
        name: value
        for name, value in caller.items()
        if name in KEPT_VARIABLES or not name.startswith(FOREIGN_PREFIXES)
    }
    if config.slurm_conf:
        kept["SLURM_CONF"] = config.slurm_conf
    fixed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "64"}
    return {"PATH": "/usr/bin:/bin", **kept, **fixed}


class _Child:
    """A started command, its two pipes read together."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._process = process
        self._heard = bytearray()
        self._pipes = selectors.DefaultSelector()
        assert process.stdout
        assert process.stderr
        self._stdout, self._stderr = process.stdout, process.stderr
        for pipe in (self._stdout, self._stderr):
            self._pipes.register(pipe, selectors.EVENT_READ)

    def read(self, deadline: float, bound: str) -> bytes:
        """The next output; b"" when both pipes are at their end. AccountingError past the deadline."""
        while self._pipes.get_map():
            ready = [key.fileobj for key, _ in self._pipes.select(max(0.0, deadline - time.monotonic()))]
            if self._stderr in ready:
                self._listen()
            if self._stdout in ready and (chunk := self._take(self._stdout)):
                return chunk
            if time.monotonic() >= deadline:
                raise AccountingError(f"{self.name} gave no answer {bound}: ended{self._said()}")
        return b""

    def wait(self, deadline: float) -> int:
        """The exit code, once both pipes are at their end."""
        try:
            return self._process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AccountingError(f"{self.name} closed its output and did not end{self._said()}") from None

    def stderr(self) -> str:
        return bytes(self._heard).decode("utf-8", "replace")

    def end(self) -> None:
        """Kill what still runs, and let go of the pipes."""
        if self._process.returncode is None:  # not waited for: the group's number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._pipes.close()
        self._stdout.close()
        self._stderr.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # asleep in the kernel: nothing ends it
            self._process.wait(5)

    def _listen(self) -> None:
        chunk = self._take(self._stderr)
        self._heard += chunk[: STDERR_BYTES - len(self._heard)]

    def _take(self, pipe: IO[bytes]) -> bytes:
        chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        if not chunk:
            self._pipes.unregister(pipe)
        return chunk

    def _said(self) -> str:
        said = self.stderr().strip()
        return f"; it said: {said[:500]}" if said else ""


@contextlib.contextmanager
def _started(
    argv: Sequence[str],
    config: AccountingConfig,
    stdin: bytes | None,
    variables: Mapping[str, str] | None = None,
) -> Generator[_Child, None, None]:
    name, *arguments = argv
    path = str(Path(config.bin_dir) / name)
    with _input(stdin) as source:
        try:
            process = subprocess.Popen(
                [path, *arguments],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**environment(config, os.environ), **(variables or {})},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise AccountingUnusable(
                f"{path} cannot be run: {error.strerror or error}; [accounting] bin_dir names its folder"
            ) from error
    child = _Child(name, process)
    try:
        yield child
    finally:
        child.end()


@contextlib.contextmanager
def _input(stdin: bytes | None) -> Generator[int | IO[bytes], None, None]:
    """A file rather than a pipe: nobody has to feed it."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file
