"""The collector's receiving end over real HTTP."""

import json
import socket
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slurm_ofu.delivery.conversation import (
    CLUSTER_HEADER,
    ENVELOPE_TYPE,
    FOR_EVER,
    HEALTH_PATH,
    RECORDS_PATH,
    STATUS,
    TAKEN,
)
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.key_signing import KeySigning
from slurm_ofu.delivery.message import Answer, Message, pack, unpack_answer
from slurm_ofu.delivery.munge_signing import MungeSigning
from slurm_ofu.delivery.receiving import ENVELOPE_LIMIT
from slurm_ofu.delivery.signing import Signing
from slurm_ofu.errors import RecordTooNew
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import NodeRecord
from tests.delivery.examples import packed, record_of
from tests.delivery.munged import NOBODY, Munged, require
from tests.delivery.receiving_end import ReceivingEnd

ALPHA = {CLUSTER_HEADER: "alpha"}


@pytest.fixture
def signing(tmp_path: Path) -> KeySigning:
    add_key(tmp_path / "key", "one")
    return KeySigning(tmp_path / "key")


@pytest.fixture
def end(tmp_path: Path, signing: KeySigning) -> Iterator[ReceivingEnd]:
    its = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing)
    yield its
    its.close()


def message(*records: bytes, cluster: str = "alpha") -> bytes:
    return pack(Message(cluster=cluster, node="n1", message_id="5f", records=records))


def post(
    end: ReceivingEnd, signing: Signing, payload: bytes, cluster: str = "alpha"
) -> tuple[int, Answer | dict[str, Any]]:
    """Status, and the answer: signed, or the JSON of one that is not."""
    status, said, headers = end.ask("POST", RECORDS_PATH, signing.sign(payload), {CLUSTER_HEADER: cluster})
    if headers["Content-Type"] == ENVELOPE_TYPE:
        return status, unpack_answer(signing.verify(said["body"]))
    return status, said


def test_a_message_is_on_disk_before_it_is_answered(end: ReceivingEnd, signing: KeySigning) -> None:
    """The answer says taken, is signed and names the message; the records lie in the inbox as they came."""
    records = [packed(1), packed(2)]
    assert (200, Answer(message_id="5f", code="taken")) == post(end, signing, message(*records))
    assert sorted(records) == sorted(path.read_bytes() for path in end.files())
    assert 1 == end.arrivals


def test_the_same_again_changes_nothing(end: ReceivingEnd, signing: KeySigning) -> None:
    """The same records in another message leave one file each."""
    for _ in range(3):
        assert 200 == post(end, signing, message(packed(1), packed(1), packed(2)))[0]
    assert [1, 2] == end.jobs()


def test_a_message_without_records_is_a_question(end: ReceivingEnd, signing: KeySigning) -> None:
    """An empty message is answered like any other and leaves nothing."""
    assert (200, Answer(message_id="5f", code="taken")) == post(end, signing, message())
    assert ([], 0) == (end.files(), end.arrivals)


def test_one_bad_record_and_none_is_taken(end: ReceivingEnd, signing: KeySigning) -> None:
    """A message is taken whole or not at all; the answer says which record is at fault."""
    status, answer = post(end, signing, message(packed(1), b"nonsense", packed(2)))
    assert isinstance(answer, Answer)
    assert (422, "refused", 1) == (status, answer.code, answer.record)
    assert answer.text.startswith("not a record")
    assert [] == end.files()


def test_a_record_of_a_newer_version(tmp_path: Path, signing: KeySigning) -> None:
    """A record that only a newer version reads is answered as such, not as a bad one."""

    def from_the_future(data: bytes) -> NodeRecord:
        raise RecordTooNew("record format 2 is not known here")

    end = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing, decode=from_the_future)
    try:
        status, answer = post(end, signing, message(packed(1)))
    finally:
        end.close()
    assert isinstance(answer, Answer)
    assert (415, "unknown_version", 0) == (status, answer.code, answer.record)
    assert answer.text.endswith("upgrade the collector")


def test_a_message_of_a_newer_version(end: ReceivingEnd, signing: KeySigning) -> None:
    """A message of another format is answered with 415."""
    status, said = post(end, signing, message(packed(1)).replace(b"message 1\n", b"message 2\n", 1))
    assert isinstance(said, dict)
    assert (415, "unknown_version") == (status, said["error"])


def test_what_is_signed_but_no_message(end: ReceivingEnd, signing: KeySigning) -> None:
    """What root signed for another purpose is malformed."""
    status, said = post(end, signing, b"\x22\x00 some other protocol")
    assert isinstance(said, dict)
    assert (400, "malformed") == (status, said["error"])


