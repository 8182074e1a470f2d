"""Handing e-mails to a real server: one that refuses, hangs up, is gone, or cannot be trusted."""

import os
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from slurm_ofu.delivery.mailing import MailServer
from slurm_ofu.errors import MailError, MailRefused
from tests.services.mail_server import Post, mail_server
from tests.services.processes import free_ports

SENDER = "ofu@example.org"
MAIL = b"From: ofu@example.org\r\nTo: ada@example.org\r\nSubject: x\r\n\r\nhello\r\n.\r\nend\r\n"
NOT_BY_NAME = "127.0.0.2"  # this host, by an address that does not say so


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for NOT_BY_NAME that nobody but its owner vouches for, with its key in the same file."""
    if shutil.which("openssl") is None:
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail("openssl is missing")
        pytest.skip("openssl is missing")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=mail", "-addext", f"subjectAltName=IP:{NOT_BY_NAME}",
         "-keyout", path, "-out", path.with_suffix(".crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path


def offered(certificate: Path) -> ssl.SSLContext:
    """What a server offers TLS with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_what_is_sent_arrives_whole() -> None:
    """Every line arrives, one that is a single dot too, in one connection for several mails."""
    post = Post()
    with mail_server(post) as place, MailServer(place) as server:
        server.send(SENDER, "ada@example.org", MAIL)
        server.send(SENDER, "bob@example.org", MAIL)
    assert [MAIL, MAIL] == post.raw
    assert ["ada@example.org", "bob@example.org"] == post.recipients
    assert [False, False] == post.encrypted


def test_a_name_without_a_domain_is_the_servers_to_complete() -> None:
    """A site may leave users' domain to its mail server."""
    post = Post()
    with mail_server(post) as place, MailServer(place) as server:
        server.send(SENDER, "ada", MAIL)
    assert ["ada"] == post.recipients


@pytest.mark.parametrize(
    ("post", "words"),
    [
        (Post(refused={"ada@example.org"}), "550 5.1.1 no such user here"),
        (Post(refuses_content_to={"ada@example.org"}), "554 5.6.0 looks like spam"),
    ],
)
def test_one_refused_mail_is_not_the_others(post: Post, words: str) -> None:
    """What the server says is passed on, and the next mail goes over the same connection."""
    with mail_server(post) as place, MailServer(place) as server:
        with pytest.raises(MailRefused, match=f"ada@example.org.*{words}"):
            server.send(SENDER, "ada@example.org", MAIL)
        server.send(SENDER, "bob@example.org", MAIL)
    assert ["bob@example.org"] == post.recipients


@pytest.mark.parametrize(
    "post", [Post(hangs_up_on={"ada@example.org"}), Post(busy=True), Post(busy_at_once=True)]
)
def test_a_server_that_hangs_up_has_taken_nothing(post: Post) -> None:
    """A mail whose answer never came is not sent; the next one is tried over a new connection."""
    with mail_server(post) as place, MailServer(place) as server:
        with pytest.raises(MailError) as caught:
            server.send(SENDER, "ada@example.org", MAIL)
        assert not isinstance(caught.value, MailRefused)
        post.busy = post.busy_at_once = False
        server.send(SENDER, "bob@example.org", MAIL)
    assert ["bob@example.org"] == post.recipients


def test_a_server_that_is_not_there() -> None:
    """Nobody listens: the place and the key that names it are in the message."""
    [port] = free_ports(1)
    with (
        MailServer(f"localhost:{port}") as server,
        pytest.raises(MailError, match=rf"localhost:{port}.*\[mail\] server"),
    ):
        server.send(SENDER, "ada@example.org", MAIL)


def test_on_this_host_tls_is_used_whoever_vouches_for_it(certificate: Path) -> None:
    """A mail server on localhost mostly has a certificate of its own making."""
    post = Post()
    with mail_server(post, tls=offered(certificate)) as place, MailServer(place) as server:
        server.send(SENDER, "ada@example.org", MAIL)
    assert [True] == post.encrypted


def test_elsewhere_a_certificate_must_be_good(certificate: Path) -> None:
    """Nothing is said to a server that cannot prove who it is, in the clear neither."""
    post = Post()
    with (
        mail_server(post, host=NOT_BY_NAME, tls=offered(certificate)) as place,
        MailServer(place) as server,
        pytest.raises(MailError, match="its TLS cannot be trusted"),
    ):
        server.send(SENDER, "ada@example.org", MAIL)
    assert [] == post.received


def test_a_good_certificate_is_good(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the host vouches for the certificate the mail goes, encrypted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    post = Post()
    with (
        mail_server(post, host=NOT_BY_NAME, tls=offered(certificate)) as place,
        MailServer(place) as server,
    ):
        server.send(SENDER, "ada@example.org", MAIL)
    assert [True] == post.encrypted


def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    """A port that takes connections and keeps silent is as good as none."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        MailServer(f"127.0.0.1:{silent.getsockname()[1]}", timeout_seconds=0.2) as server,
        pytest.raises(MailError, match="cannot be reached"),
    ):
        server.send(SENDER, "ada@example.org", MAIL)
