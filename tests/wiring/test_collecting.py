"""The collector as a process: what it takes, what it says, how it begins and ends."""

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import slurm_ofu
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.key_signing import KeySigning
from slurm_ofu.delivery.sending import HttpDelivery
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import DeliveryError
from slurm_ofu.records.codec import decode
from slurm_ofu.wiring.collecting import LOCK, LOOK_SECONDS
from slurm_ofu.wiring.delivering import deliver, open_delivery
from slurm_ofu.wiring.installing import default_python
from slurm_ofu.wiring.installing_collector import install_collector
from tests.delivery.examples import packed
from tests.delivery.munged import NOBODY, Munged, new_key, require
from tests.records.test_golden import FORMAT_1
from tests.services.processes import poll
from tests.wiring.collector_process import ADMIN, Collector, newer_record


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    its = Collector(tmp_path)
    yield its
    its.close()


def change(collector: Collector, before: str, after: str) -> None:
    """Change its configuration."""
    text = collector.config.read_text()
    assert before in text
    collector.config.write_text(text.replace(before, after))


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody holds the database and does not let go."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_from_outbox_to_database(collector: Collector) -> None:
    """What lies in a node's outbox is in the database once, and neither there nor in the inbox any more."""
    collector.start()
    spool = collector.fill_outbox(1, 2, 3)
    its = deliver(spool, collector.settings)
    assert (3, 0, ()) == (its.sent, its.left, its.problems)
    collector.wait_stored([1, 2, 3])
    keys = ("taken_records", "stored_records", "waiting_records", "database")
    poll(lambda: [3, 3, 0, "ok"] == [collector.health()[key] for key in keys], 60, "health to say so")
    assert 0 == collector.end()


def test_what_comes_by_http_is_taken_in_at_once(collector: Collector) -> None:
    """Arrivals wake the collector: it does not take a look's interval for each."""
    collector.start()
    begin = time.monotonic()
    for job in range(1, 13):
        collector.send(job)
        collector.wait_stored(range(1, job + 1))
    assert time.monotonic() - begin < 12 * LOOK_SECONDS / 2


def test_what_others_leave_in_the_inbox(collector: Collector) -> None:
    """Files that nodes or people leave in the inbox directory are taken in too, without being told."""
    collector.start()
    collector.drop(1, 2)
    collector.wait_stored([1, 2])


def test_without_http(collector: Collector) -> None:
    """With listen = "" the inbox directory alone is taken in, and nobody listens."""
    change(collector, f'listen = "127.0.0.1:{collector.port}"', 'listen = ""')
    collector.drop(1)
    collector.spawn()
    collector.wait_stored([1])
    assert {} == collector.health()
    assert 0 == collector.end(signal.SIGINT)


def test_it_makes_what_it_needs(collector: Collector) -> None:
    """Whatever the umask, the inbox and the way to a database without a group are their user's alone."""
    collector.start("sh", "-c", 'umask 077; exec "$@"', "sh")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (collector.inbox, collector.database.parent)]
    assert [0o700, 0o700] == modes
    collector.send(1)
    collector.wait_stored([1])
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in collector.inbox.glob("*")} | {0o600}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_end(collector: Collector, number: signal.Signals) -> None:
    """Told to end it ends with 0, says so, and listens no longer; the next one goes on."""
    collector.start()
    collector.send(1)
    assert 0 == collector.end(number)
    assert "ended; what waits in the inbox" in collector.said()
    assert {} == collector.health()
    collector.start()
    collector.wait_stored([1])


def test_one_collector_at_a_time(collector: Collector) -> None:
    """A second collector of the same inbox ends with 4 and names the first, which goes on; a killed one
    leaves no lock behind."""
    collector.start()
    assert collector.process is not None
    second = collector.once()
    assert 4 == second.returncode
    assert f"another collector (process {collector.process.pid})" in second.stderr
    collector.send(1)
    collector.wait_stored([1])
    collector.end(signal.SIGKILL)
    assert (collector.inbox / LOCK).exists()
    assert 0 == collector.once().returncode


def test_many_collectors_started_at_once(collector: Collector) -> None:
    """Of several started at the same time one takes records in, and the others end with 4."""
    started = [collector.spawn() for _ in range(4)]
    poll(lambda: sum(each.poll() is not None for each in started) == 3, 60, "the others to end")
    assert [4, 4, 4] == [each.returncode for each in started if each.returncode is not None]
    [collector.process] = [each for each in started if each.returncode is None]
    collector.send(1)
    collector.wait_stored([1])


def test_a_port_that_is_taken(collector: Collector, tmp_path: Path) -> None:
    """Where something else listens the collector ends with 1 and names the key."""
    collector.start()
    (tmp_path / "other").mkdir()
    other = Collector(tmp_path / "other")
    change(other, str(other.port), str(collector.port))
    assert 1 == other.spawn().wait(timeout=60)
    assert "[collector] listen" in other.said()
    assert "Address already in use" in other.said()