DISAGREEING = [
    ("alpha", "beta", "beta"),
    ("beta", "alpha", "alpha"),
    ("alpha", "alpha", "beta"),
    ("", "alpha", "alpha"),
]


@pytest.mark.parametrize(("header", "said", "of"), DISAGREEING)
def test_cluster_of_path_message_and_record_agree(
    end: ReceivingEnd, signing: KeySigning, header: str, said: str, of: str
) -> None:
    """The cluster whose root is believed, the message's and each record's are one."""
    status, answer = post(end, signing, message(packed(1, cluster=of), cluster=said), header)
    assert isinstance(answer, Answer)
    assert (403, "unknown_cluster", []) == (status, answer.code, end.files())


def test_a_question_is_of_its_cluster_too(end: ReceivingEnd, signing: KeySigning) -> None:
    """Also a message without records must say the cluster for which it was sent."""
    status, answer = post(end, signing, message(cluster="beta"), "alpha")
    assert isinstance(answer, Answer)
    assert (403, "unknown_cluster") == (status, answer.code)


def test_each_cluster_speaks_for_itself(tmp_path: Path) -> None:
    """With several clusters each has its own key, and nobody speaks for another, or for one unknown."""
    keys = {}
    for name in ("alpha", "beta"):
        add_key(tmp_path / name, name)
        keys[name] = KeySigning(tmp_path / name)
    end = ReceivingEnd(tmp_path / "inbox", keys.get)
    try:
        good = [
            post(end, keys[name], message(packed(1, cluster=name), cluster=name), name)[0] for name in keys
        ]
        bad = post(end, keys["beta"], message(packed(1)), "alpha")
        unknown = post(end, keys["alpha"], message(packed(1, cluster="gamma"), cluster="gamma"), "gamma")
    finally:
        end.close()
    assert ([200, 200], 2) == (good, len(end.files()))
    assert isinstance(bad[1], dict)
    assert (401, "bad_credential") == (bad[0], bad[1]["error"])
    assert isinstance(unknown[1], dict)
    assert (403, "unknown_cluster") == (unknown[0], unknown[1]["error"])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/records/../../etc/passwd", 404, "not_found"),
        ("POST", "/v2/records", 404, "not_found"),
        ("GET", RECORDS_PATH, 405, "wrong_method"),
        ("DELETE", RECORDS_PATH, 405, "wrong_method"),
        ("POST", HEALTH_PATH, 405, "wrong_method"),
        ("POST", RECORDS_PATH, 401, "bad_credential"),
    ],
)
def test_other_questions(end: ReceivingEnd, method: str, path: str, status: int, code: str) -> None:
    """Other paths and methods get an answer in JSON with a word and a sentence."""
    got, said, headers = end.ask(method, path, b"", ALPHA)
    assert (status, code, {"error", "message"}) == (got, said["error"], set(said))
    assert "application/json" == headers["Content-Type"]


BODIES = [
    b"\0" * 10,
    b"{}",
    b"x" * 100_000,
    b"MUNGE:AAAA:",
    b"slurm-ofu key 1 one 0 0 0\n",
    Random(0).randbytes(5000),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body)[:20])
def test_hostile_bodies(end: ReceivingEnd, body: bytes) -> None:
    """Whatever a stranger sends is refused, leaves nothing, and the next message is taken."""
    status, said, _ = end.ask("POST", RECORDS_PATH, body, ALPHA)
    assert (401, "bad_credential") == (status, said["error"])
    assert [] == end.files()


def test_too_large_bodies(end: ReceivingEnd, signing: KeySigning) -> None:
    """A body beyond any message is refused by its size alone; one of 10 MB is not even read to its end."""
    status, said, _ = end.ask("POST", RECORDS_PATH, b"x" * (ENVELOPE_LIMIT + 1), ALPHA)
    assert (413, "too_large") == (status, said["error"])
    assert 413 == declared(end, 10_000_000)
    assert 200 == post(end, signing, message(packed(1)))[0]


