"""The laws of Delivery, over every way that records can go."""

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_ofu.delivery.directory import DirectoryDelivery
from slurm_ofu.delivery.inbox import ingest
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.key_signing import KeySigning
from slurm_ofu.delivery.message import LIMIT_BYTES
from slurm_ofu.delivery.munge_signing import MungeSigning
from slurm_ofu.delivery.sending import HttpDelivery
from slurm_ofu.delivery.signing import Signing
from slurm_ofu.errors import DeliveryError, RecordRefused
from slurm_ofu.protocols import Delivery
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import NodeRecord
from slurm_ofu.wiring.delivering import StoreDelivery
from tests.delivery.examples import packed, record_of
from tests.delivery.listener import Listener
from tests.delivery.munged import Munged
from tests.delivery.receiving_end import ReceivingEnd
from tests.services.processes import free_ports
from tests.store.records import expand

pytestmark = pytest.mark.contract


@dataclass
class Way:
    """A Delivery, and what there is at its other end."""

    delivery: Delivery
    store: SqliteStore
    inbox: Path | None
    make_unusable: Callable[[], None]
    make_usable: Callable[[], None]

    def stored(self) -> list[tuple[str, int, str]]:
        """(cluster, job, node) of everything that arrived, once all of it is in the database."""
        if self.inbox is not None:
            ingest(self.inbox, decode=decode, write=self.store.write)
        if not self.store.path.exists():
            return []
        with contextlib.closing(sqlite3.connect(self.store.path)) as opened:
            query = "SELECT cluster, job_id, node_name FROM run JOIN run_node USING (run_id) ORDER BY 1, 2, 3"
            return [tuple(row) for row in opened.execute(query)]


def both(*records: NodeRecord) -> list[tuple[NodeRecord, bytes]]:
    return [(record, encode(record)) for record in records]


def store_in(folder: Path) -> SqliteStore:
    return SqliteStore(
        folder / "db/ofu.db", group=None, world_readable=False, wait_seconds=30, expand_hostlist=expand
    )


@contextlib.contextmanager
def to_a_store(folder: Path) -> Iterator[Way]:
    store = store_in(folder)
    store.write([record_of(999)])
    database = store.path.parent
    away = database.with_name("away")

    def take_away() -> None:
        database.rename(away)
        database.write_text("in the way")

    def bring_back() -> None:
        database.unlink()
        away.rename(database)

    yield Way(StoreDelivery(store=store), store, None, take_away, bring_back)


@contextlib.contextmanager
def to_a_directory(folder: Path) -> Iterator[Way]:
    inbox = folder / "inbox"
    inbox.mkdir(mode=0o700)
    store = store_in(folder)
    store.write([record_of(999)])
    yield Way(DirectoryDelivery(inbox), store, inbox, lambda: inbox.chmod(0o777), lambda: inbox.chmod(0o700))


@contextlib.contextmanager
def over_http(folder: Path, signing: Signing) -> Iterator[Way]:
    end = ReceivingEnd(folder / "inbox", lambda cluster: signing)
    store = store_in(folder)
    store.write([record_of(999)])
    delivery = HttpDelivery(end.url, signing=signing, wait_seconds=60)

    def stop() -> None:
        end.receiver.stopping = True
        delivery.wait_seconds = 1

    def go_on() -> None:
        end.receiver.stopping = False
        delivery.wait_seconds = 60

    try:
        yield Way(delivery, store, end.inbox, stop, go_on)
    finally:
        end.close()


def with_a_key(folder: Path) -> KeySigning:
    add_key(folder / "key", "one")
    return KeySigning(folder / "key")


@pytest.fixture(params=["store", "directory", "http-key", "http-munge"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    """Each way in turn; the database has one record of job 999."""
    if request.param == "store":
        made = to_a_store(tmp_path)
    elif request.param == "directory":
        made = to_a_directory(tmp_path)
    elif request.param == "http-key":
        made = over_http(tmp_path, with_a_key(tmp_path))
    else:
        munged: Munged = request.getfixturevalue("munged")
        made = over_http(tmp_path, MungeSigning(socket=str(munged.socket), reader_user_id=0))
    with made as its:
        yield its


FIRST = ("alpha", 999, "n1")


def test_what_was_sent_is_safe(way: Way) -> None:
    """When send returns, the receiver has the records."""
    way.delivery.send(both(record_of(1), record_of(2, node="n2")))
    assert [("alpha", 1, "n1"), ("alpha", 2, "n2"), FIRST] == way.stored()


def test_nothing_is_no_trouble(way: Way) -> None:
    """Handing on no records does nothing."""
    way.delivery.send([])
    assert [FIRST] == way.stored()


def test_twice_is_once(way: Way) -> None:
    """Handing on the same record twice, in one call and in several, leaves one result."""
    for _ in range(2):
        way.delivery.send(both(record_of(1), record_of(1)))
    assert [("alpha", 1, "n1"), FIRST] == way.stored()


def test_twice_at_once_is_once(way: Way) -> None:
    """Handing on the same records from many threads at once leaves one result, and nobody fails."""
    records = both(*(record_of(job) for job in range(1, 6)))
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda _: way.delivery.send(records), range(12)))
    assert [*(("alpha", job, "n1") for job in range(1, 6)), FIRST] == way.stored()


