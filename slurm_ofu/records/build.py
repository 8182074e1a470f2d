"""Everything known of one run on one node → its record."""

from collections.abc import Sequence

from slurm_ofu.values import GpuTotals, HookFacts, Job, NodeRecord, QuarterSums, Reason, SamplerHealth

QUARTER_SECONDS = 900


def node_record(
    *,
    job: Job,
    node_name: str,
    prolog: HookFacts | None,
    end_uptime_ns: int | None,
    end_epoch_s: float,
    exit_code: str | None,
    gpus: Sequence[GpuTotals],
    quarters: Sequence[QuarterSums],
    health: SamplerHealth,
    software_version: str,
) -> NodeRecord:
    """The record. Without a prolog it says ``not_started``, and how long the GPUs were held is unknown;
    so it is where nothing says when the run ended (``end_uptime_ns`` is ``None``)."""
    allocated = None
    if prolog is not None and end_uptime_ns is not None:
        allocated = max(0.0, (end_uptime_ns - prolog.uptime_ns) / 1e9)
    return NodeRecord(
        job=job,
        node_name=node_name,
        reason="not_started" if prolog is None else node_reason(gpus),
        start_epoch_s=_start(prolog, end_epoch_s, allocated),
        end_epoch_s=end_epoch_s,
        allocated_seconds=allocated,
        exit_code=exit_code,
        gpus=tuple(gpus),
        quarters=tuple(quarters),
        health=health,
        software_version=software_version,
    )


def _start(prolog: HookFacts | None, end_epoch_s: float, allocated: float | None) -> float | None:
    if prolog is None:
        return None
    return prolog.epoch_s if allocated is None else end_epoch_s - allocated


def node_reason(gpus: Sequence[GpuTotals]) -> Reason:
    """A node's reason, from its GPUs."""
    return reason_of_many([gpu.reason for gpu in gpus])


def reason_of_many(reasons: Sequence[Reason]) -> Reason:
    """``ok`` where any GPU is, else the reason that most of them have (the first such). A record without
    any GPU is of a job that has some, in words that nobody understands: ``unmapped``."""
    if not reasons:
        return "unmapped"
    if "ok" in reasons:
        return "ok"
    return max(reasons, key=reasons.count)


def seconds_per_quarter(start_epoch_s: float, end_epoch_s: float) -> dict[int, float]:
    """UTC quarter hour (epoch // 900) → seconds of start..end inside it."""
    first, last = int(start_epoch_s // QUARTER_SECONDS), int(end_epoch_s // QUARTER_SECONDS)
    parts = {}
    for quarter in range(first, last + 1):
        begin = max(start_epoch_s, quarter * QUARTER_SECONDS)
        finish = min(end_epoch_s, (quarter + 1) * QUARTER_SECONDS)
        if finish > begin:
            parts[quarter] = finish - begin
    return parts
