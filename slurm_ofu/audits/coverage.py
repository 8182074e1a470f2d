"""Where the GPU time is that nobody measured, and why: what operators can mend."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ofu.audits.eligible import LeftOut, heaviest, is_excluded, judged, worst_runs
from slurm_ofu.figures import figures, pool
from slurm_ofu.figures.reasons import dominating_reason
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, Figures, Goals, UsageRow, UsageSums

#: Nothing is broken where these are all that there are.
_NO_FAULT = ("ok", "short", "opted_out", "not_charged")
_NOT_KNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The runs of a partition with one reason."""

    reason: str
    runs: Sequence[UsageRow]
    sums: UsageSums


def coverage(
    runs: Sequence[UsageRow],
    nodes: Sequence[UsageRow],
    settings: AuditConfig,
    goals: Goals,
) -> AuditResult:
    """Entries of the kinds ``partition`` (one for each reason) and ``node``: GPU-hours without an OFU.

    A partition or node is listed where less than ``coverage_ratio`` of its GPU time has one. Runs that opted
    out, and those that were too short, are nobody's fault. A node's figures are of all runs on it.
    """
    those = judged(runs, settings, _why_not)
    partitions = _partitions(those.runs)
    found = [
        *(entry for name, groups in partitions.items() for entry in _partition(name, groups, settings)),
        *(entry for row in nodes for entry in _node(row, settings)),
    ]
    kept, below = heaviest(found, settings)
    its = figures(pool(group.sums for groups in partitions.values() for group in groups))
    return AuditResult(
        audit="coverage",
        entries=kept,
        examined_count=len(those.runs),
        left_out=those.left_out,
        summary={
            "measured_ratio": _share(its),
            "gpu_hours": its.gpu_hours,
            "gpu_hours_measured": its.gpu_hours_measured,
            "gpu_hours_unmeasured": its.gpu_hours_unmeasured,
            "gpu_count_unknown_time": its.gpu_count_unknown_time,
            **below,
        },
    )


def _why_not(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
    """By time nobody is too short: a run of minutes should be measured as well."""
    if row.run is None or is_excluded(row.run, settings):
        return "excluded"
    if "opted_out" in row.sums.reasons:
        return "opted_out"
    return "short" if _reason(row) == "short" else None


def _reason(row: UsageRow) -> str:
    """The reason why time of a run is without OFU."""
    silent = row.run is not None and not row.run.heard
    reasons = ("not_delivered",) if silent and not row.sums.reasons else row.sums.reasons
    return dominating_reason(reasons, has_figure=row.sums.tensor_ref_seconds is not None) or _NOT_KNOWN


def _partitions(runs: Sequence[UsageRow]) -> dict[str, list[_Group]]:
    """Each partition's runs by reason, pooled."""
    by_both: dict[tuple[str, str], list[UsageRow]] = defaultdict(list)
    for row in runs:
        partition = None if row.run is None else row.run.partition
        by_both[_NOT_KNOWN if partition is None else partition, _reason(row)].append(row)
    partitions: dict[str, list[_Group]] = defaultdict(list)
    for (name, reason), its_runs in by_both.items():
        sums = pool(row.sums for row in its_runs)
        partitions[name].append(_Group(reason=reason, runs=its_runs, sums=sums))
    return partitions


def _partition(name: str, groups: Sequence[_Group], settings: AuditConfig) -> list[AuditEntry]:
    """An entry for each reason for which time of it was not measured."""
    share = _share(figures(pool(group.sums for group in groups)))
    if share is None or share >= settings.coverage_ratio:
        return []
    entries = [_of_reason(name, group, share) for group in groups if group.reason != "not_charged"]
    return [entry for entry in entries if entry.weight_gpu_hours > 0]


def _of_reason(name: str, group: _Group, share: float) -> AuditEntry:
    its = figures(group.sums)
    hours = its.gpu_hours_unmeasured or 0.0
    return AuditEntry(
        audit="coverage",
        kind="partition",
        subject=f"{name}: {group.reason}",
        partition=name,
        weight_gpu_hours=hours,
        figures={
            "gpu_hours_unmeasured": hours,
            "reason": group.reason,
            "gpu_hours": its.gpu_hours,
            "run_count": its.run_count,
            "measured_ratio": share,
        },
        runs=worst_runs((_unmeasured(row), row) for row in group.runs),
    )


def _node(row: UsageRow, settings: AuditConfig) -> list[AuditEntry]:
    its = figures(row.sums)
    share = _share(its)
    if row.group is None or share is None or share >= settings.coverage_ratio:
        return []
    if all(reason in _NO_FAULT for reason in its.reasons):
        return []
    hours = its.gpu_hours_unmeasured or 0.0
    return [
        AuditEntry(
            audit="coverage",
            kind="node",
            subject=row.group,
            weight_gpu_hours=hours,
            figures={
                "gpu_hours_unmeasured": hours,
                "reason": its.reason,
                "reasons": ",".join(its.reasons),
                "gpu_hours": its.gpu_hours,
                "run_count": its.run_count,
                "measured_ratio": share,
            },
            gpu_model=its.gpu_model,
        )
    ]


def _share(its: Figures) -> float | None:
    """How much of the GPU time has an OFU: without one that is none of it, however much was measured."""
    if its.gpu_hours is None or its.gpu_hours <= 0:
        return None
    return min(1.0, its.gpu_hours_measured / its.gpu_hours)


def _unmeasured(row: UsageRow) -> float:
    return max(0.0, (row.sums.allocated_seconds or 0.0) - row.sums.ofu_covered_seconds)
