"""Exact GPU model name → reference clock."""

from collections import Counter

import pytest

from slurm_ofu.gpu_models import catalogue, doubts, find_model, normal_name
from slurm_ofu.values import GpuModel

ROWS = catalogue()


def clock_of(name: str | None) -> float | None:
    model = find_model(name)
    return None if model is None else model.reference_clock_mhz


#: Which of a model's peaks the vendor prints for another clock than its FP16 peak, or rounds more.
ROUNDED = {
    ("L40S", "tf32"): 0.015,
    ("L40S", "fp8"): 0.015,
    ("L40S", "int8"): 0.015,
    ("L4", "tf32"): 0.015,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_recomputes_its_peaks(row: GpuModel) -> None:
    """f_ref is the clock at which the vendor's dense tensor peak of this exact GPU model holds:
    SMs x rate x clock is that peak within 1 %, for every format but the vendor's own exceptions. (FP64 peaks
    of Hopper and later are quoted at the maximum clock, so rows leave them out.)"""
    assert row.sm_count is not None
    assert "fp16" in row.peaks
    for number_format, peak in row.peaks.items():
        computed = row.sm_count * row.rates[number_format] * row.reference_clock_mhz / 1e6
        allowed = ROUNDED.get((row.name, number_format), 0.0101)
        assert peak == pytest.approx(computed, rel=allowed), number_format


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_complete(row: GpuModel) -> None:
    """Each row says where it comes from and how sure it is; the reference clock is at most the maximum."""
    assert row.status in ("verified", "computed", "unsure")
    assert len(row.source) > 10
    assert row.compute_capability in ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
    assert set(row.peaks) <= set(row.rates) <= {"fp16", "tf32", "fp8", "int8", "fp4", "fp64"}
    assert 1000 < row.reference_clock_mhz < 3000
    assert row.max_clock_mhz is None or row.reference_clock_mhz <= row.max_clock_mhz < 3200


def test_data_centre_parts_know_their_maximum() -> None:
    """Where OFU's upper bound is not known, no OFU can be above it: only parts of doubt lack it."""
    assert {"unsure"} >= {row.status for row in ROWS if row.max_clock_mhz is None}


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        *(("A100-SXM4-80GB", 1.000), ("L40S", 1.012), ("GB200", 1.027), ("GB300", 1.031), ("B200", 1.059)),
        *(("H100 80GB HBM3", 1.082), ("H200", 1.082), ("GH200 480GB", 1.082), ("H100 PCIe", 1.084)),
        *(("B300 SXM6 AC", 1.095), ("H100 NVL", 1.155), ("RTX A6000", 1.17)),
    ],
)
def test_the_upper_bound_of_ofu(name: str, bound: float) -> None:
    """OFU may legally exceed 1 up to f_max/f_ref (1.082 on H100 SXM)."""
    model = find_model(name)
    assert model is not None
    assert model.max_clock_mhz is not None
    assert bound == pytest.approx(model.max_clock_mhz / model.reference_clock_mhz, abs=0.004)


def test_half_rate_parts_are_uncalibrated() -> None:
    """Half-rate parts (A10G, L40, GeForce) are labelled: nobody knows what TPA reads there at full load."""
    named = {row.name for row in ROWS if not row.calibrated}
    assert {"A10G", "L40", "GeForce RTX 3090", "GeForce RTX 4090", "GeForce RTX 5090"} == named


def test_every_name_is_there_once() -> None:
    """No two rows answer to one name."""
    assert {1} == set(Counter(normal_name(row.name) for row in ROWS).values())


def test_reference_is_not_the_maximum() -> None:
    """It is NOT the maximum SM clock: H100 SXM has f_ref 1830 and a maximum of 1980."""
    model = find_model("NVIDIA H100 80GB HBM3")
    assert model is not None
    assert (1830, 1980, 132) == (model.reference_clock_mhz, model.max_clock_mhz, model.sm_count)


