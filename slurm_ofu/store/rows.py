"""A node's record as rows of the database, and rows back as values. Pure."""

import json
import math
import zlib
from dataclasses import fields
from typing import Any, Final, NamedTuple

from slurm_ofu.errors import StoreError
from slurm_ofu.values import GpuTotals, NodeRecord, QuarterSums, SamplerHealth, Timeline

Scalar = str | int | float | None
Row = tuple[Scalar, ...]
#: Of two records of one run and node the greater one is kept, whichever came first.
Quality = tuple[bool, bool, bool, bool, float, float, int]

#: The columns of run_gpu that are fields of GpuTotals by the same name.
GPU_FIELDS: Final = tuple(item.name for item in fields(GpuTotals) if item.name != "timeline")
HEALTH_FIELDS: Final = tuple(item.name for item in fields(SamplerHealth))
QUARTER_FIELDS: Final = tuple(item.name for item in fields(QuarterSums))

NODE_COLUMNS: Final = (
    *("run_id", "node_name", "reason", "epilog_restart_count", "epilog_sluid"),
    *("gpu_count", "gpu_count_assumed"),
    *("allocated_seconds", "allocated_seconds_assumed", "assumed_gpu_seconds"),
    *("start_epoch_s", "end_epoch_s"),
    *HEALTH_FIELDS,
    *("software_version", "backfilled", "interim", "fingerprint"),
)


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


INSERT_NODE: Final = _insert("run_node", NODE_COLUMNS)
INSERT_GPU: Final = _insert("run_gpu", ("run_id", "node_name", *GPU_FIELDS))
INSERT_TIMELINE: Final = _insert("gpu_timeline", ("run_id", "node_name", "position", "timeline_json"))
INSERT_QUARTER: Final = _insert("quarter_hour", ("run_id", "node_name", *QUARTER_FIELDS))


class NodeRows(NamedTuple):
    """The rows of one record, ready for executemany with the INSERTs above."""

    node: Row
    gpus: list[Row]
    timelines: list[Row]
    quarters: list[Row]
    quality: Quality


def node_rows(run_id: int, record: NodeRecord) -> NodeRows:
    """Every row of a record but that of its run. Raises StoreError for a number that is not finite."""
    key: Row = (run_id, record.node_name)
    gpus = [_checked(key + tuple(getattr(gpu, name) for name in GPU_FIELDS)) for gpu in record.gpus]
    timelines: list[Row] = [
        (*key, gpu.position, timeline_json(gpu.timeline)) for gpu in record.gpus if gpu.timeline is not None
    ]
    quarters = [
        _checked(key + tuple(getattr(quarter, name) for name in QUARTER_FIELDS))
        for quarter in record.quarters
    ]
    node = _checked(_node_row(run_id, record))
    everything = [row[1:] for rows in ([node], gpus, timelines, quarters) for row in rows]
    fingerprint = zlib.crc32(repr(everything).encode())
    return NodeRows(
        node=(*node, fingerprint),
        gpus=gpus,
        timelines=timelines,
        quarters=quarters,
        quality=quality_of(
            backfilled=record.backfilled,
            interim=record.interim,
            certain=record.job.restart_certain,
            reason=record.reason,
            covered_seconds=[gpu.covered_seconds for gpu in record.gpus],
            end_epoch_s=record.end_epoch_s,
            fingerprint=fingerprint,
        ),
    )


def _node_row(run_id: int, record: NodeRecord) -> Row:
    gpu_count = max(len(record.gpus), len(record.job.gpu_positions))
    unaccounted = gpu_count - sum(gpu.allocated_seconds is not None for gpu in record.gpus)
    allocated = record.allocated_seconds
    key, certain = record.job.key, record.job.restart_certain
    return (
        *(run_id, record.node_name, record.reason),
        *((None, None) if certain else (key.restart_count, key.sluid)),
        *(gpu_count, 0),
        *(allocated, int(allocated is None)),
        unaccounted * allocated if unaccounted > 0 and allocated is not None else None,
        *(record.start_epoch_s, record.end_epoch_s),
        *(getattr(record.health, name) for name in HEALTH_FIELDS),
        record.software_version,
        int(record.backfilled),
        int(record.interim),
    )


def quality_of(
    *,
    backfilled: bool,
    interim: bool,
    certain: bool,
    reason: str,
    covered_seconds: list[float],
    end_epoch_s: float,
    fingerprint: int,
) -> Quality:
    """The node's own word beats what was made of stored samples; a prolog's beats an epilog's; what is said
    at the end beats what was said before; then more covered seconds win; then the later record. Of what was
    said before the end the latest wins: a GPU that came to be shared has fewer covered seconds than it had.

    The fingerprint decides where all that is the same, so that the order of arrival does not.
    """
    covered, end = math.fsum(covered_seconds), end_epoch_s
    return (
        not backfilled,
        certain,
        reason != "not_started",
        not interim,
        *((end, covered) if interim else (covered, end)),
        fingerprint,
    )


def _checked(row: Row) -> Row:
    """The row with undecodable bytes in its texts replaced; SQLite would turn a NaN into NULL."""
    for value in row:
        if isinstance(value, float) and not math.isfinite(value):
            raise StoreError(f"not a finite number: {value!r} in {row!r}")
    return tuple(clean_text(value) if isinstance(value, str) else value for value in row)


def clean_text(text: str) -> str:
    """The text, with what UTF-8 cannot hold as "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def timeline_json(timeline: Timeline) -> str:
    """``[start_epoch_s, bucket_seconds, [[tensor_ref_seconds, covered_seconds], …]]``, six digits."""
    buckets = [[_six_digits(tensor), _six_digits(covered)] for tensor, covered in timeline.buckets]
    whole = [timeline.start_epoch_s, timeline.bucket_seconds, buckets]
    try:
        return json.dumps(whole, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise StoreError(f"not a finite number in a timeline: {timeline!r}") from error


def _six_digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def timeline_from_json(text: str | None) -> Timeline | None:
    """The reverse of :func:`timeline_json`."""
    if text is None:
        return None
    start, bucket_seconds, buckets = json.loads(text)
    return Timeline(
        start_epoch_s=start,
        bucket_seconds=bucket_seconds,
        buckets=tuple((tensor, covered) for tensor, covered in buckets),
    )


def gpu_from_row(row: dict[str, Any]) -> GpuTotals:
    """A row of run_gpu, with ``timeline_json`` beside its columns."""
    return GpuTotals(
        **{name: row[name] for name in GPU_FIELDS}, timeline=timeline_from_json(row["timeline_json"])
    )
