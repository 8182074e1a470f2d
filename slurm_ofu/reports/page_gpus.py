"""A line per node and per GPU of a run, those marked that a finding is about."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from slurm_ofu.figures import figures, gpu_figures, pool_gpus
from slurm_ofu.figures.gpu_use import GpuSide, side_of_gpus
from slurm_ofu.reports.free_text import wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid
from slurm_ofu.reports.notes import style
from slurm_ofu.reports.wording import NOT_MEASURED, count, hour_digits, hours, name, ofu, percent
from slurm_ofu.values import Figures, Finding, GpuRow, JobPage, NodeRow

#: So many lines are read; of more there are those that stand out, and what the others are like.
MOST_LINES = 32
_SOME_LINES = 8
_MARK = "*"
_MARKED = "* a finding is about it"
_BYTES_PER_GIB = 2**30
_IN_ORDER = ("ok", "short")

_NODE_COLUMNS = (
    Column(title="Node", shrinks=True),
    Column(title="GPUs", right=True),
    Column(title="GPU-h", right=True),
    Column(title="Tensor", right=True),
    Column(title="Clock", right=True),
    Column(title="Coverage", right=True),
    Column(title="OFU"),
)
_GPU_COLUMNS = (
    Column(title="Node", shrinks=True),
    Column(title="GPU", right=True),
    Column(title="Model", shrinks=True),
    Column(title="SM", right=True, give_way=1),
    Column(title="Tensor", right=True),
    Column(title="Clock", right=True),
    Column(title="GiB", right=True, give_way=2),
    Column(title="Watt", right=True, give_way=3),
    Column(title="Slowed", right=True, give_way=4),
    Column(title="Coverage", right=True),
    Column(title="OFU"),
)
#: Columns that are left out where no GPU has anything else in them.
_NOTHING = {"GiB": (NOT_MEASURED,), "Watt": (NOT_MEASURED,), "Slowed": (NOT_MEASURED, "0.0 %")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFigures:
    """The figures of the parts of a run, in the order in which the page has them."""

    nodes: tuple[Figures, ...]
    gpus: tuple[Figures, ...]


def part_figures(page: JobPage) -> PartFigures:
    """The figures of each node and of each GPU."""
    by_node: dict[str, list[GpuRow]] = {}
    for gpu in page.gpus:
        by_node.setdefault(gpu.node_name, []).append(gpu)
    return PartFigures(
        nodes=tuple(_node_figures(node, by_node.get(node.node_name, [])) for node in page.nodes),
        gpus=tuple(gpu_figures(gpu.totals) for gpu in page.gpus),
    )


def as_grids(page: JobPage, parts: PartFigures, found: Sequence[Finding], *, width: int, colour: bool) -> str:
    """Both grids, each after a blank line; that of nodes only where it says more than that of GPUs."""
    places = {place for finding in found for place in finding.where}
    text = ""
    if page.nodes and not _say_the_same(page):
        text += "\n" + _node_grid(page, parts.nodes, places, width=width, colour=colour)
    if page.gpus:
        text += "\n" + _gpu_grid(page.gpus, parts.gpus, places, width=width, colour=colour)
    return text


def _say_the_same(page: JobPage) -> bool:
    """Whether the GPUs' lines leave nothing to be said of nodes: there is one, or each has one GPU."""
    counts = [node.gpu_count for node in page.nodes]
    if len(counts) > 1 and set(counts) != {1.0}:
        return False
    return {node.node_name for node in page.nodes} == {gpu.node_name for gpu in page.gpus} and (
        sum(count or 0.0 for count in counts) == len(page.gpus)
    )


def _node_figures(node: NodeRow, gpus: Sequence[GpuRow]) -> Figures:
    """The node's GPUs together; a node without GPU rows still has its hours, and its reason."""
    sums = pool_gpus(gpu.totals for gpu in gpus)
    if sums.allocated_seconds is None and node.gpu_count is not None and node.allocated_seconds is not None:
        seconds = node.gpu_count * node.allocated_seconds
        sums = replace(sums, allocated_seconds=seconds, gpu_count_unknown_time=0.0)
    return figures(replace(sums, reasons=(*sums.reasons, node.reason)))


def _node_grid(
    page: JobPage, nodes: Sequence[Figures], places: Collection[str], *, width: int, colour: bool
) -> str:
    of_gpus = {gpu.node_name for gpu in page.gpus if _place(gpu) in places}
    marked = [node.node_name in places or node.node_name in of_gpus for node in page.nodes]
    digits = hour_digits([its.gpu_hours for its in nodes], most_digits=3)
    lines = [
        _node_line(node, its, digits, mark=mark, marks=any(marked))
        for node, its, mark in zip(page.nodes, nodes, marked, strict=True)
    ]
    shown = _worth_showing(nodes, marked)
    grid = as_grid(_NODE_COLUMNS, [lines[at] for at in shown], width=width, colour=colour)
    return grid + _beneath(nodes, shown, marked, what="nodes", width=width, explain=False)


