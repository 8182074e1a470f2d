"""What a page says of a job's own claim."""

from typing import Any

from slurm_ofu.reports.as_page import as_page
from slurm_ofu.values import Claim, JobPage, UsageSums
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import CET, HOSTILE, job_row

MFU = Claim(kind="mfu", value=0.5, text="MFU=0.5")
TFLOPS = Claim(kind="tflops", value=412.0, text="tflops=412", peak_tflops=989.4)


def words(sums: UsageSums | None = None, *, doubt: str | None = None, **run: Any) -> str:
    """A page as words with single blanks."""
    page = JobPage(row=job_row(sums=sums, **run), nodes=(), gpus=())
    return " ".join(as_page(page, CET, width=80, colour=False, doubt=doubt).split())


def test_an_mfu() -> None:
    """An MFU stands beside OFU, with their difference and quotient, and a note says what that is not."""
    text = words(claim=MFU)
    assert (
        "Claimed MFU 50.0 % (MFU=0.5 in the job's comment) OFU is 40.0 %; stated is 1.25 times that, +10.0"
        in text
    )
    assert "FP8 does more work in a cycle and TF32 less" in text


def test_tflops() -> None:
    """TFLOP/s per GPU stand beside OFU times the peak, which is named."""
    text = words(claim=TFLOPS)
    assert "Claimed 412 TFLOP/s per GPU, 41.6 % of the peak (tflops=412 in the job's comment)" in text
    assert (
        "OFU × 989.4 TFLOP/s, the dense 16-bit peak of NVIDIA H100 80GB HBM3 is 395.8 TFLOP/s per GPU; stated"
        " is 1.04 times that, +1.6 percentage points"
    ) in text


def test_a_measured_zero() -> None:
    """Beside an OFU of 0 there is no quotient."""
    text = words(measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0), claim=MFU)
    assert "OFU is 0.0 %; stated is +50.0 percentage points" in text


def test_not_compared() -> None:
    """Where there is nothing to hold it against, or that would mislead, the page says so."""
    assert "Claimed MFU 50.0 % (MFU=0.5 in the job's comment) not compared: there is no OFU" in words(
        unmeasured(), claim=MFU
    )
    assert "not compared: the OFU speaks for a part of the job only (see Coverage)" in words(
        measured(allocated_seconds=20 * HOUR), claim=MFU
    )
    assert "not compared: its GPUs are of several models, whose peaks differ" in words(
        measured(gpu_models=("a", "b")), claim=MFU
    )
    assert "not compared: the OFU is not this job's alone" in words(measured(reasons=("shared",)), claim=MFU)
    text = words(claim=Claim(kind="tflops", value=412.0, text="tflops=412"))
    assert (
        "Claimed 412 TFLOP/s per GPU (tflops=412 in the job's comment) not compared: the peak of its" in text
    )


def test_no_claim() -> None:
    """A job that claims nothing has no such line, and no note on one."""
    assert "laimed" not in words()


def test_a_doubt() -> None:
    """What looks like a claim and is none is said to be one; beside a claim there is no doubt to speak of."""
    doubt = "a claim in the comment was not understood: mfu=41%; write mfu=0.41"
    assert f"Claimed {doubt} OFU 40.0 %" in words(doubt=doubt)
    assert "understood" not in words(claim=MFU, doubt=doubt)
    assert "\x1b" not in words(doubt=f"not understood: {HOSTILE}")
