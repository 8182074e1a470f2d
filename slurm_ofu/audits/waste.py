"""Who loses the most GPU time: users and accounts with a low pooled OFU, by what their runs lost."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slurm_ofu.audits.eligible import heaviest, is_excluded, judged, not_ranked, worst_runs
from slurm_ofu.figures import figures, pool
from slurm_ofu.figures.work import lost_seconds
from slurm_ofu.values import AuditConfig, AuditEntry, AuditResult, AuditValue, Goals, RunRow, UsageRow

_HOUR = 3600.0
_Of = Callable[[RunRow], str | None]


def waste(runs: Sequence[UsageRow], settings: AuditConfig, goals: Goals) -> AuditResult:
    """Entries of the kinds ``user`` and ``account``. Their figures are pooled over the runs that are judged.

    What a run lost are its measured GPU-hours below its partition's goal; work without tensor cores, and
    what may be that, is not judged. A run whose user is not known counts for nobody.
    """
    those = judged(runs, settings, not_ranked)
    counted = [row for row in runs if row.run is not None and not is_excluded(row.run, settings)]
    entries = [
        *_entries("user", lambda run: run.user, those.runs, counted, settings, goals),
        *_entries("account", lambda run: run.account, those.runs, counted, settings, goals),
    ]
    kept, below = heaviest(entries, settings)
    return AuditResult(
        audit="waste",
        entries=kept,
        examined_count=len(those.runs),
        left_out=those.left_out,
        summary={**_summary(those.runs, goals), **_others(those.runs, settings, goals), **below},
    )


def _summary(runs: Sequence[UsageRow], goals: Goals) -> dict[str, AuditValue]:
    its = figures(pool(row.sums for row in runs))
    users = {row.run.user for row in runs if row.run is not None} - {None}
    return {
        "ofu_ratio": its.ofu_ratio,
        "ofu_error_pp": its.ofu_error_pp,
        "coverage_ratio": its.coverage_ratio,
        "gpu_hours_measured": its.gpu_hours_measured,
        "lost_gpu_hours": math.fsum(_lost_seconds(row, goals) for row in runs) / _HOUR if runs else None,
        "user_count": len(users),
    }


def _others(runs: Sequence[UsageRow], settings: AuditConfig, goals: Goals) -> dict[str, AuditValue]:
    """Users whose OFU is not low enough to be listed, and who lost something all the same."""
    lost = [
        math.fsum(_lost_seconds(row, goals) for row in its_runs)
        for its_runs in _grouped(lambda run: run.user, runs).values()
        if not _is_below(settings.waste_ofu_ratio, its_runs)
    ]
    return {
        "other_user_count": sum(seconds > 0 for seconds in lost),
        "other_lost_gpu_hours": math.fsum(lost) / _HOUR,
    }


def _entries(
    kind: str,
    of: _Of,
    runs: Sequence[UsageRow],
    counted: Sequence[UsageRow],
    settings: AuditConfig,
    goals: Goals,
) -> list[AuditEntry]:
    mine, held = _grouped(of, runs), _held_seconds(of, counted)
    entries = []
    for name, its_runs in mine.items():
        if not _is_below(settings.waste_ofu_ratio, its_runs):
            continue
        ranks: dict[str, AuditValue] = {
            "gpu_hours_rank": 1 + sum(seconds > held[name] for seconds in held.values()),
            f"of_{kind}_count": len(held),
            "not_judged_gpu_hours": max(0.0, held[name] - _allocated(its_runs)) / _HOUR,
        }
        entries.append(_entry(kind, name, its_runs, goals, ranks))
    return entries


def _is_below(ratio: float, runs: Sequence[UsageRow]) -> bool:
    """By the pooled OFU; pooling everything else too is for the few that are listed."""
    tensor = math.fsum(row.sums.tensor_ref_seconds or 0.0 for row in runs)
    return tensor < ratio * math.fsum(row.sums.ofu_covered_seconds for row in runs)


def _entry(
    kind: str, name: str, runs: Sequence[UsageRow], goals: Goals, ranks: Mapping[str, AuditValue]
) -> AuditEntry:
    its = figures(pool(row.sums for row in runs))
    lost = [(_lost_seconds(row, goals), row) for row in runs]
    lost_hours = math.fsum(seconds for seconds, _ in lost) / _HOUR
    idle_hours = math.fsum(min(seconds, row.sums.idle_seconds or 0.0) for seconds, row in lost) / _HOUR
    entry = AuditEntry(
        audit="waste",
        kind=kind,
        subject=name,
        weight_gpu_hours=lost_hours,
        figures={
            "lost_gpu_hours": lost_hours,
            "idle_lost_ratio": idle_hours / lost_hours if lost_hours > 0 else None,
            "ofu_ratio": its.ofu_ratio,
            "ofu_error_pp": its.ofu_error_pp,
            "goal_ratio": _one_goal(runs, goals),
            "coverage_ratio": its.coverage_ratio,
            "gpu_hours": its.gpu_hours,
            "gpu_hours_measured": its.gpu_hours_measured,
            "gpu_hours_unmeasured": its.gpu_hours_unmeasured,
            "run_count": its.run_count,
            **ranks,
        },
        gpu_model=its.gpu_model,
        runs=worst_runs(lost),
    )
    return replace(entry, user=name) if kind == "user" else replace(entry, account=name)


def _grouped(of: _Of, rows: Sequence[UsageRow]) -> dict[str, list[UsageRow]]:
    groups: dict[str, list[UsageRow]] = defaultdict(list)
    for row in rows:
        name = None if row.run is None else of(row.run)
        if name is not None:
            groups[name].append(row)
    return groups


def _held_seconds(of: _Of, rows: Sequence[UsageRow]) -> dict[str, float]:
    """GPU-seconds by name, whatever is known of what they were used for."""
    return {name: _allocated(its) for name, its in _grouped(of, rows).items()}


def _allocated(rows: Sequence[UsageRow]) -> float:
    return math.fsum(row.sums.allocated_seconds or 0.0 for row in rows)


def _lost_seconds(row: UsageRow, goals: Goals) -> float:
    """Where the reader does not say it GPU by GPU, of the run as a whole, which is never more."""
    if row.sums.lost_seconds is not None:
        return row.sums.lost_seconds
    goal = goals.of(None if row.run is None else row.run.partition)
    return lost_seconds(row.sums.ofu_covered_seconds, row.sums.tensor_ref_seconds or 0.0, goal)


def _one_goal(runs: Sequence[UsageRow], goals: Goals) -> float | None:
    """The goal, where it is one and the same for all of them."""
    its = {goals.of(None if row.run is None else row.run.partition) for row in runs}
    return its.pop() if len(its) == 1 else None
