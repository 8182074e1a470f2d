"""A real collector process, and the nodes that send to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slurm_ofu.config import load_config
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.values import Config
from slurm_ofu.wiring.delivering import open_delivery
from tests.delivery.examples import packed, record_of
from tests.services.processes import free_ports, listens, poll

ADMIN = (sys.executable, "-c", "from slurm_ofu.cli.admin import main; main(prog_name='ofu-admin')")


class Collector:
    """``ofu-admin collect`` with everything below one folder; nodes sign with a key, or with munge where a
    socket is given."""

    def __init__(self, folder: Path, munge_socket: Path | None = None, settings: str = "") -> None:
        self.folder = folder
        self.inbox, self.database = folder / "var/inbox", folder / "var/ofu.db"
        self.config, self.log = folder / "slurm-ofu.toml", folder / "collector.log"
        self.spool = Spool(folder / "spool")
        [self.port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.traced = False
        if munge_socket is None:
            add_key(folder / "key", "one")
            how = f'authentication = "key"\nkey_file = "{folder}/key"'
        else:
            how = f'munge_socket = "{munge_socket}"'
        self.config.write_text(
            f'[node]\nspool_dir = "{self.spool.directory}"\n'
            f'[delivery]\nto = "{self.url}"\n{how}\nwait_seconds = 20\n'
            f'[collector]\nlisten = "127.0.0.1:{self.port}"\ninbox = "{self.inbox}"\n{how}\n{settings}\n'
            '[accounting]\nsource = "none"\n'
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = ""\n'
        )

    @property
    def settings(self) -> Config:
        """The configuration, a node's and the collector's alike."""
        return load_config(str(self.config))

    def start(self, *prefix: str, traced: bool = False) -> None:
        """Start it and wait until it listens; ``prefix``: what it is started by, ``traced``: by strace."""
        self.spawn(*prefix)
        self.traced = traced
        poll(self._up, 60, "the collector to listen")

    def spawn(self, *prefix: str) -> subprocess.Popen[bytes]:
        """Start it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*prefix, *ADMIN, "collect", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.process

    def _up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said()
        return listens(self.port)

    def once(self) -> subprocess.CompletedProcess[str]:
        """``ofu-admin collect --once``."""
        command = [*ADMIN, "collect", "--once", "--config", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def health(self) -> dict[str, Any]:
        """What it says of itself; nothing where it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/v1/health", timeout=30) as answer:
                said: dict[str, Any] = json.loads(answer.read())
                return said
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and what it ended with."""
        assert self.process is not None
        pid = self.process.pid
        if self.traced:  # strace would leave it behind
            [pid] = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        os.kill(pid, number)
        return self.process.wait(timeout=120)

    def close(self) -> None:
        """End it if it is there."""
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)

    def said(self) -> str:
        """Everything that it logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def waiting(self) -> list[str]:
        """The records in the inbox."""
        return sorted(path.name for path in self.inbox.glob("*.record"))

    def stored(self) -> Counter[int]:
        """Job → how often it is in the database."""
        if not self.database.exists():
            return Counter()
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as opened:
            query = (
                "SELECT job_id FROM run JOIN run_node USING (run_id) JOIN run_gpu USING (run_id, node_name)"
            )
            try:
                return Counter(job_id for (job_id,) in opened.execute(query))
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return Counter()

    def is_sound(self) -> bool:
        """Whether SQLite finds nothing wrong with the database."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as opened:
            checks = [
                opened.execute(f"PRAGMA {check}").fetchall()
                for check in ("integrity_check", "foreign_key_check")
            ]
        return [[("ok",)], []] == checks

    def wait_stored(self, jobs: Iterable[int], timeout: float = 120) -> None:
        """Wait until every one of these jobs is stored, exactly once, and nothing waits."""
        expected = Counter(jobs)

        def stored() -> bool:
            found = self.stored()
            assert not found - expected, found - expected
            return found == expected and not self.waiting()

        poll(stored, timeout, f"{len(expected)} jobs to be stored")

    # ---- a node

    def send(self, *jobs: int) -> None:
        """Hand on records of these jobs as a node does."""
        records = [(record_of(job), packed(job)) for job in jobs]
        open_delivery(self.settings).send(records)

    def fill_outbox(self, *jobs: int, spool: Spool | None = None) -> Spool:
        """Records in a node's outbox."""
        its = spool or self.spool
        its.make()
        for job in jobs:
            (its.outbox / f"{job}.0.5.record").write_bytes(packed(job))
        return its

    def drop(self, *jobs: int) -> None:
        """Records left in the inbox directory by others."""
        self.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        for job in jobs:
            (self.inbox / f"{job}.record").write_bytes(packed(job))


def newer_record(size: int = 0) -> bytes:
    """A record that only a newer version reads, of at least so many bytes."""
    return zlib.compress(json.dumps({"format": 99, "record": os.urandom(size).hex()}).encode())
