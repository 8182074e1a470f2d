"""Which tiles NVIDIA's libraries take, by compute capability and number format.

No document says so. The rows are names of kernels in public profiles (``seen``), and where none was found
tiles of the nearest GPUs and formats (``inferred``). Libraries choose by shape, among dozens of tiles, and
choose anew with every version: a row is the ground of a guess, not a fact about any one GEMM.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Final, Literal

from slurm_ofu.errors import UsageError
from slurm_ofu.figures.tile_names import Tile, parse_kernel, parse_tile

Dtype = Literal["fp16", "bf16", "tf32", "fp8", "fp4", "int8", "fp64"]
DTYPES: Final[tuple[Dtype, ...]] = ("fp16", "bf16", "tf32", "fp8", "fp4", "int8", "fp64")
NARROW_SIDE: Final = 64  # a tile with a side below it is taken only where M or N is small

_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "fp16": ("float16", "half", "f16"),
    "bf16": ("bfloat16",),
    "tf32": ("tensorfloat32",),
    "fp8": ("float8", "f8", "e4m3", "e5m2", "float8_e4m3fn", "float8_e5m2", "mxfp8"),
    "fp4": ("nvfp4", "mxfp4", "float4", "f4", "e2m1", "float4_e2m1fn_x2"),
    "int8": ("i8", "s8", "uint8", "u8"),
    "fp64": ("float64", "double", "f64"),
}
_FP32: Final = ("fp32", "float32", "float", "f32", "single")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTiles:
    """The tiles that a library takes on GPUs of some compute capabilities for some formats."""

    compute_capabilities: tuple[str, ...]
    dtypes: tuple[str, ...]
    usual: Tile  # of large GEMMs
    others: tuple[Tile, ...]
    narrow: tuple[Tile, ...]  # where M or N is small
    status: Literal["seen", "inferred"]
    source: str


def parse_dtype(text: str) -> Dtype:
    """A number format by any of its names, in any case. Raises UsageError."""
    name = text.strip().lower().removeprefix("torch.")
    for dtype in DTYPES:
        if name == dtype or name in _ALIASES[dtype]:
            return dtype
    if name in _FP32:
        raise UsageError(f"{text}: plain FP32 does not use the tensor pipes; where TF32 is allowed say tf32")
    near = get_close_matches(name, [*DTYPES, *(alias for names in _ALIASES.values() for alias in names)], n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(DTYPES)}"
    raise UsageError(f"the number format {text[:40]!r} is not known; {hint}")


def known_tiles(dtype: Dtype, compute_capability: str | None = None) -> tuple[KnownTiles, ...]:
    """The rows of a format on GPUs of a compute capability such as ``9.0``, or on all of them."""
    return tuple(
        row
        for row in catalogue()
        if dtype in row.dtypes and compute_capability in (None, *row.compute_capabilities)
    )


def known_dtypes(compute_capability: str) -> tuple[Dtype, ...]:
    """The formats of the tensor cores of a compute capability; empty where it is not known."""
    here = [row for row in catalogue() if compute_capability in row.compute_capabilities]
    return tuple(dtype for dtype in DTYPES if any(dtype in row.dtypes for row in here))


@cache
def catalogue() -> tuple[KnownTiles, ...]:
    """All rows: tiles out of the kernel names below, those inferred as they are."""
    seen = (_row(*row, status="seen") for row in _SEEN)
    return (*seen, *(_row(*row, status="inferred") for row in _INFERRED))


def _row(
    capabilities: str, dtypes: str, kernels: str, note: str = "", *, status: Literal["seen", "inferred"]
) -> KnownTiles:
    """``kernels``: names or tiles, the usual one first. Those that are found everywhere are added."""
    names = kernels.split()
    usual, *tiles = (parse_kernel(name).tile if "_" in name else parse_tile(name) for name in names)
    everywhere = (Tile(m=m, n=n, k=usual.k) for m, n in _EVERYWHERE if m * n <= usual.m * usual.n)
    others = [tile for tile in dict.fromkeys((*tiles, *everywhere)) if tile != usual]
    return KnownTiles(
        compute_capabilities=tuple(capabilities.split()),
        dtypes=tuple(dtypes.split()),
        usual=usual,
        others=tuple(tile for tile in others if not _is_narrow(tile)),
        narrow=tuple(tile for tile in others if _is_narrow(tile)),
        status=status,
        source=note or names[0],
    )


def _is_narrow(tile: Tile) -> bool:
    return min(tile.m, tile.n) < NARROW_SIDE


#: What cuBLAS has by NVIDIA's "Matrix Multiplication Background", and what small products are seen to take:
#: nvjet's down to 64x8, cutlass_…_wmma_tensorop_…_16x16 before.
_EVERYWHERE: Final = (
    *((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)),
    *((64, 32), (32, 32), (64, 16), (64, 8), (16, 16)),
)

_AMPERE_AND_ADA: Final = "8.0 8.6 8.7 8.9"
_HOPPER: Final = "9.0"
_BLACKWELL: Final = "10.0 10.3"
_BLACKWELL_RTX: Final = "12.0 12.1"

#: compute capabilities, formats, kernels in public profiles (some names are shortened, as they were there).
#: Bare tiles: seen without a name; on Blackwell 256x256 is what two SMs multiply together (2cta).
_SEEN: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "7.0",
        "fp16",
        """volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn
        volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn""",
    ),
    (
        "7.5",
        "fp16",
        """turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_stages_32x1_tn
        turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn
        turing_fp16_s1688gemm_fp16_128x64_sliced1x2_ldg8_f2f_tn""",
    ),
    (
        _AMPERE_AND_ADA,
        "fp16 bf16",
        """ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_nn
        ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_32x3_nn
        ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn
        ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn
        ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x6_tn""",
    ),
    (
        _AMPERE_AND_ADA,
        "tf32",
        """cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4
        cutlass_80_tensorop_s1688gemm_256x128_32x3_tn_align4
        cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4
        cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4
        sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x16_stage6_warpsize2x2x1_tensor16x8x8""",
    ),
    (
        _AMPERE_AND_ADA,
        "int8",
        """cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16
        cutlass_80_tensorop_i16832gemm_s8_128x64_128x3_tn_align16""",
    ),
    (
        "8.0",
        "fp64",
        """cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1
        cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1
        cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1
        cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1""",
    ),
    (
        "8.9",
        "fp8",
        """sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64
        sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize256x64x64_stage4_warpsize4x1x1_tensor16x8x32
        sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x64_stage4_warpsize2x2x1_tensor16x8x32
        sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize32x64x64_stage5""",
    ),
    (
        _HOPPER,
        "fp16 bf16",
        """nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN
        nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN
        nvjet_hsh_320x128_64x3_1x2
        nvjet_304x128_64x3_1x2_h_coopA_TNN
        nvjet_288x128_64x3_1x2_h_coopA_NTN
        nvjet_272x128_64x4_1x2_h_coopA_TNN
        nvjet_192x208_64x4_2x1_v_coopB_NNT
        nvjet_160x256_64x4_2x1_v_coopA_TNN
        sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64
        nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT
        nvjet_tst_256x8_64x6_2x1_v_bz_TNT
        nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT
        nvjet_tst_128x16_64x11_2x1_v_bz_TNT
        nvjet_sm90_tst_128x8_64x12_4x1_v_bz_TNT
        nvjet_tst_64x16_64x16_2x1_v_bz_splitK_TNT
        nvjet_hsh_32x64_64x16_4x1_v_bz_splitK_TNN
        nvjet_tst_64x8_64x16_4x1_v_bz_TNT""",
    ),
    (
        _HOPPER,
        "tf32",
        """sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize256x128x32_warpgroupsize2x1x1
        sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x128x32""",
    ),
    (
        _HOPPER,
        "fp8",
        """nvjet_sm90_qqtst_128x160_128x5
        nvjet_sm90_qqtst_128x128_128x6_1x2_h_bz_ovscale_TNT
        nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN
        128x256x128""",
    ),
    (
        _HOPPER,
        "int8",
        """sm90_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize256x128x128_warpgroupsize2x1x1""",
    ),
    (
        _HOPPER,
        "fp64",
        """sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize128x128x16_stage3_warpsize4x2x1_tensor16x8x16
        sm90_xmma_gemm_f64f64_tilesize128x64x16_stage3_tensor16x8x8""",
    ),
    (
        _BLACKWELL,
        "fp16 bf16",
        """nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT
        256x256x64
        nvjet_sm100_tst_256x128_64x5_2x2_2cta_h_bz_TNT
        nvjet_sm100_tst_192x288_64x5_2x1_2cta_v_bz_TNT
        nvjet_tst_256x160_64x5_2x1_2cta_v_bz_bias_TNT
        nvjet_sm100_tst_160x192_64x6_1x2_2cta
        nvjet_tst_128x192_64x5_4x1_v_badd_NNT
        nvjet_tst_256x96_64x5_2x1_2cta_v_badd_NNT
        nvjet_sm100_tss_128x128_64x9_2x2_2cta_h_bz_TNT
        nvjet_sm100_tss_240x64_64x9_1x2_2cta_h_bz_TNN
        nvjet_sm100_tst_384x32_64x4_2x1_2cta_v_bz_TNT
        nvjet_sm100_tst_128x24_64x11_4x2_h_bz_TNT
        nvjet_tst_64x32_64x16_2x2_2cta_h_bz_splitK_TNT
        nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT
        nvjet_sm100_tst_8x64_64x16_4x1_v_bz_TNN""",
    ),
    (
        _BLACKWELL,
        "fp8",
        """nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_bias_TNT
        256x256x128""",
    ),
    (
        _BLACKWELL,
        "fp4",
        """nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT
        256x256x256
        nvjet_sm100_ootst_128x128_256x7_4x1_2cta_v_bx_Avec16UE4M3_Bvec16UE4M3
        cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_256x192x256_0_tnn_align32_o_vs16_2sm""",
    ),
    (
        _BLACKWELL_RTX,
        "fp16 bf16",
        """nvjet_sm120_hss_mma_128x176x64_2_32x88x64_tmaAB_alignCD4_bz_NNNN
        nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN
        nvjet_sm120_tst_mma_64x32x64_8_16x32x64_tmaAB_alignCD4_bz_TNNN""",
    ),
    (
        _BLACKWELL_RTX,
        "fp8",
        """nvjet_sm120_qqtsq_mma_128x128x64_6_64x64x64_tmaAB
        nvjet_sm120_qqhsh_mma_128x64x64""",
    ),
)
#: compute capabilities, formats, tiles, why these
_INFERRED: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("7.5", "int8", "256x128x64 128x128x64 64x64x64", "as on Ampere"),
    (_BLACKWELL, "tf32", "128x256x32 128x128x32 64x128x32", "as 16-bit there, with the bytes of tK"),
    (
        _BLACKWELL,
        "int8",
        "256x128x64 128x64x128",
        "as on Ampere, whose kernels cutlass_80_tensorop_i16832gemm_s8_… were seen there",
    ),
    (
        _BLACKWELL,
        "fp64",
        "128x64x16 64x64x16 64x32x16",
        "as on Ampere, whose kernels cutlass_80_tensorop_d884gemm_… were seen there",
    ),
    (_BLACKWELL_RTX, "tf32", "256x128x16 128x128x16 64x64x32", "as on Ampere"),
    (_BLACKWELL_RTX, "int8", "256x128x64 128x64x128", "as on Ampere"),
    (_BLACKWELL_RTX, "fp4", "128x128x128 128x64x128", "as 8-bit there, with the bytes of tK"),
)
