"""A page over HTTP: whole and in time, or not at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.exporter_http import fetch
from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.errors import SourceError
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import FAULTS, ExporterServer

STEADY = Pattern([Segment(seconds=1, tensor_active_ratio=0.5, sm_clock_mhz=1410)])
NODE = ExporterNode(gpus=(ExporterGpu(uuid="GPU-a", pattern=STEADY),), interval_seconds=1e6)


@pytest.fixture
def exporter() -> Iterator[ExporterServer]:
    with ExporterServer(NODE) as server:
        yield server


def test_a_page_arrives_as_it_is(exporter: ExporterServer) -> None:
    """What the server sends is what is read, character by character."""
    exporter.body = NODE.page(1e6) + 'x{label="Grüße"} 1\n'
    assert exporter.body == fetch(exporter.url)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("status 500", "HTTP status 500"),
        ("redirects", "HTTP status 302"),
        ("closes", "closed connection"),
        ("hangs", "no answer within 0.5 s"),
        ("drips", "no answer within 0.5 s"),
        ("cut", "not a page: IncompleteRead"),
        ("huge", "more than 4194304 bytes"),
    ],
)
def test_what_is_no_page(exporter: ExporterServer, fault: str, words: str) -> None:
    """Anything but a whole page in time is an error that says what happened; a redirect is not followed."""
    exporter.fault = fault
    assert fault in FAULTS
    with pytest.raises(SourceError, match=words):
        fetch(exporter.url, seconds=30 if fault == "huge" else 0.5)
    assert 1 == exporter.request_count


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/metrics", "Connection refused"),
        ("http://127.0.0.1:99999/metrics", "Port out of range"),
        ("http:///metrics", "."),
        ("http://127.0.0.1:port/metrics", "not a page"),
        ("http://[::1/metrics", "not a page"),
        ("https://127.0.0.1:1/metrics", "Connection refused"),
    ],
)
def test_an_address_where_nobody_is(url: str, words: str) -> None:
    """An address that leads nowhere is an error that names it."""
    with pytest.raises(SourceError, match=words) as raised:
        fetch(url)
    assert str(raised.value).startswith(url)


def test_a_password_stays_where_it_is() -> None:
    """Messages go to syslog and into records: what an address says before its host is in none."""
    with pytest.raises(SourceError) as raised:
        fetch("http://somebody:secret@127.0.0.1:1/metrics?of=a@b")
    assert str(raised.value).startswith("http://127.0.0.1:1/metrics?of=a@b: ")


def test_no_proxy_is_asked(exporter: ExporterServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook's environment may name a proxy, for other things: the node's own exporter is asked directly."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(exporter.url)


def test_https_is_checked(exporter: ExporterServer) -> None:
    """A server that does not speak TLS is none to an https:// address."""
    with pytest.raises(SourceError, match=r"SSL|TLS|wrong version"):
        fetch(exporter.url.replace("http://", "https://"))


class Talker:
    """A server that says the same bytes to everybody and hangs up."""

    def __init__(self) -> None:
        self.words = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        threading.Thread(target=self._talk, daemon=True).start()

    def _talk(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(self.words)


@pytest.fixture(scope="module")
def talker() -> Talker:
    return Talker()


HEADS = st.sampled_from(
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/9.9 200\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
        b"x" * 70000,
    ]
)


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(head=HEADS, rest=st.binary(max_size=60))
def test_any_answer_is_a_page_or_an_error(talker: Talker, head: bytes, rest: bytes) -> None:
    """Whatever comes over the wire is text or SourceError, never another error."""
    talker.words = head + rest
    try:
        assert isinstance(fetch(talker.url, seconds=20), str)
    except SourceError as error:
        assert str(error).startswith(talker.url)