@pytest.mark.parametrize(
    "name", ["H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA  H100-80GB  HBM3", "NVIDIA-H100-80GB-HBM3"]
)
def test_one_gpu_has_many_spellings(name: str) -> None:
    """With and without NVIDIA, with dashes for blanks: one GPU."""
    assert 1830 == clock_of(name)


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100 SXM4 80GB"])
def test_dashes_are_blanks(name: str) -> None:
    """Drivers and people write dashes or blanks."""
    assert 1410 == clock_of(name)


def test_similar_names_are_different_gpus() -> None:
    """A name matches as a whole: L4, L40 and L40S, A10 and A100, B200 and GB200 are never confused."""
    clocks = {
        **{"L4": 2040, "L40": 2490, "L40S": 2490, "H100": 1830, "H200": 1830, "H100 PCIe": 1620},
        **{"H100 NVL": 1545, "H200 NVL": 1545, "A10": 1695, "A10G": 1710, "A16": 1755, "A30": 1440},
        **{"A100 80GB PCIe": 1410, "B200": 1855.8, "GB200": 2007.7, "B300 SXM6 AC": 1855.8, "GB300": 2007.7},
    }
    assert clocks == {name: clock_of(f"NVIDIA {name}") for name in clocks}
    found = {row.name: row.sm_count for row in ROWS}
    counts = {"L4": 58, "L40": 142, "H100 PCIe": 114, "H100": 132}
    assert counts == {name: found[name] for name in counts}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    "change", ["{}0", "{}S", "X{}", "{} X", "{} Laptop GPU", "{} D", "{}-24C", "{} MIG 1g.10gb"]
)
def test_a_name_with_more_or_less_is_another(row: GpuModel, change: str) -> None:
    """No beginning, end or middle of a name is enough, and no row is found by another's name."""
    found = find_model(f"NVIDIA {change.format(row.name)}")
    assert found is None or normal_name(found.name) == normal_name(change.format(row.name))
    assert find_model(row.name[:-1]) is None or find_model(row.name[:-1]) in ROWS
    assert row == find_model(f"NVIDIA {row.name}")


@pytest.mark.parametrize(
    "name",
    [
        *(None, "", "NVIDIA", "NVIDIA ", "NVIDIA T4", "L", "H2000", "h200", "XH200", "NVIDIA A100"),
        *("NVIDIA A10-24C", "NVIDIA H100XM-80C", "NVIDIA H100L-94C", "NVIDIA A40-48Q", "GRID A100X-40C"),
        *("NVIDIA H20", "NVIDIA H20-3e", "NVIDIA H20 NVL16", "NVIDIA B100", "NVIDIA RTX A5000 Laptop GPU"),
        *("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 3090 Ti"),
    ],
)
def test_an_unknown_name_has_no_clock(name: str | None) -> None:
    """unknown_model: vGPU profiles, other parts, and parts whose clock nobody knows have none, and none is
    guessed."""
    assert None is clock_of(name)


def test_a_sites_row_goes_first() -> None:
    """A site's own row goes before the shipped one, by the same rules of spelling."""
    own = GpuModel(name="NVIDIA H200", sm_count=None, reference_clock_mhz=1234.0, max_clock_mhz=None)
    assert own == find_model("H200", (own,))
    assert own == find_model("NVIDIA-H200".replace("-", " "), (own,))
    assert 1830 == clock_of("H200")
    unheard = GpuModel(name="X-1", sm_count=None, reference_clock_mhz=1500.0, max_clock_mhz=None)
    assert unheard == find_model("NVIDIA X 1", (own, unheard))


def test_what_a_reader_should_know_of_a_model() -> None:
    """Half-rate parts are called uncalibrated, unsure clocks unsure with their source; of others there is
    nothing to say, nor of what nobody knows."""
    names = ["NVIDIA A10G", "NVIDIA GB200", "NVIDIA H100 80GB HBM3", "NVIDIA Unheard-of"]
    a10g, gb200 = doubts([*names, *names])
    assert a10g.startswith("NVIDIA A10G: uncalibrated: ")
    assert gb200.startswith("NVIDIA GB200: its reference clock is not sure (inferred from the peaks")
    own = GpuModel(name="A10G", sm_count=None, reference_clock_mhz=1700.0, max_clock_mhz=None)
    assert [] == doubts(["NVIDIA A10G"], [own])
