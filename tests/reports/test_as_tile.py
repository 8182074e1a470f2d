"""What padding costs, in words and as JSON."""

import json
from typing import Any

import pytest

from slurm_ofu.figures.known_tiles import known_tiles
from slurm_ofu.figures.tile_names import Tile, parse_kernel
from slurm_ofu.figures.tiles import Gemm, TileAnswer, by_given_tile, by_kernel, by_known_tiles
from slurm_ofu.reports.as_tile import TileSubject, as_tile, tile_as_json
from tests.reports.examples import HOSTILE

PRODUCT = Gemm(m=8192, n=257, k=4096)
TILE = Tile(m=128, n=256, k=64)
H100 = TileSubject(gpu_model="H100 80GB HBM3", compute_capability="9.0", sm_count=132, dtype="bf16")
GUESS = by_known_tiles(PRODUCT, known_tiles("bf16", "9.0"), 0.61)
NAME = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"


def words(answer: TileAnswer, subject: TileSubject | None = None) -> str:
    """The text with single blanks."""
    return " ".join(as_tile(answer, subject or TileSubject(), width=100).split())


def document(answer: TileAnswer, subject: TileSubject | None = None) -> Any:
    """The JSON, parsed strictly."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(tile_as_json(answer, subject or TileSubject()), parse_constant=refuse)


def test_a_given_tile() -> None:
    """A tile that was said: one value, no word of a guess."""
    text = as_tile(by_given_tile(PRODUCT, TILE, 0.61), H100, width=100)
    assert (
        text
        == """\
GEMM of M × N × K = 8192 × 257 × 4096, bf16, H100 80GB HBM3
  Tile      128x256x64, as said
  Padding   49.8 % of what the tensor pipes multiply
  OFU       61.0 % as measured, 30.6 % without padding
  Waves     128 tiles of 128x256x64 on 132 SMs, up to 1 each: 97.0 % of the SMs' turns. Idle SMs
            lower OFU itself: left as it is

Tile        Padded to          Useful  Padding  Adjusted OFU  Which
128x256x64  8192 × 512 × 4096  50.2 %   49.8 %        30.6 %  as said
"""
    )


def test_a_guess_says_so_and_is_a_range() -> None:
    """A tile that is guessed is called a guess, with its ground, and nothing is a bare number: padding and
    OFU are ranges, and the table shows the usual tile both ways round and the two extremes of the others."""
    text = words(GUESS, H100)
    assert (
        "Tile a guess: 128x256x64 is usual for large GEMMs on this GPU, by kernels seen in profiles." in text
    )
    assert "a profiler shows the kernel, and --kernel takes its name" in text
    assert "Padding 5.5 % to 50.6 % of what the tensor pipes multiply" in text
    assert "OFU 61.0 % as measured, 30.1 % to 57.6 % without padding" in text
    assert "128x256x64 8192 × 512 × 4096 50.2 % 49.8 % 30.6 % usual" in text
    assert "256x128x64 8192 × 384 × 4096 66.9 % 33.1 % 40.8 % the other way round" in text
    assert "160x256x64 8320 × 512 × 4096 49.4 % 50.6 % 30.1 % most padding of" in text
    assert "128x272x64 8192 × 272 × 4096 94.5 % 5.5 % 57.6 % least padding of" in text


@pytest.mark.parametrize(
    ("dtype", "capability", "gpu", "expected"),
    [
        ("fp16", None, None, "are usual for large GEMMs on one GPU or another (say --gpu), by kernels seen"),
        ("fp16", None, "X-1", "on one GPU or another (of this one no tiles are known), by kernels seen"),
        ("tf32", None, None, "by kernels seen in profiles, where there were any."),
        ("tf32", "12.0", "X-1", "is usual for large GEMMs on this GPU, inferred (as on Ampere)."),
    ],
)
def test_the_ground_of_a_guess(dtype: Any, capability: str | None, gpu: str | None, expected: str) -> None:
    """It is said of which GPUs the tiles are, and whether they were seen or inferred."""
    answer = by_known_tiles(PRODUCT, known_tiles(dtype, capability))
    assert expected in words(answer, TileSubject(dtype=dtype, gpu_model=gpu, compute_capability=capability))


def test_a_kernel() -> None:
    """A kernel's name leaves open which way the tile lies, and whether whole clusters are padded to."""
    text = words(by_kernel(PRODUCT, parse_kernel(NAME), 0.61))
    assert "Tile 128x256x64, from the kernel's name. It may lie either way round" in text
    assert "guess" not in text
    assert "Padding 33.1 % to 49.8 %" in text
    assert "50.2 % 49.8 % 30.6 % as named" in text
    assert "128x512x64 8192 × 512 × 4096 50.2 % 49.8 % 30.6 % as named, in whole clusters" in text
    assert "512x128x64 8192 × 384 × 4096 66.9 % 33.1 % 40.8 % the other way round, in whole clusters" in text


