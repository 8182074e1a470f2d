"""What a job said of its own efficiency, beside what was measured."""

from slurm_ofu.figures import ClaimComparison, compare_claim
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.wording import name, percent
from slurm_ofu.values import Claim, Figures

_LABEL = "Claimed"
_NOT_COMPARED = {
    "no_ofu": "there is no OFU",
    "doubtful": "the OFU is not this job's alone, or its counters contradict each other",
    "low_coverage": "the OFU speaks for a part of the job only (see Coverage)",
    "several_gpu_models": "its GPUs are of several models, whose peaks differ",
    "no_peak": "the peak of its GPUs is not known",
}
#: What the comparison is not; true of every one.
CLAIM_NOTE = (
    "Claimed is what the job itself says. OFU counts the tensor pipes' cycles against the dense 16-bit peak:"
    " FP8 does more work in a cycle and TF32 less, and recomputed work is in OFU but in no MFU. Then the two"
    " differ though both are right"
)


def claim_facts(claim: Claim | None, its: Figures, *, doubt: str | None) -> list[Fact]:
    """The claim and what it is held against; without one the ``doubt`` about what looks like it, if any."""
    if claim is None:
        return [] if doubt is None else [(_LABEL, name(doubt))]
    compared = compare_claim(claim, its)
    return [(_LABEL, _stated(claim, compared)), ("", _beside(claim, compared))]


def _stated(claim: Claim, compared: ClaimComparison) -> str:
    text = f"({name(claim.text)} in the job's comment)"
    if claim.kind == "mfu":
        return f"MFU {percent(claim.value)} {text}"
    share = "" if compared.stated_ratio is None else f", {percent(compared.stated_ratio)} of the peak"
    return f"{claim.value:g} TFLOP/s per GPU{share} {text}"


def _beside(claim: Claim, compared: ClaimComparison) -> str:
    if compared.not_compared is not None:
        return f"not compared: {_NOT_COMPARED[compared.not_compared]}"
    measured = percent(compared.measured_ratio)
    if claim.kind == "tflops" and compared.measured_tflops is not None:
        measured = f"{compared.measured_tflops:.1f} TFLOP/s per GPU"
    times = compared.stated_over_measured
    more = "" if times is None else f"{times:.2f} times that, "
    return (
        f"{name(compared.compared_to)} is {measured}; stated is {more}"
        f"{compared.difference_pp or 0.0:+.1f} percentage points"
    )
