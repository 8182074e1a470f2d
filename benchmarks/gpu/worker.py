"""A process beside the script that answers questions. It may crash or hang: the script goes on.

The GEMMs run in one such process, everything that speaks to NVML in another. The script itself touches
no GPU, so that nothing can keep it from its deadline.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from benchmarks.gpu.channel import Channel, Message

SHOWN_CHARACTERS = 600
#: How long a process may take to end when it is told to.
GRACE_SECONDS = 3.0


class Refused(Exception):
    """The process says that this cannot be done; it is well and can be asked something else."""


class WorkerFailed(Exception):
    """The process died, or did not answer in time; the next question starts a new one."""


class Worker:
    """Runs ``python -m MODULE ARGUMENTS`` when it is first asked something."""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._module = module
        self._command = (sys.executable, "-m", module, *arguments)
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  kept as long as this object

    def ask(self, do: str, *, limit: float, **arguments: Any) -> Any:
        """The answer to a question, within ``limit`` seconds. Raises Refused or WorkerFailed."""
        self.begin(do, **arguments)
        return self.answer(limit)

    def begin(self, do: str, **arguments: Any) -> None:
        """Ask without waiting for the answer."""
        try:
            self._running().send({"do": do, **arguments})
        except BrokenPipeError:
            self._give_up("died")

    def tell(self, message: Message) -> None:
        """A word to a question that is being answered."""
        with contextlib.suppress(BrokenPipeError):  # then ``answer`` finds it dead
            self._running().send(message)

    def event(self, seconds: float) -> str:
        """What is announced before the answer. Raises Refused or WorkerFailed."""
        return str(self._message(seconds)["event"])

    def answer(self, seconds: float) -> Any:
        """The answer to what was begun. Raises Refused or WorkerFailed."""
        return self._message(seconds)["answer"]

    def close(self) -> None:
        """Let it end, or end it."""
        process, self._process, self._channel = self._process, None, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def _running(self) -> Channel:
        if self._channel is not None:
            return self._channel
        self._said.seek(0)
        self._said.truncate()
        process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())
        return self._channel

    def _message(self, seconds: float) -> Message:
        try:
            message = self._running().receive(max(0.0, seconds))
        except EOFError:
            self._give_up("died")
        if message is None:
            self._give_up(f"did not answer within {seconds:.0f} s")
        if "refused" in message:
            raise Refused(message["refused"])
        return message

    def _give_up(self, why: str) -> NoReturn:
        """Ends the process; always raises."""
        if self._process is not None and not why.startswith("died"):
            self._process.kill()
        process = self._process
        self.close()
        code = "" if process is None else f" (exit status {process.returncode})"
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip()
        raise WorkerFailed(f"{self._module} {why}{code}: {said[-SHOWN_CHARACTERS:] or 'it said nothing'}")


def own_channel() -> Channel:
    """The process's side. What libraries print goes to standard error from here on."""
    writing = os.dup(1)
    os.dup2(2, 1)
    return Channel(0, writing)


def serve(channel: Channel, handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer until the script is gone. An error that no handler expected ends the process."""
    while True:
        try:
            question = channel.receive(None)
            assert question is not None
            name = question.pop("do", None)
            if name is None:
                continue  # a word to a question that was answered meanwhile
            try:
                channel.send({"answer": handlers[name](**question)})
            except Refused as refused:
                channel.send({"refused": str(refused)})
        except (EOFError, BrokenPipeError):
            return
