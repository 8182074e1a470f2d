"""Which GPUs a run had, and what is made of their looks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slurm_ofu.counters.dcgm_fields import Quantity
from slurm_ofu.counters.stored_series import Course, Device, Look
from slurm_ofu.store.backfilling import RunOnNode
from slurm_ofu.values import Config, NodeRecord
from slurm_ofu.wiring.backfilled_runs import RunFilling
from slurm_ofu.wiring.backfilling import at_once
from tests.store.accounting_rows import START_S

S = 10**9
STEP = 30
SECONDS = 600
BUSY: Mapping[Quantity, float] = {
    "tensor_active_ratio": 0.5,
    "sm_clock_mhz": 1830.0,
    "utilisation_ratio": 1.0,
    "power_watts": 500.0,
}
CONFIG = Config(path="/x")


def make_run(job_id: int = 42, **more: object) -> RunOnNode:
    """Ten minutes of one GPU."""
    run = RunOnNode(
        run_id=job_id,
        cluster="alpha",
        job_id=job_id,
        array_job_id=None,
        array_task_id=None,
        restart_count=0,
        sluid=None,
        user="ada",
        uid=1000,
        account="physics",
        partition="gpu",
        exit_code="0:0",
        start_epoch_s=float(START_S),
        end_epoch_s=float(START_S + SECONDS),
        wanted=True,
        gpu_count=1,
        node_list="n1",
        node_count=1,
    )
    return replace(run, **more)  # type: ignore[arg-type]


def make_looks(
    *jobs: str,
    values: Mapping[Quantity, float] = BUSY,
    first: int = -60,
    last: int = SECONDS + 60,
    offset: int = 10,
) -> list[Look]:
    """Every half minute, from a minute before the run to a minute after it."""
    times = range(first + offset, last + 1, STEP)
    return [
        Look(
            taken_ns=(START_S + at) * S,
            since_ns=(START_S + at - STEP) * S,
            jobs=frozenset(jobs),
            values=values,
            has_tensor="tensor_active_ratio" in values,
        )
        for at in times
    ]


def filled(
    looks: Sequence[Sequence[Look]], run: RunOnNode | None = None, *others: RunOnNode, most_gpus: int = 0
) -> NodeRecord | None:
    """The record of a run on a node of so many H100."""
    its = RunFilling(run or make_run(), "n1", others, most_gpus)
    devices = {Device(f"GPU-{number}", None): one for number, one in enumerate(looks)}
    courses = {
        device: Course(gpu=str(number), gpu_model="NVIDIA H100 80GB HBM3", step_ns=STEP * S)
        for number, device in enumerate(devices)
    }
    its.add(devices, courses)
    return its.record(CONFIG, "1")


def mapping(record: NodeRecord | None) -> list[tuple[int, str, str | None]]:
    """Position, reason and mapping of each GPU."""
    assert record is not None
    return [(gpu.position, gpu.reason, gpu.mapped_by) for gpu in record.gpus]


def test_the_samples_at_the_edges_count_for_the_part_inside() -> None:
    """The first and the last reach over the run's ends: covered is the run's time, to the second."""
    record = filled([make_looks()])
    assert record is not None
    [gpu] = record.gpus
    assert (float(SECONDS), float(SECONDS), "scraped") == (
        *(gpu.covered_seconds, gpu.allocated_seconds),
        gpu.estimator,
    )
    assert gpu.tensor_ref_seconds == pytest.approx(SECONDS / 2)
    assert pytest.approx((SECONDS, 500.0 * SECONDS)) == (gpu.utilisation_covered_seconds, gpu.power_joules)
    assert SECONDS == sum(quarter.covered_seconds for quarter in record.quarters)
    assert (True, "ok", "prometheus", float(START_S)) == (
        *(record.backfilled, record.reason, record.health.source),
        record.start_epoch_s,
    )


def test_what_nobody_said_is_not_covered() -> None:
    """Side figures neither: an instant stands for its own interval, not for the gap before it."""
    early, late = make_looks(last=190), make_looks(first=400)
    late[0] = replace(late[0], since_ns=None)
    record = filled([early + late])
    assert record is not None
    [gpu] = record.gpus
    covered = 190 + (SECONDS - 410)
    assert (covered, covered + STEP) == (gpu.covered_seconds, gpu.utilisation_covered_seconds)


def test_a_job_between_two_samples() -> None:
    """The sample that covers it speaks for it, and it is short."""
    record = filled([make_looks(offset=20)], make_run(end_epoch_s=START_S + 15.0))
    assert record is not None
    assert ("short", 15.0) == (record.gpus[0].reason, record.gpus[0].covered_seconds)


def test_samples_that_end_early_leave_no_idle_tail() -> None:
    """What came after them is not known."""
    idle: Mapping[Quantity, float] = {
        **BUSY,
        "tensor_active_ratio": 0.0,
        "utilisation_ratio": 0.0,
        "power_watts": 60.0,
    }
    whole, part = filled([make_looks(values=idle)]), filled([make_looks(values=idle, last=300)])
    assert whole is not None and part is not None
    assert (SECONDS, None) == (whole.gpus[0].idle_tail_seconds, part.gpus[0].idle_tail_seconds)


def test_no_samples_no_record() -> None:
    """Nothing can be said."""
    assert filled([]) is None
    assert filled([make_looks(first=-600, last=-300)]) is None


def test_the_label_says_which() -> None:
    """Also that of an array's task; the GPU's number is the exporter's."""
    looks = [make_looks(), make_looks("42"), make_looks("7")]
    assert [(1, "ok", "hpc_job")] == mapping(filled(looks))
    task = make_run(43, array_job_id=42, array_task_id=3)
    assert [(2, "ok", "hpc_job")] == mapping(
        filled([make_looks("42_4"), make_looks("42"), make_looks("42_3")], task)
    )


