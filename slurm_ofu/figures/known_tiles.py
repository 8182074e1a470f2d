"""Which tiles NVIDIA's libraries take, by GPU architecture and number format.

No document says so: the rows are what kernel names in public profiles say (``seen``), and where none was
found what the architecture before does (``inferred``). Libraries choose by shape, among dozens of tiles, and
the choice changes from version to version: a row is a guess, never a fact about one GEMM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from slurm_ofu.errors import UsageError

Dtype = Literal["fp16", "bf16", "tf32", "fp8", "fp4", "int8", "fp64"]
DTYPES: Final[tuple[Dtype, ...]] = ("fp16", "bf16", "tf32", "fp8", "fp4", "int8", "fp64")
LARGEST_SIDE: Final = 8192

_ALIASES: Final[dict[str, Dtype]] = {
    **{name: "fp16" for name in ("float16", "half", "f16", "hgemm")},
    **{name: "bf16" for name in ("bfloat16", "bfloat")},
    **{name: "tf32" for name in ("tensorfloat32", "tfloat32")},
    **{name: "fp8" for name in ("float8", "f8", "e4m3", "e5m2", "float8_e4m3fn", "float8_e5m2", "mxfp8")},
    **{name: "fp4" for name in ("nvfp4", "mxfp4", "float4", "f4", "e2m1", "float4_e2m1fn_x2")},
    **{name: "int8" for name in ("i8", "s8", "uint8", "u8")},
    **{name: "fp64" for name in ("float64", "double", "f64", "dgemm")},
}
_FP32: Final = ("fp32", "float32", "float", "f32", "single")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The sides of one tile, in elements. ``k`` = 1: K is not known to be padded."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTiles:
    """The tiles that a library takes on GPUs of some compute capabilities for some formats."""

    compute_capabilities: tuple[str, ...]
    dtypes: tuple[Dtype, ...]
    usual: Tile  # of large GEMMs
    others: tuple[Tile, ...]
    narrow: tuple[Tile, ...] = ()  # where M or N is small
    status: Literal["seen", "inferred"]
    source: str


def parse_dtype(text: str) -> Dtype:
    """A number format by any of its names, in any case. Raises UsageError."""
    name = text.strip().lower().removeprefix("torch.")
    for dtype in DTYPES:
        if name == dtype:
            return dtype
    if name in _ALIASES:
        return _ALIASES[name]
    if name in _FP32:
        raise UsageError(f"{text}: plain FP32 does not use the tensor pipes; where TF32 is allowed say tf32")
    near = get_close_matches(name, [*DTYPES, *_ALIASES], n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(DTYPES)}"
    raise UsageError(f"the number format {text[:40]!r} is not known; {hint}")


def known_tiles(dtype: Dtype, compute_capability: str | None = None) -> tuple[KnownTiles, ...]:
    """The rows of a format on GPUs of a compute capability such as ``9.0``, or on all."""
    return tuple(
        row
        for row in KNOWN_TILES
        if dtype in row.dtypes and compute_capability in (None, *row.compute_capabilities)
    )


def known_dtypes(compute_capability: str) -> tuple[Dtype, ...]:
    """The formats that the tensor cores of a compute capability have; empty where it is not known."""
    here = [row for row in KNOWN_TILES if compute_capability in row.compute_capabilities]
    return tuple(dtype for dtype in DTYPES if any(dtype in row.dtypes for row in here))


def _tiles(text: str) -> tuple[Tile, ...]:
    sides = ([int(side) for side in tile.split("x")] for tile in text.split())
    return tuple(Tile(m=m, n=n, k=k) for m, n, k in sides)


def _row(
    capabilities: str,
    dtypes: Sequence[Dtype],
    usual: str,
    others: str,
    *,
    narrow: str = "",
    inferred: bool = False,
    source: str,
) -> KnownTiles:
    return KnownTiles(
        compute_capabilities=tuple(capabilities.split()),
        dtypes=tuple(dtypes),
        usual=_tiles(usual)[0],
        others=_tiles(others),
        narrow=_tiles(narrow),
        status="inferred" if inferred else "seen",
        source=source,
    )


_AMPERE, _HOPPER, _BLACKWELL = "8.0 8.6 8.7", "9.0", "10.0 10.3 11.0"
_BLACKWELL_RTX = "12.0 12.1"

KNOWN_TILES: Final = (
    _row(
        "7.0 7.2",
        ["fp16"],
        "256x128x32",
        "128x128x32 128x64x32 64x64x32",
        source="volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn, …_128x256_…, …_128x128_…; tK is CUTLASS's",
    ),
    _row(
        "7.5",
        ["fp16"],
        "256x128x32",
        "128x128x32 128x64x32 64x64x32",
        source="turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_stages_32x1_tn, …_128x128_…, …_128x64_…",
    ),
    _row(
        "7.5",
        ["int8"],
        "256x128x64",
        "128x128x64 64x128x64 64x64x64",
        inferred=True,
        source="as on Ampere; cutlass_75_tensorop_i8816gemm_s8_128x128_tn_align16 was seen on later GPUs",
    ),
    _row(
        _AMPERE + " 8.9",
        ["fp16", "bf16"],
        "256x128x64",
        "256x128x32 128x128x32 128x128x64 128x64x64 64x64x64",
        source="ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_nn and _32x3, ampere_bf16_…_128x256_…"
        "_64x3_tn, …_128x128_…_32x5, …_128x64_…_64x4, …_64x64_…_64x6; cutlass_80_tensorop_s16816gemm_bf16_"
        "256x128_32x3 on Ada",
    ),
    _row(
        _AMPERE + " 8.9",
        ["tf32"],
        "256x128x16",
        "256x128x32 128x128x16 128x64x16 64x64x32",
        source="cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4, …_256x128_32x3, …_128x256_16x3, …_128x128_"
        "16x5, …_64x64_32x6; sm80_xmma_gemm_f32f32_tf32f32_f32_…_tilesize128x64x16_…",
    ),
    _row(
        _AMPERE + " 8.9",
        ["int8"],
        "256x128x64",
        "128x128x64 128x64x128 64x64x64",
        source="cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16, …_128x64_128x3_…",
    ),
    _row(
        "8.0",
        ["fp64"],
        "128x64x16",
        "64x128x16 64x64x16 64x32x16 32x32x16",
        source="cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1, …_64x128_16x3, …_64x64_16x4, …_64x32_16x4,"
        " …_32x32_16x5",
    ),
    _row(
        "8.9",
        ["fp8"],
        "128x128x64",
        "256x64x64 128x64x64 64x128x64",
        narrow="32x64x64",
        source="sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64_…, …256x64x64, …128x64x64, …64x128x64,"
        " …32x64x64",
    ),
    _row(
        _HOPPER,
        ["fp16", "bf16"],
        "128x256x64",
        "192x192x64 320x128x64 304x128x64 288x128x64 272x128x64 192x208x64 160x256x64 128x128x64 64x64x64",
        narrow="256x8x64 192x8x64 128x8x64 128x16x64 64x8x64 64x16x64 64x32x64",
        source="nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN, nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT, nvjet_tst_"
        "192x192_64x4_2x1_v_bz_coopB_TNN, nvjet_hsh_320x128_64x3_1x2, 304x128, 288x128, 272x128, 192x208,"
        " 160x256 (nvFuser's notes), nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT; sm90_xmma_…_tilesize128x128x64",
    ),
    _row(
        _HOPPER,
        ["tf32"],
        "256x128x32",
        "128x128x32 64x128x32 128x64x32",
        source="sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize256x128x32_warpgroupsize2x1x1_…, …64x128x32_…;"
        " nvjet_sss_tf32_128x256",
    ),
    _row(
        _HOPPER,
        ["fp8"],
        "128x256x128",
        "128x160x128 112x128x128 128x128x128 64x128x128",
        narrow="64x8x128 64x16x128 64x32x128",
        source="nvjet_sm90_qqtst_128x160_128x5, nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN, nvjet_sm90_qqtst_"
        "128x128_128x6_1x2_h_bz_ovscale_TNT; narrow tiles as of 16-bit formats",
    ),
    _row(
        _HOPPER,
        ["int8"],
        "256x128x128",
        "128x128x128 64x128x128 64x64x128",
        source="sm90_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize256x128x128_warpgroupsize2x1x1_…",
    ),
    _row(
        _HOPPER,
        ["fp64"],
        "128x128x16",
        "128x64x16 64x64x16",
        source="sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize128x128x16_stage3_…, …128x64x16, …64x128x16",
    ),
    _row(
        _BLACKWELL,
        ["fp16", "bf16"],
        "128x256x64",
        "256x256x64 256x160x64 256x128x64 256x96x64 192x288x64 192x160x64 192x128x64 128x128x64 64x64x64",
        narrow="384x32x64 240x64x64 128x8x64 128x16x64 128x24x64 64x8x64 64x16x64 64x24x64 64x32x64",
        source="nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT, …_256x128_64x5_2x2_2cta_…, …_192x288_64x5_2x1_2cta_…,"
        " nvjet_tst_256x160_64x5_2x1_2cta_…, …_256x96_64x5_2x1_2cta_…, …_128x192_64x5_4x1_…, nvjet_sm110_tst_256x"
        "256_64x4_2x1_2cta_…, nvjet_sm100_tst_384x32_64x4_2x1_2cta_…, …_128x24_64x11_…, …_64x16_64x16_…splitK",
    ),
    _row(
        _BLACKWELL,
        ["tf32"],
        "128x256x32",
        "256x128x32 128x128x32 64x128x32",
        inferred=True,
        source="as on Hopper; cutlass3x_sm100_tensorop_s128x256x8tf32gemm… was seen, its tile not",
    ),
    _row(
        _BLACKWELL,
        ["fp8"],
        "128x256x128",
        "256x128x128 128x192x128 128x128x128",
        narrow="64x8x128 64x16x128 64x32x128",
        source="nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT, nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_"
        "Avec32UE8M0_Bvec32UE8M0_TNT; others as of 16-bit formats",
    ),
    _row(
        _BLACKWELL,
        ["fp4"],
        "128x256x256",
        "256x192x256 128x128x256",
        narrow="64x8x256 64x16x256 64x32x256",
        source="nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT, nvjet_sm100_ootst_128x128_"
        "256x7_4x1_2cta_…, cutlass3x_sm100_bstensorop_…_256x192x256_…_2sm; narrow tiles as of 16-bit formats",
    ),
    _row(
        _BLACKWELL,
        ["int8"],
        "256x128x64",
        "128x128x64 128x64x128 64x64x64",
        source="cutlass_80_tensorop_i16832gemm_s8_… on compute capability 10.3: Ampere's kernels; tiles as there",
    ),
    _row(
        _BLACKWELL,
        ["fp64"],
        "128x64x16",
        "64x64x16 64x32x16",
        inferred=True,
        source="cutlass_80_tensorop_d884gemm_… was seen on GB200: Ampere's kernels; tiles as there",
    ),
    _row(
        _BLACKWELL_RTX,
        ["fp16", "bf16"],
        "128x176x64",
        "256x128x32 128x128x64 64x64x128 64x32x64",
        narrow="32x16x128",
        source="nvjet_sm120_hss_mma_128x176x64_2_32x88x64_…, nvjet_sm120_tst_mma_64x64x128_3_…, …_64x32x64_8_…, …_32x16x"
        "128_…splitK_…; cutlass_80_tensorop_s16816gemm_… still occurs",
    ),
    _row(
        _BLACKWELL_RTX,
        ["fp8"],
        "128x128x64",
        "128x64x64 64x64x128",
        source="nvjet_sm120_qq…_mma_128x128x64_6_64x64x64_tmaAB_…, nvjet_sm120_qqhsh_mma_128x64x64_…",
    ),
    _row(
        _BLACKWELL_RTX,
        ["tf32"],
        "256x128x16",
        "128x128x32 128x64x16 64x64x32",
        inferred=True,
        source="as on Ampere",
    ),
    _row(
        _BLACKWELL_RTX,
        ["int8"],
        "256x128x64",
        "128x128x64 128x64x64 64x64x64",
        inferred=True,
        source="as on Ampere; nvjet_sm120_biu_mma was seen, its tile not",
    ),
    _row(
        _BLACKWELL_RTX,
        ["fp4"],
        "128x128x256",
        "256x128x128 128x128x128 128x64x256",
        inferred=True,
        source="what CUTLASS offers for sm120; no name was seen",
    ),
)
