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
    interim_seconds: float = 900.0  # between two interim records of a run; 0: none
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
class Goals:
    """The OFU that is expected of jobs in a partition: what is below it is lost."""

    default_ratio: float = 0.40
    by_partition: Mapping[str, float] = field(default_factory=dict)

    def of(self, partition: str | None) -> float:
        """The goal of a partition, a ratio above 0."""
        return (
            self.default_ratio if partition is None else self.by_partition.get(partition, self.default_ratio)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRules:
    """From where on something is said about a run. Ratios are of the time that was judged."""

    short_seconds: float = 300.0  # runs that were shorter are not judged
    judged_ratio: float = 0.50  # nor is what is known of less than this part of the GPU time that it is about
    idle_ratio: float = 0.90  # of the run's GPU time idle: it did not use its GPUs
    unused_ratio: float = 0.95  # of a GPU's time idle: it was not used
    idle_tail_seconds: float = 900.0  # an idle stretch at the end, of at least this …
    idle_tail_ratio: float = 0.10  # … and this part of the run
    slow_ratio: float = 0.80  # a GPU's (node's) figure below this part of its siblings' median
    memory_bound_ratio: float = 0.60  # memory active, …
    memory_bound_tensor_ratio: float = 0.30  # … and tensor pipes below this
    non_tensor_ratio: float = 0.50  # of the busy time without tensor work
    starved_ratio: float = 0.50  # SM activity below this, of GPUs that are used
    throttled_ratio: float = 0.05  # of the time slowed down
    low_clock_ratio: float = 0.80  # clock while computing, of reference, below this
    goal_share_ratio: float = 1.0  # nothing is said of why, where OFU reaches this part of the goal


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """What audits look at, and from where on they say something."""

    minimum_seconds: float = 600.0  # runs that were shorter are not judged
    minimum_gpu_hours: float = 1.0  # nor entries with less at stake
    top: int = 20  # entries that are shown
    exclude_users: tuple[str, ...] = ()
    exclude_accounts: tuple[str, ...] = ()
    exclude_qos: tuple[str, ...] = ()
    exclude_partitions: tuple[str, ...] = ()
    minimum_coverage_ratio: float = 0.80  # figures that speak for less of a run are not held against it
    waste_ofu_ratio: float = 0.10  # pooled OFU of a user below this
    idle_ratio: float = 0.50  # of a run's GPU time idle
    idle_seconds: float = 3600.0  # a running job idle for this long till now
    unused_ratio: float = 0.95  # of a GPU's time idle: it was not used
    regression_factor: float = 1.5  # OFU before over OFU after, at least
    regression_runs: int = 5  # runs before, at least
    claim_difference_pp: float = 10.0  # stated minus measured, at least, percentage points …
    claim_ratio: float = 1.5  # … or stated over measured
    hardware_lag_ratio: float = 0.05  # behind its siblings' median, in the median of its jobs
    hardware_jobs: int = 5  # multi-GPU jobs that a GPU was in, at least
    coverage_ratio: float = 0.90  # of a partition's (node's) GPU time measured: below it is listed


@dataclass(frozen=True, slots=True, kw_only=True)
class MailConfig:
    """Digests by e-mail."""

    server: str = "localhost:25"
    sender: str = ""  # the From address; "": nothing is sent
    reply_to: str | None = None
    domain: str | None = None  # a user's address is user@domain; None: user, which the server completes
    admins: tuple[str, ...] = ()  # addresses of those who get the whole audit
    audits: tuple[str, ...] = ("idle", "unused", "regressions")  # what users are told of
    days_between: float = 7.0  # between two mails to one user
    again_days: float = 28.0  # before the same thing is told again
    templates_dir: str | None = None  # templates in it take the place of ours by the same name
    help_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """The static pages of `ofu-report --html`."""

    show_users: bool = False  # whether users' names appear in them
    title: str | None = None  # None: the cluster's name
    templates_dir: str | None = None
    job_pages: int = 1000  # pages of single jobs, at most


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
    goals: Goals = field(default_factory=Goals)
    findings: FindingRules = field(default_factory=FindingRules)
    audits: AuditConfig = field(default_factory=AuditConfig)
    mail: MailConfig = field(default_factory=MailConfig)
    pages: PagesConfig = field(default_factory=PagesConfig)
