"""Tiles as people write them, and as they stand in kernels' names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.errors import UsageError
from slurm_ofu.figures.tile_names import LARGEST_SIDE, KernelTile, Tile, parse_kernel, parse_tile

SIDES = st.integers(1, LARGEST_SIDE)


def tile(m: int, n: int, k: int = 1) -> Tile:
    return Tile(m=m, n=n, k=k)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128x256x64", tile(128, 256, 64)),
        (" 128X256X64 ", tile(128, 256, 64)),
        ("128×256×64", tile(128, 256, 64)),
        ("128x256", tile(128, 256)),
        ("0128x8192x1", tile(128, 8192, 1)),
    ],
)
def test_a_tile_as_people_write_it(text: str, expected: Tile) -> None:
    """MxNxK, with x or ×; without the third number K is not padded."""
    assert expected == parse_tile(text)


@pytest.mark.parametrize(
    "text", ["", "128", "128x", "128x256x64x2", "-128x256x64", "128x256x6.4", "ax256", "128 256 64", "１x１"]
)
def test_what_is_no_tile(text: str) -> None:
    """Anything else is refused, with the text and an example."""
    with pytest.raises(UsageError, match="is not MxNxK, as in 128x256x64") as caught:
        parse_tile(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0x128x64", "128x0", "8193x128", "1x1x" + "9" * 5000])
def test_a_tile_has_sane_sides(text: str) -> None:
    """No side is 0 or beyond what a GPU can hold."""
    with pytest.raises(UsageError, match="each side of a tile lies between 1 and 8192"):
        parse_tile(text)


@pytest.mark.property
@given(SIDES, SIDES, SIDES)
def test_every_tile_can_be_written(m: int, n: int, k: int) -> None:
    """What is written is read again, also where it stands in a kernel's name."""
    assert tile(m, n, k) == parse_tile(f"{m}x{n}x{k}")
    assert tile(m, n, k) == parse_kernel(f"nvjet_tst_{m}x{n}_{k}x4_1x1_h_bz_TNT").tile
    assert (
        tile(m, n, k)
        == parse_kernel(f"sm90_xmma_gemm_f16f16_tn_n_tilesize{m}x{n}x{k}_warpgroupsize1x1x1").tile
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
            KernelTile(tile=tile(128, 256, 64), cluster_m=1, cluster_n=2),
        ),
        (
            "nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT",
            KernelTile(tile=tile(64, 16, 64), cluster_m=2, cluster_n=4, splits_k=True),
        ),
        (
            "nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
            KernelTile(tile=tile(128, 256, 256), cluster_m=2),
        ),
        ("nvjet_sm90_qqtst_128x160_128x5", KernelTile(tile=tile(128, 160, 128))),
        ("nvjet_qqtst_128x160", KernelTile(tile=tile(128, 160))),
        (
            "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN",
            KernelTile(tile=tile(64, 64, 128)),
        ),
        (
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize256x128x32_warpgroupsize2x1x1_execute_segment_k_off_"
            "kernel__5x_cublas",
            KernelTile(tile=tile(256, 128, 32)),
        ),
        (
            "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cgasize1x2x1_stage4_gmmastage2",
            KernelTile(tile=tile(128, 128, 128), cluster_n=2),
        ),
        (
            "sm80_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize64x64x64_stage6_warpsize2x2x1_tensor16x8x16_kernel",
            KernelTile(tile=tile(64, 64, 64)),
        ),
        (
            "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x256x64_2x1x1_0_ttt_align8_epi_tma",
            KernelTile(tile=tile(128, 256, 64), cluster_m=2),
        ),
        (
            "cutlass3x_sm100_tensorop_h256x256x16gemm_f16_f16_f16_f16_f16_256x256x64_2x1x1_0_nnn_align8_2sm",
            KernelTile(tile=tile(256, 256, 64)),
        ),
        (
            "cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue4m3xf4_256x192x256_0_tnn_align32_o_vs16_2sm",
            KernelTile(tile=tile(256, 192, 256)),
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_256x128_32x3_tn_align8>(Params)",
            KernelTile(tile=tile(256, 128, 32)),
        ),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1", KernelTile(tile=tile(256, 128))),
        (
            "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x5_tn",
            KernelTile(tile=tile(64, 64, 64)),
        ),
        ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_...", KernelTile(tile=tile(256, 128))),
        ("volta_fp16_s884gemm_fp16_128x256_ldg8_f2f_tn", KernelTile(tile=tile(128, 256))),
    ],
)
def test_a_tile_in_a_kernels_name(name: str, expected: KernelTile) -> None:
    """nvjet, xmma, CUTLASS 2 and 3, and cuBLAS before Hopper: the tile, never the instruction's shape, the
    warp's part or the stages; the cluster where one is said."""
    assert expected == parse_kernel(name)


def test_a_cluster_computes_several_tiles() -> None:
    """A cluster of thread blocks spans a multiple of the tile in M and N, never in K."""
    kernel = parse_kernel("nvjet_sm100_tst_256x128_64x5_2x2_2cta_h_bz_TNT")
    assert tile(512, 256, 64) == kernel.cluster_tile


@pytest.mark.parametrize(
    "name",
    ["", "flash_fwd_kernel", "nvjet", "gemm_128x", "void at::native::vectorized_elementwise_kernel<4>"],
)
def test_a_name_without_a_tile(name: str) -> None:
    """A name that says no tile is refused, and told what else to say."""
    with pytest.raises(UsageError, match=r"no tile is found in the kernel name .*else say --tile MxNxK"):
        parse_kernel(name)


@pytest.mark.parametrize(
    "name",
    ["cutlass_80_simt_sgemm_256x128_8x4_nn_align1", "ampere_sgemm_128x64_tn", "volta_hgemm_128x128_nn"],
)
def test_kernels_beside_the_tensor_pipes(name: str) -> None:
    """A kernel that uses no tensor pipes has no part in OFU: no tile of it explains anything."""
    with pytest.raises(UsageError, match="does not use the tensor pipes"):
        parse_kernel(name)


@pytest.mark.property
@given(
    st.text(st.sampled_from("nvjetgemcutlass3x_tilesz0123456789.<>\n…")) | st.text(),
    st.sampled_from(["", "nvjet", "gemm", "cutlass3x", "tilesize"]),
)
def test_no_text_breaks_the_parsers(text: str, before: str) -> None:
    """Whatever is pasted: a tile with sane sides, or a message; never another error."""
    for parse in (parse_tile, lambda name: parse_kernel(name).tile):
        try:
            found = parse(before + text)
        except UsageError as error:
            assert len(str(error)) < 500
        else:
            assert all(1 <= side <= LARGEST_SIDE for side in (found.m, found.n, found.k))


def test_a_huge_name_is_no_burden() -> None:
    """A text without an end is not searched without an end."""
    with pytest.raises(UsageError, match="no tile is found"):
        parse_kernel("gemm" * 1_000_000 + "_128x256_64x4")
