"""What the validation script computes, without any GPU: rates, errors, tiles, peaks, operands."""

import struct

import pytest

from benchmarks.gpu.agreement import agreement, done_at, rate, slowdown, tile_useful_ratio
from benchmarks.gpu.gemm import PRECISIONS, sweep
from benchmarks.gpu.gemm_cublas import KINDS, pattern
from benchmarks.gpu.load import traced_tile
from benchmarks.gpu.sweeping import peak_flops


def test_a_rate_is_that_of_its_stretch() -> None:
    """Between marks products count in proportion; a stretch that reaches beyond them has no rate."""
    marks = [(0, 0), (10, 1_000_000_000), (30, 2_000_000_000)]
    assert 20.0 == done_at(marks, 1_500_000_000)
    assert 15.0 == rate(marks, 500_000_000, 1_500_000_000)
    assert rate(marks, 500_000_000, 2_000_000_001) is None
    assert rate(marks, None, 1) is None


def test_agreement_is_in_percentage_points() -> None:
    """Mean absolute error, and the shares within two and five points; nothing of nothing."""
    found = agreement([(0.50, 0.51), (0.60, 0.56), (0.70, 0.64)])
    assert found is not None
    assert found.mean_absolute_pp == pytest.approx(11 / 3)
    assert (1 / 3, 2 / 3) == (found.narrow_ratio, found.wide_ratio)
    assert found.correlation == pytest.approx(0.996, abs=0.01)
    assert agreement([]) is None


def test_a_steady_drift_is_no_slowdown() -> None:
    """Each sampled turn is held against the quiet ones on both its sides."""
    drifting = slowdown([100.0, 98.0, 96.0], [99.0, 97.0])
    slowed = slowdown([100.0, 100.0, 100.0], [99.0, 99.0])
    assert drifting is not None
    assert slowed is not None
    assert 0.0 == drifting.median_ratio
    assert slowed.median_ratio == pytest.approx(0.01)
    assert slowdown([1.0], []) is None


def test_the_tile_is_the_kernels_else_the_traces() -> None:
    """A kernel's name goes first; one without a tile, or none at all, leaves it to cuBLASLt's trace."""
    assert (1.0, "128x256x64") == tile_useful_ratio(256, 256, 64, "nvjet_hsh_128x256_64x4_x", None)
    assert (0.5, "128x64x1") == tile_useful_ratio(64, 64, 8, "a_kernel", "128x64")
    assert tile_useful_ratio(64, 64, 8, None, None) is None
    trace = "algo=[algoId=66 tile=MATMUL_TILE_{} stages=MATMUL_STAGES_64xAUTO]\n"
    assert "64x8x64" == traced_tile(trace.format("128x256") + trace.format("64x8"))
    assert traced_tile("") is None


def test_the_peak_is_the_catalogues() -> None:
    """The vendor's dense figure, else SMs × rate × reference clock; BF16 is FP16's; else none."""
    row = {
        "peak_tflops": {"fp16": 989.4},
        "flop_per_clock_per_sm": {"fp16": 4096, "tf32": 2048},
        "sm_count": 132,
        "reference_clock_mhz": 1830,
    }
    assert 989.4e12 == peak_flops(row, "bf16")
    assert peak_flops(row, "tf32") == pytest.approx(494.7e12, rel=1e-3)
    assert peak_flops(row, "fp8") is None
    assert peak_flops(None, "fp16") is None


def test_the_sweep_is_fair_when_cut_short() -> None:
    """Every precision takes part from the start, FP8 in sides that libraries take, and nothing twice."""
    products = sweep()
    assert [*PRECISIONS] * 3 == [product.precision for product in products[:12]]
    assert len(products) == len(set(products))
    assert all(
        side % 16 == 0 for each in products if each.precision == "fp8" for side in (each.m, each.n, each.k)
    )
    assert {256, 16384, 257, 1000, 3001, 4097} <= {each.m for each in products if each.m == each.n == each.k}


def test_operands_are_numbers_of_middling_size() -> None:
    """Random bits become ±[0.5, 1) in each format: no infinities, and no zeros that would save power."""
    for format_of, name in (("<64e", "fp16"), ("<64f", "tf32")):
        kind = KINDS[name]
        values = struct.unpack(format_of, pattern(kind, 64 * kind.operand_bytes))
        assert all(0.5 <= abs(value) < 1 for value in values)
    assert {0x30 >> 3} == {byte >> 3 & 0xF for byte in pattern(KINDS["fp8"], 64)}
    words = struct.unpack("<64H", pattern(KINDS["bf16"], 128))
    assert {126} == {each >> 7 & 0xFF for each in words}
