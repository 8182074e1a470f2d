"""Audits for programs: JSON with a schema version and units, and CSV, an entry on a line."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from slurm_ofu.reports.as_csv import csv_lines
from slurm_ofu.reports.fields import Value, safe, unit_of
from slurm_ofu.reports.question import Question
from slurm_ofu.reports.run_words import display_job_id
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, Goals, RunRow

#: Grows when a field is removed or changes its meaning; new fields do not count.
SCHEMA_VERSION: Final = 1
_ENTRY_FIELDS: Final = (
    *("audit", "kind", "subject", "user", "account", "partition", "gpu_model", "weight_gpu_hours"),
)
_RUN_FIELDS: Final = (
    *("cluster", "job_id", "restart_count", "user", "job_name", "start_epoch_s", "end_epoch_s", "running"),
)
_SELECTED: Final = ("users", "partitions", "accounts", "clusters", "qos")


def audits_as_json(
    results: Sequence[AuditResult],
    question: Question,
    settings: AuditConfig,
    goals: Goals,
    *,
    generated_at: datetime,
    most: int | None,
    only_check: bool = False,
) -> str:
    """All of them in one document. ``only_check``: what would be looked at, without entries."""
    shown = [_result(result, 0 if only_check else most) for result in results]
    if only_check:
        shown = [{key: value for key, value in one.items() if key in _CHECKED} for one in shown]
    names = {name for result in results for name in (*result.summary, *_names(result.entries))}
    document = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": generated_at.isoformat(timespec="seconds"),
        "query": {
            "start": question.start and question.start.isoformat(timespec="seconds"),
            "end": question.end and question.end.isoformat(timespec="seconds"),
            **{name: [safe(one) for one in getattr(question.selection, name)] for name in _SELECTED},
        },
        "thresholds": {name: _value(value) for name, value in asdict(settings).items()},
        "goals": {"default_ratio": goals.default_ratio, "by_partition": dict(goals.by_partition)},
        "units": {
            name: unit for name in sorted({"weight_gpu_hours", *names}) if (unit := unit_of(name)) is not None
        },
        "audits": shown,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def audit_as_csv(result: AuditResult, *, most: int | None) -> str:
    """One audit's entries; a figure that an entry does not have is empty."""
    entries = _kept(result.entries, most)
    figure_names = list(dict.fromkeys(name for entry in entries for name in entry.figures))
    lines: list[list[Value]] = [[*_ENTRY_FIELDS, *figure_names, "job_ids"]]
    lines += [
        [
            *(safe(getattr(entry, name)) for name in _ENTRY_FIELDS),
            *(safe(entry.figures.get(name)) for name in figure_names),
            [display_job_id(run) for run in entry.runs],
        ]
        for entry in entries
    ]
    return csv_lines(lines)


_CHECKED: Final = ("audit", "examined_count", "left_out")


def _result(result: AuditResult, most: int | None) -> dict[str, Any]:
    return {
        "audit": result.audit,
        "examined_count": result.examined_count,
        "left_out": dict(result.left_out),
        "summary": {name: safe(value) for name, value in result.summary.items()},
        "entry_count": len(result.entries),
        "entries": [_entry(entry) for entry in _kept(result.entries, most)],
    }


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        **{name: safe(getattr(entry, name)) for name in _ENTRY_FIELDS if name != "audit"},
        "figures": {name: safe(value) for name, value in entry.figures.items()},
        "runs": [_run(run) for run in entry.runs],
    }


def _run(run: RunRow) -> dict[str, Any]:
    values: dict[str, Any] = {name: safe(getattr(run, name)) for name in _RUN_FIELDS}
    return {"display_job_id": display_job_id(run), **values}


def _kept(entries: Sequence[AuditEntry], most: int | None) -> Sequence[AuditEntry]:
    """As many of each kind."""
    if most is None:
        return entries
    seen: dict[str, int] = {}
    kept = []
    for entry in entries:
        seen[entry.kind] = seen.get(entry.kind, 0) + 1
        kept += [entry] if seen[entry.kind] <= most else []
    return kept


def _names(entries: Iterable[AuditEntry]) -> set[str]:
    return {name for entry in entries for name in entry.figures}


def _value(value: Any) -> Any:
    return [safe(one) for one in value] if isinstance(value, tuple) else value