def test_more_labels_than_gpus() -> None:
    """A stale mapping: which of them it had is not known."""
    assert [(0, "unmapped", None)] == mapping(filled([make_looks("42"), make_looks("42"), make_looks()]))


def test_fewer_labels_than_gpus() -> None:
    """C14: the others are allocated and not measured: unmapped where there are more, or without a source."""
    run = make_run(gpu_count=3)
    looks = [make_looks("42"), make_looks(), make_looks(), make_looks()]
    assert [(0, "ok", "hpc_job"), (1, "unmapped", None), (2, "unmapped", None)] == mapping(filled(looks, run))
    assert [(0, "ok", "hpc_job"), (1, "no_source", None), (2, "no_source", None)] == mapping(
        filled(looks[:1], run)
    )


def test_a_label_of_a_part_and_every_gpu_by_slurm() -> None:
    """Slurm's count goes before a mapping that is not complete."""
    run = make_run(gpu_count=2)
    assert [(0, "ok", "whole_node"), (1, "ok", "whole_node")] == mapping(
        filled([make_looks("42"), make_looks()], run)
    )


def test_gpus_without_tensor_figures_are_still_the_jobs() -> None:
    """C14: eight allocated, figures of four: half covered, and the OFU of the four."""
    dark: Mapping[Quantity, float] = {"sm_clock_mhz": 1830.0, "utilisation_ratio": 1.0}
    looks = [make_looks()] * 4 + [make_looks(values=dark)] * 4
    record = filled(looks, make_run(gpu_count=8))
    assert record is not None
    assert ["ok"] * 4 + ["no_source"] * 4 == [gpu.reason for gpu in record.gpus]
    assert (4 * SECONDS, 8 * SECONDS) == (
        sum(gpu.covered_seconds for gpu in record.gpus),
        sum(gpu.allocated_seconds or 0.0 for gpu in record.gpus),
    )


def test_a_job_on_the_node_at_the_same_time() -> None:
    """Then it had not every GPU, whatever the counts say; by the label it may share one."""
    other = make_run(43, wanted=False)
    assert [(0, "unmapped", None)] == mapping(filled([make_looks()], make_run(), other))
    record = filled([make_looks("42", "43")], make_run(), other)
    assert record is not None
    assert (0, "shared", "hpc_job", SECONDS / 2) == (*mapping(record)[0], record.gpus[0].covered_seconds)
    stale = filled([make_looks("42", "41")], make_run(), other)
    assert [(0, "ok", "hpc_job")] == mapping(stale)


