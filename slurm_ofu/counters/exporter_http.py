"""One page over HTTP, whole and in time or not at all.

A time-out of a socket alone bounds each wait, not their sum: an exporter that drips would hold up every
other GPU's reading. So the answer is received against one deadline and only then looked at.
"""

import io
import socket
import ssl
import time
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import SplitResult, urlsplit

from slurm_ofu.errors import SourceError

DEADLINE_SECONDS = 2.0
SIZE_LIMIT = 4 * 2**20
_PIECE = 65536
_PORTS = {"http": 80, "https": 443}


def shown(url: str) -> str:
    """A URL as it may stand in a message, which everybody can read: without a password."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def fetch(url: str, *, seconds: float = DEADLINE_SECONDS, limit: int = SIZE_LIMIT) -> str:
    """The page at a URL. Raises SourceError for anything but status 200, redirects too, and a whole page."""
    deadline = time.monotonic() + seconds
    named = shown(url)
    try:
        parts = urlsplit(url)
        with _connected(parts, seconds) as connection:
            connection.sendall(_request(parts))
            received = _received(connection, deadline, limit)
        return _body(received)
    except TimeoutError as error:
        raise SourceError(f"{named}: no answer within {seconds:g} s") from error
    except OSError as error:
        raise SourceError(f"{named}: {error.strerror or error}") from error
    except (ValueError, OverflowError, HTTPException) as error:
        raise SourceError(f"{named}: not a page: {type(error).__name__} {error}".rstrip()) from error


def _connected(parts: SplitResult, seconds: float) -> socket.socket:
    address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    connection = socket.create_connection(address, timeout=seconds)
    if parts.scheme == "http":
        return connection
    try:
        return ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname)
    except BaseException:
        connection.close()
        raise


def _request(parts: SplitResult) -> bytes:
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: slurm-ofu",
        "Accept: text/plain;version=0.0.4",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _received(connection: socket.socket, deadline: float, limit: int) -> bytes:
    received = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(_PIECE)
        if not piece:
            return bytes(received)
        received += piece
        if len(received) > limit:
            raise ValueError(f"more than {limit} bytes")


class _Received:
    """As much of a socket as HTTPResponse wants of one, over what has been received."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *_: Any) -> io.BytesIO:
        """The answer as a file."""
        return io.BytesIO(self._received)


def _body(received: bytes) -> str:
    sock: Any = _Received(received)
    with HTTPResponse(sock, method="GET") as response:
        response.begin()
        if response.status != 200:
            raise ValueError(f"HTTP status {response.status}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError("encoded, although not asked for")
        return response.read().decode("utf-8", "replace")
