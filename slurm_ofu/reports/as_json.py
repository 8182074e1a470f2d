"""Reports for programs: JSON with a schema version, units, and the question that was asked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, tzinfo
from typing import Any

from slurm_ofu.figures import figures, gpu_figures, pool, pooled_timeline
from slurm_ofu.reports.fields import claim_values, figure_values, row_values, safe, unit_of
from slurm_ofu.reports.json_findings import finding_values, percentile_values
from slurm_ofu.reports.page_minutes import least_tail_seconds
from slurm_ofu.reports.page_timeline import believed_timelines
from slurm_ofu.reports.question import Question
from slurm_ofu.reports.run_words import sums_of
from slurm_ofu.values import (
    Finding,
    GpuRow,
    GpuTotals,
    GroupBy,
    JobPage,
    NodeRow,
    SamplerHealth,
    UsageRow,
    UsageSums,
)

#: Grows when a field is removed or changes its meaning; new fields do not count.
SCHEMA_VERSION = 2
TIMELINE_BUCKETS = 128
_GPU_FIELDS = tuple(field.name for field in fields(GpuTotals) if field.name != "timeline")
_NODE_FIELDS = tuple(field.name for field in fields(NodeRow) if field.name != "health")
_HEALTH_FIELDS = tuple(field.name for field in fields(SamplerHealth))
_NOT_OF_A_GPU = ("run_count", "gpu_count", "gpu_count_unknown_time", "reasons", "work_kind")


def as_json(
    rows: Sequence[UsageRow],
    question: Question,
    *,
    generated_at: datetime,
    total: UsageSums | None = None,
    worst: Sequence[UsageRow] | None = None,
) -> str:
    """Rows and their total: ``total``, or where that is not said they pooled (``null`` where there are no
    rows); ``worst``: runs to list besides."""
    shown = (_row(row, question.by) for row in rows)
    besides = {} if worst is None else {"worst": [_row(row, "job") for row in worst]}
    if total is None and rows:
        total = pool(sums_of(row) for row in rows)
    return _document(shown, total, question, generated_at, besides)


def pages_as_json(
    pages: Sequence[JobPage],
    question: Question,
    *,
    generated_at: datetime,
    findings: Sequence[Sequence[Finding]] = (),
) -> str:
    """The same document with ``percentile``, ``findings``, ``idle_tail_seconds``, ``nodes``, ``gpus`` and
    ``timeline`` in each row. ``findings``: those of each page."""
    total = pool(sums_of(page.row) for page in pages) if pages else None
    found = findings or [()] * len(pages)
    shown = (_page(page, its, question.zone) for page, its in zip(pages, found, strict=True))
    return _document(shown, total, question, generated_at, {})


def _document(
    shown: Iterable[Mapping[str, Any]],
    total: UsageSums | None,
    question: Question,
    generated_at: datetime,
    besides: Mapping[str, list[dict[str, Any]]],
) -> str:
    """Row by row, since what the text of many rows is made of takes far more memory than the text."""
    names = _names(besides)
    texts = []
    for row in shown:
        names |= _names(row)
        texts.append(_text(row, depth=2))
    document = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": generated_at.isoformat(timespec="seconds"),
        "query": _query(question),
        "units": {name: unit for name in sorted(names) if (unit := unit_of(name)) is not None},
        "rows": None,
        "total": None if total is None else figure_values(figures(total)),
        **besides,
    }
    entries = (
        f'  "{name}": {_list(texts) if name == "rows" else _text(value, depth=1)}'
        for name, value in document.items()
    )
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _list(texts: Sequence[str]) -> str:
    return "[\n    " + ",\n    ".join(texts) + "\n  ]" if texts else "[]"


def _text(value: Any, *, depth: int) -> str:
    """As it stands in the document: no text within holds a line end of its own."""
    return json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n" + "  " * depth)


def _query(question: Question) -> dict[str, Any]:
    selection = question.selection
    return {
        "by": question.by,
        "start": question.start and question.start.isoformat(timespec="seconds"),
        "end": question.end and question.end.isoformat(timespec="seconds"),
        "users": [safe(name) for name in selection.users],
        "partitions": [safe(name) for name in selection.partitions],
        "accounts": [safe(name) for name in selection.accounts],
        "clusters": [safe(name) for name in selection.clusters],
        "qos": [safe(name) for name in selection.qos],
        "job_names": [safe(name) for name in selection.job_names],
        "node_names": [safe(name) for name in selection.node_names],
        "states": [safe(name) for name in selection.states],
        "job_ids": list(selection.job_ids),
        "array_tasks": [f"{array}_{task}" for array, task in selection.array_tasks],
        "het_components": [f"{leader}+{offset}" for leader, offset in selection.het_components],
    }


def _row(row: UsageRow, by: GroupBy) -> dict[str, Any]:
    values: dict[str, Any] = row_values(row, by)
    return values if by != "job" else {**values, "claim": claim_values(row)}


def _page(page: JobPage, found: Sequence[Finding], zone: tzinfo) -> dict[str, Any]:
    return {
        **_row(page.row, "job"),
        "percentile": percentile_values(page.percentile),
        "findings": finding_values(found, page, zone),
        "idle_tail_seconds": safe(least_tail_seconds(page)),
        "nodes": [_node(node) for node in page.nodes],
        "gpus": [_gpu(gpu) for gpu in page.gpus],
        "timeline": _timeline(page.gpus),
    }


def _node(node: NodeRow) -> dict[str, Any]:
    values: dict[str, Any] = {name: safe(getattr(node, name)) for name in _NODE_FIELDS}
    values["health"] = {name: safe(getattr(node.health, name)) for name in _HEALTH_FIELDS}
    return values


def _gpu(gpu: GpuRow) -> dict[str, Any]:
    totals = {name: safe(getattr(gpu.totals, name)) for name in _GPU_FIELDS}
    ratios = {
        name: value
        for name, value in figure_values(gpu_figures(gpu.totals)).items()
        if name not in _NOT_OF_A_GPU
    }
    return {"node_name": safe(gpu.node_name), **ratios, **totals}


def _timeline(gpus: Sequence[GpuRow]) -> dict[str, Any] | None:
    line = pooled_timeline(believed_timelines(gpus), bucket_count=TIMELINE_BUCKETS)
    if line is None:
        return None
    return {
        "start_epoch_s": safe(line.start_epoch_s),
        "bucket_seconds": safe(line.bucket_seconds),
        "ofu_ratios": [safe(ratio) for ratio in line.ofu_ratios],
    }


def _names(values: Iterable[Any] | Mapping[str, Any]) -> set[str]:
    """Every key in the document, at any depth."""
    if isinstance(values, Mapping):
        return set(values) | _names(values.values())
    nested = (value for value in values if isinstance(value, Mapping | list))
    return {name for value in nested for name in _names(value)}
