"""A collector's receiving end in this process: its HTTP server and inbox, without a database."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slurm_ofu.delivery.directory import DirectoryDelivery
from slurm_ofu.delivery.inbox_room import InboxRoom
from slurm_ofu.delivery.receiving import Receiver
from slurm_ofu.delivery.signing import Signing
from slurm_ofu.records.codec import decode
from slurm_ofu.wiring.serving import Server
from tests.services.processes import free_ports


class ReceivingEnd:
    """Listens on a port of its own."""

    def __init__(
        self,
        inbox: Path,
        signing_of: Callable[[str], Signing | None],
        *,
        limit_bytes: int = 1 << 30,
        decode: Callable[[bytes], Any] = decode,
    ) -> None:
        inbox.mkdir(mode=0o700, exist_ok=True)
        self.inbox = inbox
        self.said: list[str] = []
        self.arrivals = 0
        self.receiver = Receiver(
            inbox=DirectoryDelivery(inbox),
            room=InboxRoom(inbox, limit_bytes, now=self._clock()),
            signing_of=signing_of,
            decode=decode,
            arrived=self._arrived,
            say=self.said.append,
        )
        [self.port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = Server(self.receiver, f"127.0.0.1:{self.port}", 4)
        self.server.start()

    @staticmethod
    def _clock() -> Callable[[], float]:
        """A clock that jumps: the inbox is looked at every time."""
        seconds = iter(range(0, 10**9, 10))
        return lambda: float(next(seconds))

    def _arrived(self) -> None:
        self.arrivals += 1

    def close(self) -> None:
        """Listen no longer."""
        self.server.stop()

    def files(self) -> list[Path]:
        """The records that are waiting."""
        return sorted(self.inbox.glob("*.record"))

    def jobs(self) -> list[int]:
        """Whose they are."""
        return sorted(decode(path.read_bytes()).job.key.job_id for path in self.files())

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        """Status, JSON and headers of what it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            said = response.read()
            try:
                return response.status, json.loads(said), response.headers
            except ValueError:
                return response.status, {"body": said}, response.headers
        finally:
            connection.close()
