"""What a page says of its run, and what Slurm's accounting adds to it."""

from typing import Any

import pytest

from slurm_ofu.reports.as_page import as_page
from slurm_ofu.values import GpuRow, JobPage, NodeRow, UsageSums
from tests.figures.examples import HOUR, gpu, measured, unmeasured
from tests.reports.examples import CET, MORNING, accounted, job_row, node

FULL = """\
Job 1000_4 on cluster alpha, restart 1
  Name      train
  User      wilma, account physics, partition gpu, QOS normal
  State     COMPLETED, exit code 0:0
  Run       2nd run of this job (requeued)
  Array     task 4 of array 1000, raw job id 1001
  Nodes     2: n[1-2]
  GPUs      8: NVIDIA H100 80GB HBM3 (reference clock 1830 MHz)
  Submitted 2026-11-05 09:58:12 CET (UTC+01:00)
  Time      2026-11-05 10:00:00 to 2026-11-05 12:12:00 CET (UTC+01:00)
            elapsed 02:00:00; suspended 00:12:00, not counted
  Comment   tuned

  OFU       40.0 % ±0.2 percentage points (95 %)
"""


def shown(
    sums: UsageSums | None = None, nodes: tuple[NodeRow, ...] = (), gpu_count: int = 0, **run: Any
) -> str:
    """A page as text."""
    gpus = tuple(GpuRow(node_name="n1", totals=gpu(position)) for position in range(gpu_count))
    return as_page(
        JobPage(row=job_row(sums=sums, **run), nodes=nodes, gpus=gpus), CET, width=80, colour=False
    )


def words(sums: UsageSums | None = None, nodes: tuple[NodeRow, ...] = (), **run: Any) -> str:
    """A page as words with single blanks, so that line ends do not matter."""
    return " ".join(shown(sums, nodes, **run).split())


def test_everything_that_accounting_says() -> None:
    """Name, QOS, state, array, submission and Slurm's own count of time stand there once it was read."""
    told = accounted(
        array_job_id=1000,
        array_task_id=4,
        restart_count=1,
        suspended_seconds=720.0,
        end_epoch_s=MORNING + 2.2 * HOUR,
        comment="tuned",
    )
    text = shown(gpu_count=1, **told)
    assert FULL == text[: len(FULL)]


def test_until_accounting_was_read() -> None:
    """Before accounting was read the state is unknown and said to be so, the exit code is the epilog's, and
    the time is the nodes'."""
    text = words()
    assert "State unknown: Slurm's accounting not read yet, exit code 0:0 Nodes" in text
    assert "12:00:00 CET (UTC+01:00), 2.0 h OFU" in text
    assert "Name" not in text
    assert "QOS" not in text
    assert "suspended" not in text
    assert "Submitted" not in text
    assert "State unknown: Slurm's accounting not read yet Nodes" in words(exit_code=None)


def test_what_accounting_does_not_say_is_unknown() -> None:
    """Accounting that was read and says nothing of a state leaves it unknown, without promising more."""
    text = words(**accounted(state=None, job_name=None, elapsed_seconds=None, qos=None))
    assert "State unknown, exit code 0:0 Nodes" in text
    assert "not read" not in text


@pytest.mark.parametrize("state", ["RESIZING", "RUNNING", "COMPLETING", "PENDING", "SUSPENDED"])
def test_a_state_on_the_way_is_not_final(state: str) -> None:
    """A state that a job passes through is never shown as the one in which it ended."""
    assert f"State not final: {state} when Slurm's accounting was read, exit" in words(
        **accounted(state=state)
    )


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED by 1000", "TIMEOUT", "REQUEUED", "SOMETHING_NEW"])
def test_a_state_at_the_end_is_shown(state: str) -> None:
    """Every other state, also one that this version never heard of, is shown as Slurm has it."""
    assert f"State {state}, exit code 0:0" in words(**accounted(state=state))


def test_a_component_of_a_heterogeneous_job() -> None:
    """A component is called 123+1, and the page has its raw id."""
    text = words(**accounted(het_job_id=1000, het_offset=1))
    assert text.startswith("Job 1000+1 on cluster alpha Name")
    assert "Part component 1 of heterogeneous job 1000, raw job id 1001" in text


def test_the_raw_id_only_where_it_is_another() -> None:
    """A plain job has one id, and shows it once; nor is anything said of a suspension that never was."""
    text = words(**accounted())
    assert "elapsed 02:00:00 OFU" in text
    assert text.startswith("Job 1001 on cluster alpha Name")
    assert "raw job id" not in text


def test_gpu_counts_that_differ_are_noted() -> None:
    """The GPU count of record is the prologs'; where Slurm accounted another one a note says so, and whether
    some of ours were assumed."""
    note = "GPUs: 8 by the prologs, Slurm accounted 16"
    assert note in words(**accounted(slurm_gpu_count=16))
    silent = (node("n1"), node("n2", gpu_count_assumed=True))
    assert "GPUs: 8 by the prologs (4 of them assumed), Slurm accounted 16" in words(
        nodes=silent, **accounted(slurm_gpu_count=16)
    )
    for same in (8, None):
        assert "Slurm accounted" not in words(**accounted(slurm_gpu_count=same))


def test_a_run_that_no_node_spoke_of() -> None:
    """A run known from accounting alone is n/a for want of records, which a plain sentence tells from zero;
    its GPUs are Slurm's."""
    sums = unmeasured(gpu_count=0.0, allocated_seconds=None, reasons=())
    text = words(sums, **accounted(heard=False))
    assert "GPUs 8 by Slurm's accounting" in text
    assert "Silent no node ever reported on this job." in text
    assert "does not mean that they did nothing" in text
    assert "OFU n/a (not_delivered)" in text
    assert "Slurm accounted" not in text
    assert "Silent" not in words(measured())


def test_a_run_that_was_backfilled() -> None:
    """No node spoke of it, and there are figures: where they come from is said, and its GPUs are named."""
    text = " ".join(shown(measured(), gpu_count=1, **accounted(heard=False)).split())
    assert "Silent no node ever reported on this job: the figures were made afterwards" in text
    assert "does not mean that they did nothing" not in text
    assert "NVIDIA H100 80GB HBM3 (reference clock 1830 MHz)" in text


def test_gpus_that_stored_samples_do_not_show() -> None:
    """C67: fewer GPUs than Slurm accounted do not pass for all of them because no node spoke."""
    note = "GPUs: 8 by the stored samples, Slurm accounted 16"
    more = accounted(heard=False, slurm_gpu_count=16)
    assert note in " ".join(shown(measured(), gpu_count=1, **more).split())
    same = " ".join(shown(measured(), gpu_count=1, **accounted(heard=False)).split())
    assert "Slurm accounted" not in same
