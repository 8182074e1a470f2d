"""The frozen values of slurm-ofu, in the order in which they are made: from top to bottom, the program.

    counting   what the GPU says          Reading → Sample → Interval
    jobs       what Slurm says            HookFacts → Job; AccountingRow
    totals     how much it was            GpuTotals → NodeRecord
    reported   what reports read          UsageSums → Figures
    site       what the site says         Config

``None`` always means "not measured", never zero. Units are in the names; ratios lie in 0..1 unless
said otherwise. Monotonic times (``*_ns``) are CLOCK_BOOTTIME; ``*_epoch_s`` are wall-clock labels.
"""

from slurm_ofu.values.counting import (
    DeviceIdentity,
    Estimator,
    Interval,
    Reading,
    Reason,
    Sample,
    SourceChoice,
)
from slurm_ofu.values.jobs import AccountingRow, Claim, ClaimKind, ClaimSource, HookFacts, Job, RunKey
from slurm_ofu.values.reported import (
    CoveredRuns,
    Figures,
    GpuRow,
    GroupBy,
    JobPage,
    NodeRow,
    ReconciledRun,
    Reconciliation,
    ReportingNode,
    RunRow,
    Selection,
    Taken,
    UsageRow,
    UsageSums,
    WaitingRun,
)
from slurm_ofu.values.site import (
    AccountingConfig,
    AccountingSource,
    Authentication,
    ClusterConfig,
    CollectorConfig,
    Config,
    GpuModel,
    PrometheusConfig,
    SamplerConfig,
    SigningConfig,
    WriteBackConfig,
)
from slurm_ofu.values.totals import GpuTotals, NodeRecord, QuarterSums, SamplerHealth, Timeline

__all__ = [
    "AccountingConfig",
    "AccountingRow",
    "AccountingSource",
    "Authentication",
    "Claim",
    "ClaimKind",
    "ClaimSource",
    "ClusterConfig",
    "CollectorConfig",
    "Config",
    "CoveredRuns",
    "DeviceIdentity",
    "Estimator",
    "Figures",
    "GpuModel",
    "GpuRow",
    "GpuTotals",
    "GroupBy",
    "HookFacts",
    "Interval",
    "Job",
    "JobPage",
    "NodeRecord",
    "NodeRow",
    "PrometheusConfig",
    "QuarterSums",
    "Reading",
    "Reason",
    "ReconciledRun",
    "Reconciliation",
    "ReportingNode",
    "RunKey",
    "RunRow",
    "Sample",
    "SamplerConfig",
    "SamplerHealth",
    "Selection",
    "SigningConfig",
    "SourceChoice",
    "Taken",
    "Timeline",
    "UsageRow",
    "UsageSums",
    "WaitingRun",
    "WriteBackConfig",
]
