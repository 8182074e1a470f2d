"""Aligned columns as text, coloured or plain: the same words in the same places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_ofu.reports.free_text import cell_width, padded

Paint = Callable[[str, str], str]  # text and style → text as the terminal takes it

_GAP = "  "
_NARROWEST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. ``give_way``: the higher, the sooner it is left out where space is short; 0 never is.

    ``shrinks``: its cells may be cut short, since they hold names.
    """

    title: str
    right: bool = False
    give_way: int = 0
    shrinks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of cells. ``style`` colours the last cell; ``total`` sets the line apart."""

    cells: tuple[str, ...]
    style: str = ""
    total: bool = False


def as_grid(
    columns: Sequence[Column], lines: Sequence[Line], *, width: int, colour: bool, header: bool = True
) -> str:
    """The grid as text, each line ended, no line wider than ``width`` unless its figures need it."""
    kept = _that_fit(columns, lines, width)
    shown = [columns[number] for number in kept]
    rows = [_picked(line, kept) for line in lines]
    widths = _shrunk(shown, rows, width)
    paint = painter(colour=colour)
    text = []
    if header:
        titles = _row([column.title for column in shown], shown, widths)
        text.append(paint(_GAP.join(titles), "bold"))
    for row in rows:
        *cells, last = _row(row.cells, shown, widths)
        text += ["-" * _total_width(widths)] if row.total else []
        text.append((_GAP.join(cells) + _GAP + paint(last, row.style)).rstrip())
    return "".join(line + "\n" for line in text)


def left_out(columns: Sequence[Column], lines: Sequence[Line], width: int) -> list[str]:
    """The titles of the columns for which a grid of this width has no room."""
    kept = _that_fit(columns, lines, width)
    return [column.title for number, column in enumerate(columns) if number not in kept]


def painter(*, colour: bool) -> Paint:
    """What paints text in a style, or leaves it as it is."""
    return _rich_paint() if colour else _no_paint


def _no_paint(text: str, style: str) -> str:
    return text


def _that_fit(columns: Sequence[Column], lines: Sequence[Line], width: int) -> list[int]:
    kept = list(range(len(columns)))
    for level in sorted({column.give_way for column in columns} - {0}, reverse=True):
        shown = [columns[number] for number in kept]
        if _total_width(_natural(shown, [_picked(line, kept) for line in lines])) <= width:
            break
        kept = [number for number in kept if columns[number].give_way != level]
    return kept


def _picked(line: Line, kept: Sequence[int]) -> Line:
    return Line(cells=tuple(line.cells[number] for number in kept), style=line.style, total=line.total)


def _natural(columns: Sequence[Column], lines: Sequence[Line]) -> list[int]:
    return [
        max([cell_width(column.title), *(cell_width(line.cells[number]) for line in lines)])
        for number, column in enumerate(columns)
    ]


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _shrunk(columns: Sequence[Column], lines: Sequence[Line], width: int) -> list[int]:
    """Takes one cell after the other from the widest name column until the grid fits."""
    widths = _natural(columns, lines)
    names = [number for number, column in enumerate(columns) if column.shrinks]
    while names and _total_width(widths) > width:
        widest = max(names, key=lambda number: widths[number])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    """The cells of a line in their widths; what fills up the last one is left out."""
    *cells_before, last = (
        padded(cell, width, right=column.right)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return [*cells_before, last.rstrip()]


def _rich_paint() -> Paint:
    from rich.color import ColorSystem  # a report without colours does not pay for rich
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
