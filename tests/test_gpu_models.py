"""Exact GPU model name → reference clock."""

from collections import Counter

import pytest

from slurm_ofu.gpu_models import catalogue, find_model, normal_name
from slurm_ofu.values import GpuModel

ROWS = catalogue()


def clock_of(name: str | None) -> float | None:
    model = find_model(name)
    return None if model is None else model.reference_clock_mhz


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_recomputes_its_peak(row: GpuModel) -> None:
    """f_ref is the clock at which the vendor's dense tensor peak of this exact GPU model holds:
    SMs x rate x clock is that peak within 1 %."""
    assert row.sm_count is not None
    assert row.flop_per_clock_per_sm is not None
    peak = row.sm_count * row.flop_per_clock_per_sm * row.reference_clock_mhz / 1e6
    assert row.peak_tflops == pytest.approx(peak, rel=0.01)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_complete(row: GpuModel) -> None:
    """Each row says where it comes from and how sure it is; the reference clock is at most the maximum."""
    assert row.status in ("verified", "computed", "unsure")
    assert len(row.source) > 10
    assert row.max_clock_mhz is not None
    assert 1000 < row.reference_clock_mhz <= row.max_clock_mhz < 3000


def test_every_name_is_there_once() -> None:
    """No two rows answer to one name."""
    assert {1} == set(Counter(normal_name(row.name) for row in ROWS).values())


def test_reference_is_not_the_maximum() -> None:
    """It is NOT the maximum SM clock: H100 SXM has f_ref 1830 and a maximum of 1980."""
    model = find_model("NVIDIA H100 80GB HBM3")
    assert model is not None
    assert (1830, 1980, 132) == (model.reference_clock_mhz, model.max_clock_mhz, model.sm_count)


@pytest.mark.parametrize("name", ["H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA  H100-80GB  HBM3"])
def test_one_gpu_has_many_spellings(name: str) -> None:
    """With and without NVIDIA, with dashes for blanks: one GPU."""
    assert 1830 == clock_of(name)


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100 SXM4 80GB"])
def test_dashes_are_blanks(name: str) -> None:
    """Drivers and people write dashes or blanks."""
    assert 1410 == clock_of(name)


def test_similar_names_are_different_gpus() -> None:
    """A name matches as a whole: L4, L40 and L40S, H20 and H200 are never confused."""
    assert {"L4": 2040, "L40S": 2490, "H200": 1830, "H100 PCIe": 1620, "H100 NVL": 1545} == {
        name: clock_of(f"NVIDIA {name}") for name in ("L4", "L40S", "H200", "H100 PCIe", "H100 NVL")
    }
    for name in ("L40", "L", "H20", "H100", "H2000", "H200 ", "h200", "XH200", "GH200"):
        known = {row.name for row in ROWS}
        assert (name.strip() in known) == (clock_of(f"NVIDIA {name}") is not None), name


@pytest.mark.parametrize(
    "name", [None, "", "NVIDIA", "NVIDIA ", "Tesla T4", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"]
)
def test_an_unknown_name_has_no_clock(name: str | None) -> None:
    """unknown_model: an unknown name has no reference clock, and none is guessed."""
    assert None is clock_of(name)


def test_a_sites_row_goes_first() -> None:
    """A site's own row goes before the shipped one, by the same rules of spelling."""
    own = GpuModel(name="NVIDIA H200", sm_count=None, reference_clock_mhz=1234.0, max_clock_mhz=None)
    assert own == find_model("H200", (own,))
    assert own == find_model("NVIDIA-H200".replace("-", " "), (own,))
    assert 1830 == clock_of("H200")
    unheard = GpuModel(name="X-1", sm_count=None, reference_clock_mhz=1500.0, max_clock_mhz=None)
    assert unheard == find_model("NVIDIA X 1", (own, unheard))
