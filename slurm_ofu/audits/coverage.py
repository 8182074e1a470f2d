"""Where the GPU time is that nobody measured, and why: what operators can mend."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slurm_ofu.audits.eligible import LeftOut, heaviest, is_excluded, judged, worst_runs
from slurm_ofu.audits.gaps import Gap, gaps, run_reason, unmeasured_seconds
from slurm_ofu.figures import figures, pool
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, Figures, Goals, RunGpu, UsageRow

#: Nobody's fault, on a node as in a partition.
_NO_FAULT = ("short", "opted_out", "not_charged")
_NOT_KNOWN = "unknown"
_DUST_SECONDS = 1e-6
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A partition, or a node, with its gaps by reason."""

    kind: str
    name: str
    its: Figures
    gaps: Mapping[str, Sequence[Gap]]


def coverage(
    runs: Sequence[UsageRow],
    nodes: Sequence[UsageRow],
    settings: AuditConfig,
    goals: Goals,
    *,
    gpus: Mapping[int, Sequence[RunGpu]] | None = None,
) -> AuditResult:
    """Entries of the kinds ``partition`` and ``node``, one for each reason: GPU-hours without an OFU.

    Both are of the same gaps of runs, each for the reason of its own GPUs: those of a run on two nodes of
    which one was not measured do not count for the other. A partition or node is listed where less than
    ``coverage_ratio`` of its GPU time has an OFU. Runs that opted out, and those that were too short, are
    nobody's fault. How long a node was held is of all runs on it.
    """
    those = judged(runs, settings, _why_not)
    by_run = {} if gpus is None else gpus
    its_gaps = [
        gap for row in those.runs for gap in gaps(row, by_run.get(row.run.run_id, ()) if row.run else ())
    ]
    places = [*_partitions(those.runs, its_gaps), *_nodes(nodes, its_gaps)]
    kept, below = heaviest((entry for place in places for entry in _entries(place, settings)), settings)
    its = figures(pool(row.sums for row in those.runs))
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
    return "short" if run_reason(row) == "short" else None


def _partitions(runs: Sequence[UsageRow], its_gaps: Iterable[Gap]) -> list[_Place]:
    rows: dict[str, list[UsageRow]] = defaultdict(list)
    for row in runs:
        rows[_partition(row)].append(row)
    by_name = _by_reason((_partition(gap.row), gap) for gap in its_gaps)
    return [
        _Place(
            kind="partition",
            name=name,
            its=figures(pool(row.sums for row in mine)),
            gaps=by_name.get(name, {}),
        )
        for name, mine in rows.items()
    ]


def _nodes(nodes: Sequence[UsageRow], its_gaps: Iterable[Gap]) -> list[_Place]:
    """A node of which no run is known to have a gap says its own worst reason."""
    by_name = _by_reason((gap.node_name, gap) for gap in its_gaps if gap.node_name is not None)
    places = []
    for row in nodes:
        if row.group is None:
            continue
        its = figures(row.sums)
        reason = run_reason(row)
        own = {reason: [Gap(row=row, node_name=row.group, reason=reason, seconds=unmeasured_seconds(row))]}
        alone = own if set(its.reasons) - {"ok", *_NO_FAULT} else {}
        places.append(_Place(kind="node", name=row.group, its=its, gaps=by_name.get(row.group, alone)))
    return places


def _partition(row: UsageRow) -> str:
    return _NOT_KNOWN if row.run is None or row.run.partition is None else row.run.partition


def _by_reason(named: Iterable[tuple[str, Gap]]) -> dict[str, dict[str, list[Gap]]]:
    by_both: dict[str, dict[str, list[Gap]]] = defaultdict(lambda: defaultdict(list))
    for name, gap in named:
        if gap.seconds > _DUST_SECONDS:
            by_both[name][gap.reason].append(gap)
    return by_both


def _entries(place: _Place, settings: AuditConfig) -> list[AuditEntry]:
    """An entry for each reason for which time of it was not measured."""
    share = _share(place.its)
    if share is None or share >= settings.coverage_ratio:
        return []
    return [
        _entry(place, reason, its_gaps, share)
        for reason, its_gaps in place.gaps.items()
        if reason not in _NO_FAULT
    ]


def _entry(place: _Place, reason: str, its_gaps: Sequence[Gap], share: float) -> AuditEntry:
    """Of the GPU-hours of a partition's entry only those of the runs with the reason are the entry's."""
    rows = {id(gap.row): gap.row for gap in its_gaps}
    seconds: dict[int, float] = defaultdict(float)
    for gap in its_gaps:
        seconds[id(gap.row)] += gap.seconds
    hours = sum(seconds.values()) / _HOUR
    run_count = sum(row.sums.run_count for row in rows.values())
    return AuditEntry(
        audit="coverage",
        kind=place.kind,
        subject=f"{place.name}: {reason}",
        partition=place.name if place.kind == "partition" else None,
        weight_gpu_hours=hours,
        figures={
            "gpu_hours_unmeasured": hours,
            "reason": reason,
            "gpu_hours": place.its.gpu_hours,
            "run_count": run_count,
            "measured_ratio": share,
            **({"node": place.name} if place.kind == "node" else {}),
        },
        gpu_model=place.its.gpu_model if place.kind == "node" else None,
        runs=worst_runs((seconds[key], row) for key, row in rows.items()),
    )


def _share(its: Figures) -> float | None:
    """How much of the GPU time has an OFU: without one that is none of it, however much was measured."""
    if its.gpu_hours is None or its.gpu_hours <= 0:
        return None
    return min(1.0, its.gpu_hours_measured / its.gpu_hours)
