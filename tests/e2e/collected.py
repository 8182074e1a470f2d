"""A site whose nodes deliver over HTTP, within munge credentials, to a collector with an eye on slurmdbd."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.site import BIN, NOTHING_MATCHED, SPOOL, Site
from tests.services.processes import ClusterError, Process, free_ports, poll

#: For so long what is known of jobs must stay the same before a test looks at it.
STANDING_SECONDS = 4.0


@dataclass
class CollectedSite(Site):
    """A Site with a collector of its own, which tests start, kill and start again."""

    collector_settings: str = ""
    collector: subprocess.Popen[bytes] | None = field(default=None, init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        Site.__post_init__(self)
        [self.port] = free_ports(1)
        self.log = self.folder / "collector.log"

    # ------------------------------------------------------------------ configurations

    def node_toml(self) -> str:
        """What a node is told: the collector, and nothing of the database."""
        return (
            f'[node]\nspool_dir = "{SPOOL}"\n[sampler]\n{self.sampler_settings}\n'
            f'[delivery]\nto = "http://127.0.0.1:{self.port}"\nwait_seconds = 5\n'
            f'munge_socket = "{self.cluster.layout.munge_socket}"\n'
        )

    def collector_toml(self) -> str:
        """What the collector is told: impatient, since the jobs of tests are short."""
        return (
            f'[collector]\nlisten = "127.0.0.1:{self.port}"\ninbox = "{self.inbox}"\n'
            f'munge_socket = "{self.cluster.layout.munge_socket}"\n'
            f'[accounting]\nslurm_conf = "{self.cluster.layout.slurm_conf}"\n'
            "every_seconds = 1\nsettle_seconds = 1\n"
            f"{self.collector_settings}\n"
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = "root"\n'
        )

    def configure_all(self) -> None:
        """The nodes' and the collector's configuration, once there is a cluster."""
        self.config.write_text(self.collector_toml())
        for node in self.nodes:
            self.configure(node, self.node_toml())

    # ------------------------------------------------------------------ the collector

    def start_collector(self) -> None:
        """Start it and wait until it answers."""
        with self.log.open("ab") as out:
            self.collector = subprocess.Popen(
                [BIN / "ofu-admin", "collect", "--config", str(self.config)],
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        poll(self._answers, 60, f"the collector to answer; {self.said()}")

    def _answers(self) -> bool:
        assert self.collector is not None
        if self.collector.poll() is not None:
            raise ClusterError(f"the collector has ended: {self.said()}")
        return self.health() is not None

    def health(self) -> dict[str, Any] | None:
        """What GET /v1/health says, or ``None``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/v1/health")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        return None

    def said(self) -> str:
        """The collector's log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def end_collector(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit code."""
        assert self.collector is not None
        self.collector.send_signal(number)
        code = self.collector.wait(60)
        self.collector = None
        return code

    def close(self) -> None:
        """Nothing of it stays."""
        if self.collector is not None:
            self.collector.kill()
            self.collector.wait(60)
            self.collector = None

    # ------------------------------------------------------------------ what tests wait for

    def deliver(self) -> None:
        """Empty every node's outbox now, as its timer would."""
        for node in self.nodes:
            self.cluster.in_node(
                node,
                str(BIN / "ofu-node"),
                "deliver",
                check=False,
                env={"OFU_CONFIG": "/etc/slurm-ofu/slurm-ofu.toml"},
            )

    def runs(self, *arguments: str) -> list[dict[str, Any]]:
        """The rows of ``ofu-report --json -a`` since yesterday; none where nothing has been taken in yet."""
        asked = ("--json", "-a", "-S", "now-1days", "-E", "now+1days", *arguments)
        done = self.command("ofu-report", *asked, check=False)
        assert done.returncode in (0, NOTHING_MATCHED), done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
        return rows

    def wait_accounted_runs(
        self, job_ids: set[int], timeout: float = 200, *, lives: int | None = None
    ) -> list[dict[str, Any]]:
        """The runs of these jobs, once each was heard of and Slurm's accounting was read for it; ``lives``:
        for so many runs in all. slurmdbd may say more of a job a moment later: they stand still then."""
        last: list[list[dict[str, Any]]] = [[]]
        since = [time.monotonic()]

        def all_there() -> bool:
            known = self.runs() if self.database.exists() else []
            before, last[0] = last[0], [row for row in known if row["job_id"] in job_ids]
            if before != last[0]:
                since[0] = time.monotonic()
            done = [row["job_id"] for row in last[0] if row["accounted"] and row["heard"]]
            complete = set(done) == job_ids and lives in (None, len(done))
            return complete and time.monotonic() - since[0] >= STANDING_SECONDS

        what = f"jobs {sorted(job_ids)} to be heard of and accounted; {self.said()[-3000:]}"
        try:
            self.cluster.wait_for(all_there, timeout, what, interval=0.3)  # each look is a process of our own
        except ClusterError as error:
            names = ("job_id", "accounted", "heard", "running", "state", "reason", "end_epoch_s")
            known = [{name: row[name] for name in names} for row in last[0]]
            rows = self.cluster.run("sacct", "-aXPn", "-S", "now-1hour", "-o", "jobidraw,uid,user,state,end")
            raise ClusterError(f"{known}\n{rows.stdout}\n{error}") from error
        return last[0]


def is_alive(pid: int) -> bool:
    """Whether a process is still there."""
    return Process.of(pid).alive()


def spool_of(site: Site, node: str) -> Path:
    """A node's spool as the host sees it."""
    return site.cluster.node_path(node, SPOOL)
