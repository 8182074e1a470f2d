"""The tile in the name of a GEMM kernel, as a profiler prints it.

    nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT                          cuBLAS since CUDA 12.8: tM x tN, tK x
                                                                       stages, cluster
    nvjet_sm120_tst_mma_64x64x128_3_32x32x128_…                        cuBLAS, Blackwell RTX
    sm90_xmma_gemm_…_tilesize128x128x64_cgasize1x2x1_…                 cuBLAS
    cutlass3x_sm90_tensorop_s64x128x16gemm_…_128x256x64_2x1x1_0_…      CUTLASS 3
    cutlass_80_tensorop_s16816gemm_f16_256x128_32x3_nn_align8          CUTLASS 2: tK x stages
    ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_tn        cuBLAS before Hopper; Volta's and some of
                                                                       Turing's do not say tK

The first side lies along the library's M. cuBLAS is column-major, so that M is the N of a row-major
framework such as PyTorch.
"""

import re
from dataclasses import dataclass
from typing import Final

from slurm_ofu.errors import UsageError
from slurm_ofu.figures.known_tiles import LARGEST_SIDE, Tile

_TILE: Final = re.compile(r"([0-9]+)[x×]([0-9]+)(?:[x×]([0-9]+))?", re.IGNORECASE)
_NVJET: Final = r"nvjet\w*?_(?P<m>\d+)x(?P<n>\d+)(?![x\d])(?:_(?P<k>\d+)x\d+(?:_(?P<cm>\d+)x(?P<cn>\d+))?)?"
_NVJET_MMA: Final = r"nvjet\w*?_mma_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
_XMMA: Final = r"tilesize(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?:_cgasize(?P<cm>\d+)x(?P<cn>\d+)x\d+)?"
_CUTLASS_3: Final = (
    r"cutlass3x\w*?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?![x\d])(?:_(?P<cm>\d+)x(?P<cn>\d+)x\d+(?![x\d]))?"
)
_GEMM: Final = (
    r"gemm\w*?_(?P<m>\d+)x(?P<n>\d+)(?![x\d])(?:_(?P<k>\d+)x\d+(?![x\d])|\w*?_stages_(?P<k_late>\d+)x\d+)?"
)
_FORMS: Final = tuple(re.compile(form, re.ASCII) for form in (_NVJET_MMA, _NVJET, _XMMA, _CUTLASS_3, _GEMM))
_NO_TENSOR_CORES: Final = re.compile(r"simt|(?:^|_)[shcz]gemm_")
_SHOWN: Final = 60
_LONGEST_NAME: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTile:
    """What a kernel's name says: its tile, and how many of them a cluster of thread blocks spans."""

    tile: Tile  # k = 1: the name does not say tK
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
    return _tile(*match.groups(default="1"), text=text)


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
    sides = match.groupdict(default=None)
    k = sides.get("k") or sides.get("k_late") or "1"
    # In CUTLASS's names of kernels for pairs of SMs the tile is the pair's, and the cluster counts SMs.
    pair = 2 if "cutlass3x" in match.group() and "_2sm" in name else 1
    return KernelTile(
        tile=_tile(sides["m"] or "", sides["n"] or "", k, text=name),
        cluster_m=max(1, _side(sides.get("cm") or "1", name) // pair),
        cluster_n=_side(sides.get("cn") or "1", name),
        splits_k="splitk" in name.lower(),
    )


def _tile(m: str, n: str, k: str, *, text: str) -> Tile:
    return Tile(m=_side(m, text), n=_side(n, text), k=_side(k, text))


def _side(digits: str, text: str) -> int:
    side = int(digits) if len(digits) <= len(str(LARGEST_SIDE)) else 0
    if not 1 <= side <= LARGEST_SIDE:
        raise UsageError(f"{text[:_SHOWN]!r}: each side of a tile lies between 1 and {LARGEST_SIDE}")
    return side
