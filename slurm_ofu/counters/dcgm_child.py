"""One running ``dcgmi dmon``: started, read without ever waiting for it, ended.

It cannot outlive its sampler: the kernel kills it with its parent, and should that fail, its next row
finds nobody at the other end of the pipe. What it says on stderr is kept, up to a limit, and tells why it
ended. Its environment is empty but for what makes it speak English and keep no log.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Literal

from slurm_ofu.counters.dcgm_rows import LINE_LIMIT

ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "__DCGM_DBG_FILE": "/dev/null"}
CHUNK, LARGEST_READ = 1 << 16, 1 << 22
WORDS_LIMIT = 4000
_PR_SET_PDEATHSIG = 1

Failure = Literal["no_engine", "locked", "fields", "entity", "ended"]
#: What DCGM says, in lower case → what it means. The first that is found counts.
_MEANINGS: tuple[tuple[str, Failure], ...] = (
    ("connect to host engine", "no_engine"),
    ("establish a connection", "no_engine"),
    ("connection to the host engine", "no_engine"),
    ("connection is not valid", "no_engine"),
    ("unable to initialize dcgm", "no_engine"),
    ("module returned an unrecoverable error", "locked"),
    ("resource is in use", "locked"),
    ("while adding", "entity"),
    ("bad parameter passed", "entity"),
    ("invalid field id", "fields"),
    ("setting watches", "fields"),
    ("field group", "fields"),
)


def failure_of(words: str) -> Failure:
    """Why dmon ended, from everything it said besides rows."""
    said = words.lower()
    return next((meaning for text, meaning in _MEANINGS if text in said), "ended")


class DmonChild:
    """A child whose lines are taken as they come. Raises OSError when it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        libc = ctypes.CDLL(None)  # loaded before the fork: the child only calls
        parent = os.getpid()

        def prepare() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the sampler blocks what ends it
            if os.getppid() != parent:
                os._exit(1)

        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509  the sampler has one thread
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        os.set_blocking(self._out, False)
        os.set_blocking(self._err, False)
        self._rest = b""
        self._overlong = False
        self._words = ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def lines(self) -> list[str]:
        """The whole lines that came since the last call. One without an end is not a line yet."""
        self.heard(_available(self._err))
        *whole, rest = (self._rest + _available(self._out)).split(b"\n")
        if self._overlong and whole:
            whole = whole[1:]
            self._overlong = False
        if len(rest) > LINE_LIMIT:
            rest, self._overlong = b"", True
        self._rest = rest
        return [line.decode("utf-8", "replace") for line in whole]

    def heard(self, words: str | bytes) -> None:
        """Keep what may tell later why it ended: the newest, up to a limit."""
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
        if text:
            self._words = (self._words + text)[-WORDS_LIMIT:]

    @property
    def words(self) -> str:
        """What it said besides rows."""
        return self._words

    def has_ended(self) -> bool:
        """Whether it is gone; what it still had to say can be read."""
        return self._process.poll() is not None

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended by itself. Raises TimeoutError."""
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"no answer within {seconds:g} s") from error

    def close(self) -> None:
        """End it, and leave nothing of it."""
        if not self.has_ended():
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _available(descriptor: int) -> bytes:
    """What is there to be read now, up to a limit."""
    parts, size = [], 0
    while size < LARGEST_READ:
        try:
            part = os.read(descriptor, CHUNK)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
        if len(part) < CHUNK:
            break
    return b"".join(parts)


def ask(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit code and words of a command that ends by itself. Raises OSError, TimeoutError."""
    child = DmonChild(command)
    try:
        code = child.wait(seconds)
        return code, "\n".join(child.lines()) + "\n" + child.words
    finally:
        child.close()
