"""Aligned columns: plain text for pipes and files, rich for a terminal with colours."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_ofu.reports.free_text import cell_width, padded, shortened

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    return _coloured(shown, rows, widths, header) if colour else _plain(shown, rows, widths, header)


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


def _plain(columns: Sequence[Column], lines: Sequence[Line], widths: Sequence[int], header: bool) -> str:
    rows = [_row([column.title for column in columns], columns, widths)] if header else []
    for line in lines:
        if line.total:
            rows.append("-" * _total_width(widths))
        rows.append(_row(line.cells, columns, widths))
    return "".join(row + "\n" for row in rows)


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    filled = [
        padded(cell, width, right=column.right)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return _GAP.join(filled).rstrip()


def _coloured(columns: Sequence[Column], lines: Sequence[Line], widths: Sequence[int], header: bool) -> str:
    from rich.box import SIMPLE_HEAD  # a report without colours does not pay for rich
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_header=header, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.title), justify="right" if column.right else "left", no_wrap=True, min_width=width
        )
    for number, line in enumerate(lines):
        cells = [Text(shortened(cell, width)) for cell, width in zip(line.cells, widths, strict=True)]
        cells[-1].stylize(line.style)
        before_total = number + 1 < len(lines) and lines[number + 1].total
        table.add_row(*cells, style="bold" if line.total else "", end_section=before_total)
    return _printed(table, _total_width(widths) + 2 * len(widths))


def coloured(text: str, style: str) -> str:
    """One line of text in a colour."""
    from rich.text import Text

    return _printed(Text(text, style=style), cell_width(text)).rstrip("\n")


def _printed(what: "RenderableType", width: int) -> str:
    from rich.console import Console

    output = io.StringIO()
    Console(
        file=output, width=width, force_terminal=True, color_system="standard", no_color=False, _environ={}
    ).print(what)
    return "".join(line.rstrip() + "\n" for line in output.getvalue().splitlines())
