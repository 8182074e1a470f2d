"""The tiles that libraries are known to take, and number formats by their many names."""

import pytest

from slurm_ofu.errors import UsageError
from slurm_ofu.figures.known_tiles import (
    DTYPES,
    NARROW_SIDE,
    KnownTiles,
    catalogue,
    known_dtypes,
    known_tiles,
    parse_dtype,
)
from slurm_ofu.figures.tile_names import Tile
from slurm_ofu.gpu_models import catalogue as gpu_models

ROWS = catalogue()


def name_of(row: KnownTiles) -> str:
    return f"{row.compute_capabilities[0]}-{row.dtypes[0]}"


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("fp16", "fp16"),
        ("Half", "fp16"),
        ("torch.bfloat16", "bf16"),
        ("TF32", "tf32"),
        ("torch.float8_e4m3fn", "fp8"),
        ("nvfp4", "fp4"),
        ("s8", "int8"),
        ("double", "fp64"),
    ],
)
def test_a_format_has_many_names(text: str, dtype: str) -> None:
    """A number format by NVIDIA's, PyTorch's and C's names, in any case."""
    assert dtype == parse_dtype(text)


def test_plain_fp32_is_no_tensor_format() -> None:
    """FP32 without TF32 does not use the tensor pipes: it is not taken for TF32."""
    with pytest.raises(
        UsageError, match="plain FP32 does not use the tensor pipes; where TF32 is allowed say tf32"
    ):
        parse_dtype("float32")


@pytest.mark.parametrize(
    ("text", "hint"), [("bf-16", "did you mean bf16?"), ("x", "known are fp16, bf16, tf32")]
)
def test_an_unknown_format_is_told(text: str, hint: str) -> None:
    """An unknown format is named, with the nearest one or all."""
    with pytest.raises(UsageError) as caught:
        parse_dtype(text)
    assert repr(text) in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_is_complete(row: KnownTiles) -> None:
    """Each row says where it comes from; its usual tile is a large one, none is there twice, and those with a
    short side stand apart."""
    assert len(row.source) > 10
    tiles = [row.usual, *row.others, *row.narrow]
    assert len(tiles) == len(set(tiles))
    assert row.usual.m * row.usual.n >= 128 * 64
    assert [] == [tile for tile in (row.usual, *row.others) if min(tile.m, tile.n) < NARROW_SIDE]
    assert [] == [tile for tile in row.narrow if min(tile.m, tile.n) >= NARROW_SIDE]
    assert len(row.others) >= 2
    assert len(row.narrow) >= 3


def test_no_two_rows_speak_of_the_same() -> None:
    """A compute capability and a format have one row at most."""
    pairs = [
        (capability, dtype) for row in ROWS for capability in row.compute_capabilities for dtype in row.dtypes
    ]
    assert len(pairs) == len(set(pairs))


def test_every_gpu_in_the_catalogue_has_tiles() -> None:
    """Of each GPU model that is shipped the 16-bit tiles are known."""
    assert [] == [
        model.name
        for model in gpu_models()
        if model.compute_capability is None or not known_tiles("fp16", model.compute_capability)
    ]


def test_a_format_is_known_where_tensor_cores_have_it() -> None:
    """V100: FP16 alone; A100: BF16, TF32, INT8 and FP64 too; FP8 from Ada on; FP4 from Blackwell on."""
    assert ("fp16",) == known_dtypes("7.0")
    assert ("fp16", "bf16", "tf32", "int8", "fp64") == known_dtypes("8.0")
    assert ("fp16", "bf16", "tf32", "int8") == known_dtypes("8.6")
    assert ("fp16", "bf16", "tf32", "fp8", "int8") == known_dtypes("8.9")
    assert ("fp16", "bf16", "tf32", "fp8", "int8", "fp64") == known_dtypes("9.0")
    assert DTYPES == known_dtypes("10.0")
    assert () == known_dtypes("99.0")


def test_hopper_takes_128x256() -> None:
    """The tile of large 16-bit GEMMs on Hopper is the one in nvjet's names there; 320x128 was seen too."""
    [row] = known_tiles("bf16", "9.0")
    assert (Tile(m=128, n=256, k=64), "seen") == (row.usual, row.status)
    assert Tile(m=320, n=128, k=64) in row.others
    assert Tile(m=64, n=8, k=64) in row.narrow


def test_without_a_gpu_all_rows_count() -> None:
    """Where the GPU is not said, every architecture that has the format is in the answer."""
    assert {"8.9", "9.0", "10.0", "10.3", "12.0", "12.1"} == {
        capability for row in known_tiles("fp8") for capability in row.compute_capabilities
    }
