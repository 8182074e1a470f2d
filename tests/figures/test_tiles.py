"""Padding to whole tiles: what OFU counts of a GEMM that is not its own work."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures.known_tiles import known_tiles
from slurm_ofu.figures.tile_names import KernelTile, Tile, parse_kernel
from slurm_ofu.figures.tiles import (
    Gemm,
    TileAnswer,
    Waves,
    adjusted_ofu_ratio,
    by_given_tile,
    by_kernel,
    by_known_tiles,
    padded,
    useful_ratio,
    waves,
)

LONGEST = 2**31 - 1
SIDES = st.integers(1, LONGEST)
GEMMS = st.builds(Gemm, m=SIDES, n=SIDES, k=SIDES)
TILE_SIDES = st.integers(1, 512)
TILES = st.builds(Tile, m=TILE_SIDES, n=TILE_SIDES, k=TILE_SIDES)
FACTORS = st.integers(1, 1000)


def gemm(m: int, n: int, k: int) -> Gemm:
    return Gemm(m=m, n=n, k=k)


def tile(m: int, n: int, k: int) -> Tile:
    return Tile(m=m, n=n, k=k)


def tiles_of(answer: TileAnswer, role: str) -> list[Tile]:
    return [case.tile for case in answer.cases if case.role == role]


@pytest.mark.parametrize(
    ("sides", "by", "whole"),
    [
        ((8192, 257, 4096), (128, 128, 64), (8192, 384, 4096)),
        ((8192, 256, 4096), (128, 128, 64), (8192, 256, 4096)),
        ((1, 1, 1), (128, 256, 64), (128, 256, 64)),
        ((300, 300, 100), (128, 256, 64), (384, 512, 128)),
        ((17, 4096, 100), (64, 8, 1), (64, 4096, 100)),
    ],
)
def test_sides_are_padded_to_whole_tiles(
    sides: tuple[int, int, int], by: tuple[int, int, int], whole: tuple[int, int, int]
) -> None:
    """OFU · MNK / (⌈M/tM⌉tM · ⌈N/tN⌉tN · ⌈K/tK⌉tK): each side up to the next multiple of its tile's."""
    found = padded(gemm(*sides), tile(*by))
    assert whole == (found.m, found.n, found.k)
    share = sides[0] * sides[1] * sides[2] / (whole[0] * whole[1] * whole[2])
    assert share == useful_ratio(gemm(*sides), tile(*by))


def test_one_column_too_many() -> None:
    """N = 257 by tiles of 128 is a third of padding: an OFU of 0.6 holds 0.4016 of own work."""
    found = adjusted_ofu_ratio(0.6, gemm(8192, 257, 4096), tile(128, 128, 64))
    assert pytest.approx(0.6 * 257 / 384) == found
    assert 0.6 == adjusted_ofu_ratio(0.6, gemm(8192, 256, 4096), tile(128, 128, 64))


def test_small_matrices_are_mostly_padding() -> None:
    """Below 512 padding can exceed half of the work: 129 by 256-tiles is half in one side alone."""
    assert useful_ratio(gemm(129, 129, 8192), tile(128, 256, 64)) < 0.26
    assert useful_ratio(gemm(8193, 8193, 8192), tile(128, 256, 64)) > 0.95


@pytest.mark.property
@given(GEMMS, TILES)
def test_a_share_is_a_share(product: Gemm, by: Tile) -> None:
    """The useful share is above 0 and at most 1, 1 exactly where all sides are multiples of the tile's."""
    share = useful_ratio(product, by)
    assert 0 < share <= 1
    aligned = product.m % by.m == product.n % by.n == product.k % by.k == 0
    assert aligned == (share == 1)


@pytest.mark.property
@given(GEMMS, TILES, st.floats(0, 1.3))
def test_adjusting_never_adds(product: Gemm, by: Tile, ofu: float) -> None:
    """Adjusted OFU is at most OFU, and OFU itself where nothing is padded; an OFU of 0 stays 0."""
    adjusted = adjusted_ofu_ratio(ofu, product, by)
    assert 0 <= adjusted <= ofu
    assert ofu == adjusted_ofu_ratio(ofu, gemm(by.m * 3, by.n * 2, by.k * 7), by)


@pytest.mark.property
@given(st.builds(Gemm, m=TILE_SIDES, n=TILE_SIDES, k=TILE_SIDES), TILES, FACTORS, st.sampled_from("mnk"))
def test_a_multiple_is_never_padded_more(product: Gemm, by: Tile, factor: int, side: str) -> None:
    """A side several times as long has at least the useful share: less is lost at its edge."""
    longer = replace(product, **{side: getattr(product, side) * factor})
    assert useful_ratio(longer, by) >= useful_ratio(product, by)


@pytest.mark.property
@given(GEMMS, TILES, FACTORS)
def test_a_finer_tile_never_pads_more(product: Gemm, by: Tile, factor: int) -> None:
    """A tile that divides another pads at most as much."""
    coarse = Tile(m=by.m * factor, n=by.n * factor, k=by.k * factor)
    assert useful_ratio(product, by) >= useful_ratio(product, coarse)


@pytest.mark.property
@given(GEMMS, TILES)
def test_nothing_depends_on_who_counts(product: Gemm, by: Tile) -> None:
    """Both sides and the tile transposed: the same share."""
    turned = useful_ratio(gemm(product.n, product.m, product.k), tile(by.n, by.m, by.k))
    assert turned == useful_ratio(product, by)


