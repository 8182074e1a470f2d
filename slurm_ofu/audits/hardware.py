"""Which GPUs and nodes lag their siblings, over many jobs.

In each job a GPU is held against the median of the others on its node (where it is alone there, against those
of the other nodes), and a node, by its GPUs' median, against the other nodes. What counts is the median over
the jobs, and that it lagged in so many of them that chance does not do it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from slurm_ofu.audits.eligible import heaviest, is_excluded, run_order, runtime_seconds, worst_runs
from slurm_ofu.audits.hardware_series import FIGURES, AllSeries, Compared, Figure, Series
from slurm_ofu.figures.lags import Lag, lasting_lag, pooled_ratio
from slurm_ofu.values import (
    AuditConfig,
    AuditEntry,
    AuditResult,
    AuditValue,
    Goals,
    GpuTotals,
    RunGpu,
    RunRow,
    UsageRow,
)

#: Users in whose jobs a GPU must have done less than its siblings: one user's rank 0 may do less by design.
LEAST_USERS: Final = 3
_OF_GPUS: Final[dict[Figure, str]] = {"clock": "gpu_clock", "thermal": "gpu_thermal", "ofu": "gpu_ofu"}
_OF_NODES: Final[dict[Figure, str]] = {"clock": "node_clock", "thermal": "node_thermal", "ofu": "node_ofu"}
_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspect:
    """One GPU whose counters contradicted each other, in these jobs."""

    node_name: str
    totals: GpuTotals
    rows: tuple[UsageRow, ...]
    allocated_seconds: float


def hardware(
    runs: Sequence[UsageRow],
    gpus: Mapping[int, Sequence[RunGpu]],
    settings: AuditConfig,
    goals: Goals,
) -> AuditResult:
    """GPUs and nodes that lag by clock, by the time that heat slowed them down, or by OFU, and suspect GPUs.

    Kinds: gpu_clock, gpu_thermal, gpu_ofu, node_clock, node_thermal, node_ofu, gpu_suspect; of one GPU or
    node the surest of these three. OFU alone counts where it lags in the jobs of several users, and by
    more than other GPUs at the same position do: the work of a rank may be less by design. The weight is
    what all GPUs of its jobs lose if they wait for it. Goals play no part.
    """
    judged, left_out = _judged(runs, settings)
    series = AllSeries()
    for run, row in judged:
        series.add(row, gpus.get(run.run_id, ()))
    expected = _by_position(series.gpus.values())
    found = [
        *(entry for one in series.gpus.values() for entry in _lagging(one, settings, expected)),
        *(entry for one in series.nodes.values() for entry in _lagging(one, settings, {})),
        *(_suspect_entry(suspect) for suspect in _suspects(judged, gpus)),
    ]
    entries, below = heaviest(found, settings)
    return AuditResult(
        audit="hardware",
        entries=entries,
        examined_count=sum(len(one.jobs) >= settings.hardware_jobs for one in series.gpus.values()),
        left_out=left_out,
        summary={
            "few_jobs_gpu_count": sum(len(one.jobs) < settings.hardware_jobs for one in series.gpus.values()),
            "node_count": sum(len(one.jobs) >= settings.hardware_jobs for one in series.nodes.values()),
            **below,
        },
    )


def _judged(
    runs: Iterable[UsageRow], settings: AuditConfig
) -> tuple[list[tuple[RunRow, UsageRow]], Mapping[str, int]]:
    """The runs, oldest first. Of one with doubtful GPUs the others are looked at."""
    left_out: Counter[str] = Counter()
    kept = []
    for row in runs:
        run = row.run
        if run is None or is_excluded(run, settings):
            left_out["excluded"] += 1
        elif (seconds := runtime_seconds(run)) is not None and seconds < settings.minimum_seconds:
            left_out["short"] += 1
        else:
            kept.append((run, row))
    kept.sort(key=lambda pair: (run_order(pair[0])[1], run_order(pair[0])))
    return kept, dict(sorted(left_out.items()))


def _by_position(all_gpus: Iterable[Series]) -> Mapping[int, float]:
    """How far the usual GPU at a position lags by OFU: at 0 often lies a rank that does other things too."""
    usual: dict[int, list[float]] = defaultdict(list)
    for series in all_gpus:
        known = [lag for job in series.jobs if (lag := job.ofu) is not None]
        if known and series.position is not None:
            usual[series.position].append(median(known))
    return {position: max(0.0, median(own)) for position, own in usual.items() if len(own) > 1}


def _lagging(series: Series, settings: AuditConfig, expected: Mapping[int, float]) -> Iterator[AuditEntry]:
    for figure in FIGURES:
        usual = expected.get(series.position, 0.0) if series.position is not None else 0.0
        jobs = [
            (behind - (usual if figure == "ofu" else 0.0), job)
            for job in series.jobs
            if (behind := job.lag(figure)) is not None
        ]
        lag = lasting_lag([behind for behind, _ in jobs], settings.hardware_lag_ratio, settings.hardware_jobs)
        if lag is None or (figure == "ofu" and not _of_several_users(jobs, settings)):
            continue
        yield _entry(series, figure, lag, jobs)
        return


def _of_several_users(jobs: Iterable[tuple[float, Compared]], settings: AuditConfig) -> bool:
    """Whether it lags in the jobs of several users, each by the median of theirs."""
    by_user: dict[str, list[float]] = defaultdict(list)
    for lag, job in jobs:
        if job.user is not None:
            by_user[job.user].append(lag)
    usual = [median(lags) for lags in by_user.values()]
    lagging = sum(lag >= settings.hardware_lag_ratio for lag in usual)
    return lagging >= LEAST_USERS and 2 * lagging > len(usual)


def _entry(series: Series, figure: Figure, lag: Lag, jobs: Sequence[tuple[float, Compared]]) -> AuditEntry:
    kinds = _OF_NODES if series.position is None else _OF_GPUS
    weighed = [(max(0.0, behind) * job.row.sums.ofu_covered_seconds, job.row) for behind, job in jobs]
    figures: dict[str, AuditValue] = {
        "lag_ratio": lag.lag_ratio,
        "lagging_job_count": lag.lagging_count,
        "job_count": lag.count,
        "user_count": len({job.user for _, job in jobs if job.user is not None}),
        "chance_ratio": lag.chance_ratio,
        **{f"{other}_lag_ratio": _usual(series, other) for other in FIGURES if other != figure},
        "active_clock_ratio": pooled_ratio(
            (gpu.tensor_ref_seconds, gpu.tensor_active_seconds)
            for gpu in series.own
            if gpu.tensor_active_seconds is not None
        ),
        "throttled_thermal_ratio": pooled_ratio(
            (gpu.throttled_thermal_seconds, gpu.throttle_covered_seconds) for gpu in series.own
        ),
        "throttled_power_ratio": pooled_ratio(
            (gpu.throttled_power_seconds, gpu.throttle_covered_seconds) for gpu in series.own
        ),
        **_place(series.node_name, series.position, series.uuid),
    }
    return AuditEntry(
        audit="hardware",
        kind=kinds[figure],
        subject=series.place,
        weight_gpu_hours=sum(weight for weight, _ in weighed) / _SECONDS_PER_HOUR,
        figures=figures,
        gpu_model=series.gpu_model,
        runs=worst_runs(weighed),
    )


def _usual(series: Series, figure: Figure) -> float | None:
    known = [lag for job in series.jobs if (lag := job.lag(figure)) is not None]
    return median(known) if known else None


def _place(node_name: str, position: int | None, uuid: str | None) -> dict[str, AuditValue]:
    return {"node": node_name, "position": position, "uuid": uuid}


def _suspects(
    judged: Iterable[tuple[RunRow, UsageRow]], gpus: Mapping[int, Sequence[RunGpu]]
) -> Iterator[_Suspect]:
    found: dict[str, list[tuple[RunGpu, UsageRow]]] = defaultdict(list)
    for run, row in judged:
        for gpu in gpus.get(run.run_id, ()):
            if gpu.totals.reason == "suspect":
                found[gpu.totals.uuid or f"{gpu.node_name}:{gpu.totals.position}"].append((gpu, row))
    for jobs in found.values():
        last = jobs[-1][0]
        yield _Suspect(
            node_name=last.node_name,
            totals=last.totals,
            rows=tuple(row for _, row in jobs),
            allocated_seconds=sum(gpu.totals.allocated_seconds or 0.0 for gpu, _ in jobs),
        )


def _suspect_entry(suspect: _Suspect) -> AuditEntry:
    """Its weight is the time of which there is no figure."""
    runs = [row.run for row in suspect.rows if row.run is not None]
    return AuditEntry(
        audit="hardware",
        kind="gpu_suspect",
        subject=f"{suspect.node_name}:{suspect.totals.position}",
        weight_gpu_hours=suspect.allocated_seconds / _SECONDS_PER_HOUR,
        figures={
            "job_count": len(suspect.rows),
            "user_count": len({run.user for run in runs if run.user is not None}),
            "last_epoch_s": max(
                (run.end_epoch_s for run in runs if run.end_epoch_s is not None), default=None
            ),
            **_place(suspect.node_name, suspect.totals.position, suspect.totals.uuid),
        },
        gpu_model=suspect.totals.gpu_model,
        runs=tuple(reversed(runs))[:5],
    )
