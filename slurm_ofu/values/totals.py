"""How much it was: what a node sums up of one run."""

from dataclasses import dataclass, field

from slurm_ofu.values.counting import Estimator, Reason
from slurm_ofu.values.jobs import Job


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
    # By the minute; None: an earlier version, which did not keep it, made the record.
    idle_seconds: float | None = None
    idle_covered_seconds: float | None = None
    non_tensor_seconds: float | None = None
    non_tensor_covered_seconds: float | None = None


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
    source: str | None = None  # the counter source that spoke for it
    source_note: str | None = None  # why not a better one
    mig_profile: str | None = None  # of a MIG slice, as in 1g.10gb
    sm_share_ratio: float = 1.0  # a MIG slice's share of its GPU's SMs: all times here are times that
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
    # Judged on 60 s buckets (metric.md 7). Covered: the time in buckets that could be judged.
    idle_seconds: float | None = None
    idle_covered_seconds: float = 0.0
    idle_tail_seconds: float | None = None  # the idle stretch up to the run's end
    non_tensor_seconds: float | None = None  # busy without tensor work
    non_tensor_covered_seconds: float = 0.0
    peak_tensor_ref_seconds: float | None = None  # of the busiest five minutes
    peak_covered_seconds: float = 0.0
    # Without a reference clock: 1e6 active cycles per SM, and one sigma; a later row of the catalogue
    # makes tensor_ref_seconds of them.
    tensor_megacycles: float | None = None
    tensor_megacycles_error: float | None = None
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
    backfilled: bool = False  # made afterwards, out of what others had stored
    interim: bool = False  # the run goes on: what there is so far, and ``end_epoch_s`` is when that was