def _node_line(node: NodeRow, its: Figures, digits: int, *, mark: bool, marks: bool) -> Line:
    assumed = " assumed" if node.gpu_count_assumed else ""
    gpu_count = count(node.gpu_count) + assumed + _marked(mark=mark, marks=marks)
    cells = (name(node.node_name), gpu_count, hours(its.gpu_hours, digits=digits))
    return Line(cells=(*cells, *_ratios(its), percent(its.coverage_ratio), ofu(its)), style=_style(its, mark))


def _gpu_grid(
    gpus: Sequence[GpuRow], each: Sequence[Figures], places: Collection[str], *, width: int, colour: bool
) -> str:
    """A line per GPU, with its model where the page has several."""
    sides = [side_of_gpus([gpu.totals]) for gpu in gpus]
    marked = [_place(gpu) in places or gpu.node_name in places for gpu in gpus]
    lines = [
        _gpu_line(gpu, its, side, mark=mark, marks=any(marked))
        for gpu, its, side, mark in zip(gpus, each, sides, marked, strict=True)
    ]
    shown = _worth_showing(each, marked)
    kept = [at for at, column in enumerate(_GPU_COLUMNS) if _is_kept(column, gpus, lines, at)]
    picked = [replace(lines[at], cells=tuple(lines[at].cells[cell] for cell in kept)) for at in shown]
    grid = as_grid([_GPU_COLUMNS[at] for at in kept], picked, width=width, colour=colour)
    return grid + _beneath(each, shown, marked, what="GPUs", width=width, explain=True)


def _is_kept(column: Column, gpus: Sequence[GpuRow], lines: Sequence[Line], at: int) -> bool:
    if column.title == "Model":
        return len({gpu.totals.gpu_model for gpu in gpus if gpu.totals.gpu_model is not None}) > 1
    nothing = _NOTHING.get(column.title, ())
    return not nothing or any(line.cells[at] not in nothing for line in lines)


def _gpu_line(gpu: GpuRow, its: Figures, side: GpuSide, *, mark: bool, marks: bool) -> Line:
    return Line(
        cells=(
            name(gpu.node_name),
            str(gpu.totals.position) + _marked(mark=mark, marks=marks),
            name(gpu.totals.gpu_model).removeprefix("NVIDIA "),
            percent(its.sm_active_ratio, absent=NOT_MEASURED),
            *_ratios(its),
            gibibytes(side.memory_max_bytes),
            NOT_MEASURED if side.power_watts is None else f"{side.power_watts:.0f}",
            percent(_slowed_ratio(its), absent=NOT_MEASURED),
            percent(its.coverage_ratio),
            ofu(its),
        ),
        style=_style(its, mark),
    )


def gibibytes(size: int | None) -> str:
    """An amount of memory, without its unit."""
    return NOT_MEASURED if size is None else f"{size / _BYTES_PER_GIB:.1f}"


def _slowed_ratio(its: Figures) -> float | None:
    """The time that the driver slowed it down; by power and by heat may be the same time."""
    known = [its.throttled_power_gpu_hours, its.throttled_thermal_gpu_hours]
    slowed = [hours for hours in known if hours is not None]
    if not slowed or its.throttle_known_gpu_hours <= 0:
        return None
    return max(slowed) / its.throttle_known_gpu_hours


def _ratios(its: Figures) -> tuple[str, str]:
    return (
        percent(its.tpa_mean_ratio, absent=NOT_MEASURED),
        percent(its.active_clock_ratio, absent=NOT_MEASURED),
    )


def _place(gpu: GpuRow) -> str:
    return f"{gpu.node_name}:{gpu.totals.position}"


def _marked(*, mark: bool, marks: bool) -> str:
    """What stands behind a number, so that numbers stay below each other."""
    return _MARK if mark else " " if marks else ""


def _style(its: Figures, mark: bool) -> str:
    return f"{style(its)} reverse" if mark else style(its)


def _worth_showing(each: Sequence[Figures], marked: Sequence[bool]) -> list[int]:
    """All of a few; of many those that are marked or were not measured in full, and else the lowest."""
    if len(each) <= MOST_LINES:
        return list(range(len(each)))
    odd = [at for at, its in enumerate(each) if marked[at] or its.reason not in _IN_ORDER]
    if odd:
        return sorted(sorted(odd, key=lambda at: not marked[at])[:MOST_LINES])
    return sorted(sorted(range(len(each)), key=lambda at: each[at].ofu_ratio or 0.0)[:_SOME_LINES])


def _beneath(
    each: Sequence[Figures],
    shown: Sequence[int],
    marked: Sequence[bool],
    *,
    what: str,
    width: int,
    explain: bool,
) -> str:
    """What the marks mean, and what was left out is like."""
    texts = [_MARKED] if explain and any(marked) else []
    rest = sorted(set(range(len(each))) - set(shown))
    if rest:
        ratios = sorted(ratio for at in rest if (ratio := each[at].ofu_ratio) is not None)
        also = sum(marked[at] for at in rest)
        text = f"and {len(rest)} more {what}" + (f", {also} of them with a finding" if also else "")
        text += f": OFU {percent(ratios[0])} to {percent(ratios[-1])}" if ratios else ": no OFU"
        texts.append(f"{text} (--json has all)")
    return "".join(line + "\n" for text in texts for line in wrapped(text, width))
