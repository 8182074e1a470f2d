"""Who is judged: nobody is blamed for a figure that is missing, doubtful or not his."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from slurm_ofu.figures.work import work_kind
from slurm_ofu.values import AuditConfig, AuditEntry, AuditName, RunRow, UsageRow

LeftOut = Literal[
    "excluded",  # by its user, account, QOS or partition
    "opted_out",
    "suspect",  # the counters contradict each other
    "shared",  # other jobs' work is in the figure
    "short",
    "unmeasured",
    "low_coverage",  # the figure speaks for too little of the run
    "non_tensor",  # busy without tensor cores: neither idle nor wasteful
    "unknown_work",  # it might be that
    "suspended",  # it goes on, and does nothing because Slurm has stopped it
    "stale",  # it goes on, and was not heard of for long
    "one_gpu",  # there are no others to compare it to
]
WhyNot = Callable[[UsageRow, AuditConfig], LeftOut | None]
#: Reasons of a run's GPUs for which it is not judged; a run that was partly so is not either.
_DOUBTFUL: tuple[Literal["opted_out", "suspect", "shared", "short"], ...] = (
    *("opted_out", "suspect", "shared", "short"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The runs that are judged, in the order in which they came, and why how many others are not."""

    runs: tuple[UsageRow, ...]
    left_out: Mapping[str, int]


def judged(runs: Iterable[UsageRow], settings: AuditConfig, why_not: WhyNot) -> Judged:
    """Sort out the runs that ``why_not`` gives a reason for."""
    left_out: Counter[str] = Counter()
    kept = []
    for row in runs:
        reason = why_not(row, settings)
        if reason is None:
            kept.append(row)
        else:
            left_out[reason] += 1
    return Judged(runs=tuple(kept), left_out=dict(sorted(left_out.items())))


def not_judged(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
    """What goes for every audit."""
    run = row.run
    if run is None or is_excluded(run, settings):
        return "excluded"
    if is_stopped(run):
        return "suspended"
    doubts = (reason for reason in _DOUBTFUL if reason in row.sums.reasons)
    if doubt := next(doubts, None):
        return doubt
    seconds = runtime_seconds(run)
    return "short" if seconds is not None and seconds < settings.minimum_seconds else None


def no_ofu(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
    """Not judged, or without an OFU that speaks for the run."""
    return not_judged(row, settings) or _not_covered(
        row,
        settings,
        None if row.sums.tensor_ref_seconds is None else row.sums.ofu_covered_seconds,
    )


def not_ranked(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
    """The same, or of a kind of work whose OFU says nothing against it."""
    if reason := no_ofu(row, settings):
        return reason
    if row.run is not None and row.run.running and (row.run.suspended_seconds or 0.0) > 0:
        return "suspended"  # how much of its idle time that was is known at its end
    kind = work_kind(row.sums)
    if kind == "unknown":
        return "unknown_work"
    return "non_tensor" if kind == "non_tensor" else None


def no_idle(row: UsageRow, settings: AuditConfig) -> LeftOut | None:
    """Not judged, or not known for enough of its time whether it was idle."""
    return not_judged(row, settings) or _not_covered(
        row, settings, None if row.sums.idle_seconds is None else row.sums.idle_covered_seconds
    )


def is_excluded(run: RunRow, settings: AuditConfig) -> bool:
    """By the site's lists; a name that is not known is on none."""
    return (
        run.user in settings.exclude_users
        or run.account in settings.exclude_accounts
        or run.qos in settings.exclude_qos
        or run.partition in settings.exclude_partitions
    )


def is_stopped(run: RunRow) -> bool:
    """Whether Slurm has stopped a run that goes on: that it does nothing is not its doing."""
    return run.running and run.state in ("SUSPENDED", "STOPPED")


def runtime_seconds(run: RunRow) -> float | None:
    """How long the whole run took, or has taken so far; ``None`` where its times are not known."""
    if run.elapsed_seconds is not None and not run.running:
        return run.elapsed_seconds
    if run.start_epoch_s is None or run.end_epoch_s is None:
        return None
    return run.end_epoch_s - run.start_epoch_s


def heaviest(
    entries: Iterable[AuditEntry], settings: AuditConfig
) -> tuple[tuple[AuditEntry, ...], dict[str, int]]:
    """The entries with enough at stake, the most first, and ``below_minimum_count`` for the summary."""
    everything = tuple(entries)
    kept = [entry for entry in everything if entry.weight_gpu_hours >= settings.minimum_gpu_hours]
    kept.sort(key=_entry_order)
    return tuple(kept), {"below_minimum_count": len(everything) - len(kept)}


def worst_runs(weighed: Iterable[tuple[float, UsageRow]], *, most: int = 5) -> tuple[RunRow, ...]:
    """The runs with the greatest weights, those of nobody's left out; the oldest first among equals."""
    ordered = sorted(
        ((weight, row.run) for weight, row in weighed if row.run is not None and weight > 0),
        key=lambda pair: (-pair[0], *run_order(pair[1])),
    )
    return tuple(run for _, run in ordered[:most])


def run_entry(audit: AuditName, kind: str, row: UsageRow, weight_gpu_hours: float) -> AuditEntry:
    """An entry about one run, without figures yet. ``subject`` is the raw job id."""
    run = row.run
    models = row.sums.gpu_models
    return AuditEntry(
        audit=audit,
        kind=kind,
        subject="" if run is None else str(run.job_id),
        weight_gpu_hours=weight_gpu_hours,
        figures={},
        user=None if run is None else run.user,
        account=None if run is None else run.account,
        partition=None if run is None else run.partition,
        gpu_model=models[0] if len(models) == 1 else "mixed" if models else None,
        runs=() if run is None else (run,),
    )


def _entry_order(entry: AuditEntry) -> tuple[float, str, str, list[tuple[str, float, int, int, int]]]:
    return (-entry.weight_gpu_hours, entry.subject, entry.kind, [run_order(run) for run in entry.runs])


def run_order(run: RunRow) -> tuple[str, float, int, int, int]:
    """An order of runs that does not depend on how they came."""
    start = float("-inf") if run.start_epoch_s is None else run.start_epoch_s
    return (run.cluster, start, run.job_id, run.restart_count, run.run_id)


def _not_covered(row: UsageRow, settings: AuditConfig, covered_seconds: float | None) -> LeftOut | None:
    allocated = row.sums.allocated_seconds
    if covered_seconds is None or covered_seconds <= 0 or allocated is None or allocated <= 0:
        return "unmeasured"
    return "low_coverage" if covered_seconds < settings.minimum_coverage_ratio * allocated else None
