"""The collector's HTTP server: waitress, in threads, bounded in what strangers can make it hold."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slurm_ofu.errors import ConfigError

#: At the same time; more wait in the kernel's queue.
CONNECTIONS, QUEUE = 400, 1024
#: A connection on which nothing comes any more is closed.
IDLE_SECONDS, LOOK_SECONDS = 20, 5
#: So long a request may take to come in: bytes that drip would hold a connection for ever.
REQUEST_SECONDS = 30.0
HEADER_LIMIT, BODY_LIMIT = 16 * 1024, 4 << 20  # bytes; the application's own limit is smaller
END_SECONDS, LOOP_SECONDS = 10, 1

Application = Callable[[Mapping[str, Any], Any], Iterable[bytes]]


class Server:
    """An HTTP server that is listening already when this was made. Raises ConfigError."""

    def __init__(
        self, application: Application, listen: str, threads: int, *, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        # Only the collector pays for it.
        from waitress import wasyncore  # type: ignore[import-untyped]
        from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
        from waitress.server import create_server  # type: ignore[import-untyped]
        from waitress.trigger import trigger  # type: ignore[import-untyped]

        # A line for every request that has to wait is no help to anybody.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._loop, self._files = wasyncore, dict[int, Any]()
        self._ended = False
        self._channel_type, self._request_seconds = HTTPChannel, request_seconds
        self._since: dict[Any, float] = {}  # connection → when it was seen first
        try:
            self._server = create_server(
                application,
                map=self._files,
                listen=listen,
                threads=threads,
                connection_limit=CONNECTIONS,
                backlog=QUEUE,
                channel_timeout=IDLE_SECONDS,
                cleanup_interval=LOOK_SECONDS,
                max_request_header_size=HEADER_LIMIT,
                max_request_body_size=BODY_LIMIT,
                log_socket_errors=False,
                ident="slurm-ofu",
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"[collector] listen = {listen!r}: cannot listen there: {error}") from error
        self._trigger = next(file for file in self._files.values() if isinstance(file, trigger))
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Answer."""
        self._thread.start()

    def has_failed(self) -> bool:
        """Whether it answers no longer."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Let the requests at work come to their end, begin no other, and listen no longer."""
        self._server.task_dispatcher.shutdown(timeout=END_SECONDS)
        self._trigger.pull_trigger(self._end)
        if self._thread.is_alive():
            self._thread.join(2 * LOOP_SECONDS)

    def _end(self) -> None:
        """In the loop's own thread: nothing is closed while it is waited for."""
        self._ended = True

    def _run(self) -> None:
        while not self._ended:
            # poll(): select() knows no file beyond the 1024th.
            self._loop.loop(timeout=LOOP_SECONDS, use_poll=True, map=self._files, count=1)
            self._close_dripping(time.monotonic())
        self._loop.close_all(self._files)

    def _close_dripping(self, now: float) -> None:
        """End connections whose request does not come to its end; one that is answered is left alone."""
        channels = [file for file in self._files.values() if isinstance(file, self._channel_type)]
        self._since = {channel: self._since.get(channel, now) for channel in channels}
        for channel, since in self._since.items():
            if not channel.requests and now - since > self._request_seconds:
                channel.will_close = True