def test_an_inbox_that_others_can_write_to(collector: Collector) -> None:
    """An inbox that anybody could leave records in is refused."""
    collector.drop(1)
    collector.inbox.chmod(0o777)
    done = collector.once()
    assert 1 == done.returncode
    assert "others can write to it" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_wrong_user(collector: Collector) -> None:
    """With [database] owner the collector runs as that user, or says so."""
    change(collector, 'group = ""', 'group = ""\nowner = "nobody"')
    done = collector.once()
    assert 1 == done.returncode
    assert "[database] owner = 'nobody': run the collector as that user" in done.stderr


def readable_by_all(path: Path) -> bool:
    """Whether every user gets to a file."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_service_user(munged: Munged, tmp_path: Path) -> None:
    """A collector that runs as [database] owner reads what nodes' roots send, and they believe its answers;
    without that key they do not."""
    require()
    if not readable_by_all(Path(slurm_ofu.__file__)) or not readable_by_all(Path(sys.executable)):
        pytest.skip("this checkout lies where a service user cannot read it")
    folder = munged.folder / "service"
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY, -1)
    collector = Collector(folder, munged.socket)
    change(collector, 'group = ""', 'group = ""\nowner = "nobody"')
    install_collector(collector.config, None, python=default_python())
    try:
        collector.start("setpriv", f"--reuid={NOBODY}", "--clear-groups", "--")
        collector.send(1)
        collector.wait_stored([1])
        assert NOBODY == collector.database.stat().st_uid
        for_root = replace(collector.settings, database_owner=None)
        with pytest.raises(DeliveryError, match=r"wrong_user: .*run the collector as the \[database\] owner"):
            open_delivery(for_root).hand_on("alpha", ())  # type: ignore[attr-defined]
    finally:
        collector.close()


# --------------------------------------------------------------- trouble


def test_a_locked_database(collector: Collector) -> None:
    """While the database is locked records are taken and kept, which is said once; then all are stored."""
    change(collector, "wait_seconds = 20", "wait_seconds = 1")
    collector.start()
    collector.send(1)
    collector.wait_stored([1])
    with locked(collector.database):
        collector.send(2)
        poll(lambda: "records wait in" in collector.said(), 60, "the trouble to be told")
        collector.send(3, 4)
        poll(lambda: collector.health()["database"] == "unavailable", 60, "it to be seen")
        assert 3 == len(collector.waiting())
    collector.wait_stored([1, 2, 3, 4])
    assert 1 == collector.said().count("records wait in")
    assert "records are taken in again: 3 that waited are stored" in collector.said()
    assert "ok" == collector.health()["database"]


def test_a_database_that_cannot_be_used(collector: Collector) -> None:
    """A database of a newer version, or none at all, costs no record: they wait until it is mended."""
    collector.drop(1)
    collector.database.write_bytes(b"no database" * 100)
    collector.start()
    collector.send(2)
    poll(lambda: "records wait in" in collector.said(), 60, "the trouble to be told")
    assert 2 == len(collector.waiting())
    collector.database.unlink()
    collector.wait_stored([1, 2])


def test_once_with_a_database_that_is_locked(collector: Collector) -> None:
    """--once with a busy database ends with 4 and keeps every file; with --once again all are stored."""
    change(collector, "wait_seconds = 20", "wait_seconds = 1")
    collector.drop(1)
    assert 0 == collector.once().returncode
    collector.drop(2)
    with locked(collector.database):
        done = collector.once()
        assert (4, ["2.record"]) == (done.returncode, collector.waiting())
    done = collector.once()
    assert (0, "1 records stored, 0 rejected, 0 kept\n") == (done.returncode, done.stdout)
    collector.wait_stored([1, 2])


def test_a_full_inbox(collector: Collector) -> None:
    """A full inbox refuses with 503, records stay on the node, and go through once there is room."""
    change(collector, "[accounting]", "inbox_limit_mib = 1\n[accounting]")
    collector.drop()
    large = collector.inbox / "newer.record"
    large.write_bytes(newer_record(1 << 20))
    collector.start()
    spool, settings = collector.fill_outbox(1, 2), replace(collector.settings, delivery_wait_seconds=1.0)
    assert "busy" == collector.health()["status"]
    its = deliver(spool, settings)
    assert (0, 2, 1) == (its.sent, its.left, len(its.problems))
    assert "busy: the inbox holds 1 MiB, of 1 that it may" in its.problems[0]
    large.unlink()
    poll(lambda: deliver(spool, settings, at_once=True).left == 0, 60, "the node to deliver")
    collector.wait_stored([1, 2])


def test_records_of_other_versions(collector: Collector) -> None:
    """A record of a newer version stays and is told once; what is no record is set aside and told."""
    collector.drop(1)
    (collector.inbox / "newer.record").write_bytes(newer_record())
    (collector.inbox / "bad.record").write_bytes(b"nonsense")
    collector.start()
    poll(lambda: collector.stored() == {1: 1}, 60, "the good one")
    collector.send(2)
    poll(lambda: collector.stored() == {1: 1, 2: 1}, 60, "the next one")
    poll(lambda: ["newer.record"] == collector.waiting(), 60, "the stored ones to leave the inbox")
    assert b"nonsense" == (collector.inbox / "rejected/bad.record").read_bytes()
    assert 1 == collector.said().count("newer.record: record format 99 is not known here")
    assert 1 == collector.said().count("set aside")
    done_once = subprocess.run(
        [*ADMIN, "ingest", "--config", str(collector.config), str(collector.inbox)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (1, True) == (done_once.returncode, "kept newer.record" in done_once.stderr)


def test_a_record_of_an_older_version(collector: Collector) -> None:
    """A record that an earlier version wrote is taken by both ways and stored once."""
    data = FORMAT_1.read_bytes()
    collector.start()
    open_delivery(collector.settings).send([(decode(data), data)])
    (collector.inbox / "old.record").write_bytes(data)
    poll(lambda: collector.stored() == {4711: 2} and not collector.waiting(), 60, "both GPUs of it")


def test_halves_of_dead_writers(collector: Collector) -> None:
    """What a writer left that was killed in the middle is never a record, and goes after an hour; what is
    being written stays."""
    collector.drop()
    old, new = (collector.inbox / f".1.0.n1.alpha.1-0.record.{pid}.{pid}" for pid in (1, 2))
    for path in (old, new):
        path.write_bytes(packed(1)[:100])
    os.utime(old, (1, 1))
    collector.start()
    collector.send(2)
    collector.wait_stored([2])
    assert (False, True) == (old.exists(), new.exists())


# --------------------------------------------------------------- who is believed


def test_only_the_clusters_root(munged: Munged, tmp_path: Path) -> None:
    """A real collector takes messages of its own cluster's root; another cluster's root is refused, and
    its records stay where they are."""
    require()
    collector, foreign = Collector(tmp_path, munged.socket), Munged(new_key())
    try:
        collector.start()
        collector.send(1)
        spool = collector.fill_outbox(2)
        settings = collector.settings
        stranger = replace(
            settings, delivery_signing=replace(settings.delivery_signing, munge_socket=str(foreign.socket))
        )
        its = deliver(spool, stranger, at_once=True)
        assert (0, 1) == (its.sent, its.left)
        assert "bad_credential" in its.problems[0]
        assert (1, 0) == (deliver(spool, settings, at_once=True).sent, len(spool.waiting()))
        collector.wait_stored([1, 2])
    finally:
        collector.close()
        foreign.close()


def test_several_clusters(tmp_path: Path) -> None:
    """One collector serves several clusters, each with its own key, and refuses those it does not know."""
    for name in ("alpha", "beta", "gamma"):
        add_key(tmp_path / f"{name}.key", name)
    tables = "".join(f'[clusters.{name}]\nkey_file = "{tmp_path}/{name}.key"\n' for name in ("alpha", "beta"))
    collector = Collector(tmp_path)
    collector.config.write_text(collector.config.read_text() + tables)
    try:
        collector.start()
        ways = {
            name: HttpDelivery(collector.url, signing=KeySigning(tmp_path / f"{name}.key"), wait_seconds=5)
            for name in ("alpha", "beta", "gamma")
        }
        for job, name in ((1, "alpha"), (2, "beta")):
            ways[name].hand_on(name, [packed(job, cluster=name)])
        for way, name, code in (
            ("gamma", "gamma", "unknown_cluster"),
            ("gamma", "alpha", "bad_credential"),
            ("beta", "alpha", "bad_credential"),
        ):
            with pytest.raises(DeliveryError, match=code):
                ways[way].hand_on(name, [packed(3, cluster=name)])
        collector.wait_stored([1, 2])
    finally:
        collector.close()


def test_a_node_leaves_a_silent_collector_alone(collector: Collector) -> None:
    """After a failure the hooks' delivery waits a while without trying; by hand it is tried at once, and
    success ends the waiting."""
    settings = replace(collector.settings, delivery_wait_seconds=0.2)
    spool = collector.fill_outbox(1)
    first = deliver(spool, settings)
    assert (1, "Connection refused") == (len(first.problems), first.problems[0][-18:])
    (spool.directory / "attempts").write_text(f"5 {uptime() + 500}\n")
    assert ((), 1) == ((its := deliver(spool, settings)).problems, its.left)
    assert 1 == len(deliver(spool, settings, at_once=True).problems)
    collector.start()
    assert (0, 1) == ((its := deliver(spool, settings)).sent, its.left)
    assert 1 == deliver(spool, settings, at_once=True).sent
    assert not (spool.directory / "attempts").exists()
    assert 1 == deliver(collector.fill_outbox(2), settings).sent


def uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def test_a_bad_record_holds_up_no_other(collector: Collector) -> None:
    """Of a batch with one record that the collector refuses, the others arrive and it is set aside with the
    reason."""
    collector.start()
    spool = collector.fill_outbox(*range(1, 21))
    bad = spool.outbox / "99.0.5.record"
    bad.write_bytes(packed(99, cluster="x" * 300))
    its = deliver(spool, collector.settings)
    assert (20, 0, 1) == (its.sent, its.left, len(its.problems))
    assert "its cluster is no name" in its.problems[0]
    assert [bad.with_suffix(".rejected")] == list(Spool(spool.directory).rejected())
    collector.wait_stored(range(1, 21))
