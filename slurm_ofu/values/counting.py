"""What the GPU says: readings, samples, intervals."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """One GPU as the counter source sees it. ``index`` is the source's own numbering."""

    index: int
    uuid: str
    minor: int | None = None  # N of /dev/nvidiaN
    pci_bus_id: str | None = None
    gpu_model: str | None = None  # the name the driver prints, unchanged; of a MIG slice, its GPU's
    sm_count: int | None = None  # its own
    sm_share_ratio: float = 1.0  # of a MIG slice: its SMs by those of the whole GPU
    mig_profile: str | None = None  # of a MIG slice, as in 1g.10gb; for people only
    parent_uuid: str | None = None  # of a MIG slice: its GPU's
    gpu_instance_id: int | None = None  # of a MIG slice that is all of its GPU instance, by NVML


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChoice:
    """Which counter source speaks for a GPU, and why not a better one (``None``: it is the best there is)."""

    source: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one GPU's counters said at one instant. Without a tensor figure ``fault`` says why, or the source
    is ``waiting``: somebody else sets the pace, and a figure to come covers this time as well.

    The ratios are means from ``since_ns`` (the last good reading) to ``taken_ns``; cycles are cumulative.
    """

    since_ns: int | None
    taken_ns: int
    tensor_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    sm_cycles: float | None = None  # cumulative; per SM or summed over SMs, see integrals.cycles
    mma_cycles: float | None = None  # cumulative; same scale
    published_clock_mhz: float | None = None  # SM clock published beside the ratios: nobody samples it
    utilisation_ratio: float | None = None  # "GPU utilisation": share of time with any kernel
    power_watts: float | None = None
    energy_joules: float | None = None  # cumulative
    memory_used_bytes: int | None = None
    throttle_mask: int | None = None  # NVML clocks event reasons, bit by bit
    fault: Reason | None = None
    waiting: bool = False


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
