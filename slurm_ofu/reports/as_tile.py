"""What padding to whole tiles costs one GEMM, for people and for programs."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from slurm_ofu.figures.tile_names import Tile
from slurm_ofu.figures.tiles import Gemm, TileAnswer, TileCase, Waves, waves
from slurm_ofu.reports.facts import Fact, as_facts
from slurm_ofu.reports.fields import safe
from slurm_ofu.reports.free_text import printable, wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid
from slurm_ofu.reports.wording import percent

#: Grows when a field is removed or changes its meaning; new fields do not count.
SCHEMA_VERSION = 1

_ASK_A_PROFILER = "Libraries choose by shape: a profiler shows the kernel, and --kernel takes its name"
_EITHER_WAY = (
    "from the kernel's name. It may lie either way round: a library is column-major, and its M is what"
    " PyTorch calls N"
)
_UNITS = {
    "m": "elements",
    "n": "elements",
    "k": "elements",
    "useful_ratio": "1 (of what is multiplied, padding included; null: not one value, see low and high)",
    "padding_ratio": "1 (of what is multiplied)",
    "adjusted_ofu_ratio": "1 (OFU without padding)",
    "ofu_ratio": "1",
    "tile_count": "tiles of the output",
    "wave_count": "times that each SM has a tile, by the first of the cases",
    "filled_ratio": "1 (of the places for tiles in that many waves)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSubject:
    """What the answer is about besides the GEMM, as far as it was said."""

    gpu_model: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    dtype: str | None = None
    kernel: str | None = None
    splits_k: bool = False


def as_tile(answer: TileAnswer, subject: TileSubject, *, width: int) -> str:
    """The answer as text: how the tile is known, the range, and what each tile makes of the GEMM."""
    lines = [*wrapped(_title(answer.gemm, subject), width), *as_facts(_facts(answer, subject), width=width)]
    return "".join(line + "\n" for line in lines) + "\n" + _table(answer, width=width)


def tile_as_json(answer: TileAnswer, subject: TileSubject) -> str:
    """The same document for programs. A single value stands there only where no guess is in it."""
    low, high = answer.lowest, answer.highest
    document = {
        "schema_version": SCHEMA_VERSION,
        "units": _UNITS,
        "gemm": asdict(answer.gemm),
        **{name: safe(value) for name, value in asdict(subject).items()},
        "basis": answer.basis,
        "is_guess": answer.is_guess,
        "ofu_ratio": safe(answer.ofu_ratio),
        **_one_or_range("useful_ratio", low.useful_ratio, high.useful_ratio),
        **_one_or_range("adjusted_ofu_ratio", low.adjusted_ofu_ratio, high.adjusted_ofu_ratio),
        "waves": None if subject.sm_count is None else asdict(waves(answer.cases[0], subject.sm_count)),
        "sources": [safe(row.source) for row in answer.known],
        "cases": [_case_values(case) for case in answer.cases],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _one_or_range(name: str, low: float | None, high: float | None) -> dict[str, Any]:
    one = low if low == high else None
    return {name: safe(one), f"{name}_low": safe(low), f"{name}_high": safe(high)}


def _case_values(case: TileCase) -> dict[str, Any]:
    return {name: value if isinstance(value, dict) else safe(value) for name, value in asdict(case).items()}


def _title(gemm: Gemm, subject: TileSubject) -> str:
    about = [name for name in (subject.dtype, subject.gpu_model) if name is not None]
    return ", ".join([f"GEMM of M × N × K = {_sides(gemm)}", *map(printable, about)])


def _facts(answer: TileAnswer, subject: TileSubject) -> list[Fact]:
    low, high = answer.lowest, answer.highest
    facts = [
        ("Tile", _how(answer, subject)),
        ("Padding", f"{_range(high.padding_ratio, low.padding_ratio)} of what the tensor pipes multiply"),
    ]
    if answer.ofu_ratio is not None:
        without = _range(low.adjusted_ofu_ratio, high.adjusted_ofu_ratio)
        facts.append(("OFU", f"{percent(answer.ofu_ratio)} as measured, {without} without padding"))
    if subject.splits_k:
        facts.append(("Split K", "each part of K is padded by itself: it may be more than that"))
    if subject.sm_count is not None:
        facts.append(("Waves", _waves(waves(answer.cases[0], subject.sm_count), answer.cases[0])))
    return facts


def _how(answer: TileAnswer, subject: TileSubject) -> str:
    tile = _written(answer.cases[0].tile)
    if answer.basis == "given":
        return f"{tile}, as said{_unpadded(answer)}"
    if answer.basis == "kernel":
        return f"{tile}{_unpadded(answer)}, {_EITHER_WAY}"
    tiles = dict.fromkeys(_written(row.usual) for row in answer.known)
    usual = f"a guess: {_listed(list(tiles))} {'is' if len(tiles) == 1 else 'are'} usual for large GEMMs"
    return f"{usual} {_where(answer, subject)}, {_ground(answer)}. {_ASK_A_PROFILER}"


def _ground(answer: TileAnswer) -> str:
    if answer.basis == "seen":
        return "by kernels seen in profiles"
    if any(row.status == "seen" for row in answer.known):
        return "by kernels seen in profiles, where there were any"
    return f"inferred ({'; '.join(dict.fromkeys(row.source for row in answer.known))})"


def _unpadded(answer: TileAnswer) -> str:
    return " (K, of which nothing is said, taken as not padded)" if answer.cases[0].tile.k == 1 else ""


def _where(answer: TileAnswer, subject: TileSubject) -> str:
    if all(subject.compute_capability in row.compute_capabilities for row in answer.known):
        return "on this GPU"
    if subject.gpu_model is None:
        return "on one GPU or another (say --gpu)"
    return "on one GPU or another (of this one no tiles are known)"


def _listed(tiles: list[str]) -> str:
    return tiles[0] if len(tiles) == 1 else f"{', '.join(tiles[:-1])} and {tiles[-1]}"


def _waves(its: Waves, case: TileCase) -> str:
    tiles = (
        f"{case.tile_count} tiles of {_written(case.tile)} on {its.sm_count} SMs, up to {its.wave_count} each"
    )
    return f"{tiles}: {percent(its.filled_ratio)} of the SMs' turns. Idle SMs lower OFU itself: left as it is"


def _table(answer: TileAnswer, *, width: int) -> str:
    with_ofu = answer.ofu_ratio is not None
    columns = [
        Column(title="Tile"),
        Column(title="Padded to", give_way=1),
        Column(title="Useful", right=True),
        Column(title="Padding", right=True),
        *([Column(title="Adjusted OFU", right=True)] if with_ofu else []),
        Column(title="Which"),
    ]
    lines = [_line(case, words, with_ofu=with_ofu) for case, words in _shown(answer)]
    return as_grid(columns, lines, width=width, colour=False)


def _shown(answer: TileAnswer) -> list[tuple[TileCase, str]]:
    """The cases of a table that stays short: of the others than the usual ones the two extremes."""
    first = [case for case in answer.cases if case.role != "other"]
    others = [case for case in answer.cases if case.role == "other"]
    shown = [(case, _words(case)) for case in first]
    if others:
        count = f"of {len(others)} others"
        shown.append((min(others, key=lambda case: case.useful_ratio), f"most padding {count}"))
        shown.append((max(others, key=lambda case: case.useful_ratio), f"least padding {count}"))
    return shown


def _words(case: TileCase) -> str:
    words = {"given": "as said", "kernel": "as named", "usual": "usual", "other": ""}[case.role]
    if case.swapped:
        words = "the other way round"
    return words + (", in whole clusters" if case.whole_clusters else "")


def _line(case: TileCase, words: str, *, with_ofu: bool) -> Line:
    cells = [
        _written(case.tile),
        _sides(case.padded),
        percent(case.useful_ratio),
        percent(case.padding_ratio),
    ]
    if with_ofu:
        cells.append(percent(case.adjusted_ofu_ratio))
    return Line(cells=(*cells, words))


def _range(low: float | None, high: float | None) -> str:
    first, last = percent(low), percent(high)
    return first if first == last else f"{first} to {last}"


def _written(tile: Tile) -> str:
    return f"{tile.m}x{tile.n}" + ("" if tile.k == 1 else f"x{tile.k}")


def _sides(gemm: Gemm) -> str:
    return f"{gemm.m} × {gemm.n} × {gemm.k}"