def declared(end: ReceivingEnd, size: int) -> int:
    """The status for a body that is only announced."""
    with socket.create_connection(("127.0.0.1", end.port), timeout=60) as connection:
        connection.sendall(
            f"POST {RECORDS_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        connection.sendall(b"x" * 1000)
        return int(connection.makefile("rb").readline().split()[1])


NO_HTTP = [
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/records HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/records HTTP/1.1\r\nContent-Length: 1e9\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nX: " + b"x" * 300_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("request_line", NO_HTTP, ids=lambda value: repr(value)[:30])
def test_what_is_no_http(end: ReceivingEnd, signing: KeySigning, request_line: bytes) -> None:
    """Bytes that are no HTTP, TLS among them, are answered or dropped without a traceback; others go on."""
    with socket.create_connection(("127.0.0.1", end.port), timeout=60) as connection:
        try:
            connection.sendall(request_line)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
        except OSError:  # it hung up before all was sent
            answer = b""
    assert b"Traceback" not in answer
    assert 200 == post(end, signing, message(packed(1)))[0]


def test_a_full_inbox_asks_to_come_back(tmp_path: Path, signing: KeySigning) -> None:
    """At the inbox's limit messages are refused with 503 and a time, and taken again once there is room."""
    data = packed(1)
    limit = len(signing.sign(message(data))) + 100  # enough for one
    end = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing, limit_bytes=limit)
    try:
        assert 200 == post(end, signing, message(data))[0]
        status, said, headers = end.ask("POST", RECORDS_PATH, signing.sign(message(packed(2))), ALPHA)
        assert (503, "busy", "10") == (status, said["error"], headers["Retry-After"])
        assert "busy" == end.ask("GET", HEALTH_PATH)[1]["status"]
        end.files()[0].unlink()
        assert 200 == post(end, signing, message(packed(2)))[0]
    finally:
        end.close()


def test_an_inbox_that_cannot_be_written(end: ReceivingEnd, signing: KeySigning) -> None:
    """Where the inbox cannot be written nothing is promised: come back later, and the log says why."""
    end.inbox.chmod(0o777)  # which DirectoryDelivery refuses
    status, answer = post(end, signing, message(packed(1)))
    end.inbox.chmod(0o700)
    assert isinstance(answer, Answer)
    assert (503, "busy", []) == (status, answer.code, end.files())
    assert "others can write to it" in end.said[0]
    assert str(end.inbox) not in answer.text


def test_a_host_that_cannot_verify(tmp_path: Path, end: ReceivingEnd, signing: KeySigning) -> None:
    """Where this host cannot verify, the message is not refused for good, and a stranger learns no path."""
    envelope = signing.sign(message(packed(1)))
    (tmp_path / "key").chmod(0o644)
    status, said, headers = end.ask("POST", RECORDS_PATH, envelope, ALPHA)
    assert (503, "cannot_verify", "10") == (status, said["error"], headers["Retry-After"])
    assert str(tmp_path) not in said["message"]
    assert str(tmp_path) in end.said[0]


def test_a_trouble_is_told_once(tmp_path: Path, end: ReceivingEnd, signing: KeySigning) -> None:
    """What keeps this host from verifying or from writing is told once, not for every message."""
    payload = message(packed(1))
    end.inbox.chmod(0o777)
    envelopes = [signing.sign(payload) for _ in range(6)]
    for envelope in envelopes[:3]:
        assert 503 == end.ask("POST", RECORDS_PATH, envelope, ALPHA)[0]
    (tmp_path / "key").unlink()
    for envelope in envelopes[3:]:
        assert 503 == end.ask("POST", RECORDS_PATH, envelope, ALPHA)[0]
    assert 2 == len(end.said)


def test_records_that_swell(end: ReceivingEnd, signing: KeySigning) -> None:
    """Records of one message that come to too much when unpacked are refused before they are, at the first
    that is too much; each in a message of its own is taken."""
    table = json.loads(zlib.decompress(packed(1)))
    table["record"]["later"] = "x" * (3 << 20)
    swelling = zlib.compress(json.dumps(table).encode(), 9)
    status, answer = post(end, signing, message(packed(2), *[swelling] * 6))
    assert isinstance(answer, Answer)
    assert (413, "too_large", 6) == (status, answer.code, answer.record)
    assert [] == end.jobs()
    assert 200 == post(end, signing, message(swelling))[0]


def test_a_collector_that_ends_takes_no_more(end: ReceivingEnd, signing: KeySigning) -> None:
    """While it is being stopped messages are asked to come back, and health says so."""
    end.receiver.stopping = True
    status, said = post(end, signing, message(packed(1)))
    assert isinstance(said, dict)
    assert (503, "stopping", []) == (status, said["error"], end.files())
    assert "stopping" == end.ask("GET", HEALTH_PATH)[1]["status"]


def test_health_counts_and_says_nothing_of_jobs(end: ReceivingEnd, signing: KeySigning) -> None:
    """Health is numbers: what waits, what was taken, what was refused by word."""
    post(end, signing, message(packed(1), packed(2)))
    post(end, signing, message(b"nonsense"))
    for _ in range(2):
        end.ask("POST", RECORDS_PATH, b"x", ALPHA)
    status, said, _ = end.ask("GET", HEALTH_PATH)
    assert (200, "slurm-ofu", "ok", 2, 2) == (
        status,
        said["service"],
        said["status"],
        said["waiting_records"],
        said["taken_records"],
    )
    assert sum(path.stat().st_size for path in end.files()) == said["waiting_bytes"]
    assert {"refused": 1, "bad_credential": 2} == said["refused_messages"]


def test_refusals_are_told_by_the_dozen(end: ReceivingEnd) -> None:
    """However many messages are refused, the log gets a line for each kind and time."""
    for _ in range(30):
        end.ask("POST", RECORDS_PATH, b"x", ALPHA)
    end.ask("GET", "/nowhere")
    [bad, lost] = end.receiver.unsaid_refusals()
    assert bad.startswith("messages refused: 30; the last from 127.0.0.1: bad_credential: ")
    assert lost.startswith("messages refused: 1; the last from 127.0.0.1: not_found: ")
    assert [] == end.receiver.unsaid_refusals()


def test_slow_senders_hold_up_nobody(end: ReceivingEnd, signing: KeySigning) -> None:
    """Connections on which nothing is sent, more than there are threads, keep no message waiting."""
    idle = [socket.create_connection(("127.0.0.1", end.port), timeout=60) for _ in range(30)]
    for connection in idle:
        connection.sendall(b"POST /v1/records HTTP/1.1\r\nContent-Length: 1000\r\n\r\nhalf")
    assert 200 == post(end, signing, message(packed(1)))[0]
    for connection in idle:
        connection.close()


def test_every_word_is_documented() -> None:
    """Each word of refusal stands in operate.md with its HTTP status, and a dagger where the node sets a
    record aside for it."""
    text = (Path(__file__).parents[2] / "docs/operate.md").read_text()
    table = [
        line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `") and line.count("|") == 5
    ]
    said = {
        (word.strip("` †"), int(status), "†" in words)
        for words, statuses in table
        for word, status in zip(words.split(","), statuses.split(","), strict=False)
        if status.strip().isdecimal()
    }
    expected = {(word, status, word in FOR_EVER) for word, status in STATUS.items() if word != TAKEN}
    assert set() == expected - said


# --------------------------------------------------------------- munge


@pytest.fixture
def munge_end(tmp_path: Path, munged: Munged) -> Iterator[ReceivingEnd]:
    signing = MungeSigning(socket=str(munged.socket))
    its = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing)
    yield its
    its.close()


