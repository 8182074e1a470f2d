"""A real Slurm cluster with slurm-ofu installed on every node, as a site would have it.

Each node has its own spool, configuration and stand-in GPUs, and no sight of the accounting database:
records travel through a directory that ``ofu-admin ingest`` empties.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_ofu.wiring.installing import Places, install
from tests.services.fixtures import ClusterFactory
from tests.services.node_namespace import Mount
from tests.services.slurm_cluster import SlurmCluster
from tests.services.slurm_conf import Hooks, NodeSpec
from tests.standins.nvml_standin import Scenario, Truth

NOTHING_MATCHED = 2  # an exit code of ofu-report
BIN = Path(sys.executable).parent
CONFIG = "/etc/slurm-ofu/slurm-ofu.toml"
SPOOL = "/var/spool/slurm-ofu"
#: The first one comes at a random time: a module whose runs are to say how they fare has another number in
#: its settings.
NO_INTERIMS = "interim_seconds = 0"
LIBRARY_DIRECTORY = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")


@dataclass
class Site:
    """The cluster, and what a test asks of it."""

    folder: Path
    nvml_path: Path
    scenarios: Mapping[str, Scenario]  # by node
    settings: str = ""  # TOML of [sampler]
    cluster: SlurmCluster = field(init=False)

    def __post_init__(self) -> None:
        self.inbox = self.folder / "inbox"
        self.database = self.folder / "accounting" / "ofu.db"
        self.config = self.folder / "slurm-ofu.toml"
        self.prolog_dir, self.epilog_dir = self.folder / "prolog.d", self.folder / "epilog.d"

    @property
    def nodes(self) -> list[str]:
        """The nodes' names."""
        return self.cluster.nodes

    def start(self, factory: ClusterFactory, **options: Any) -> Site:
        """Install the hooks, start the cluster, give every node its configuration."""
        self.inbox.mkdir(mode=0o700)
        self.database.parent.mkdir(mode=0o700)
        self.config.write_text(self.toml(f"dir://{self.inbox}"))
        self._install_hooks()
        specs = [NodeSpec(name, len(scenario.gpus)) for name, scenario in self.scenarios.items()]
        self.cluster = factory(
            nodes=options.pop("nodes", specs),
            hooks=Hooks(prolog=f"{self.prolog_dir}/*", epilog=f"{self.epilog_dir}/*"),
            mounts=self._mounts,
            hide=[self.database.parent],
            **options,
        )
        for node in self.nodes:
            self.configure(node, self.config.read_text())
        return self

    def _install_hooks(self) -> None:
        """The real installer; then the hooks are told where the nodes have their configuration."""
        here = self.folder / "installed.toml"
        here.write_text(f'[node]\nspool_dir = "{self.folder}/unused"\n')
        places = Places(
            config=here,
            prolog_dir=self.prolog_dir,
            epilog_dir=self.epilog_dir,
            systemd_dir=None,
            python=Path(sys.executable),
        )
        install(places)
        for script in (*self.prolog_dir.iterdir(), *self.epilog_dir.iterdir()):
            script.write_text(script.read_text().replace(str(here), CONFIG))

    def _mounts(self, node: str) -> list[Mount]:
        scenario = self.scenarios[node].write(self.folder / f"{node}.scenario")
        return [
            Mount.bind(self.nvml_path, LIBRARY_DIRECTORY / "libnvidia-ml.so.1"),
            Mount.bind(scenario, LIBRARY_DIRECTORY / "nvml-scenario"),
        ]

    def toml(self, deliver_to: str) -> str:
        """A whole configuration file."""
        return (
            f'[node]\nspool_dir = "{SPOOL}"\n[sampler]\n{self.sampler_settings}\n'
            f'[delivery]\nto = "{deliver_to}"\nwait_seconds = 5\n'
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = "root"\n'
        )

    @property
    def sampler_settings(self) -> str:
        """TOML of [sampler], with everything that is not the default."""
        return self.settings if "interim_seconds" in self.settings else f"{NO_INTERIMS}\n{self.settings}"

    def configure(self, node: str, text: str) -> None:
        """Replace one node's configuration."""
        self.cluster.node_path(node, CONFIG).write_text(text)

    # ------------------------------------------------------------------ what people run

    def command(self, name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One of our commands on the accounting host."""
        return subprocess.run(
            [BIN / name, *arguments],
            env={"OFU_CONFIG": str(self.config), "PATH": "/usr/bin:/bin", "TZ": "UTC"},
            text=True,
            capture_output=True,
            check=check,
            timeout=120,
        )

    def report(self, *arguments: str) -> dict[str, Any]:
        """``ofu-report --json``, also where nothing matches."""
        done = self.command("ofu-report", "--json", *arguments, check=False)
        assert done.returncode in (0, NOTHING_MATCHED), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def page(self, job_id: int) -> list[dict[str, Any]]:
        """The job pages of one job id, a page for each run."""
        pages: list[dict[str, Any]] = self.report("-j", str(job_id))["rows"]
        return pages

    def ingest(self) -> None:
        """The collector's work."""
        self.command("ofu-admin", "ingest")

    def wait_delivered(self, timeout: float = 30) -> None:
        """Wait until no node has anything left of a run, then take in what arrived."""
        self.cluster.wait_for(
            lambda: not any(map(self.left_on, self.nodes)), timeout, "every record to leave"
        )
        self.ingest()

    def left_on(self, node: str) -> list[str]:
        """What a node's spool still holds of any run."""
        spool = self.cluster.node_path(node, SPOOL)
        return [
            path.name
            for folder in ("state", "outbox")
            if (spool / folder).is_dir()
            for path in (spool / folder).iterdir()
        ]

    def spool_file(self, node: str, pattern: str) -> Path | None:
        """The one file in a node's spool that matches, or ``None``."""
        return next(iter(self.cluster.node_path(node, SPOOL).glob(pattern)), None)

    def sampler_pid(self, node: str, job_id: int) -> int | None:
        """The pid of a job's sampler on a node."""
        path = self.spool_file(node, f"state/{job_id}.*.sampler")
        words = path.read_text().split() if path is not None else []
        return int(words[0]) if words else None

    def wait_checkpoint(self, node: str, job_id: int, timeout: float = 20) -> None:
        """Wait until a job's sampler has written its first checkpoint."""
        self.cluster.wait_for(
            lambda: self.spool_file(node, f"state/{job_id}.*.checkpoint"),
            timeout,
            f"a checkpoint of {job_id}",
        )

    # ------------------------------------------------------------------ truth

    def truth(self, node: str, position: int, start_epoch_s: float, end_epoch_s: float) -> Truth:
        """What the GPU at a Slurm position truly did between two wall-clock times."""
        offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        scenario = self.scenarios[node]
        # /dev/nvidiaN is position N here, and N is the minor number.
        index = next(
            index
            for index, gpu in enumerate(scenario.gpus)
            if (index if gpu.minor is None else gpu.minor) == position
        )
        return scenario.truth(index, start_epoch_s - offset, end_epoch_s - offset)
