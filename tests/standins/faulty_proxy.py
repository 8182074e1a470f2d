"""An HTTP server that answers by a script, and hands what the script does not answer to a real one."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONG_ENOUGH = 120.0


@dataclass(frozen=True)
class Said:
    """One answer. ``hangs``: the connection is closed without one."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    hangs: bool = False


@dataclass(frozen=True)
class Heard:
    """One request."""

    method: str
    path: str
    body: str
    authorization: str | None


class FaultyProxy:
    """Answers each request with the next of ``script``; after it, by ``to``, or with nothing found.

    ``before`` is called at every request.
    """

    def __init__(
        self,
        script: Iterable[Said] = (),
        *,
        to: str | None = None,
        before: Callable[[Heard], None] = lambda _heard: None,
    ) -> None:
        self.script, self.to, self.before = list(script), to, before
        self.heard: list[Heard] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.answer(self)

            def do_POST(self) -> None:
                proxy.answer(self)

            def log_message(self, *_args: object) -> None:
                """Nothing to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, asked: BaseHTTPRequestHandler) -> None:
        """One request."""
        length = int(asked.headers.get("Content-Length") or 0)
        body = asked.rfile.read(length).decode()
        heard = Heard(asked.command, asked.path, body, asked.headers.get("Authorization"))
        self.heard.append(heard)
        self.before(heard)
        said = self.script.pop(0) if self.script else self._real(heard)
        if said.hangs:
            asked.close_connection = True
            return
        asked.send_response(said.status)
        for name, value in (("Content-Type", said.content_type), *said.headers):
            asked.send_header(name, value)
        asked.send_header("Content-Length", str(len(said.body)))
        asked.end_headers()
        asked.wfile.write(said.body)

    def _real(self, heard: Heard) -> Said:
        if self.to is None:
            return Said(status=404, body=b"404 page not found\n", content_type="text/plain")
        data = heard.body.encode() if heard.method == "POST" else None
        try:
            with urllib.request.urlopen(f"{self.to}{heard.path}", data=data, timeout=LONG_ENOUGH) as answer:
                return Said(status=answer.status, body=answer.read())
        except urllib.error.HTTPError as error:
            return Said(status=error.code, body=error.read())

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=LONG_ENOUGH)