def test_what_is_not_in_the_figure() -> None:
    """Parts of K that are padded by themselves, and a K that nothing is said of, are told."""
    assert "Split K each part of K is padded by itself" in words(GUESS, TileSubject(splits_k=True))
    unsaid = by_given_tile(PRODUCT, Tile(m=128, n=128, k=1))
    assert "128x128, as said (K, of which nothing is said, taken as not padded)" in words(unsaid)
    assert "of which nothing is said" not in words(by_given_tile(PRODUCT, TILE))


def test_nothing_more_than_is_known() -> None:
    """Without an OFU there is no adjusted one, without a GPU there are no waves."""
    text = words(by_given_tile(PRODUCT, TILE))
    assert "OFU" not in text
    assert "Waves" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Facts are wrapped; the table drops the padded sides before it runs over."""
    assert max(map(len, as_tile(GUESS, H100, width=width).splitlines())) <= max(width, 78)


def test_json_of_a_given_tile() -> None:
    """Programs get ratios with their units, and every figure of every case."""
    found = document(by_given_tile(PRODUCT, TILE, 0.61), H100)
    assert (1, "given", False, 0.61) == (
        found["schema_version"],
        found["basis"],
        found["is_guess"],
        found["ofu_ratio"],
    )
    assert {"m": 8192, "n": 257, "k": 4096} == found["gemm"]
    assert ("H100 80GB HBM3", "9.0", 132, "bf16") == tuple(
        found[name] for name in ("gpu_model", "compute_capability", "sm_count", "dtype")
    )
    assert 257 / 512 == found["useful_ratio"] == found["useful_ratio_low"] == found["useful_ratio_high"]
    assert pytest.approx(0.61 * 257 / 512) == found["adjusted_ofu_ratio"]
    assert {"sm_count": 132, "wave_count": 1, "filled_ratio": 128 / 132} == pytest.approx(found["waves"])
    [case] = found["cases"]
    assert {"m": 128, "n": 256, "k": 64} == case["tile"]
    assert {"m": 8192, "n": 512, "k": 4096} == case["padded"]


def test_json_of_a_guess_has_no_bare_number() -> None:
    """Where several tiles are possible and differ there is no single ratio: low, high and the cases."""
    found = document(GUESS, H100)
    assert (True, "seen", None, None) == (
        found["is_guess"],
        found["basis"],
        found["useful_ratio"],
        found["adjusted_ofu_ratio"],
    )
    assert found["useful_ratio_low"] < 257 / 512 < 257 / 384 < found["useful_ratio_high"]
    assert len(GUESS.cases) == len(found["cases"])
    assert ["usual", "usual", "other"] == [case["role"] for case in found["cases"][:3]]
    assert ["nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"] == found["sources"]


def test_json_says_what_is_missing() -> None:
    """What was not said is null, never 0."""
    found = document(by_given_tile(PRODUCT, TILE))
    names = ("ofu_ratio", "adjusted_ofu_ratio", "adjusted_ofu_ratio_low", "waves", "gpu_model", "kernel")
    assert [None] * len(names) == [found[name] for name in names]


def test_hostile_names_are_harmless() -> None:
    """What a user pastes as a kernel's or a GPU's name reaches no terminal as it is."""
    subject = TileSubject(gpu_model=HOSTILE, kernel=HOSTILE)
    assert "\x1b" not in as_tile(GUESS, subject, width=100)
    assert document(GUESS, subject)["kernel"].isprintable()
