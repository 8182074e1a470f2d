"""How tiles are written: by people, and in the names of GEMM kernels as a profiler prints them.

    nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT                       cuBLAS, CUDA 12.8 and later: tM x tN,
                                                                    tK x stages, cluster
    nvjet_sm120_tst_mma_64x64x128_3_32x32x128_…                     the same on Blackwell RTX
    sm90_xmma_gemm_…_tilesize128x128x64_cgasize1x2x1_…              cuBLAS
    cutlass3x_sm90_tensorop_s64x128x16gemm_…_128x256x64_2x1x1_…     CUTLASS 3
    cutlass_80_tensorop_s16816gemm_f16_256x128_32x3_nn_align8       CUTLASS 2: tK x stages
    ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_tn     cuBLAS before Hopper; not all say tK

The first side lies along the library's M. cuBLAS is column-major, so that its M is the N of a row-major
framework such as PyTorch.
"""

import re
from dataclasses import dataclass
from typing import Final

from slurm_ofu.errors import UsageError

LARGEST_SIDE: Final = 8192
_LONGEST_NAME: Final = 20_000
_SHOWN: Final = 60

_TILE: Final = re.compile(r"([0-9]+)[x×]([0-9]+)(?:[x×]([0-9]+))?", re.IGNORECASE)
_M_N: Final = r"_(?P<m>\d+)x(?P<n>\d+)(?![x\d])"
_M_N_K: Final = r"_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?![x\d])"
_CLUSTER: Final = r"(?P<cluster_m>\d+)x(?P<cluster_n>\d+)"
_FORMS: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"nvjet\w*?_mma{_M_N_K}",
        rf"nvjet\w*?{_M_N}(?:_(?P<k>\d+)x\d+(?:_{_CLUSTER}(?![x\d]))?)?",
        rf"{_M_N_K.replace('_', 'tilesize', 1)}(?:_cgasize{_CLUSTER}x\d+)?",
        rf"cutlass3x\w*?{_M_N_K}(?:_{_CLUSTER}x\d+(?![x\d]))?",
        rf"gemm\w*?{_M_N}(?:_(?P<k>\d+)x\d+(?![x\d])|\w*?_stages_(?P<k_of_stages>\d+)x\d+)?",
    )
)
_NO_TENSOR_CORES: Final = re.compile(r"simt|(?:^|_)[shcz]gemm_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The sides of one tile, in elements. ``k`` = 1: K is not known to be padded."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTile:
    """What a kernel's name says: its tile, and how many of them a cluster of thread blocks spans."""

    tile: Tile
    cluster_m: int = 1
    cluster_n: int = 1
    splits_k: bool = False

    @property
    def cluster_tile(self) -> Tile:
        """What a whole cluster computes."""
        return Tile(m=self.tile.m * self.cluster_m, n=self.tile.n * self.cluster_n, k=self.tile.k)


def parse_tile(text: str) -> Tile:
    """``128x256x64`` → Tile; without the third number K is taken as not padded. Raises UsageError."""
    match = _TILE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"the tile {text[:_SHOWN]!r} is not MxNxK, as in 128x256x64 (or MxN)")
    m, n, k = (_side(digits, text) for digits in match.groups(default="1"))
    return Tile(m=m, n=n, k=k)


def parse_kernel(name: str) -> KernelTile:
    """The tile in a kernel's name, wherever in the text it stands. Raises UsageError."""
    if _NO_TENSOR_CORES.search(name):
        raise UsageError(f"the kernel {name[:_SHOWN]!r} does not use the tensor pipes: it has no part in OFU")
    text = name[:_LONGEST_NAME]
    match = next((found for form in _FORMS if (found := form.search(text)) is not None), None)
    if match is None:
        raise UsageError(
            f"no tile is found in the kernel name {name[:_SHOWN]!r}: names of nvjet, xmma, cutlass and"
            " (volta|turing|ampere)_…gemm have one; else say --tile MxNxK"
        )
    said = {what: _side(digits, name) for what, digits in match.groupdict().items() if digits is not None}
    # CUTLASS's names of kernels for pairs of SMs have the pair's tile, and a cluster that counts SMs.
    pair = 2 if "cutlass3x" in match.group() and "_2sm" in name else 1
    return KernelTile(
        tile=Tile(m=said["m"], n=said["n"], k=said.get("k") or said.get("k_of_stages") or 1),
        cluster_m=max(1, said.get("cluster_m", 1) // pair),
        cluster_n=said.get("cluster_n", 1),
        splits_k="splitk" in name.lower(),
    )


def _side(digits: str, text: str) -> int:
    side = int(digits) if len(digits) <= len(str(LARGEST_SIDE)) else 0
    if not 1 <= side <= LARGEST_SIDE:
        raise UsageError(f"{text[:_SHOWN]!r}: each side of a tile lies between 1 and {LARGEST_SIDE}")
    return side
