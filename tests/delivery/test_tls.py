"""TLS in front of a collector."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.key_signing import KeySigning
from slurm_ofu.delivery.sending import HttpDelivery
from slurm_ofu.errors import DeliveryError
from tests.delivery.examples import packed, record_of
from tests.delivery.receiving_end import ReceivingEnd

RECORDS = [(record_of(1), packed(1))]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody but its owner vouches for, with its key in the same file."""
    if shutil.which("openssl") is None:
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail("openssl is missing")
        pytest.skip("openssl is missing")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", path, "-out", path.with_suffix(".crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


class Front:
    """Ends TLS and hands everything on to a port."""

    def __init__(self, certificate: Path, port: int) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.behind = port
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self.context.wrap_socket(connection, server_side=True) as front,
            socket.create_connection(("127.0.0.1", self.behind)) as back,
        ):
            back.settimeout(60)
            reader = threading.Thread(target=pump, args=(front, back), daemon=True)
            reader.start()
            pump(back, front)

    def close(self) -> None:
        self.socket.close()


def pump(come: socket.socket, go: socket.socket) -> None:
    """What comes on one goes out on the other."""
    with contextlib.suppress(OSError):
        while data := come.recv(1 << 16):
            go.sendall(data)


@pytest.fixture
def signing(tmp_path: Path) -> KeySigning:
    add_key(tmp_path / "key", "one")
    return KeySigning(tmp_path / "key")


@pytest.fixture
def end(tmp_path: Path, signing: KeySigning) -> Iterator[ReceivingEnd]:
    its = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing)
    yield its
    its.close()


@pytest.fixture
def front(certificate: Path, end: ReceivingEnd) -> Iterator[Front]:
    its = Front(certificate, end.port)
    yield its
    its.close()


def test_a_certificate_that_is_trusted(
    front: Front, end: ReceivingEnd, signing: KeySigning, certificate: Path
) -> None:
    """With ca_file records go through TLS as they would without."""
    ca_file = str(certificate.with_suffix(".crt"))
    HttpDelivery(front.url, signing=signing, wait_seconds=60, ca_file=ca_file).send(RECORDS)
    assert [1] == end.jobs()


def test_a_certificate_that_nobody_vouches_for(front: Front, end: ReceivingEnd, signing: KeySigning) -> None:
    """A collector whose certificate the system does not know gets nothing."""
    delivery = HttpDelivery(front.url, signing=signing, wait_seconds=1)
    with pytest.raises(DeliveryError, match=r"(?i)certificate.verify.failed"):
        delivery.send(RECORDS)
    assert [] == end.files()


def test_a_certificate_for_another_name(
    front: Front, end: ReceivingEnd, signing: KeySigning, certificate: Path
) -> None:
    """A certificate of another host is not this collector's."""
    url = front.url.replace("127.0.0.1", "localhost")
    ca_file = str(certificate.with_suffix(".crt"))
    with pytest.raises(DeliveryError, match=r"(?i)certificate"):
        HttpDelivery(url, signing=signing, wait_seconds=1, ca_file=ca_file).send(RECORDS)
    assert [] == end.files()


def test_a_file_of_trust_that_is_not_there(front: Front, signing: KeySigning, tmp_path: Path) -> None:
    """A ca_file that cannot be read is an error that leaves the record where it is."""
    delivery = HttpDelivery(front.url, signing=signing, wait_seconds=1, ca_file=str(tmp_path / "none"))
    with pytest.raises(DeliveryError, match="No such file"):
        delivery.send(RECORDS)


def test_tls_where_there_is_none(end: ReceivingEnd, signing: KeySigning) -> None:
    """https to a collector without TLS in front of it is an error."""
    url = end.url.replace("http:", "https:")
    with pytest.raises(DeliveryError, match=url):
        HttpDelivery(url, signing=signing, wait_seconds=1).send(RECORDS)
