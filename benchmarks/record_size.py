"""How large is a record, and what does packing it cost?

The record of a day-long job, made by the program itself from 8,640 samples per GPU whose activity and
clock nobody can foresee (``day.py``): 68 buckets of time-line per GPU and 97 quarter hours per node. A
time-line is fullest, with 128 buckets, just before it is halved: that is at 22 h 45 min. Packing and
unpacking are compared with what the standard library needs for the same text: ``json`` and ``zlib`` at
the same level, nothing checked.
"""

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.day import DAY_SECONDS, INTERVAL_SECONDS, day_folds
from benchmarks.rows import Row, median, ms, ratio
from slurm_ofu.gpu_models import find_model
from slurm_ofu.integrals.quarters import quarter_sums
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.records.build import node_record, seconds_per_quarter
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import HookFacts, Job, NodeRecord, RunKey, SamplerHealth

TITLE = "Record of a day-long job"
LIMIT_BYTES = 2048
FULLEST_SECONDS = 128 * 640
MODEL = "NVIDIA H100 80GB HBM3"
START_NS = 5_000 * 10**9
START_EPOCH_S = 1_794_787_500.0  # in mid-quarter, so that the day touches 97
RULES = Rules(interval_seconds=float(INTERVAL_SECONDS), refresh_seconds=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSize:
    """What was measured."""

    bytes_of_one: int
    bytes_of_eight: int
    sampled_bytes_of_one: int
    fullest_bytes_of_one: int
    encode_seconds: float
    bare_encode_seconds: float
    decode_seconds: float
    bare_decode_seconds: float

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            Row(what="1 GPU, cycle counters", value=self.bytes_of_one, unit="B", goal=LIMIT_BYTES),
            Row(what="1 GPU, sampled clock", value=self.sampled_bytes_of_one, unit="B", goal=LIMIT_BYTES),
            Row(what="1 GPU, fullest time-line", value=self.fullest_bytes_of_one, unit="B", goal=LIMIT_BYTES),
            Row(what="8 GPUs, whole record", value=self.bytes_of_eight, unit="B"),
            Row(what="8 GPUs, per GPU", value=self.bytes_of_eight / 8, unit="B", goal=LIMIT_BYTES),
            ms("packing 8 GPUs", self.encode_seconds),
            ratio("the same, in bare json + zlib", self.encode_seconds, self.bare_encode_seconds),
            ms("unpacking and checking 8 GPUs", self.decode_seconds),
            ratio("the same, in bare zlib + json", self.decode_seconds, self.bare_decode_seconds),
        ]


def measure(place: Path, rounds: int = 50) -> RecordSize:
    """Sizes once, CPU times as medians of interleaved rounds. ``place`` is not needed."""
    record = day_record(8)
    data = encode(record)
    table = json.loads(zlib.decompress(data))
    times = _interleaved(
        [
            lambda: encode(record),
            lambda: zlib.compress(json.dumps(table, separators=(",", ":")).encode(), 9),
            lambda: decode(data),
            lambda: json.loads(zlib.decompress(data)),
        ],
        rounds,
    )
    return RecordSize(
        bytes_of_one=len(encode(day_record(1))),
        bytes_of_eight=len(data),
        sampled_bytes_of_one=len(encode(day_record(1, cycles=False))),
        fullest_bytes_of_one=len(encode(day_record(1, cycles=False, seconds=FULLEST_SECONDS))),
        encode_seconds=times[0],
        bare_encode_seconds=times[1],
        decode_seconds=times[2],
        bare_decode_seconds=times[3],
    )


def _interleaved(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, its in zip(calls, seconds, strict=True):
            begin = time.thread_time()  # on a busy machine that of others is not in it
            call()
            its.append(time.thread_time() - begin)
    return [median(its) for its in seconds]


def day_record(
    gpu_count: int, *, job_id: int = 4711, cycles: bool = True, seconds: int = DAY_SECONDS
) -> NodeRecord:
    """The record of a job of one node that ran for a day, or for so many seconds."""
    record = _day_record(gpu_count, cycles, seconds)
    return replace(record, job=replace(record.job, key=replace(record.job.key, job_id=job_id)))


@cache
def _day_record(gpu_count: int, cycles: bool, seconds: int) -> NodeRecord:
    offset_ns = int(START_EPOCH_S * 1e9) - START_NS
    folds = day_folds(gpu_count, START_NS, offset_ns, cycles, seconds)
    given = [
        Allocation(
            position=position,
            allocated_seconds=float(seconds),
            uuid=f"GPU-5c1b3a1e-9d3f-4f0e-8a77-{position:012x}",
            gpu_model=MODEL,
            mapped_by="minor",
            sm_count=132,
        )
        for position in range(gpu_count)
    ]
    model, end = find_model(MODEL, ()), START_EPOCH_S + seconds
    quarters = quarter_sums(
        list(zip(folds, given, strict=True)), model, MODEL, 0.1, seconds_per_quarter(START_EPOCH_S, end)
    )
    pairs = zip(folds, given, strict=True)
    gpus = [gpu_totals(fold, its, model, RULES, died=False, wall_offset_ns=offset_ns) for fold, its in pairs]
    return node_record(
        job=_job(gpu_count),
        node_name="node01",
        prolog=HookFacts(boot_id="", uptime_ns=START_NS, epoch_s=START_EPOCH_S, environment={}),
        end_uptime_ns=START_NS + seconds * 10**9,
        end_epoch_s=end,
        exit_code="0:0",
        gpus=gpus,
        quarters=quarters,
        health=SamplerHealth(tick_count=8640, late_max_seconds=0.01, placement="own scope", source="nvml"),
        software_version="0.1.0",
    )


def _job(gpu_count: int) -> Job:
    return Job(
        key=RunKey(cluster="bench", job_id=4711, restart_count=0),
        restart_certain=True,
        user="ada",
        uid=20001,
        account="physics",
        partition="gpu",
        node_list="node01",
        node_count=1,
        gpu_positions=tuple(range(gpu_count)),
    )
