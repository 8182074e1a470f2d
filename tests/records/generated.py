"""Node records of every kind, for hypothesis, and one that is as hard to compress as a day can be."""

from random import Random
from typing import Any, get_args

from hypothesis import strategies as st

from slurm_ofu.integrals.series import BucketLine, Series
from slurm_ofu.values import (
    Claim,
    ClaimKind,
    ClaimSource,
    Estimator,
    GpuTotals,
    Interval,
    Job,
    NodeRecord,
    QuarterSums,
    Reason,
    RunKey,
    SamplerHealth,
    Timeline,
)

SECONDS = st.floats(0.0, 1e9)
NUMBERS = st.floats(-1e15, 1e15)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNTS = st.integers(0, 2**40)
EPOCHS = st.floats(0.0, 4e9)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The value or None."""
    return st.one_of(st.none(), strategy)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """With OFU in every bucket or in none."""
    known = draw(st.booleans())
    buckets = []
    for _ in range(draw(st.integers(0, 20))):
        covered = draw(st.one_of(st.just(0.0), st.floats(0.01, 1e5)))
        buckets.append((draw(st.floats(0.0, 1.2)) * covered if known else None, covered))
    return Timeline(
        start_epoch_s=draw(EPOCHS), bucket_seconds=draw(st.floats(0.1, 1e5)), buckets=tuple(buckets)
    )


GPUS = st.builds(
    GpuTotals,
    position=st.integers(0, 1000),
    reason=st.sampled_from(get_args(Reason)),
    allocated_seconds=maybe(SECONDS),
    covered_seconds=SECONDS,
    uuid=maybe(TEXT),
    gpu_model=maybe(TEXT),
    mapped_by=maybe(TEXT),
    reference_clock_mhz=maybe(NUMBERS),
    estimator=st.sampled_from([None, *get_args(Estimator)]),
    interval_count=COUNTS,
    tensor_active_seconds=maybe(SECONDS),
    tensor_ref_seconds=maybe(SECONDS),
    tensor_ref_error_seconds=maybe(SECONDS),
    error_degrees=maybe(NUMBERS),
    disagreement_ratio=maybe(st.floats(-2, 2)),
    sm_active_seconds=maybe(SECONDS),
    sm_active_covered_seconds=SECONDS,
    dram_active_seconds=maybe(SECONDS),
    utilisation_seconds=maybe(SECONDS),
    power_joules=maybe(NUMBERS),
    energy_joules=maybe(NUMBERS),
    memory_max_bytes=maybe(COUNTS),
    throttled_power_seconds=maybe(SECONDS),
    throttle_covered_seconds=SECONDS,
    idle_seconds=maybe(SECONDS),
    idle_covered_seconds=SECONDS,
    idle_tail_seconds=maybe(SECONDS),
    non_tensor_seconds=maybe(SECONDS),
    non_tensor_covered_seconds=SECONDS,
    peak_tensor_ref_seconds=maybe(SECONDS),
    peak_covered_seconds=SECONDS,
    timeline=maybe(timelines()),
)
QUARTERS = st.builds(
    QuarterSums,
    gpu_model=maybe(TEXT),
    start_epoch_s=st.integers(0, 5_000_000).map(lambda quarter: quarter * 900),
    allocated_seconds=SECONDS,
    covered_seconds=SECONDS,
    tensor_active_seconds=SECONDS,
    tensor_ref_seconds=maybe(SECONDS),
    tensor_ref_error_seconds=maybe(SECONDS),
    idle_seconds=maybe(SECONDS),
    idle_covered_seconds=maybe(SECONDS),
    non_tensor_seconds=maybe(SECONDS),
    non_tensor_covered_seconds=maybe(SECONDS),
)
CLAIMS = st.builds(
    Claim,
    kind=st.sampled_from(get_args(ClaimKind)),
    value=st.floats(1e-6, 20_000.0),
    text=TEXT,
    peak_tflops=maybe(st.floats(1.0, 1e5)),
    source=st.sampled_from(get_args(ClaimSource)),
)
JOBS = st.builds(
    Job,
    key=st.builds(
        RunKey,
        cluster=TEXT,
        job_id=st.integers(0, 2**32),
        restart_count=st.integers(0, 2**31),
        sluid=maybe(TEXT),
    ),
    restart_certain=st.booleans(),
    user=maybe(TEXT),
    uid=maybe(st.integers(0, 2**32)),
    account=maybe(TEXT),
    partition=maybe(TEXT),
    node_list=maybe(TEXT),
    node_count=maybe(st.integers(0, 10**6)),
    comment=maybe(TEXT),
    gpu_positions=st.lists(st.integers(0, 64), max_size=8).map(tuple),
    claim=maybe(CLAIMS),
)
HEALTH = st.builds(
    SamplerHealth,
    tick_count=COUNTS,
    missed_ticks=COUNTS,
    late_max_seconds=SECONDS,
    wall_step_seconds=SECONDS,
    placement=maybe(TEXT),
    source=maybe(TEXT),
)
RECORDS = st.builds(
    NodeRecord,
    job=JOBS,
    node_name=TEXT,
    reason=st.sampled_from(get_args(Reason)),
    start_epoch_s=maybe(EPOCHS),
    end_epoch_s=EPOCHS,
    allocated_seconds=maybe(SECONDS),
    exit_code=maybe(TEXT),
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    quarters=st.lists(QUARTERS, max_size=4).map(tuple),
    health=HEALTH,
    software_version=TEXT,
)


# --------------------------------------------------------------- the hardest day

DAY_S, WIDTH_S, START_S = 86_400, 10, 1_764_424_800
WIDTH_NS = WIDTH_S * 10**9


def noisy_record(gpu_count: int, seed: int = 1) -> NodeRecord:
    """A day of GPUs whose activity is pure noise: nothing in it can be foreseen, hence compressed."""
    random = Random(seed)
    days = [_noisy_series(random) for _ in range(gpu_count)]
    return NodeRecord(
        job=Job(
            key=RunKey(cluster="cluster", job_id=1_234_567, restart_count=0),
            restart_certain=True,
            user="somebody",
            uid=12345,
            account="account",
            partition="partition",
            node_list="node[001-128]",
            node_count=128,
            gpu_positions=tuple(range(gpu_count)),
        ),
        node_name="node042",
        reason="ok",
        start_epoch_s=START_S + 0.123,
        end_epoch_s=START_S + DAY_S + 0.456,
        allocated_seconds=DAY_S + 0.333,
        exit_code="0:0",
        gpus=tuple(_noisy_gpu(random, position, series) for position, series in enumerate(days)),
        quarters=_quarters(days),
        health=SamplerHealth(tick_count=8640, late_max_seconds=0.01234, placement="own scope", source="nvml"),
        software_version="0.1.0",
    )


def _noisy_series(random: Random) -> Series:
    series = Series(BucketLine(0, WIDTH_NS))
    for number in range(DAY_S // WIDTH_S):
        tensor = random.random()
        series.add(
            Interval(
                start_ns=number * WIDTH_NS,
                end_ns=(number + 1) * WIDTH_NS,
                tensor_active_ratio=tensor,
                tensor_megacycles=tensor * WIDTH_S * random.uniform(1500, 1980),
                variance=random.random() * 1000,
                degrees=9.0,
            ),
            START_S * 10**9 + 123_456_789,
        )
    return series


def _noisy_gpu(random: Random, position: int, series: Series) -> GpuTotals:
    def seconds() -> float:
        return random.random() * DAY_S

    line = series.line
    return GpuTotals(
        position=position,
        reason="ok",
        allocated_seconds=DAY_S + random.random(),
        covered_seconds=series.covered_seconds - random.random(),
        uuid=f"GPU-{random.getrandbits(128):032x}",
        gpu_model="NVIDIA H100 80GB HBM3",
        mapped_by="autodetect",
        reference_clock_mhz=1830.0,
        estimator="sampled",
        interval_count=series.interval_count,
        tensor_active_seconds=series.tensor_active_seconds,
        tensor_ref_seconds=series.tensor_megacycles / 1830,
        tensor_ref_error_seconds=series.variance**0.5 / 1830,
        error_degrees=series.degrees,
        disagreement_ratio=random.random(),
        sm_active_seconds=seconds(),
        sm_active_covered_seconds=seconds(),
        dram_active_seconds=seconds(),
        dram_active_covered_seconds=seconds(),
        utilisation_seconds=seconds(),
        utilisation_covered_seconds=seconds(),
        power_joules=seconds() * 700,
        power_covered_seconds=seconds(),
        energy_joules=seconds() * 700,
        memory_max_bytes=random.getrandbits(37),
        throttled_power_seconds=seconds(),
        throttled_thermal_seconds=seconds(),
        throttle_covered_seconds=seconds(),
        idle_seconds=seconds(),
        idle_covered_seconds=seconds(),
        idle_tail_seconds=seconds(),
        non_tensor_seconds=seconds(),
        non_tensor_covered_seconds=seconds(),
        peak_tensor_ref_seconds=random.random() * 300,
        peak_covered_seconds=300.0,
        timeline=Timeline(
            start_epoch_s=START_S + 0.123,
            bucket_seconds=line.width_ns / 1e9,
            buckets=tuple(
                (megacycles / 1830, covered)
                for megacycles, covered in zip(line.megacycles, line.covered_seconds, strict=True)
            ),
        ),
    )


def _quarters(days: list[Series]) -> tuple[QuarterSums, ...]:
    rows = []
    for quarter in sorted(days[0].quarters):
        here = [series.quarters[quarter] for series in days]
        rows.append(
            QuarterSums(
                gpu_model="NVIDIA H100 80GB HBM3",
                start_epoch_s=quarter * 900,
                allocated_seconds=900.0 * len(days),
                covered_seconds=sum(sums.covered_seconds for sums in here),
                tensor_active_seconds=sum(sums.tensor_active_seconds for sums in here),
                tensor_ref_seconds=sum(sums.tensor_megacycles for sums in here) / 1830,
                tensor_ref_error_seconds=sum(sums.variance**0.5 for sums in here) / 1830,
            )
        )
    return tuple(rows)
