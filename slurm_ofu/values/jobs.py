"""What Slurm says of a job: to the hooks, and in its accounting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


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


ClaimKind = Literal["mfu", "tflops"]
ClaimSource = Literal["epilog", "accounting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a job says of its own efficiency, in its comment. Slurm vouches for who said it, nobody for it."""

    kind: ClaimKind
    value: float  # mfu: a ratio; tflops: TFLOP/s per GPU
    text: str  # as it stood in the comment
    peak_tflops: float | None = None  # dense 16-bit peak of one of its GPUs, which tflops is held against
    source: ClaimSource = "epilog"


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
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRow:
    """One row of Slurm's own accounting: one life of one job, or one segment of a job that was resized.

    The natural key is (cluster, job_id, submit_epoch_s). Of a resized job every row after the first has
    the resize as its submission. On 22.05 its start is the job's, and its time counts from there; from 24.11
    on both are the segment's own.
    """

    cluster: str
    job_id: int  # the raw one: of an array task, of a component
    submit_epoch_s: int
    start_epoch_s: int | None  # None: it never started
    end_epoch_s: int | None  # None: it goes on
    elapsed_seconds: int  # suspended time is not in it
    suspended_seconds: int
    state: str  # one word, such as COMPLETED or CANCELLED
    exit_code: str | None  # "code:signal"
    user: str | None
    uid: int | None
    account: str | None
    partition: str | None
    qos: str | None
    job_name: str | None
    array_job_id: int | None
    array_task_id: int | None
    het_job_id: int | None
    het_offset: int | None
    node_list: str | None  # Slurm host list
    node_count: int | None
    alloc_tres: str | None  # as Slurm prints it
    gpu_count: int | None  # over all nodes; None: Slurm does not say (absent is not 0)
    time_limit_seconds: int | None = None
    restart_count: int | None = None  # 24.11 and later
    sluid: str | None = None  # 24.11 and later
    comment: str | None = None
    system_comment: str | None = None
    admin_comment: str | None = None