def test_root_alone_is_taken(munge_end: ReceivingEnd, munged: Munged) -> None:
    """Root's message is taken; the same message of another user is refused, and so is root's own again."""
    require()
    signing, payload = MungeSigning(socket=str(munged.socket)), message(packed(1))
    command = ["/usr/bin/munge", f"--socket={munged.socket}"]
    nobodys = subprocess.run(
        command, input=payload, capture_output=True, check=True, user=NOBODY, extra_groups=[]
    ).stdout
    status, said, _ = munge_end.ask("POST", RECORDS_PATH, nobodys, ALPHA)
    assert (403, "not_root", []) == (status, said["error"], munge_end.files())
    envelope = signing.sign(payload)
    assert 200 == munge_end.ask("POST", RECORDS_PATH, envelope, ALPHA)[0]
    status, said, _ = munge_end.ask("POST", RECORDS_PATH, envelope, ALPHA)
    assert (401, "replayed") == (status, said["error"])
    assert [1] == munge_end.jobs()


def test_a_credential_for_something_else(munge_end: ReceivingEnd, munged: Munged) -> None:
    """A credential of root with another payload, as Slurm's own messages have, is no message."""
    signing = MungeSigning(socket=str(munged.socket))
    for payload in (b"\x26\x00\x00\x00", b"hello", encode(record_of(1)), message(packed(1))[1:]):
        status, said, _ = munge_end.ask("POST", RECORDS_PATH, signing.sign(payload), ALPHA)
        assert (400, "malformed") == (status, said["error"])
    assert [] == munge_end.files()


def test_what_was_taken_can_be_decoded(munge_end: ReceivingEnd, munged: Munged) -> None:
    """What arrives is what was sent."""
    signing = MungeSigning(socket=str(munged.socket))
    assert 200 == post(munge_end, signing, message(packed(1)))[0]
    [path] = munge_end.files()
    assert decode(packed(1)) == decode(path.read_bytes())
