"""What reports read: sums straight from the accounting database, and their ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slurm_ofu.values.jobs import Claim
from slurm_ofu.values.totals import GpuTotals, SamplerHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSums:
    """Sums over any set of GPU rows, straight from the accounting database. Nothing is divided yet."""

    run_count: int
    gpu_count: float  # GPUs allocated, those assumed of silent nodes included
    gpu_count_unknown_time: float  # of these, how many allocated_seconds leaves out
    allocated_seconds: float | None  # None: no row knows
    covered_seconds: float
    ofu_covered_seconds: float  # covered seconds of GPUs that have an OFU
    ofu_tensor_active_seconds: float | None  # their tensor activity
    tensor_active_seconds: float | None
    tensor_ref_seconds: float | None
    tensor_ref_variance: float | None  # squared GPU-seconds (GPUs add linearly, runs in quadrature)
    tensor_ref_variance_per_degree: float | None  # sum of squared variances over their degrees
    tpa_covered_seconds: float
    sm_active_seconds: float | None
    sm_active_covered_seconds: float
    energy_joules: float | None
    estimators: tuple[str, ...]
    reasons: tuple[str, ...]
    gpu_models: tuple[str, ...]
    # By the minute, each numerator with the seconds that it is known over.
    idle_seconds: float | None = None
    idle_covered_seconds: float = 0.0
    idle_tail_seconds: float | None = None  # of the idle ones, those up to the runs' ends
    non_tensor_seconds: float | None = None
    non_tensor_covered_seconds: float = 0.0
    peak_tensor_ref_seconds: float | None = None  # of each GPU's busiest five minutes
    peak_covered_seconds: float = 0.0
    throttled_power_seconds: float | None = None
    throttled_thermal_seconds: float | None = None
    throttle_covered_seconds: float = 0.0
    held_suspended_seconds: float | None = None  # held by suspended jobs: in none of the others
    # Against the goals of their partitions, GPU by GPU (metric.md 7): None: no run is ranked.
    lost_seconds: float | None = None
    ranked_seconds: float = 0.0  # measured GPU-seconds of the runs that it is about
    # Runs by OFU, see figures.bands; () stands for none in any. With the two below they add up to run_count.
    band_run_counts: tuple[int, ...] = ()
    non_tensor_run_count: int = 0  # busy, and without tensor work: in no band
    unmeasured_run_count: int = 0  # without an OFU
    running_run_count: int = 0  # of run_count, those that go on
    prorated_run_count: int = 0  # of run_count, those cut where nothing was kept: by time alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a report shows of :class:`UsageSums`: the ratios, each with its error and coverage."""

    run_count: int
    gpu_count: float
    gpu_count_unknown_time: float  # of these, how many gpu_hours and coverage_ratio leave out
    gpu_hours: float | None
    gpu_hours_measured: float  # those that the OFU speaks for
    gpu_hours_unmeasured: float | None
    ofu_ratio: float | None
    ofu_error_pp: float | None  # half-width of the 95 % interval, percentage points
    tpa_mean_ratio: float | None
    active_clock_ratio: float | None
    coverage_ratio: float | None
    sm_active_ratio: float | None
    energy_joules: float | None
    estimator: str | None  # one of Estimator, or "mixed"
    reason: str | None  # why there is no figure, or what qualifies it; "ok"
    reasons: tuple[str, ...]  # all there are, the most telling first
    gpu_model: str | None  # or "mixed"
    idle_gpu_hours: float | None
    idle_judged_gpu_hours: float  # those of which it is known whether they were idle
    idle_tail_gpu_hours: float | None  # of the idle ones, those up to the runs' ends without a break
    non_tensor_gpu_hours: float | None  # busy without tensor work
    non_tensor_judged_gpu_hours: float  # those of which that is known
    peak_ofu_ratio: float | None  # over the busiest five minutes of each GPU
    throttled_power_gpu_hours: float | None
    throttled_thermal_gpu_hours: float | None
    throttle_known_gpu_hours: float
    held_suspended_gpu_hours: float | None  # held by suspended jobs: in none of the others
    lost_gpu_hours: float | None  # measured, below the goal; None: no run is ranked
    ranked_gpu_hours: float  # measured GPU-hours of the runs that it is about
    band_run_counts: tuple[int, ...]  # runs in each band of OFU, see figures.bands
    non_tensor_run_count: int
    unmeasured_run_count: int
    running_run_count: int
    prorated_run_count: int
    work_kind: str | None  # one of figures.work.WorkKind, or "mixed"; None: no runs


