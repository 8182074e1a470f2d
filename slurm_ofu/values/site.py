"""What the site says: its configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


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
    dcgmi: str = "/usr/bin/dcgmi"
    dcgm_host: str | None = None  # host[:port] of DCGM's host engine; None: this host's
    exporter_url: str = "http://localhost:9400/metrics"
    allow_opt_out: bool = True
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One exact GPU model. ``reference_clock_mhz``: where the vendor's dense tensor peak holds.

    Rates (FLOP per clock and SM) and peaks (TFLOP/s, the vendor's) are dense, by number format: ``fp16`` (and
    BF16, with FP32 accumulation), ``tf32``, ``fp8``, ``int8``, ``fp4``, ``fp64``.
    """

    name: str
    sm_count: int | None
    reference_clock_mhz: float
    max_clock_mhz: float | None
    compute_capability: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    calibrated: bool = True  # False: tensor pipes of half rate, whose full load nobody has measured
    status: str = "site"  # verified, computed, unsure; site: of the configuration
    source: str = ""

    @property
    def peak_tflops(self) -> float | None:
        """The dense 16-bit peak."""
        return self.peaks.get("fp16")


Authentication = Literal["munge", "key"]
AccountingSource = Literal["auto", "sacct", "sacct-json", "pyslurm", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningConfig:
    """How records on their way to the collector are signed, and by whom they may be."""

    authentication: Authentication = "munge"
    munge_socket: str | None = None  # None: munge's own default
    key_file: str = "/etc/slurm-ofu/delivery.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One cluster that a collector serves, whose root alone speaks for it."""

    name: str
    signing: SigningConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorConfig:
    """The one process that writes the cluster's database."""

    listen: str = "0.0.0.0:6825"  # "": the inbox directory alone
    inbox: str = "/var/lib/slurm-ofu/inbox"
    inbox_limit_mib: int = 1024
    threads: int = 8
    signing: SigningConfig = field(default_factory=SigningConfig)
    clusters: tuple[ClusterConfig, ...] = ()  # (): one munge realm, or key, for whatever cluster it names


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingConfig:
    """How Slurm's own accounting is read."""

    source: AccountingSource = "auto"
    clusters: tuple[str, ...] = ()  # (): the local one
    bin_dir: str = "/usr/bin"  # where sacct and sacctmgr are
    slurm_conf: str | None = None  # None: $SLURM_CONF, else Slurm's own default
    every_seconds: float = 120.0
    settle_seconds: float = 60.0  # a job that ended later may still change in slurmdbd


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBackConfig:
    """OFU into Slurm's own accounting, where `sacct` shows it."""

    enabled: bool = False
    field: str = "SystemComment"
    wait_seconds: float = 120.0  # after a run's end, for the records of all its nodes
    jobs_per_minute: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusConfig:
    """Where samples of the past are, for ``ofu-admin backfill``."""

    url: str | None = None
    ca_file: str | None = None
    token_file: str | None = None  # its first line is sent as a bearer token
    timeout_seconds: float = 60.0


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
    delivery_signing: SigningConfig = field(default_factory=SigningConfig)
    delivery_ca_file: str | None = None
    database: str = "sqlite:///var/lib/slurm-ofu/ofu.db"
    database_owner: str | None = None
    database_group: str | None = "slurm-ofu"
    database_world_readable: bool = False
    collector: CollectorConfig = field(default_factory=CollectorConfig)
    accounting: AccountingConfig = field(default_factory=AccountingConfig)
    write_back: WriteBackConfig = field(default_factory=WriteBackConfig)
    prometheus: PrometheusConfig = field(default_factory=PrometheusConfig)
