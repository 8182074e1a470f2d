"""The day that is played: its users, its jobs, what their GPUs truly do, and the OFU that follows.

Nothing here knows how slurm-ofu measures. A GPU's behaviour repeats every tenth of a second or so, short
against a job: its truth then hardly depends on the moment at which somebody begins to look.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from slurm_ofu.counters.pattern import Pattern, Segment

CLUSTER = "demo"
NODES = ("gpu01", "gpu02", "gpu03")
GPUS_PER_NODE = 4
GPU_MODEL = "NVIDIA H100 80GB HBM3"
#: The SM clock at which NVIDIA's dense tensor peak of that GPU (989.4 TFLOP/s) holds.
REFERENCE_CLOCK_MHZ = 1830.0


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody with jobs."""

    name: str
    uid: int
    account: str


ALICE = User(name="alice", uid=20001, account="nlp")
BOB = User(name="bob", uid=20002, account="nlp")
CAROL = User(name="carol", uid=20003, account="climate")
DAVE = User(name="dave", uid=20004, account="chemistry")


def _segment(seconds: float, tensor: float, mhz: float, sm: float = 1.0, watts: float = 600.0) -> Segment:
    return Segment(
        seconds=seconds,
        tensor_active_ratio=tensor,
        sm_clock_mhz=mhz,
        sm_active_ratio=sm,
        dram_active_ratio=0.35 * sm,
        utilisation_ratio=1.0 if sm > 0 else 0.0,
        power_watts=watts,
        memory_used_bytes=20 * 2**30 if sm > 0 else 0,
    )


