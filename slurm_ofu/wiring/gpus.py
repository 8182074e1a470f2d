"""Which GPUs a run has: Slurm's configuration and the counter source, joined by ``slurm.gpu_order``."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from slurm_ofu.protocols import CounterSource
from slurm_ofu.slurm.gpu_order import Assignment, assign
from slurm_ofu.slurm.gres_conf import read_node_gres
from slurm_ofu.values import Config

DEFAULT_SLURM_CONF = "/etc/slurm/slurm.conf"


def resolve_gpus(
    positions: tuple[int, ...],
    *,
    environment: Mapping[str, str],
    node: str,
    source: CounterSource,
    config: Config,
) -> tuple[Assignment, ...]:
    """Each position of SLURM_JOB_GPUS with its GPU, or why it is unknown."""
    gres, count = read_node_gres(Path(environment.get("SLURM_CONF") or DEFAULT_SLURM_CONF), node)
    return assign(
        positions,
        cuda_visible_devices=environment.get("CUDA_VISIBLE_DEVICES", ""),
        gpu_map=config.gpu_map.get(node, config.gpu_map.get("*", {})),
        gres=gres,
        devices=source.devices(),
        node_gpu_count=count,
        minor_of=minor_of,
    )


def minor_of(device_file: str) -> int | None:
    """The minor number of a device file, ``None`` where it is none."""
    try:
        found = Path(device_file).stat()
    except OSError:
        return None
    return os.minor(found.st_rdev) if stat.S_ISCHR(found.st_mode) else None
