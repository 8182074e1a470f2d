"""What somebody should look at: findings of one run, entries of an audit over many."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurm_ofu.values.reported import RunRow

FindingKind = Literal[
    "idle",  # hardly anything ran on any of its GPUs
    "unused_gpus",  # k of its n GPUs were idle
    "idle_tail",  # it held its GPUs long after its work was done
    "slow_gpu",  # one GPU lags its siblings, and the rest wait for it
    "slow_node",  # all GPUs of one node do
    "memory_bound",  # memory bandwidth is what it is limited by
    "non_tensor",  # busy without tensor cores
    "starved",  # SM activity is low: input, Python or communication
    "unexplained",  # below the goal, and none of these is why
    "throttled_power",
    "throttled_thermal",
    "low_clock",  # computes at a low clock, and the driver does not say why
    "short",  # too short to judge
    "suspect",  # the counters contradict each other
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is as it is about a run. ``evidence``: figures by name, with their units in it, in the
    order in which they matter; ``where``: the nodes or GPUs (``node01:3``) that it is about, () for all."""

    kind: FindingKind
    evidence: Mapping[str, float]
    where: tuple[str, ...] = ()
    gpu_count: int | None = None  # how many GPUs it is about …
    of_gpu_count: int | None = None  # … of how many


AuditName = Literal["waste", "idle", "unused", "regressions", "claims", "hardware", "coverage"]
AUDIT_NAMES: tuple[AuditName, ...] = (
    *("waste", "idle", "unused", "regressions", "claims", "hardware", "coverage"),
)
AuditValue = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of an audit. ``kind`` tells entries of one audit apart (of regressions: drop, recovery).

    ``subject`` is whom or what it is about: a user, a job, a family of jobs, ``node01:3``. ``figures`` are by
    name, units in the names, in the order in which they are shown. ``weight_gpu_hours`` is what is at stake:
    entries come with the greatest first.
    """

    audit: AuditName
    kind: str
    subject: str
    weight_gpu_hours: float
    figures: Mapping[str, AuditValue]
    user: str | None = None  # whose it is, where it is one user's
    account: str | None = None
    partition: str | None = None
    gpu_model: str | None = None
    runs: tuple[RunRow, ...] = ()  # what it rests on, the most telling first


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """What one audit found. ``left_out``: why how many runs were not judged, such as excluded, short,
    unmeasured, suspect; nobody is blamed for a figure that is missing."""

    audit: AuditName
    entries: tuple[AuditEntry, ...]  # all that there are; reports show the first
    examined_count: int  # runs (of hardware: GPUs) that were judged
    left_out: Mapping[str, int] = field(default_factory=dict)
    summary: Mapping[str, AuditValue] = field(default_factory=dict)  # over all, such as a correlation
