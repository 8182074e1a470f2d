"""What the hooks left of a run → its record."""

from pathlib import Path

import pytest

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import StateError
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import Claim, Config, NodeRecord
from slurm_ofu.wiring.finishing import assemble, environment_facts, finish_run
from tests.integrals.examples import SECOND, near
from tests.wiring.left_behind import (
    EARLIER_BOOT,
    EPOCH_S,
    PROLOG_S,
    config_for,
    leave_checkpoint,
    leave_facts,
    tag_of,
)

TAG = tag_of(7)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_for(tmp_path)


def record_of(spool: Spool, config: Config, tag: str = TAG) -> NodeRecord:
    return assemble(spool, tag, config)[0]


def test_a_run_whose_sampler_died(spool: Spool, config: Config) -> None:
    """The record is made of both hooks' words and the last checkpoint; what was measured is kept."""
    leave_facts(spool, TAG, "prolog", PROLOG_S)
    leave_checkpoint(spool, TAG, PROLOG_S + 80)
    leave_facts(spool, TAG, "epilog", PROLOG_S + 100, {"SLURM_JOB_EXIT_CODE2": "0:15"})
    record = record_of(spool, config)
    assert (7, "n1", 100.0, "0:15", "nvml") == (
        record.job.key.job_id,
        record.node_name,
        record.allocated_seconds,
        record.exit_code,
        record.health.source,
    )
    measured, unmapped = record.gpus
    assert ("sampler_died", near(0.4 * 70), 70.0, 100.0) == (
        measured.reason,
        measured.tensor_ref_seconds,
        measured.covered_seconds,
        measured.allocated_seconds,
    )
    assert ("unmapped", None, 0.0, 100.0) == (
        unmapped.reason,
        unmapped.tensor_ref_seconds,
        unmapped.covered_seconds,
        unmapped.allocated_seconds,
    )


@pytest.mark.parametrize(
    ("positions", "share", "peak"), [("0", 1.0, 989.4), ("0,1", 1.0, None), ("0", 1 / 7, None)]
)
def test_a_claim_gets_the_peak_of_its_gpus(
    spool: Spool, config: Config, positions: str, share: float, peak: float | None
) -> None:
    """The epilog's comment makes the claim; where every GPU of the node is of one known model, its dense
    16-bit peak goes with it, and where one of them is unknown, or a slice of a GPU, none does."""
    said = {"SLURM_JOB_GPUS": positions, "SLURM_JOB_COMMENT": "tflops=1"}
    leave_facts(spool, TAG, "prolog", PROLOG_S, said)
    count = len(positions.split(","))
    leave_checkpoint(spool, TAG, PROLOG_S + 80, gpu_count=count, sm_share_ratio=share)
    leave_facts(spool, TAG, "epilog", PROLOG_S + 100, {**said, "SLURM_JOB_COMMENT": "run 3, tflops=412"})
    expected = Claim(kind="tflops", value=412.0, text="tflops=412", peak_tflops=peak)
    assert expected == decode(encode(record_of(spool, config))).job.claim


def test_quarters_hold_every_gpu(spool: Spool, config: Config) -> None:
    """Allocated seconds of all GPUs are in the quarter hours, those of an unmapped GPU too."""
    leave_facts(spool, TAG, "prolog", PROLOG_S)
    leave_checkpoint(spool, TAG, PROLOG_S + 1900)
    leave_facts(spool, TAG, "epilog", PROLOG_S + 2000)
    record = record_of(spool, config)
    assert 2 * 2000.0 == pytest.approx(sum(row.allocated_seconds for row in record.quarters))
    assert 70.0 == pytest.approx(sum(row.covered_seconds for row in record.quarters))
    assert {None, "NVIDIA H100 80GB HBM3"} == {row.gpu_model for row in record.quarters}
    assert all(row.start_epoch_s % 900 == 0 for row in record.quarters)


@pytest.mark.parametrize(("held_s", "expected"), [(5.0, "short"), (19.9, "short"), (20.1, "sampler_died")])
def test_a_run_without_a_checkpoint(spool: Spool, config: Config, held_s: float, expected: str) -> None:
    """A job shorter than two intervals may be over before its sampler ever looked; a longer one's died."""
    leave_facts(spool, TAG, "prolog", PROLOG_S)
    leave_facts(spool, TAG, "epilog", PROLOG_S + held_s)
    record = record_of(spool, config)
    assert [(0, expected, near(held_s)), (1, expected, near(held_s))] == [
        (gpu.position, gpu.reason, gpu.allocated_seconds) for gpu in record.gpus
    ]
    assert expected == record.reason


