"""A claim beside what was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures import compare_claim, figures
from slurm_ofu.values import Claim, UsageSums
from tests.figures.examples import HOUR, measured, unmeasured

MFU = Claim(kind="mfu", value=0.5, text="mfu=0.5")
TFLOPS = Claim(kind="tflops", value=494.7, text="tflops=494.7", peak_tflops=989.4)
NO_PEAK = Claim(kind="tflops", value=494.7, text="tflops=494.7")
HOURS = 16 * HOUR


def test_an_mfu_is_held_against_ofu() -> None:
    """An MFU is a share of the dense 16-bit peak, as OFU is: they are subtracted and divided as they are."""
    found = compare_claim(MFU, figures(measured()))
    assert (0.5, 0.4, None, "OFU", None) == (
        found.stated_ratio,
        found.measured_ratio,
        found.measured_tflops,
        found.compared_to,
        found.not_compared,
    )
    assert pytest.approx(10.0) == found.difference_pp
    assert pytest.approx(1.25) == found.stated_over_measured


def test_tflops_are_held_against_ofu_times_the_peak() -> None:
    """TFLOP/s per GPU become a share of the peak, and OFU times the peak becomes TFLOP/s per GPU."""
    found = compare_claim(TFLOPS, figures(measured()))
    assert (0.5, 0.4) == (found.stated_ratio, found.measured_ratio)
    assert pytest.approx(395.76) == found.measured_tflops
    assert pytest.approx(10.0) == found.difference_pp
    assert pytest.approx(1.25) == found.stated_over_measured
    assert "OFU × 989.4 TFLOP/s, the dense 16-bit peak of NVIDIA H100 80GB HBM3" == found.compared_to


@pytest.mark.parametrize(
    ("claim", "sums", "why"),
    [
        (MFU, unmeasured(), "no_ofu"),
        (MFU, measured(tensor_ref_seconds=None, ofu_covered_seconds=0.0), "no_ofu"),
        (MFU, measured(reasons=("ok", "suspect")), "doubtful"),
        (MFU, measured(reasons=("shared",)), "doubtful"),
        (MFU, measured(allocated_seconds=HOURS / 0.949), "low_coverage"),
        (MFU, measured(allocated_seconds=None), "low_coverage"),
        (MFU, measured(gpu_models=("a", "b")), "several_gpu_models"),
        (TFLOPS, measured(gpu_models=("a", "b")), "several_gpu_models"),
        (NO_PEAK, measured(), "no_peak"),
        (NO_PEAK, unmeasured(), "no_ofu"),
    ],
)
def test_no_comparison_where_it_would_mislead(claim: Claim, sums: UsageSums, why: str) -> None:
    """Without an OFU, with a doubtful one, one for a part of the run, of several models, or without a known
    peak, nothing is compared and it is said why; TFLOP/s are no share of several models' peaks."""
    found = compare_claim(claim, figures(sums))
    assert (why, None, None, None, None, None) == (
        found.not_compared,
        found.measured_ratio,
        found.measured_tflops,
        found.difference_pp,
        found.stated_over_measured,
        found.compared_to,
    )
    no_share = claim is NO_PEAK or (claim is TFLOPS and why == "several_gpu_models")
    assert (None if no_share else 0.5) == found.stated_ratio


def test_nearly_all_is_enough() -> None:
    """From a coverage of 95 % on the OFU stands for the whole run."""
    assert None is compare_claim(MFU, figures(measured(allocated_seconds=HOURS / 0.951))).not_compared


def test_a_measured_zero_is_compared() -> None:
    """Beside an OFU of 0 the difference is a figure and the quotient is none."""
    zero = measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0)
    found = compare_claim(MFU, figures(zero))
    assert (0.0, 50.0, None, None) == (
        found.measured_ratio,
        found.difference_pp,
        found.stated_over_measured,
        found.not_compared,
    )


@pytest.mark.property
@given(
    st.floats(1e-6, 1.5),
    st.floats(1e-6, 1.2),
    st.floats(50.0, 5000.0),
)
def test_both_kinds_of_claim_say_the_same(ratio: float, ofu: float, peak: float) -> None:
    """An MFU, and that share of the peak in TFLOP/s, compare alike with any OFU."""
    its = figures(measured(tensor_ref_seconds=ofu * HOURS, tensor_active_seconds=HOURS))
    one = compare_claim(Claim(kind="mfu", value=ratio, text=""), its)
    other = compare_claim(Claim(kind="tflops", value=ratio * peak, text="", peak_tflops=peak), its)
    assert one.difference_pp == pytest.approx(other.difference_pp, abs=1e-9)
    assert one.stated_over_measured == pytest.approx(other.stated_over_measured)
