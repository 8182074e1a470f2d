"""The stand-in exporter's HTTP server, and what can go wrong with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.standins.exporter.page import ExporterNode

FAULTS = ("status 500", "closes", "hangs", "drips", "redirects", "cut", "huge", "empty", "binary", "stale")


def boottime_s() -> float:
    """Seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up in the middle of a page is no news."""


class ExporterServer:
    """Serves a node's page; a context manager. ``now_s``: the time that the page is of."""

    def __init__(
        self,
        node: ExporterNode,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        now_s: Callable[[], float] = boottime_s,
    ) -> None:
        self.node = node
        self.now_s = now_s
        self.fault: str | None = None
        self.body: str | None = None  # instead of the page
        self.request_count = 0
        self.over = threading.Event()
        self._stale_page: str | None = None
        self._http = _Quiet((host, port), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._http.server_address[1]

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}/metrics"

    def page(self) -> str:
        """The page now; a stale exporter's is of the moment when it went stale."""
        if self.fault != "stale":
            self._stale_page = None
        elif self._stale_page is None:
            self._stale_page = self.node.page(self.now_s())
        if self.body is not None:
            return self.body
        return self._stale_page or self.node.page(self.now_s())

    def __enter__(self) -> ExporterServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def serve(self) -> None:
        """Serve until the process ends."""
        self._http.serve_forever()


def _handler(server: ExporterServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.request_count += 1
            self.close_connection = True
            answer = getattr(self, "_" + (server.fault or "page").replace(" ", "_"), self._page)
            answer()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

        def _send(self, body: bytes, *, status: int = 200, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.send_header("Location", server.url)
            self.end_headers()
            self.wfile.write(body)

        def _page(self) -> None:
            self._send(server.page().encode())

        def _status_500(self) -> None:
            self._send(b"internal server error\n", status=500)

        def _redirects(self) -> None:
            self._send(b"", status=302)

        def _closes(self) -> None:
            """Says nothing."""

        def _hangs(self) -> None:
            server.over.wait()

        def _drips(self) -> None:
            page = server.page().encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for place in range(len(page)):
                self.wfile.write(page[place : place + 1])
                self.wfile.flush()
                if server.over.wait(0.05):
                    return

        def _cut(self) -> None:
            page = server.page().encode()
            self._send(page[: len(page) // 2], length=len(page))

        def _huge(self) -> None:
            self._send(b"# nothing\n" * 2**20)

        def _empty(self) -> None:
            self._send(b"")

        def _binary(self) -> None:
            self._send(bytes(range(256)) * 40 + b"\n")

    return Handler
