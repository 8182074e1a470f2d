"""Tile quantisation: the tensor pipes multiply whole tiles, and OFU counts what pads a matrix to them.

A GEMM of M×N×K is computed in tiles of tM×tN, each in steps of tK. What lies beyond the matrix's edge is
multiplied too. Of the work that OFU counts, the GEMM's own is M·N·K over the product of the padded sides.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from slurm_ofu.figures.known_tiles import NARROW_SIDE, KnownTiles
from slurm_ofu.figures.tile_names import KernelTile, Tile

#: How a tile is known: it was said; a kernel's name says it; a library was seen to take it for such GEMMs;
#: it is inferred from what was seen elsewhere. The last two are guesses: libraries choose by shape.
Basis = Literal["given", "kernel", "seen", "inferred"]
#: One of the possible tiles: said or named; the usual one of large GEMMs; another one that was seen.
Role = Literal["given", "kernel", "usual", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """The sides of a matrix product: M×K times K×N."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCase:
    """What one tile makes of a GEMM."""

    tile: Tile
    role: Role
    swapped: bool = False  # the tile's M and N the other way round than it is written in its source
    whole_clusters: bool = False  # ``tile`` is that of a whole cluster of thread blocks
    padded: Gemm
    tile_count: int  # of the output
    useful_ratio: float  # M·N·K over the padded product: 1 where nothing is padded
    padding_ratio: float  # the rest
    adjusted_ofu_ratio: float | None  # OFU without padding; None: no OFU was said


@dataclass(frozen=True, slots=True, kw_only=True)
class TileAnswer:
    """What padding costs, by every tile that it may have been. The first case is the likeliest."""

    gemm: Gemm
    basis: Basis
    cases: tuple[TileCase, ...]
    ofu_ratio: float | None = None
    known: tuple[KnownTiles, ...] = ()  # what a guess rests on

    @property
    def is_guess(self) -> bool:
        """Whether the tile is only what a library usually takes."""
        return self.basis in ("seen", "inferred")

    @property
    def lowest(self) -> TileCase:
        """The case with the most padding."""
        return min(self.cases, key=lambda case: case.useful_ratio)

    @property
    def highest(self) -> TileCase:
        """The case with the least padding."""
        return max(self.cases, key=lambda case: case.useful_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """How the tiles of the output fill a GPU's SMs, one tile per SM at a time."""

    sm_count: int
    wave_count: int
    filled_ratio: float  # tiles over the places for tiles in that many waves


def padded(gemm: Gemm, tile: Tile) -> Gemm:
    """The sides in whole tiles."""
    return Gemm(m=_up(gemm.m, tile.m), n=_up(gemm.n, tile.n), k=_up(gemm.k, tile.k))


def useful_ratio(gemm: Gemm, tile: Tile) -> float:
    """The GEMM's own share of what is multiplied: in (0, 1], and 1 only where no side is padded."""
    whole = padded(gemm, tile)
    return (gemm.m * gemm.n * gemm.k) / (whole.m * whole.n * whole.k)


def adjusted_ofu_ratio(ofu_ratio: float, gemm: Gemm, tile: Tile) -> float:
    """OFU without what was padded."""
    return ofu_ratio * useful_ratio(gemm, tile)


def by_given_tile(gemm: Gemm, tile: Tile, ofu_ratio: float | None = None) -> TileAnswer:
    """The answer for a tile that is known, its M and N as the GEMM's."""
    return TileAnswer(
        gemm=gemm, basis="given", cases=(_case(gemm, tile, "given", ofu_ratio),), ofu_ratio=ofu_ratio
    )


def by_kernel(gemm: Gemm, kernel: KernelTile, ofu_ratio: float | None = None) -> TileAnswer:
    """The answer for a kernel's tile: which of its sides lies along M depends on who counts (row-major
    frameworks hand a library the transposed product), and whole clusters may be padded to."""
    units = [(kernel.tile, False)]
    if kernel.cluster_tile != kernel.tile:
        units.append((kernel.cluster_tile, True))
    cases = [
        _case(gemm, tile, "kernel", ofu_ratio, swapped=swapped, whole_clusters=clusters)
        for unit, clusters in units
        for tile, swapped in _both_ways(unit)
    ]
    return TileAnswer(gemm=gemm, basis="kernel", cases=tuple(cases), ofu_ratio=ofu_ratio)


def by_known_tiles(gemm: Gemm, known: Sequence[KnownTiles], ofu_ratio: float | None = None) -> TileAnswer:
    """The guess from the tiles that a library takes (at least one row): each of them, both ways round."""
    usual = _distinct(row.usual for row in known)
    others = _distinct(tile for row in known for tile in _others(row, gemm))
    cases = [_case(gemm, tile, "usual", ofu_ratio, swapped=swapped) for tile, swapped in _all_ways(usual)]
    done = {case.tile for case in cases}
    cases += [
        _case(gemm, tile, "other", ofu_ratio, swapped=swapped)
        for tile, swapped in _all_ways(others)
        if tile not in done
    ]
    basis: Basis = "seen" if all(row.status == "seen" for row in known) else "inferred"
    return TileAnswer(gemm=gemm, basis=basis, cases=tuple(cases), ofu_ratio=ofu_ratio, known=tuple(known))


def waves(case: TileCase, sm_count: int) -> Waves:
    """How one case's tiles fill the SMs. OFU sees idle SMs, so nothing is corrected for them."""
    wave_count = -(-case.tile_count // sm_count)
    return Waves(
        sm_count=sm_count, wave_count=wave_count, filled_ratio=case.tile_count / (wave_count * sm_count)
    )


def _up(side: int, step: int) -> int:
    return -(-side // step) * step


def _case(
    gemm: Gemm,
    tile: Tile,
    role: Role,
    ofu_ratio: float | None,
    *,
    swapped: bool = False,
    whole_clusters: bool = False,
) -> TileCase:
    whole = padded(gemm, tile)
    useful = useful_ratio(gemm, tile)
    return TileCase(
        tile=tile,
        role=role,
        swapped=swapped,
        whole_clusters=whole_clusters,
        padded=whole,
        tile_count=(whole.m // tile.m) * (whole.n // tile.n),
        useful_ratio=useful,
        padding_ratio=1 - useful,
        adjusted_ofu_ratio=None if ofu_ratio is None else ofu_ratio * useful,
    )


def _others(row: KnownTiles, gemm: Gemm) -> Iterator[Tile]:
    """The tiles of a row besides the usual one that a library may take for this GEMM."""
    yield from row.others
    if min(gemm.m, gemm.n) <= NARROW_SIDE:
        yield from row.narrow


def _both_ways(tile: Tile) -> Iterator[tuple[Tile, bool]]:
    yield tile, False
    if tile.m != tile.n:
        yield Tile(m=tile.n, n=tile.m, k=tile.k), True


def _all_ways(tiles: Iterable[Tile]) -> Iterator[tuple[Tile, bool]]:
    """Each tile both ways round, none twice."""
    done = set()
    for tile in tiles:
        for way, swapped in _both_ways(tile):
            if way not in done:
                done.add(way)
                yield way, swapped


def _distinct(tiles: Iterable[Tile]) -> tuple[Tile, ...]:
    return tuple(dict.fromkeys(tiles))