#: What runs are grouped by where they are kept.
StoredGroup = Literal["job", "user", "account", "partition", "qos", "node", "gpu-model", "job-name"]
#: What a report is by: time is cut in the reader's time zone.
GroupBy = Literal[StoredGroup, "month", "day", "hour"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which runs a report is about: those with any part in start <= t < end; () selects everything."""

    start_epoch_s: float | None = None
    end_epoch_s: float | None = None
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    job_names: tuple[str, ...] = ()
    node_names: tuple[str, ...] = ()  # runs that had any of them
    states: tuple[str, ...] = ()  # Slurm's long names, as COMPLETED; RUNNING: those that go on
    job_ids: tuple[int, ...] = ()  # raw ids, and those of whole arrays and heterogeneous jobs
    array_tasks: tuple[tuple[int, int], ...] = ()  # (array job id, task id), as in 123_4
    het_components: tuple[tuple[int, int], ...] = ()  # (leader's job id, offset), as in 123+1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run as the accounting database knows it; ``None`` is unknown."""

    run_id: int
    cluster: str
    job_id: int
    restart_count: int
    sluid: str | None
    user: str | None
    account: str | None
    partition: str | None
    job_name: str | None
    state: str | None
    node_list: str | None
    node_count: int | None
    comment: str | None
    exit_code: str | None
    start_epoch_s: float | None  # Slurm's own once its accounting was read, till then the nodes'
    end_epoch_s: float | None
    qos: str | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    submit_epoch_s: float | None = None
    elapsed_seconds: float | None = None  # by Slurm, without suspended_seconds
    suspended_seconds: float | None = None
    alloc_tres: str | None = None  # as Slurm prints it
    slurm_gpu_count: int | None = None  # by Slurm's accounting; None: it does not say
    accounted: bool = False  # Slurm's accounting was read for it
    heard: bool = True  # False: known from Slurm's accounting alone, no node ever spoke of it
    claim: Claim | None = None
    running: bool = False  # it goes on: figures are those so far, and end_epoch_s is when they were made


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node of one run. ``gpu_count_assumed``: never heard from; the mean of its siblings."""

    node_name: str
    reason: str
    gpu_count: float | None
    gpu_count_assumed: bool
    allocated_seconds: float | None
    start_epoch_s: float | None
    end_epoch_s: float | None
    health: SamplerHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU of one run."""

    node_name: str
    totals: GpuTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One line of a report: what it is about, and its sums. ``run`` only when grouped by job."""

    group: str | None  # the user, partition or account; the job id as text when by job
    sums: UsageSums
    run: RunRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Everything kept about one run."""

    row: UsageRow
    nodes: tuple[NodeRow, ...]
    gpus: tuple[GpuRow, ...]
    percentile: Percentile | None = None  # among runs on its GPU model; None: too few, or it is no such run


@dataclass(frozen=True, slots=True, kw_only=True)
class BandCount:
    """Runs of one percent of OFU (band 41: 0.41 <= OFU < 0.42) on one GPU model, and their GPU time."""

    band: int
    run_count: int
    gpu_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """Where a run stands among runs on the same GPU model: the share of their GPU-hours with a lower OFU."""

    ratio: float
    run_count: int  # of the runs that it stands among
    gpu_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGpu:
    """One GPU of one run among many, on the time that Slurm charges; without its time-line."""

    run_id: int
    node_name: str
    totals: GpuTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of rows of Slurm's accounting that were handed to the accounting database."""

    changed: int = 0  # new, or saying something new
    known: int = 0  # there already
    ignored: int = 0  # neither with GPUs nor of a job id that a run has
    refused: int = 0  # not such as the database can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """A run whose row in Slurm's accounting has not come."""

    cluster: str
    job_id: int
    start_epoch_s: float | None
    end_epoch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledRun:
    """A run at which something is amiss between the nodes' records and Slurm's accounting."""

    run_id: int
    job_id: int
    restart_count: int
    user: str | None
    partition: str | None
    state: str | None  # by Slurm's accounting, also of a row that is not over
    start_epoch_s: float | None
    end_epoch_s: float
    gpu_count: float
    allocated_seconds: float | None  # GPU-seconds
    silent_nodes: tuple[str, ...]  # those with GPUs that were never heard from
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    others_rows: bool = False  # Slurm's accounting has rows of its job id that are not its


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredRuns:
    """The runs of one partition with one dominating reason, and how much of their time has an OFU."""

    partition: str | None
    reason: str | None
    run_count: int
    run_count_with_ofu: int
    gpu_count: float
    gpu_count_unknown_time: float  # of these, how many the seconds leave out
    ofu_covered_seconds: float  # GPU-seconds that have an OFU
    unmeasured_seconds: float  # GPU-seconds allocated that have none


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingNode:
    """One node that runs were on: of how many it reported, and when it last did (None: never)."""

    node_name: str
    heard_count: int
    silent_count: int
    last_heard_epoch_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The records of one cluster's nodes against its accounting, over one window."""

    unaccounted: tuple[ReconciledRun, ...]  # heard, over, and not (or not over) in Slurm's accounting
    silent: tuple[ReconciledRun, ...]  # known from Slurm's accounting alone
    incomplete: tuple[ReconciledRun, ...]  # heard from some of their nodes
    endless: tuple[ReconciledRun, ...]  # heard, but no epilog spoke: a node died, or its epilog was lost
    coverage: tuple[CoveredRuns, ...]
    nodes: tuple[ReportingNode, ...]
    accounting_known: bool = True  # False: no row of this cluster was ever read
    run_count_without_slurm_gpus: int = 0  # heard and accounted, and Slurm counts no GPUs of theirs