def test_a_given_tile_is_no_guess() -> None:
    """What was said is taken as it is: one case, one value."""
    answer = by_given_tile(gemm(8192, 257, 4096), tile(128, 256, 64), 0.6)
    [case] = answer.cases
    assert ("given", False, 0.6) == (answer.basis, answer.is_guess, answer.ofu_ratio)
    assert (gemm(8192, 512, 4096), 128, False) == (case.padded, case.tile_count, case.swapped)
    assert (257 / 512, 255 / 512) == (case.useful_ratio, case.padding_ratio)
    assert pytest.approx(0.6 * 257 / 512) == case.adjusted_ofu_ratio
    assert answer.lowest == answer.highest == case


def test_without_an_ofu_none_is_adjusted() -> None:
    """Missing is not zero: where no OFU was said, the adjusted one is absent; an OFU of 0 is a value."""
    assert None is by_given_tile(gemm(1, 1, 1), tile(8, 8, 8)).cases[0].adjusted_ofu_ratio
    assert 0 == by_given_tile(gemm(1, 1, 1), tile(8, 8, 8), 0.0).cases[0].adjusted_ofu_ratio


def test_a_kernels_tile_lies_either_way() -> None:
    """A kernel's name counts column-major: both ways round are in the answer, the named one first."""
    answer = by_kernel(gemm(8192, 257, 4096), KernelTile(tile=tile(128, 256, 64)))
    assert ("kernel", False) == (answer.basis, answer.is_guess)
    assert [(tile(128, 256, 64), False), (tile(256, 128, 64), True)] == [
        (case.tile, case.swapped) for case in answer.cases
    ]
    assert (257 / 512, 257 / 384) == (answer.lowest.useful_ratio, answer.highest.useful_ratio)


def test_a_square_tile_lies_one_way() -> None:
    """A square tile is the same either way round: one case."""
    assert 1 == len(by_kernel(gemm(300, 257, 64), KernelTile(tile=tile(192, 192, 64))).cases)


def test_whole_clusters_are_in_the_range() -> None:
    """A cluster may work on tiles beyond the edge: the range goes down to whole clusters."""
    answer = by_kernel(gemm(100, 8192, 4096), parse_kernel("nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT"))
    clusters = [case for case in answer.cases if case.whole_clusters]
    assert [tile(256, 256, 64)] == [case.tile for case in clusters]
    assert pytest.approx(100 / 256) == answer.lowest.useful_ratio
    assert pytest.approx(100 / 128) == answer.highest.useful_ratio


def test_a_guess_is_a_range() -> None:
    """Where the tile is not known the usual one comes first, then the others, each both ways round, once."""
    known = known_tiles("bf16", "9.0")
    answer = by_known_tiles(gemm(8192, 257, 4096), known, 0.61)
    assert ("seen", True, known) == (answer.basis, answer.is_guess, answer.known)
    assert [tile(128, 256, 64), tile(256, 128, 64)] == tiles_of(answer, "usual")
    others = tiles_of(answer, "other")
    assert len(others) == len({*others, *tiles_of(answer, "usual")}) - 2
    assert {tile(320, 128, 64), tile(128, 320, 64), tile(128, 272, 64)} <= set(others)
    assert answer.lowest.useful_ratio < 257 / 512 < 257 / 384 < answer.highest.useful_ratio


def test_narrow_tiles_are_for_narrow_matrices() -> None:
    """A tile with a side under 64 is in the range only where M or N is 64 at most."""
    known = known_tiles("bf16", "9.0")
    narrow = tile(64, 8, 64)
    assert narrow not in tiles_of(by_known_tiles(gemm(8192, 65, 4096), known), "other")
    for product in (gemm(8192, 64, 4096), gemm(64, 8192, 4096)):
        assert narrow in tiles_of(by_known_tiles(product, known), "other")


def test_an_inferred_row_is_called_so() -> None:
    """A guess is called seen only where every row it rests on was seen."""
    assert "inferred" == by_known_tiles(gemm(1, 1, 1), known_tiles("fp4", "12.0")).basis
    assert "inferred" == by_known_tiles(gemm(1, 1, 1), known_tiles("tf32")).basis


@pytest.mark.property
@given(GEMMS, st.sampled_from(["fp16", "fp8", "fp4"]), st.floats(0, 1.3))
def test_every_case_lies_in_the_range(product: Gemm, dtype: Any, ofu: float) -> None:
    """All cases lie between the lowest and the highest; useful and padding are the whole."""
    answer = by_known_tiles(product, known_tiles(dtype), ofu)
    for case in answer.cases:
        assert answer.lowest.useful_ratio <= case.useful_ratio <= answer.highest.useful_ratio
        assert pytest.approx(1) == case.useful_ratio + case.padding_ratio
        assert case.adjusted_ofu_ratio == adjusted_ofu_ratio(ofu, product, case.tile)


@pytest.mark.parametrize(
    ("m", "n", "expected"),
    [
        (128 * 132, 256, Waves(sm_count=132, wave_count=1, filled_ratio=1.0)),
        (128 * 133, 256, Waves(sm_count=132, wave_count=2, filled_ratio=133 / 264)),
        (1, 1, Waves(sm_count=132, wave_count=1, filled_ratio=1 / 132)),
    ],
)
def test_waves(m: int, n: int, expected: Waves) -> None:
    """⌈tiles/SMs⌉ waves: one tile more than SMs leaves nearly half of the second wave idle."""
    case = by_given_tile(gemm(m, n, 64), tile(128, 256, 64)).cases[0]
    assert expected == waves(case, 132)
