"""One node with slurm-ofu installed in a directory: hooks, spool, configuration, GPUs that are played."""

import grp
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import hook_seconds
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.wiring.installing import EPILOG, PROLOG, Places, install
from tests.standins import nvml_standin
from tests.standins.nvml_standin import Gpu, Scenario, Segment

#: CPU time that the stand-in burns in each call of the driver.
CALL_COST_US = 50.0
#: Under load as a training step is: tensor activity and clock move together.
STEP = (
    Segment(seconds=0.09, tensor_ratio=0.6, sm_clock_mhz=1740.0, sm_active_ratio=1.0, power_watts=680.0),
    Segment(seconds=0.03, tensor_ratio=0.05, sm_clock_mhz=1980.0, sm_active_ratio=0.6, power_watts=350.0),
)


def build_driver(place: Path, gpu_count: int, *, call_cost_us: float = CALL_COST_US) -> Path:
    """The stand-in for libnvidia-ml.so.1 with its GPUs, and ``calls`` beside it."""
    library = nvml_standin.build(place)
    scenario = Scenario(
        gpus=(Gpu(segments=STEP),) * gpu_count, call_cost_us=call_cost_us, calls_file=place / "calls"
    )
    scenario.write(place / "nvml-scenario")
    return library


@dataclass
class Node:
    """Installed below ``place``. ``source`` as in the configuration; ``sampler`` is more of its section."""

    place: Path
    gpu_count: int
    source: str = "synthetic"
    sampler: str = ""
    python: Path = field(default_factory=lambda: Path(sys.executable))

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        self.spool = Spool(self.place / "spool")
        self.database = self.place / "ofu.db"
        self.config = self.place / "slurm-ofu.toml"
        self.config.write_text(
            f'[node]\nspool_dir = "{self.spool.directory}"\n[sampler]\nsource = "{self._source()}"\n'
            f"interim_seconds = 0\n{self.sampler}\n"
            f'[delivery]\nto = "sqlite://{self.database}"\nwait_seconds = 120\n'
            f'[database]\nurl = "sqlite://{self.database}"\ngroup = "{own_group()}"\n'
        )
        self._install()

    def _source(self) -> str:
        if self.source != "synthetic":
            return self.source
        path = self.place / "gpus.json"
        segment = {"seconds": 1, "tensor_active_ratio": 0.5, "sm_clock_mhz": 1755}
        table = {"gpu_model": "NVIDIA H100 80GB HBM3", "gpus": self.gpu_count, "default": [segment]}
        path.write_text(json.dumps(table))
        return f"synthetic://{path}"

    def _install(self) -> None:
        prologs, epilogs = self.place / "prolog.d", self.place / "epilog.d"
        install(
            Places(
                config=self.config,
                prolog_dir=prologs,
                epilog_dir=epilogs,
                systemd_dir=None,
                python=self.python,
            )
        )
        self.prolog, self.epilog = prologs / PROLOG, epilogs / EPILOG

    def environment(self, job_id: int, *, gpu_count: int | None = None) -> dict[str, str]:
        """What slurmd tells a hook, and no more."""
        gpus = ",".join(map(str, range(self.gpu_count if gpu_count is None else gpu_count)))
        said = {
            "SLURM_CLUSTER_NAME": "bench",
            "SLURM_CONF": str(self.place / "slurm.conf"),
            "SLURMD_NODENAME": "node01",
            "SLURM_JOB_ID": str(job_id),
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_USER": "root",
            "SLURM_JOB_ACCOUNT": "physics",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_NODELIST": "node01",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_RESTART_COUNT": "0",
        }
        return {**said, **({"SLURM_JOB_GPUS": gpus, "CUDA_VISIBLE_DEVICES": gpus} if gpus else {})}

    def run_prolog(self, job_id: int) -> float:
        """The prolog of a GPU job; seconds that slurmd waits."""
        return hook_seconds(self.prolog, self.environment(job_id))

    def run_epilog(self, job_id: int) -> float:
        """The epilog of a GPU job; seconds that slurmd waits."""
        return hook_seconds(self.epilog, self.environment(job_id))

    def tag(self, job_id: int) -> str:
        """The run that the prolog of this job began."""
        return next(tag for tag in self.spool.tags() if tag.startswith(f"{job_id}."))

    def sampler_pid(self, job_id: int) -> int:
        """The process that the prolog of this job left behind."""
        path = self.spool.state / f"{self.tag(job_id)}.sampler"
        return int(path.read_text(encoding="ascii").split()[0])

    def has_checkpoint(self, job_id: int) -> bool:
        """Whether the first readings of a job are on disk."""
        return any(self.spool.state.glob(f"{job_id}.*.checkpoint"))

    def is_delivered(self, job_id: int) -> bool:
        """Whether nothing of a job is left on the node."""
        folders = (self.spool.state, self.spool.outbox)
        return not any(any(folder.glob(f"{job_id}.*")) for folder in folders)


def own_group() -> str:
    """The group that may read the database: whoever runs the benchmark."""
    return grp.getgrgid(os.getgid()).gr_name


def empty_hook(place: Path) -> Path:
    """A hook that does nothing."""
    script = place / "empty"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    return script


def environment_with(**more: str) -> Mapping[str, str]:
    """This process's environment and more."""
    return {**os.environ, **more}