def test_a_run_without_a_prolog(spool: Spool, config: Config) -> None:
    """not_started (no prolog ran on that node): nothing is known of how long, and that is not zero."""
    leave_facts(spool, TAG, "epilog", PROLOG_S)
    record = record_of(spool, config)
    assert ("not_started", None, None, False) == (
        record.reason,
        record.allocated_seconds,
        record.start_epoch_s,
        record.job.restart_certain,
    )
    assert [("not_started", None)] * 2 == [(gpu.reason, gpu.allocated_seconds) for gpu in record.gpus]


def test_a_run_that_a_reboot_ended(spool: Spool, config: Config) -> None:
    """Without an epilog the run ended with the last thing that the sampler saved."""
    leave_facts(spool, TAG, "prolog", PROLOG_S, boot=EARLIER_BOOT)
    leave_checkpoint(spool, TAG, PROLOG_S + 80)
    record = record_of(spool, config)
    assert (80.0, EPOCH_S + PROLOG_S + 80, None) == (
        record.allocated_seconds,
        record.end_epoch_s,
        record.exit_code,
    )
    assert "sampler_died" == record.gpus[0].reason


def test_a_run_of_which_nothing_says_when_it_ended(spool: Spool, config: Config) -> None:
    """Neither epilog nor checkpoint: how long the GPUs were held is unknown."""
    leave_facts(spool, TAG, "prolog", PROLOG_S, boot=EARLIER_BOOT)
    record = record_of(spool, config)
    assert (None, "sampler_died") == (record.allocated_seconds, record.reason)


def test_hooks_on_a_full_disk_leave_names(spool: Spool, config: Config) -> None:
    """Hooks that could not write left empty files: their names say which job it was."""
    spool.make()
    for hook in ("prolog", "epilog"):
        (spool.state / f"{TAG}.{hook}").write_bytes(b"")
    record = record_of(spool, config)
    assert (7, 0, ()) == (record.job.key.job_id, record.job.key.restart_count, record.gpus)


def test_a_run_of_which_nothing_is_left(spool: Spool, config: Config) -> None:
    """A run of which no hook left anything is a StateError."""
    spool.make()
    with pytest.raises(StateError, match="no hook left anything"):
        record_of(spool, config)


def test_a_broken_checkpoint_costs_its_figures_only(spool: Spool, config: Config) -> None:
    """A checkpoint that cannot be read counts as none."""
    leave_facts(spool, TAG, "prolog", PROLOG_S)
    leave_facts(spool, TAG, "epilog", PROLOG_S + 100)
    spool.write_checkpoint(TAG, b"not a checkpoint")
    assert ["sampler_died"] * 2 == [gpu.reason for gpu in record_of(spool, config).gpus]


def test_a_finished_run_is_in_the_outbox(spool: Spool, config: Config) -> None:
    """Finishing puts the record into the outbox, takes the run out of the state, and leaves a mark."""
    leave_facts(spool, TAG, "prolog", PROLOG_S)
    leave_facts(spool, TAG, "epilog", PROLOG_S + 100, {"SLURM_JOB_START_TIME": "1764424800"})
    record = finish_run(spool, TAG, config)
    (path,) = spool.waiting()
    assert record.job == decode(path.read_bytes()).job
    assert ((), f"{TAG}.record") == (spool.tags(), path.name)
    ((tag, note),) = spool.done_notes()
    assert (TAG, ["0", "1764424800"]) == (tag, note.split()[:2])


def test_a_shared_gpu_is_split(spool: Spool, config: Config) -> None:
    """A GPU shared by several jobs: rows are flagged shared, and device time is split so that sums never
    exceed the device's time."""
    for job in (7, 8):
        tag = tag_of(job)
        leave_facts(spool, tag, "prolog", PROLOG_S)
        leave_checkpoint(spool, tag, PROLOG_S + 80)
        leave_facts(spool, tag, "epilog", PROLOG_S + 100)
    records = [finish_run(spool, tag_of(job), config) for job in (7, 8)]
    for record in records:
        assert (50.0, 35.0, near(0.4 * 35)) == (
            record.gpus[0].allocated_seconds,
            record.gpus[0].covered_seconds,
            record.gpus[0].tensor_ref_seconds,
        )
        assert ("unmapped", 50.0) == (record.gpus[1].reason, record.gpus[1].allocated_seconds)


def test_facts_from_the_environment() -> None:
    """Where the spool could not hold them, a process's own environment says who the job is; only Slurm's
    part of it is kept."""
    facts = environment_facts(
        {"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0", "HOME": "/"}, 5 * SECOND, 1.0
    )
    assert ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0"}, 5 * SECOND) == (
        facts.environment,
        facts.uptime_ns,
    )
