"""The peak that a claim is held against."""

import pytest

from slurm_ofu.values import Claim, GpuModel
from slurm_ofu.wiring.claiming import with_peak

CLAIM = Claim(kind="tflops", value=412.0, text="tflops=412")
OURS = GpuModel(name="H100 80GB HBM3", sm_count=132, reference_clock_mhz=1755.0, max_clock_mhz=None)


@pytest.mark.parametrize(
    ("gpu_models", "peak"),
    [
        (["NVIDIA H100 80GB HBM3"], 989.4),
        (["NVIDIA H100 80GB HBM3", "H100-80GB HBM3"], 989.4),  # two spellings of one name
        (["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"], None),
        (["NVIDIA H100 80GB HBM3", None], None),
        (["NVIDIA Unheard-of"], None),
        ([None], None),
        ([], None),
    ],
)
def test_one_known_model_has_a_peak(gpu_models: list[str | None], peak: float | None) -> None:
    """A claim gets the peak of its GPUs where all are of one known model, and none where any is not."""
    found = with_peak(CLAIM, gpu_models)
    assert found is not None
    assert (peak, 412.0) == (found.peak_tflops, found.value)


def test_a_sites_own_row_has_no_peak() -> None:
    """A site that gives a model another reference clock says no peak, so none is assumed."""
    found = with_peak(CLAIM, ["NVIDIA H100 80GB HBM3"], [OURS])
    assert found is not None
    assert None is found.peak_tflops


def test_no_claim_stays_none() -> None:
    """Without a claim there is nothing to hold against anything."""
    assert None is with_peak(None, ["NVIDIA H100 80GB HBM3"])
