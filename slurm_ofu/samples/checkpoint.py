"""What the sampler keeps on disk while it runs: enough to finish the run without it.

A checkpoint is plain JSON under zlib. It outlives the sampler, and an upgrade of the package: its
format number says whether the version that finds it can read it.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from slurm_ofu.errors import StateError
from slurm_ofu.values import Reason, SamplerHealth

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One of the job's GPUs: which it is, and its fold. Without a fold ``reason`` says why."""

    position: int
    uuid: str | None = None
    gpu_model: str | None = None
    mapped_by: str | None = None
    sm_count: int | None = None
    source: str | None = None
    source_note: str | None = None
    mig_profile: str | None = None
    sm_share_ratio: float = 1.0
    reason: Reason | None = None
    fold: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The sampler's state at one instant. ``ended``: it stopped because the job did."""

    saved_ns: int  # CLOCK_BOOTTIME
    wall_offset_ns: int
    interval_seconds: float
    refresh_seconds: float
    gpus: tuple[GpuState, ...]
    health: SamplerHealth = field(default_factory=SamplerHealth)
    ended: bool = False


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes that go to disk."""
    table = {
        "format": FORMAT,
        **_fields(checkpoint),
        "gpus": [_fields(gpu) for gpu in checkpoint.gpus],
        "health": _fields(checkpoint.health),
    }
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode(), 1)


def _fields(value: Any) -> dict[str, Any]:
    """Field → value as it is: ``asdict`` would copy the folds, thousands of numbers."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def decode_checkpoint(data: bytes) -> Checkpoint:
    """The checkpoint in some bytes. Raises StateError."""
    try:
        table = json.loads(zlib.decompress(data))
        if table.pop("format") != FORMAT:
            raise StateError("the checkpoint was written by another version and cannot be read")
        gpus = tuple(GpuState(**gpu) for gpu in table.pop("gpus"))
        return Checkpoint(**{**table, "gpus": gpus, "health": SamplerHealth(**table["health"])})
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StateError(f"not a checkpoint: {error!r}") from error
