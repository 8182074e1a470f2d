"""What hooks and samplers leave in a spool, made without them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, encode_checkpoint
from slurm_ofu.values import Config, SamplerHealth
from tests.integrals.examples import SECOND, counted_fold

BOOT = "11111111-1111-4111-8111-111111111111"
EARLIER_BOOT = "22222222-2222-4222-8222-222222222222"
PROLOG_S = 1000.0  # uptime
EPOCH_S = 1_764_424_800  # wall clock at uptime 0


def config_for(folder: Path, **changes: Any) -> Config:
    """Records go into a directory beside the spool."""
    inbox = folder / "inbox"
    inbox.mkdir(mode=0o700, exist_ok=True)
    values: dict[str, Any] = {"path": "test", "delivery_to": f"dir://{inbox}", **changes}
    return Config(**values)


def tag_of(job: int, restart: int = 0, at_s: float = PROLOG_S) -> str:
    """The tag of a run whose prolog ran at an uptime."""
    return f"{job}.{restart}.{round(at_s * 100)}"


def leave_facts(
    spool: Spool,
    tag: str,
    hook: str,
    at_s: float,
    said: Mapping[str, str] | None = None,
    *,
    boot: str = BOOT,
) -> None:
    """A hook's file, as the shell writes it."""
    spool.make()
    facts = {
        "SLURM_JOB_ID": tag.split(".", maxsplit=1)[0],
        "SLURM_JOB_RESTART_COUNT": tag.split(".")[1],
        "SLURM_CLUSTER_NAME": "trial",
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_GPUS": "0,1",
        **(said or {}),
        "OFU_END": "1",
    }
    head = f"OFU1 {boot} {at_s:.2f}\n".encode()
    body = b"".join(f"{name}={value}\0".encode() for name, value in facts.items())
    path = spool.state / f"{tag}.{hook}"
    path.write_bytes(head + body)
    os.utime(path, (EPOCH_S + at_s,) * 2)


def leave_checkpoint(
    spool: Spool,
    tag: str,
    saved_s: float,
    *,
    intervals: int = 7,
    seconds: float = 10.0,
    gpu_count: int = 2,
    sm_share_ratio: float = 1.0,
) -> None:
    """A sampler's last checkpoint: two GPUs, one of which could not be mapped; or the good one alone, which
    may be a slice."""
    offset_ns = EPOCH_S * SECOND
    fold = counted_fold(
        tensor=0.4, intervals=intervals, seconds=seconds, start_s=PROLOG_S, wall_offset_ns=offset_ns
    ).state()
    gpus = (
        GpuState(
            position=0,
            uuid="GPU-0",
            gpu_model="NVIDIA H100 80GB HBM3",
            mapped_by="plain_order",
            sm_count=132,
            sm_share_ratio=sm_share_ratio,
            reason="short",
            fold=json.loads(json.dumps(fold)),
        ),
        GpuState(position=1, reason="unmapped", mapped_by="gres_file"),
    )
    checkpoint = Checkpoint(
        saved_ns=round(saved_s * SECOND),
        wall_offset_ns=offset_ns,
        interval_seconds=seconds,
        refresh_seconds=0.1,
        gpus=gpus[:gpu_count],
        health=SamplerHealth(tick_count=intervals, source="nvml"),
    )
    spool.write_checkpoint(tag, encode_checkpoint(checkpoint))
