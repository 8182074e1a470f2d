"""Databases with runs that users are told of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ofu.values import Config, GpuTotals, MailConfig, NodeRecord
from tests.store.databases import make_store
from tests.store.records import START, make_gpu, make_job, make_record

DAY = 86400.0
NOW = START + DAY


def gpu(position: int = 0, *, idle: bool = True, reason: Any = "ok", measured: bool = True) -> GpuTotals:
    """One GPU of an hour: idle all along, or busy."""
    made = make_gpu(
        position,
        reason=reason,
        covered=3600.0 if measured else 0.0,
        tensor_ref=None if not measured else 0.0 if idle else 900.0,
    )
    if not measured:
        return made
    return replace(
        made,
        idle_seconds=3600.0 if idle else 0.0,
        idle_covered_seconds=3600.0,
        non_tensor_seconds=0.0,
        non_tensor_covered_seconds=3600.0,
    )


def run(job_id: int, user: str, *gpus: GpuTotals, days_later: float = 0.0) -> NodeRecord:
    """A run of one hour; idle on two GPUs unless told otherwise."""
    start = START + days_later * DAY
    return make_record(
        make_job(job_id=job_id, user=user), start=start, end=start + 3600.0, gpus=gpus or (gpu(0), gpu(1))
    )


def site(folder: Path, *records: NodeRecord, **mail: Any) -> Config:
    """A configuration, and its database with these runs."""
    path = folder / "ofu.db"
    make_store(path).write(list(records))
    values: dict[str, Any] = {
        "sender": "OFU <ofu@example.org>",
        "domain": "example.org",
        "audits": ("idle", "unused"),
        "server": "127.0.0.1:1",
    }
    return Config(
        path="slurm-ofu.toml",
        database=f"sqlite://{path}",
        database_group=None,
        delivery_wait_seconds=20.0,
        mail=MailConfig(**{**values, **mail}),
    )
