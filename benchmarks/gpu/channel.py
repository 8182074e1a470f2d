"""Lines of JSON between the script and its processes, with a limit on every wait."""

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]


class Channel:
    """Two file descriptors. Nothing is buffered that ``receive`` could not see."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._text = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """One message. Raises BrokenPipeError where nobody listens any more."""
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(self._writing, data) :]

    def receive(self, seconds: float | None) -> Message | None:
        """The next message; ``None`` where none came in time. Raises EOFError when the other side is gone."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._text:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._reading], [], [], left)[0]:
                return None
            more = os.read(self._reading, 1 << 20)
            if not more:
                raise EOFError
            self._text += more
        line, _, self._text = self._text.partition(b"\n")
        message: Message = json.loads(line)
        return message
