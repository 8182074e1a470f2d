"""A thousand nodes that come to the collector at once: is each record stored once?

A real collector process with its own inbox and database, and as many threads as nodes, let go together:
each hands on one day-long one-GPU record in a message of its own, signed by munge where this machine can
start one (root), else with a key. 503 and a full queue are answers too: a node tries again, as it does in a
cluster. Measured are the last answer and the moment at which the database has everything. All nodes sign in
this one process, so the times are an upper bound for the collector.
"""

import contextlib
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.processes import cpu_seconds, memory_mb, wait_for
from benchmarks.record_size import day_record
from benchmarks.rows import Row, count
from slurm_ofu.config import load_config, url_path
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.errors import DeliveryError
from slurm_ofu.records.codec import encode
from slurm_ofu.values import Config, NodeRecord
from slurm_ofu.wiring.delivering import open_http_delivery
from tests.delivery.munged import Munged, missing, new_key
from tests.services.processes import free_ports, listens

TITLE = "Many nodes at the collector at once"
WAIT_SECONDS = 600.0
COLLECT = "from slurm_ofu.cli.admin import main; main(['collect', '--config', {config!r}])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What came of it."""

    signed_by: str
    nodes: int
    answered: int  # nodes that were told "taken"
    stored: int  # runs in the database
    more_than_once: int
    left_behind: int  # files in the inbox
    refused: int  # messages, by the collector's own count; they were sent again
    answered_seconds: float
    stored_seconds: float
    collector_cpu_seconds: float
    collector_peak_mb: float

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            count(f"nodes, each one message signed by {self.signed_by}", self.nodes),
            count("answered with taken", self.answered),
            count("runs in the database", self.stored),
            count("more than once", self.more_than_once, 0),
            count("files left in the inbox", self.left_behind, 0),
            count("messages refused for the moment", self.refused),
            Row(what="until the last was answered", value=self.answered_seconds, unit="s"),
            Row(what="until all were in the database", value=self.stored_seconds, unit="s"),
            Row(
                what="the collector's CPU time, per record",
                value=self.collector_cpu_seconds / self.nodes * 1000,
                unit="ms",
            ),
            Row(what="the collector's peak of RSS", value=self.collector_peak_mb, unit="MB"),
        ]


def measure(place: Path, nodes: int = 1000) -> Storm:
    """One storm, then the counting."""
    _allow_files(8 * nodes + 1000)
    with _signing(place) as how:
        config = _configuration(place, how)
        records = [_record(number) for number in range(1, nodes + 1)]
        with _collector(config) as process:
            return _storm(config, process, records, how.partition('"')[2].partition('"')[0])


def _storm(
    config: Config,
    process: subprocess.Popen[bytes],
    records: Sequence[tuple[NodeRecord, bytes]],
    signed_by: str,
) -> Storm:
    database, inbox = url_path(config.database), Path(config.collector.inbox)
    together = threading.Barrier(len(records) + 1)
    with ThreadPoolExecutor(len(records)) as threads:
        answers = [threads.submit(_hand_on, config, together, record) for record in records]
        together.wait()
        begin = time.perf_counter()
        answered = sum(answer.result() for answer in answers)
        answered_seconds = time.perf_counter() - begin
    wait_for(lambda: not list(inbox.glob("*.record")), "the inbox to be empty", WAIT_SECONDS, every=0.02)
    stored_seconds = time.perf_counter() - begin
    jobs = Counter(_jobs(database))
    return Storm(
        signed_by=signed_by,
        nodes=len(records),
        answered=answered,
        stored=len(jobs),
        more_than_once=sum(times > 1 for times in jobs.values()),
        left_behind=len(list(inbox.glob("*.record"))),
        refused=sum(open_http_delivery(config).health()["refused_messages"].values()),
        answered_seconds=answered_seconds,
        stored_seconds=stored_seconds,
        collector_cpu_seconds=cpu_seconds(process.pid),
        collector_peak_mb=memory_mb(process.pid, "VmHWM"),
    )


def _hand_on(config: Config, together: threading.Barrier, record: tuple[NodeRecord, bytes]) -> bool:
    """One node, as often as it takes. True: it was told that its record was taken."""
    delivery = open_http_delivery(config)
    together.wait()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(DeliveryError):
            delivery.send([record])
            return True
    return False


def _record(number: int) -> tuple[NodeRecord, bytes]:
    record = replace(day_record(1, job_id=number), node_name=f"n{number}")
    return record, encode(record)


def _allow_files(wanted: int) -> None:
    """A thousand nodes in one process have as many connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), most))


@contextlib.contextmanager
def _signing(place: Path) -> Iterator[str]:
    """The configuration's lines about signing."""
    if missing() is not None:
        add_key(place / "key", "one")
        yield f'authentication = "key"\nkey_file = "{place}/key"\n'
        return
    munged = Munged(new_key())
    try:
        yield f'authentication = "munge"\nmunge_socket = "{munged.socket}"\n'
    finally:
        munged.close()


def _configuration(place: Path, how: str) -> Config:
    [port] = free_ports(1)
    path = place / "slurm-ofu.toml"
    path.write_text(
        f'[delivery]\nto = "http://127.0.0.1:{port}"\nwait_seconds = {WAIT_SECONDS}\n{how}'
        f'[collector]\nlisten = "127.0.0.1:{port}"\ninbox = "{place}/var/inbox"\n{how}'
        f'[accounting]\nsource = "none"\n[database]\nurl = "sqlite://{place}/var/ofu.db"\ngroup = ""\n'
    )
    return load_config(str(path))


@contextlib.contextmanager
def _collector(config: Config) -> Iterator[subprocess.Popen[bytes]]:
    script = COLLECT.format(config=config.path)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            port = int(config.collector.listen.rpartition(":")[2])
            wait_for(lambda: listens(port), "the collector", 60)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def _jobs(database: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as opened:
        return [job for (job,) in opened.execute("SELECT job_id FROM run JOIN run_gpu USING (run_id)")]