def test_an_exporter_that_shows_a_part_of_the_node() -> None:
    """As many as the job had, and yet perhaps others: where another job had more, or a number is left out."""
    run, both = make_run(gpu_count=2), [make_looks(), make_looks()]
    unmapped = [(0, "unmapped", None), (1, "unmapped", None)]
    assert [(0, "ok", "whole_node"), (1, "ok", "whole_node")] == mapping(filled(both, run, most_gpus=2))
    assert unmapped == mapping(filled(both, run, most_gpus=4))
    its = RunFilling(run, "n1", ())
    devices = {Device(f"GPU-{number}", None): make_looks() for number in (0, 2)}
    its.add(devices, {one: Course(gpu=one.uuid[-1], step_ns=STEP * S) for one in devices})
    assert unmapped == mapping(its.record(CONFIG, "1"))
    labelled = [make_looks("42"), make_looks("42")]
    assert [(0, "ok", "hpc_job"), (1, "ok", "hpc_job")] == mapping(filled(labelled, run, most_gpus=4))


def test_a_slice_that_two_jobs_hold() -> None:
    """Measured or not, its time counts once: a half for each, in the row and in the quarter hours."""
    its = RunFilling(make_run(), "n1", [make_run(43, wanted=False)])
    slice_of = Device("GPU-0", "7")
    its.add({slice_of: make_looks("42", "43")}, {slice_of: Course(gpu="0", step_ns=STEP * S)})
    record = its.record(CONFIG, "1")
    assert record is not None
    assert [(0, "no_source", "hpc_job")] == mapping(record)
    assert (SECONDS / 2, SECONDS / 2) == (
        record.gpus[0].allocated_seconds,
        sum(quarter.allocated_seconds for quarter in record.quarters),
    )


def test_gpus_that_slurm_spreads_unevenly() -> None:
    """How many this node had is not known: by the labels alone, or nothing."""
    run = make_run(gpu_count=None)
    assert [(0, "ok", "hpc_job"), (1, "ok", "hpc_job")] == mapping(
        filled([make_looks("42"), make_looks("42"), make_looks()], run)
    )
    assert filled([make_looks(), make_looks()], run) is None


def test_an_unknown_model_keeps_its_activity() -> None:
    """Without a reference clock there is no OFU."""
    its = RunFilling(make_run(), "n1", [])
    device = Device("GPU-0", None)
    its.add({device: make_looks()}, {device: Course(gpu="0", gpu_model="Voodoo 2", step_ns=STEP * S)})
    record = its.record(CONFIG, "1")
    assert record is not None
    [gpu] = record.gpus
    assert ("unknown_model", None, SECONDS / 2) == (
        gpu.reason,
        gpu.tensor_ref_seconds,
        gpu.tensor_active_seconds,
    )


def test_counters_that_stand_still() -> None:
    """C03: no activity of any engine while kernels run and power is drawn is suspect, not idle."""
    still: Mapping[Quantity, float] = {
        **BUSY,
        "tensor_active_ratio": 0.0,
        "engine_active_ratio": 0.0,
        "utilisation_ratio": 0.99,
        "power_watts": 640.0,
    }
    assert [(0, "suspect", "whole_node")] == mapping(filled([make_looks(values=still)]))


def test_who_was_there_at_once() -> None:
    """Runs whose times meet in more than an instant, each with every such other."""
    spans = {1: (0, 100), 2: (50, 60), 3: (60, 70), 4: (100, 200), 5: (90, 300)}
    runs = [
        make_run(job, start_epoch_s=float(start), end_epoch_s=float(end))
        for job, (start, end) in spans.items()
    ]
    found = {run.job_id: {other.job_id for other in others} for run, others in at_once(runs)}
    assert {1: {2, 3, 5}, 2: {1}, 3: {1}, 4: {5}, 5: {1, 4}} == found