def test_a_failure_forgets_nothing(way: Way) -> None:
    """Where the receiver is not to be had DeliveryError is raised, and later the same records are taken."""
    records = both(record_of(1), record_of(2))
    way.make_unusable()
    with pytest.raises(DeliveryError):
        way.delivery.send(records)
    way.make_usable()
    way.delivery.send(records)
    assert [("alpha", 1, "n1"), ("alpha", 2, "n1"), FIRST] == way.stored()


def test_several_clusters_at_once(way: Way) -> None:
    """Records of several clusters in one call each arrive as their own cluster's."""
    clusters = ["alpha", "beta", "alpha", "gamma"]
    way.delivery.send(both(*(record_of(job, cluster=name) for job, name in enumerate(clusters, start=1))))
    expected = [(name, job, "n1") for job, name in enumerate(clusters, start=1)]
    assert sorted([*expected, FIRST]) == way.stored()


def test_more_than_one_message_holds(way: Way) -> None:
    """Many records, whatever their size, arrive all."""
    large = [record_of(job, large=True) for job in range(1, 401)]
    way.delivery.send(both(*large))
    assert 401 == len(way.stored())


# --------------------------------------------------------------- what only HTTP has


@pytest.fixture
def end(tmp_path: Path) -> Iterator[ReceivingEnd]:
    signing = with_a_key(tmp_path)
    its = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing)
    yield its
    its.close()


@pytest.fixture
def delivery(end: ReceivingEnd, tmp_path: Path) -> HttpDelivery:
    return HttpDelivery(end.url, signing=KeySigning(tmp_path / "key"), wait_seconds=60)


def test_a_record_that_is_never_taken(end: ReceivingEnd, delivery: HttpDelivery) -> None:
    """What the collector can never take is RecordRefused, with the collector's reason, and none was taken."""
    with pytest.raises(RecordRefused, match=r"refused: not a record.*\(record 1 of the message\)"):
        delivery.send([*both(record_of(1)), (record_of(2), b"nonsense")])
    assert [] == end.files()


def test_a_record_that_fits_into_no_message(end: ReceivingEnd, delivery: HttpDelivery) -> None:
    """A record beyond every message is refused by the sender, before anything is sent."""
    with pytest.raises(RecordRefused, match="job 2 on n1 has 716800 bytes: more than fit"):
        delivery.send([*both(record_of(1)), (record_of(2), b"x" * LIMIT_BYTES)])
    assert [] == end.files()


@pytest.mark.parametrize("cluster", ["", "a\nb", "x" * 300])
def test_a_record_of_no_cluster(end: ReceivingEnd, delivery: HttpDelivery, cluster: str) -> None:
    """A record that no message can name is refused, not tried for ever."""
    with pytest.raises(RecordRefused, match="its cluster is no name"):
        delivery.send(both(record_of(1, cluster=cluster)))


def test_nobody_listens(tmp_path: Path) -> None:
    """Where nobody listens the error says where and what, in the time that it has."""
    [port] = free_ports(1)
    delivery = HttpDelivery(f"http://127.0.0.1:{port}", signing=with_a_key(tmp_path), wait_seconds=0.5)
    with pytest.raises(DeliveryError, match=rf"^http://127.0.0.1:{port}: Connection refused$"):
        delivery.send(both(record_of(1)))
    with pytest.raises(DeliveryError, match="Connection refused"):
        delivery.health()


def test_an_unknown_host(tmp_path: Path) -> None:
    """A host that has no address is named."""
    delivery = HttpDelivery("http://nowhere.invalid:6825", signing=with_a_key(tmp_path), wait_seconds=0.5)
    with pytest.raises(DeliveryError, match=r"^http://nowhere.invalid:6825: .*(not known|resolution)"):
        delivery.send(both(record_of(1)))


STRANGERS = [
    (200, b"", (), "no collector's answer .HTTP status 200"),
    (200, b'{"taken": 1}', (), "no collector's answer"),
    (204, b"", (), "no collector's answer"),
    (301, b"", [("Location", "http://127.0.0.1:1/")], "HTTP status 301"),
    (413, b"<html>", (), "HTTP status 413"),
    (422, b'{"error": "refused", "message": "never"}', (), "refused: never"),
    (400, b'{"error": "malformed", "message": "no\\u001b[31m"}', (), r"malformed: no\?\[31m"),
    (200, b"MUNGE:AAAA:", [("Content-Type", "application/x-slurm-ofu")], "cannot be believed"),
    (503, b"", [("Retry-After", "3600")], "HTTP status 503"),
    (200, b"x" * 10**6, (), "no collector's answer"),
]


@pytest.mark.parametrize(("status", "body", "headers", "said"), STRANGERS)
def test_who_is_no_collector_is_not_believed(
    tmp_path: Path, status: int, body: bytes, headers: Sequence[tuple[str, str]], said: str
) -> None:
    """Whatever a stranger answers at that port, a record is neither forgotten nor set aside."""
    stranger = Listener(status, body, headers)
    try:
        with pytest.raises(DeliveryError, match=said):
            HttpDelivery(stranger.url, signing=with_a_key(tmp_path), wait_seconds=2).send(both(record_of(1)))
    finally:
        stranger.close()


