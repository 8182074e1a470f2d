"""The frozen values of slurm-ofu, in the order in which they are made: from top to bottom, the program.

``None`` always means "not measured", never zero. Units are in the names; ratios lie in 0..1 unless
said otherwise. Monotonic times (``*_ns``) are CLOCK_BOOTTIME; ``*_epoch_s`` are wall-clock labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal[
    "ok",
    "short",  # measured, but over less than two intervals
    "no_source",  # no counter source on this GPU
    "unknown_model",  # no reference clock: tensor activity is kept, OFU is absent
    "unmapped",  # which GPU it was is unknown
    "source_lost",  # errors until the end
    "profiling_locked",  # somebody else holds the profiling hardware
    "suspect",  # the counters contradict each other
    "shared",  # several jobs on the GPU
    "sampler_died",  # the prolog ran, and the sampler did not live to the job's end
    "not_started",  # no prolog ran on that node
    "not_delivered",  # the node is in the prolog's node list and was never heard from
    "opted_out",  # the job asked not to be profiled
]
Estimator = Literal["cycles", "sampled", "scraped"]

# --------------------------------------------------------------- what the GPU says


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """One GPU as the counter source sees it. ``index`` is the source's own numbering."""

    index: int
    uuid: str
    minor: int | None = None  # N of /dev/nvidiaN
    pci_bus_id: str | None = None
    gpu_model: str | None = None  # the name the driver prints, unchanged
    sm_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one GPU's counters said at one instant. Without a tensor figure ``fault`` says why.

    The ratios are means from ``since_ns`` (the last good reading) to ``taken_ns``; cycles are cumulative.
    """

    since_ns: int | None
    taken_ns: int
    tensor_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    sm_cycles: float | None = None  # cumulative; per SM or summed over SMs, see integrals.cycles
    mma_cycles: float | None = None  # cumulative; same scale
    utilisation_ratio: float | None = None  # "GPU utilisation": share of time with any kernel
    power_watts: float | None = None
    energy_joules: float | None = None  # cumulative
    memory_used_bytes: int | None = None
    throttle_mask: int | None = None  # NVML clocks event reasons, bit by bit
    fault: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading together with the SM clocks read at random instants since the reading before it."""

    reading: Reading
    clocks_mhz: tuple[float, ...]
    clock_before_mhz: float | None  # last reading of the interval before


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One GPU over one interval: what is summed.

    ``tensor_megacycles``: 1e6 cycles per SM with an active tensor pipe (tensor_active_ratio x MHz x s for
    a sampled clock, else counted). ``variance`` is theirs, with ``degrees`` of freedom behind it.
    """

    start_ns: int
    end_ns: int
    tensor_active_ratio: float
    tensor_megacycles: float
    variance: float = 0.0
    degrees: float = float("inf")

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


# --------------------------------------------------------------- what Slurm says


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFacts:
    """What Slurm told one hook on one node, and when (by the node's monotonic and wall clocks)."""

    boot_id: str
    uptime_ns: int
    epoch_s: float
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """One life of one job: a requeued job has several. ``restart_count`` is the prolog's."""

    cluster: str
    job_id: int
    restart_count: int
    sluid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the hooks know of a run. Name, array id and state come later, from accounting."""

    key: RunKey
    restart_certain: bool  # False: only an epilog spoke, whose restart count cannot be trusted
    user: str | None
    uid: int | None
    account: str | None
    partition: str | None
    node_list: str | None  # Slurm host list, the prolog's
    node_count: int | None
    comment: str | None = None
    gpu_positions: tuple[int, ...] = ()  # in the node's Slurm device list


# --------------------------------------------------------------- how much it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """OFU over a run's life, at most 128 buckets of equal width."""

    start_epoch_s: float
    bucket_seconds: float
    buckets: tuple[tuple[float | None, float], ...]  # (tensor_ref_seconds, covered_seconds), 0: not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterSums:
    """One node, one GPU model, one UTC quarter hour (``start_epoch_s`` is a multiple of 900)."""

    gpu_model: str | None
    start_epoch_s: int
    allocated_seconds: float
    covered_seconds: float
    tensor_active_seconds: float
    tensor_ref_seconds: float | None
    tensor_ref_error_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTotals:
    """One GPU over one run: numerators and denominators, never ratios.

    A numerator is ``None`` where nothing was measured; each side figure has its own covered seconds.
    """

    position: int  # in the node's Slurm device list
    reason: Reason
    allocated_seconds: float | None
    covered_seconds: float = 0.0
    uuid: str | None = None
    gpu_model: str | None = None
    mapped_by: str | None = None  # how the position was resolved to this UUID
    reference_clock_mhz: float | None = None
    estimator: Estimator | None = None
    interval_count: int = 0
    tensor_active_seconds: float | None = None
    tensor_ref_seconds: float | None = None
    tensor_ref_error_seconds: float | None = None  # one sigma
    error_degrees: float | None = None  # degrees of freedom behind it; None: very many
    disagreement_ratio: float | None = None  # OFU by cycles minus by sampling, where they disagree
    sm_active_seconds: float | None = None
    sm_active_covered_seconds: float = 0.0
    dram_active_seconds: float | None = None
    dram_active_covered_seconds: float = 0.0
    utilisation_seconds: float | None = None
    utilisation_covered_seconds: float = 0.0
    power_joules: float | None = None  # power readings integrated over time
    power_covered_seconds: float = 0.0
    energy_joules: float | None = None  # from the GPU's own energy counter
    memory_max_bytes: int | None = None
    throttled_power_seconds: float | None = None
    throttled_thermal_seconds: float | None = None
    throttle_covered_seconds: float = 0.0
    timeline: Timeline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerHealth:
    """How the sampler itself fared."""

    tick_count: int = 0
    missed_ticks: int = 0  # deadlines that passed while another tick was late
    late_max_seconds: float = 0.0
    wall_step_seconds: float = 0.0  # sum of wall-clock steps of more than one second
    placement: str | None = None  # "own scope", or why not
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """All that one node has to say about one run; what travels and what is stored."""

    job: Job
    node_name: str
    reason: Reason
    start_epoch_s: float | None
    end_epoch_s: float
    allocated_seconds: float | None  # of the node; None: no prolog ran here
    exit_code: str | None
    gpus: tuple[GpuTotals, ...]
    quarters: tuple[QuarterSums, ...] = ()
    health: SamplerHealth = field(default_factory=SamplerHealth)
    software_version: str = ""


# --------------------------------------------------------------- what reports read


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


GroupBy = Literal["job", "user", "partition", "account"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which runs a report is about: those with any part in start <= t < end; () selects everything."""

    start_epoch_s: float | None = None
    end_epoch_s: float | None = None
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    job_ids: tuple[int, ...] = ()


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
    start_epoch_s: float | None
    end_epoch_s: float | None


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


# --------------------------------------------------------------- what the site says


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerConfig:
    """How often the sampler looks."""

    source: str = "auto"
    interval_seconds: float = 10.0
    cycles_interval_seconds: float = 15.0
    clock_readings: int = 10
    checkpoint_seconds: float = 30.0
    counter_refresh_seconds: float = 0.1
    nvml_library: str = "libnvidia-ml.so.1"
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One exact GPU model. ``reference_clock_mhz``: where the vendor's dense tensor peak holds."""

    name: str
    sm_count: int | None
    reference_clock_mhz: float
    max_clock_mhz: float | None
    flop_per_clock_per_sm: float | None = None  # dense, 16-bit
    peak_tflops: float | None = None  # dense, 16-bit, the vendor's
    status: str = "site"
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole of slurm-ofu.toml."""

    path: str
    spool_dir: str = "/var/spool/slurm-ofu"
    cluster_name: str | None = None
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    gpu_map: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # node or "*" → position → GPU
    gpu_models: tuple[GpuModel, ...] = ()
    delivery_to: str = "sqlite:///var/lib/slurm-ofu/ofu.db"
    delivery_wait_seconds: float = 30.0
    database: str = "sqlite:///var/lib/slurm-ofu/ofu.db"
    database_owner: str | None = None
    database_group: str | None = "slurm-ofu"
    database_world_readable: bool = False
