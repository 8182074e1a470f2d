"""The collector killed wherever it can be, and every record once in the database afterwards."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import DeliveryError
from slurm_ofu.wiring.delivering import deliver, open_delivery
from tests.delivery.examples import packed, record_of
from tests.delivery.munged import Munged, require
from tests.services.processes import poll
from tests.wiring.collector_process import ADMIN, Collector

MOST_POINTS = 60
NODES, JOBS_PER_NODE = 250, 2


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    its = Collector(tmp_path)
    yield its
    its.close()


def killed_at(call: str, number: int) -> tuple[str, ...]:
    """The start of a command that is killed when one of its threads begins its n-th such system call."""
    return (*traced(call, Path("/dev/null")), "-e", f"inject={call}:signal=KILL:when={number}")


def traced(call: str, log: Path) -> tuple[str, ...]:
    """The start of a command whose system calls are written down."""
    if shutil.which("strace") is None:
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail("strace is missing")
        pytest.skip("strace is missing")
    return ("strace", "-f", "-qqq", "-o", str(log), "-e", f"trace={call}")


@pytest.mark.parametrize("call", ["fsync", "/^rename", "sendto", "/^unlink"])
def test_killed_while_it_takes_a_message(collector: Collector, call: str) -> None:
    """Killed at any step between a message and its answer, and then in taking it in: what was answered is
    there, what was not is sent again, and nothing is there twice."""
    expected: list[int] = []
    for number in count(1):
        assert number < MOST_POINTS
        jobs = [3 * number, 3 * number + 1, 3 * number + 2]
        expected += jobs
        collector.start(*killed_at(call, number), traced=True)
        answered = sent(collector, *jobs)
        survived = answered and waited(collector)
        collector.close()
        if not answered:
            collector.start()
            collector.send(*jobs)
        else:
            assert 0 == collector.once().returncode
        collector.wait_stored(expected)
        collector.close()
        if survived:
            break
    assert number > 2
    assert collector.is_sound()


def sent(collector: Collector, *jobs: int) -> bool:
    """Whether the collector said that it has these records."""
    settings = replace(collector.settings, delivery_wait_seconds=2.0)
    try:
        open_delivery(settings).send([(record_of(job), packed(job)) for job in jobs])
    except DeliveryError:
        return False
    return True


def waited(collector: Collector) -> bool:
    """Whether the collector lives on until all is taken in."""
    process = collector.process
    assert process is not None
    poll(lambda: process.poll() is not None or not collector.waiting(), 60, "the records to be taken in")
    time.sleep(0.2)  # it may be killed yet, by what it does after the last file
    return process.poll() is None


@pytest.mark.parametrize("call", ["fdatasync", "/^unlink", "pwrite64", "openat"])
def test_killed_while_it_takes_in(collector: Collector, call: str) -> None:
    """Killed at any step between the inbox and the database: every record is stored once, and the database
    is sound."""
    collector.drop(1)
    assert 0 == collector.once().returncode
    total = calls_of(collector, call, 2, 3, 4)
    expected, codes = [1, 2, 3, 4], []
    # Every one of its last; of the many before them some: they are Python's own.
    for number in (*range(max(1, total - 60), total - 12, 6), *range(max(1, total - 12), total + 1)):
        jobs = [1000 + 3 * number, 1001 + 3 * number, 1002 + 3 * number]
        expected += jobs
        collector.drop(*jobs)
        codes.append(once(collector, *killed_at(call, number)))
        assert 0 == collector.once().returncode
        collector.wait_stored(expected)
    assert codes.count(-signal.SIGKILL) > len(codes) / 2
    assert {0, -signal.SIGKILL} >= set(codes)
    assert collector.is_sound()


def once(collector: Collector, *prefix: str) -> int:
    """What ``collect --once`` ended with."""
    command = [*prefix, *ADMIN, "collect", "--once", "--config", str(collector.config)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode


def calls_of(collector: Collector, call: str, *jobs: int) -> int:
    """How many such system calls it takes to take in these records."""
    collector.drop(*jobs)
    trace = collector.folder / "trace"
    assert 0 == once(collector, *traced(call, trace))
    return trace.read_text().count("\n")


def test_a_message_at_work_is_answered(collector: Collector) -> None:
    """Told to end while it writes a message's records, it answers that message first."""
    slow = (*traced("fsync", Path("/dev/null")), "-e", "inject=fsync:delay_enter=700000")
    collector.start(*slow, traced=True)
    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(collector.send, 1, 2)
        poll(lambda: list(collector.inbox.glob(".1.0.*")), 60, "the first of its records to be written")
        assert 0 == collector.end(signal.SIGTERM)
        answered.result()
    assert 2 == len(collector.waiting())


