"""The collector's HTTP server against those who do not mean well."""

import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from slurm_ofu.wiring.serving import Server
from tests.services.processes import free_ports, poll


def answered(port: int) -> bytes:
    """What a plain request is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_a_request_that_drips_is_not_waited_for() -> None:
    """A connection whose request never comes to its end is closed although bytes keep coming; a request
    that takes as long to be answered is answered."""
    slow = threading.Event()

    def application(_: Mapping[str, Any], start: Any) -> Iterable[bytes]:
        slow.wait(60)
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    [port] = free_ports(1)
    server = Server(application, f"127.0.0.1:{port}", 2, request_seconds=0.5)
    server.start()
    said: list[bytes] = []
    honest = threading.Thread(target=lambda: said.append(answered(port)))
    honest.start()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as dripping:
            dripping.sendall(b"POST /v1/records HTTP/1.1\r\nX-Drip: ")

            def closed() -> bool:
                try:
                    dripping.sendall(b"x")
                    dripping.setblocking(False)
                    return dripping.recv(1) == b""
                except BlockingIOError:
                    return False
                except OSError:
                    return True
                finally:
                    dripping.setblocking(True)

            poll(closed, 60, "the connection to be closed")
        slow.set()
        honest.join(60)
    finally:
        slow.set()
        server.stop()
    assert said[0].endswith(b"ok")