def test_another_messages_answer_is_not_believed(tmp_path: Path) -> None:
    """An answer of the true collector, played back for another message, is not believed."""
    signing = with_a_key(tmp_path)
    end = ReceivingEnd(tmp_path / "inbox", lambda cluster: signing)
    heard: list[bytes] = []

    class Listening(KeySigning):
        def verify(self, envelope: bytes) -> bytes:
            heard.append(envelope)
            return super().verify(envelope)

    key = tmp_path / "key"
    HttpDelivery(end.url, signing=Listening(key), wait_seconds=60).send(both(record_of(1)))
    end.close()
    player = Listener(200, heard[-1], [("Content-Type", "application/x-slurm-ofu")])
    try:
        with pytest.raises(DeliveryError, match="one to another message"):
            HttpDelivery(player.url, signing=KeySigning(key), wait_seconds=60).send(both(record_of(1)))
    finally:
        player.close()


def test_a_message_sent_back_is_no_answer(tmp_path: Path) -> None:
    """A node's own message, sent back to it, is no answer although it is signed."""
    signing = with_a_key(tmp_path)
    envelope = signing.sign(b'slurm-ofu message 1\n{"id":"1","code":"taken","text":""}\n')
    echo = Listener(200, envelope, [("Content-Type", "application/x-slurm-ofu")])
    try:
        with pytest.raises(DeliveryError, match="cannot be believed: malformed"):
            HttpDelivery(echo.url, signing=signing, wait_seconds=2).send(both(record_of(1)))
    finally:
        echo.close()


def test_each_attempt_is_signed_anew(tmp_path: Path) -> None:
    """What is tried again after 503 is another envelope: the first may have been taken, and counts once."""
    stranger = Listener(503, b"")
    try:
        with pytest.raises(DeliveryError):
            HttpDelivery(stranger.url, signing=with_a_key(tmp_path), wait_seconds=20).send(both(record_of(1)))
    finally:
        stranger.close()
    assert 4 == len(stranger.bodies) == len(set(stranger.bodies))


def test_nobody_is_waited_for_longer_than_configured(tmp_path: Path) -> None:
    """A receiver that never answers costs the configured time and no attempt more; one that asks to come
    back later than that costs none."""
    silent = Listener(None)
    try:
        with pytest.raises(DeliveryError, match="no answer within 1 s"):
            HttpDelivery(silent.url, signing=with_a_key(tmp_path), wait_seconds=1).send(both(record_of(1)))
        assert 2 >= len(silent.bodies)
    finally:
        silent.close()


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"])
def test_an_answer_that_drips_is_not_waited_for(tmp_path: Path, beginning: bytes) -> None:
    """Whoever answers byte by byte, before or after the headers, holds nobody longer than configured."""
    served, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.sendall(beginning)
            while not ended.wait(0.1):
                connection.sendall(b"x")

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=served.accept()[:1], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    url = f"http://127.0.0.1:{served.getsockname()[1]}"
    try:
        with pytest.raises(DeliveryError, match="no answer within 1 s"):
            HttpDelivery(url, signing=with_a_key(tmp_path), wait_seconds=1).send(both(record_of(1)))
    finally:
        ended.set()
        served.close()


def test_a_busy_collector_is_tried_again(end: ReceivingEnd, delivery: HttpDelivery) -> None:
    """A collector that is busy for a moment is tried again in the same call."""
    end.inbox.chmod(0o777)  # it cannot be written, which is said in a signed answer
    timer = threading.Timer(0.5, end.inbox.chmod, (0o700,))
    timer.start()
    delivery.send(both(record_of(1)))
    timer.join()
    assert [1] == end.jobs()


def test_a_user_who_is_not_the_collector(tmp_path: Path, munged: Munged) -> None:
    """An answer signed by somebody else than root or the configured user is not believed."""
    node = MungeSigning(socket=str(munged.socket), trusted_user_ids=(7,))
    collector = MungeSigning(socket=str(munged.socket))
    end = ReceivingEnd(tmp_path / "inbox", lambda cluster: collector)
    try:
        with pytest.raises(DeliveryError, match=r"signed by user id 0 .* as the \[database\] owner"):
            HttpDelivery(end.url, signing=node, wait_seconds=60).send(both(record_of(1)))
    finally:
        end.close()


def test_records_of_a_day_go_in_few_messages(end: ReceivingEnd, delivery: HttpDelivery) -> None:
    """A backlog goes in as few messages as their size allows: 100 records of a day in one."""
    delivery.send(both(*(record_of(job, large=True) for job in range(100))))
    assert (100, 1) == (len(end.files()), end.arrivals)


def test_examples_are_different() -> None:
    """The examples' sizes are what these tests take them for."""
    assert len(packed(1)) < 1000 < len(packed(1, large=True)) < 4000
    assert replace(record_of(1), node_name="x") == record_of(1, node="x")
