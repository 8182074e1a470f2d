"""What a job says of its own efficiency, beside what its GPUs did: the stated share of the peak and OFU.

Both are shares of the dense 16-bit peak. They are put side by side only where the OFU speaks for nearly
all of the run, on GPUs of one model, and nothing casts doubt on it; elsewhere it is said why not.
"""

from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.values import Claim, Figures

NEARLY_ALL: Final = 0.95  # coverage from which on a figure stands for the whole
_DOUBTFUL: Final = ("suspect", "shared")

NotCompared = Literal[
    "no_ofu",  # there is nothing to compare it to
    "doubtful",  # the counters contradict each other, or other jobs' work is in the figure
    "low_coverage",  # OFU speaks for a part of the run, the claim for all of it
    "several_gpu_models",  # shares of different peaks
    "no_peak",  # of TFLOP/s: what the peak of this GPU model is, is not known
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimComparison:
    """A claim beside OFU. Where they are not compared, ``not_compared`` says why, and all but the stated
    share is ``None``."""

    stated_ratio: float | None  # of the dense 16-bit peak; None: of TFLOP/s without one known peak
    measured_ratio: float | None = None  # OFU
    measured_tflops: float | None = None  # per GPU, OFU times the peak; None: no peak is known
    difference_pp: float | None = None  # stated minus measured, percentage points
    stated_over_measured: float | None = None  # None also where 0 was measured
    compared_to: str | None = None  # in words
    not_compared: NotCompared | None = None


def compare_claim(claim: Claim, its: Figures) -> ClaimComparison:
    """The claim of a run beside the run's figures."""
    stated = _stated_ratio(claim, its)
    reason = _why_not(claim, its)
    if reason is not None or stated is None or its.ofu_ratio is None:
        return ClaimComparison(stated_ratio=stated, not_compared=reason)
    return ClaimComparison(
        stated_ratio=stated,
        measured_ratio=its.ofu_ratio,
        measured_tflops=None if claim.peak_tflops is None else its.ofu_ratio * claim.peak_tflops,
        difference_pp=100 * (stated - its.ofu_ratio),
        stated_over_measured=stated / its.ofu_ratio if its.ofu_ratio > 0 else None,
        compared_to=_compared_to(claim, its),
    )


def _stated_ratio(claim: Claim, its: Figures) -> float | None:
    """The claim as a share of the peak; TFLOP/s on GPUs of several models are a share of none of theirs."""
    if claim.kind == "mfu":
        return claim.value
    if its.gpu_model == "mixed":
        return None
    return claim.value / claim.peak_tflops if claim.peak_tflops else None


def _why_not(claim: Claim, its: Figures) -> NotCompared | None:
    if its.ofu_ratio is None:
        return "no_ofu"
    if any(reason in _DOUBTFUL for reason in its.reasons):
        return "doubtful"
    if its.coverage_ratio is None or its.coverage_ratio < NEARLY_ALL:
        return "low_coverage"
    if its.gpu_model == "mixed":
        return "several_gpu_models"
    return "no_peak" if _stated_ratio(claim, its) is None else None


def _compared_to(claim: Claim, its: Figures) -> str:
    if claim.kind == "mfu":
        return "OFU"
    return f"OFU × {claim.peak_tflops:g} TFLOP/s, the dense 16-bit peak of {its.gpu_model or 'its GPUs'}"