def test_killed_at_any_moment(collector: Collector) -> None:
    """Killed and started again at random moments under load: whoever was told "taken" may forget, and at
    the end every record is there once."""
    random_ = random.Random(7)
    jobs = range(1, 121)
    collector.start()
    done = threading.Event()

    def kill_now_and_then() -> None:
        while not done.wait(random_.uniform(0.02, 0.8)):
            collector.end(signal.SIGKILL)
            collector.spawn()
            poll(lambda: collector.health() or done.is_set(), 60, "the collector to be back")

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda job: until_taken(collector, job), jobs))
    finally:
        done.set()
        killer.join()
    collector.wait_stored(jobs)
    assert collector.is_sound()


def until_taken(collector: Collector, job: int) -> None:
    """Hand on a record as often as it takes."""
    poll(lambda: sent(collector, job), 120, f"job {job} to be taken", interval=0.01)
    time.sleep(0.1)


# --------------------------------------------------------------- states that a kill leaves


def test_stored_but_still_there(collector: Collector) -> None:
    """Killed between the transaction and the removal of its files: they are stored again, which changes
    nothing, and go."""
    collector.drop(1, 2)
    assert 0 == collector.once().returncode
    collector.drop(1, 2, 3)
    collector.start()
    collector.wait_stored([1, 2, 3])


def test_a_transaction_that_was_cut(collector: Collector) -> None:
    """Killed in the middle of a transaction, whose journal is still there: it is undone, and the records,
    whose files are still there, are stored."""
    collector.drop(1)
    assert 0 == collector.once().returncode
    collector.drop(2)
    script = (
        "import os, signal, sqlite3, sys\n"
        "opened = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "opened.execute('PRAGMA cache_size = 1')\n"
        "opened.execute('BEGIN IMMEDIATE')\n"
        "opened.execute('UPDATE run SET job_id = 77')\n"
        "opened.execute('CREATE TABLE ballast AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, hex(randomblob(50)) FROM n')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(collector.database)], check=False, timeout=60)
    journal = collector.database.with_name("ofu.db-journal")
    assert journal.stat().st_size > 0
    collector.start()
    collector.wait_stored([1, 2])
    assert collector.is_sound()


def test_two_ingest_at_once(collector: Collector) -> None:
    """`ofu-admin ingest` beside the collector, on the same directory, does neither harm."""
    collector.start()
    for begin in range(1, 201, 20):
        collector.drop(*range(begin, begin + 20))
        command = [*ADMIN, "ingest", "--config", str(collector.config), str(collector.inbox)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (0, "") == (done.returncode, done.stderr)
    collector.wait_stored(range(1, 201))


# --------------------------------------------------------------- many nodes


@pytest.mark.parametrize("how", ["key", "munge"])
def test_a_cluster_that_comes_back_at_once(request: pytest.FixtureRequest, tmp_path: Path, how: str) -> None:
    """After a day without a collector every node comes at once, some of them twice: each is answered, and
    every record is in the database exactly once."""
    socket = None
    if how == "munge":
        require()
        munged: Munged = request.getfixturevalue("munged")
        socket = munged.socket
    collector = Collector(tmp_path, socket)
    settings = replace(collector.settings, delivery_wait_seconds=200.0)
    spools = []
    for node in range(NODES):
        spool = Spool(tmp_path / f"nodes/{node}")
        jobs = range(JOBS_PER_NODE * node, JOBS_PER_NODE * (node + 1))
        spools.append(collector.fill_outbox(*jobs, spool=spool))
    assert 1 == len(deliver(spools[0], replace(settings, delivery_wait_seconds=0.1)).problems)
    collector.start()
    try:
        with ThreadPoolExecutor(NODES) as threads:
            each = [*spools, *spools[:20]]
            delivered = list(threads.map(lambda spool: deliver(spool, settings, at_once=True), each))
        assert [] == [problem for its in delivered for problem in its.problems]
        assert [] == [path for spool in spools for path in spool.waiting()]
        collector.wait_stored(range(JOBS_PER_NODE * NODES))
        assert {} == collector.health()["refused_messages"]
    finally:
        collector.close()


def test_a_reader_holds_up_nobody(collector: Collector) -> None:
    """Reports that read all the time keep no record out."""
    collector.start()
    collector.send(1)
    collector.wait_stored([1])
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            opened = sqlite3.connect(collector.database, timeout=60)
            opened.execute("SELECT COUNT(*) FROM run_node").fetchall()
            opened.close()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for job in range(2, 30):
            collector.send(job)
        collector.wait_stored(range(1, 30))
    finally:
        done.set()
        for reader in readers:
            reader.join()