#: What a GPU does over and over. The clock falls under load, as it does: activity and clock move together.
TRAINING = (_segment(0.090, 0.62, 1740.0, watts=680.0), _segment(0.030, 0.04, 1980.0, 0.6, 350.0))
#: Sixteen steps, then an evaluation: slow enough to be seen in the job's time-line.
LLM_TRAINING = (*TRAINING * 16, _segment(0.480, 0.30, 1875.0, 0.8, 450.0))
FINE_TUNING = (_segment(0.050, 0.48, 1785.0), _segment(0.050, 0.21, 1935.0, 0.8, 450.0))
INFERENCE = (_segment(0.040, 0.35, 1980.0, 0.7), _segment(0.080, 0.0, 1980.0, 0.1, 150.0))
CONVOLUTION = (_segment(0.070, 0.33, 1845.0), _segment(0.040, 0.12, 1965.0, 0.9, 500.0))
_SLOWED_BY_HEAT = 0x20  # the bit of NVML's clocks event reasons for software thermal slowdown
HOT_GPU = tuple(
    replace(segment, throttle_mask=_SLOWED_BY_HEAT)
    for segment in (_segment(0.085, 0.66, 1230.0, watts=420.0), _segment(0.035, 0.30, 1395.0, 0.9, 400.0))
)
DOUBLE_PRECISION = (_segment(0.100, 0.0, 1755.0, 0.93, 520.0),)
IDLE = (_segment(1.0, 0.0, 345.0, 0.0, 70.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One life of a job. Seconds count from the beginning of the day."""

    job_id: int
    what: str
    user: User
    partition: str
    workload: tuple[Segment, ...]
    gpus: Mapping[str, tuple[int, ...]]  # node → positions in its Slurm device list
    submit_second: float
    length_seconds: float
    restart_count: int = 0
    requeued: bool = False  # its end is a requeue
    exit_code: int = 0
    comment: str | None = None
    sampler_killed_second: float | None = None  # after the run's start
    without_prolog: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The run as people speak of it."""
        return f"{self.job_id} #{self.restart_count + 1}" if self.restart_count else str(self.job_id)

    @property
    def node_list(self) -> str:
        """Its nodes as Slurm writes them."""
        numbers = [node.removeprefix("gpu") for node in self.gpus]
        if len(numbers) == 1:
            return f"gpu{numbers[0]}"
        is_range = int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1
        return f"gpu[{numbers[0]}-{numbers[-1]}]" if is_range else f"gpu[{','.join(numbers)}]"


def _run(
    job_id: int,
    what: str,
    user: User,
    partition: str,
    workload: tuple[Segment, ...],
    gpus: Mapping[str, tuple[int, ...]],
    submit_second: float,
    length_seconds: float,
    **special: Any,
) -> Run:
    """A line of the table below."""
    return Run(
        job_id=job_id,
        what=what,
        user=user,
        partition=partition,
        workload=workload,
        gpus=gpus,
        submit_second=submit_second,
        length_seconds=length_seconds,
        **special,
    )


_ALL = tuple(range(GPUS_PER_NODE))
_BOTH = {"gpu01": _ALL, "gpu02": _ALL}
# It says itself how well it did, as training programs count it: without what they compute twice.
TWO_NODE_JOB = _run(
    *(4701, "LLM on 2 nodes", ALICE, "gpu", LLM_TRAINING, _BOTH, 0.0, 10.0),
    comment="step 12000, mfu=0.36",
)
# To the hooks, an array's tasks are jobs of their own.
_ARRAY = tuple(
    _run(4705 + task, f"array task {task}", BOB, "gpu", FINE_TUNING, {"gpu01": (task,)}, 10.5 + task / 9, 7.0)
    for task in range(GPUS_PER_NODE)
)
_PREEMPTED = _run(
    4709, "preempted, requeued", ALICE, "gpu", TRAINING, {"gpu02": (2, 3)}, 11.0, 5.5, requeued=True
)
_SECOND_LIFE = replace(
    _PREEMPTED,
    what="second life",
    submit_second=17.5,
    length_seconds=8.0,
    restart_count=1,
    requeued=False,
)
_HALF_SEEN = {"gpu02": (0, 1), "gpu03": (0, 1)}
DAY = (
    TWO_NODE_JOB,
    _run(4702, "image recognition", CAROL, "gpu", CONVOLUTION, {"gpu03": (0, 1)}, 0.4, 9.0),
    _run(4703, "notebook, left open", DAVE, "short", IDLE, {"gpu03": (2,)}, 0.8, 9.0),
    _run(4704, "FP64 simulation", DAVE, "gpu", DOUBLE_PRECISION, {"gpu03": (3,)}, 1.2, 9.5),
    *_ARRAY,
    _PREEMPTED,
    _run(
        *(4710, "node without prolog", CAROL, "gpu", CONVOLUTION, _HALF_SEEN, 11.4, 6.0),
        without_prolog=("gpu03",),
    ),
    _run(4711, "cancelled early", BOB, "short", FINE_TUNING, {"gpu03": (3,)}, 11.8, 2.0),
    _run(4712, "hot GPU, slow clock", CAROL, "short", HOT_GPU, {"gpu03": (2,)}, 12.2, 8.0),
    _SECOND_LIFE,
    _run(
        *(4713, "sampler killed", ALICE, "gpu", TRAINING, {"gpu01": (0, 1)}, 18.0, 7.0),
        sampler_killed_second=4.0,
    ),
    _run(4714, "inference, fails", BOB, "short", INFERENCE, {"gpu01": (2,)}, 18.4, 7.5, exit_code=1),
    _run(4715, "tuning on 2 nodes", BOB, "gpu", FINE_TUNING, {"gpu02": (0,), "gpu03": (0,)}, 18.8, 7.5),
)


def pattern(run: Run, node: str, position: int) -> Pattern:
    """What one of a run's GPUs does: a little less than the one before it, and in a phase of its own."""
    number = NODES.index(node) * GPUS_PER_NODE + position
    weaker = [
        replace(segment, tensor_active_ratio=segment.tensor_active_ratio * (1 - 0.02 * number))
        for segment in run.workload
    ]
    first, *others = weaker
    share = (number + 0.5) / (len(NODES) * GPUS_PER_NODE)
    head = replace(first, seconds=first.seconds * (1 - share))
    tail = replace(first, seconds=first.seconds * share)
    return Pattern([head, *others, tail])


def synthetic_table(node: str) -> dict[str, Any]:
    """A node's counters for the whole day, as ``synthetic:///file.json`` takes them."""
    jobs: dict[str, dict[str, Any]] = {}
    for run in DAY:
        for position in run.gpus.get(node, ()):
            segments = [asdict(segment) for segment in pattern(run, node, position).segments]
            jobs.setdefault(str(run.job_id), {})[str(position)] = segments
    default = [asdict(segment) for segment in IDLE]
    own = {"host": node, "gpu_model": GPU_MODEL, "gpus": GPUS_PER_NODE}
    return {**own, "default": default, "jobs": jobs}


def true_ofu_ratio(run: Run, spans: Mapping[str, tuple[float, float]]) -> float:
    """The OFU of a run, pooled over its GPUs. ``spans``: node → start and end, CLOCK_BOOTTIME seconds."""
    megacycles = seconds = 0.0
    for node, positions in run.gpus.items():
        start, end = spans[node]
        for position in positions:
            its = pattern(run, node, position)
            megacycles += its.until(end).minus(its.until(start)).tensor_megacycles
            seconds += end - start
    return megacycles / REFERENCE_CLOCK_MHZ / seconds
