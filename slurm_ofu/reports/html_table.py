"""Tables of the static pages: what stands in each cell, and what it is sorted by."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

#: Tables with more rows are paged: browsers are slow with tens of thousands of cells.
MOST_ROWS: Final = 500
#: So many of a paged table stand in the page itself, for browsers without scripts.
FIRST_ROWS: Final = 100
_DIGITS: Final = re.compile(r"([0-9]{1,18})")
#: What no script element may hold: these could end it, or begin a comment in it.
_IN_SCRIPTS: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """``order``: what it is sorted by, text in its natural order; ``None`` is not known, and comes last in
    either direction. ``path``: of the page that it leads to, seen from the site's root."""

    text: str
    order: float | str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlColumn:
    """``numeric``: sorted the greatest first. ``right``: where its cells end in line. ``meaning`` says in a
    sentence what the title does not."""

    title: str
    numeric: bool = True
    right: bool = True
    meaning: str | None = None

    @property
    def classes(self) -> str:
        """What scripts and styles go by."""
        return ("numeric " if self.numeric else "") + ("right" if self.numeric and self.right else "left")


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlTable:
    """``rows`` may be asked for once only. The first column names what a row is about."""

    key: str  # its id in the page
    caption: str
    columns: tuple[HtmlColumn, ...]
    rows: Iterable[Sequence[Cell]]
    row_count: int
    sorted_by: str  # the title of the column, the greatest first unless it holds text


@dataclass(slots=True, kw_only=True)
class _Words:
    """The texts of one column, each once."""

    numbers: dict[str, int] = field(default_factory=dict)
    orders: list[float | str | None] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    paths: dict[int, str] = field(default_factory=dict)

    def add(self, cell: Cell) -> None:
        """One more cell. Cells with the same text are sorted by what the first of them is sorted by."""
        number = self.numbers.setdefault(cell.text, len(self.numbers))
        if number == len(self.orders):
            self.orders.append(cell.order)
        if cell.path is not None:
            self.paths[len(self.cells)] = cell.path
        self.cells.append(number)


def static_rows(table: HtmlTable) -> list[list[tuple[Cell, float | None]]]:
    """Every row, each cell with the number that it is sorted by."""
    rows = list(table.rows)
    ranks = [_ranks([row[number].order for row in rows]) for number in range(len(table.columns))]
    return [[(cell, rank(cell.order)) for cell, rank in zip(row, ranks, strict=True)] for row in rows]


def paged_rows(table: HtmlTable) -> tuple[list[Sequence[Cell]], str]:
    """The first rows, and the whole table as JSON: by column its words, what each of them is sorted by, and
    the number of the word in each row."""
    words = [_Words() for _ in table.columns]
    rows = iter(table.rows)
    first = list(islice(rows, FIRST_ROWS))
    for row in chain(first, rows):
        for column, cell in zip(words, row, strict=True):
            column.add(cell)
    columns = [_column(column, its) for column, its in zip(table.columns, words, strict=True)]
    return first, script_safe({"columns": columns, "rows": table.row_count})


def script_safe(value: Any) -> str:
    """JSON that may stand within a script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_SCRIPTS)


def _column(column: HtmlColumn, its: _Words) -> dict[str, Any]:
    rank = _ranks(its.orders)
    return {
        "classes": column.classes,
        "words": list(its.numbers),
        "orders": [rank(order) for order in its.orders],
        "cells": its.cells,
        "paths": its.paths,
    }


def _ranks(orders: Sequence[float | str | None]) -> Callable[[float | str | None], float | None]:
    """Turns texts into their places among each other; numbers stay what they are."""
    texts = sorted({order for order in orders if isinstance(order, str)}, key=natural)
    places = {text: place for place, text in enumerate(texts)}

    def rank(order: float | str | None) -> float | None:
        return places[order] if isinstance(order, str) else order

    return rank


def natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """The order in which people expect names: gpu9 before gpu10, whatever their case."""
    parts = _DIGITS.split(text.casefold())
    return [(0, int(part), "") if at % 2 else (1, 0, part) for at, part in enumerate(parts)], text
