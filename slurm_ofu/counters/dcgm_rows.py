"""What ``dcgmi dmon`` prints → rows of figures.

The shape of DCGM 3 and 4; 2 aligns to the right and writes ``# Entity`` and ``Id``::

    #Entity   TENSO        SMCLK
    ID
    GPU 0     0.468        1410
    GPU-I 21  N/A          1410

The header comes again and again, other entities and lines stand between the rows. Columns are found by the
header's short names, which DCGM kept when it renamed its fields; where one is new to us, by the order in
which we asked. A cell is a number, or it is missing: ``N/A``, an empty cell, any of DCGM's blank values,
a number that its field cannot have. Ratios are 0..1, always: no magnitude is ever taken for per cent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

TENSOR_ACTIVE, SM_CLOCK = 1004, 100
SM_ACTIVE, DRAM_ACTIVE, UTILISATION, POWER = 1002, 1005, 203, 155
#: Longer than any line of a table that we ask for.
LINE_LIMIT = 1000
SHORT_NAMES = {
    TENSOR_ACTIVE: "TENSO",
    SM_CLOCK: "SMCLK",
    SM_ACTIVE: "SMACT",
    DRAM_ACTIVE: "DRAMA",
    UTILISATION: "GPUTL",
    POWER: "POWER",
}
#: Of a ratio printed with three decimals.
ROUNDING = 0.001
_BLANK = float(2**31 - 16)  # the lowest of DCGM's blank values
_HIGHEST = {
    **dict.fromkeys((TENSOR_ACTIVE, SM_ACTIVE, DRAM_ACTIVE), 1 + ROUNDING),
    SM_CLOCK: 99_999.0,
    UTILISATION: 100.0,
    POWER: 99_999.0,
}
_HEADER = re.compile(r"\s*#\s*Entity\b", re.ASCII)
_ENTITY = re.compile(r"\s*(GPU|GPU-I) +([0-9]{1,9})(?= |$)", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WORD = re.compile(r"\S+")
_EMPTY = re.compile(r"N/A|n/a|-|\[.*\]|<<<[A-Z_]*>>>")

EntityKind = Literal["GPU", "GPU-I"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A GPU, or a GPU instance (MIG), by DCGM's own number: neither NVML's index nor its instance id."""

    kind: EntityKind
    number: int

    def argument(self) -> str:
        """As ``dmon -i`` takes it."""
        return str(self.number) if self.kind == "GPU" else f"i:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of figures; a field that is not there, or has none, is missing."""

    entity: Entity
    values: Mapping[int, float]
    is_beyond: bool = False  # its tensor activity is a number, and one that no ratio can be


@dataclass(frozen=True, slots=True)
class _Column:
    field_id: int
    start: int
    end: int


@dataclass(slots=True)
class Table:
    """Reads dmon's lines, one after the other, for fields asked for in this order."""

    fields: Sequence[int]
    columns: tuple[_Column | None, ...] = ()  # None: a column that is nothing to us

    def row(self, line: str) -> Row | None:
        """The row in a line; ``None`` where it is a header or none of ours. Needs a header before it."""
        line = line.rstrip("\r\n")
        if len(line) > LINE_LIMIT or not line.isascii():
            return None
        header = _HEADER.match(line)
        if header is not None:
            self.columns = _columns(line, header.end(), self.fields)
            return None
        found = _ENTITY.match(line)
        if found is None or not self.columns:
            return None
        cells = list(_WORD.finditer(line, found.end()))
        if not cells or not all(_is_cell(cell[0]) for cell in cells):
            return None  # "GPU 0 LINK 3", or a sentence that begins like a row
        texts = self._texts(cells)
        values = {field_id: cell_value(field_id, text) for field_id, text in texts.items()}
        return Row(
            entity=Entity(kind="GPU-I" if found[1] == "GPU-I" else "GPU", number=int(found[2])),
            values={field_id: value for field_id, value in values.items() if value is not None},
            is_beyond=values.get(TENSOR_ACTIVE) is None and _is_beyond(texts.get(TENSOR_ACTIVE, "")),
        )

    def _texts(self, cells: Sequence[re.Match[str]]) -> dict[int, str]:
        if len(cells) == len(self.columns):
            pairs = list(zip(self.columns, cells, strict=True))
        else:
            pairs = _under(cells, self.columns)
        return {column.field_id: cell[0] for column, cell in pairs if column is not None}


def cell_value(field_id: int, text: str) -> float | None:
    """A cell's number, where its field can have it. DCGM's blank values (2^31 - 16 and more, 2^47 and more,
    2^63 - 16 and more) are far above what any of these fields can be, also after a float's rounding."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    highest = _HIGHEST[field_id]
    if highest == 1 + ROUNDING:
        return min(max(value, 0.0), 1.0) if -ROUNDING <= value <= highest else None
    if not 0 <= value <= highest or (field_id == SM_CLOCK and value == 0):
        return None
    return value / 100 if field_id == UTILISATION else value


def _is_beyond(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and float(text) < _BLANK


def _columns(line: str, start: int, asked: Sequence[int]) -> tuple[_Column | None, ...]:
    """The header's columns. Names that we know are what they say; the others are, in the order asked for,
    what is left over, if there are as many columns as fields."""
    names = list(_WORD.finditer(line, start))
    known = {SHORT_NAMES[field_id]: field_id for field_id in asked if field_id in SHORT_NAMES}
    ids = [known.pop(name[0], None) for name in names]
    taken = {SHORT_NAMES[field_id] for field_id in ids if field_id is not None}
    if len(names) == len(asked):
        left = iter([field_id for field_id in asked if field_id not in ids])
        ids = [
            next(left, None) if field_id is None and name[0] not in taken else field_id
            for field_id, name in zip(ids, names, strict=True)
        ]
    return tuple(
        None if field_id is None else _Column(field_id, name.start(), name.end())
        for field_id, name in zip(ids, names, strict=True)
    )


def _under(
    cells: Sequence[re.Match[str]], columns: Sequence[_Column | None]
) -> list[tuple[_Column | None, re.Match[str]]]:
    """Where cells are empty: each figure belongs to the name that it begins under or, where they are
    aligned to the right, ends under. All of them do, or nothing is known."""
    starts = {column.start: column for column in columns if column is not None}
    ends = {column.end: column for column in columns if column is not None}
    if all(cell.start() in starts for cell in cells):
        return [(starts[cell.start()], cell) for cell in cells]
    if all(cell.end() in ends for cell in cells):
        return [(ends[cell.end()], cell) for cell in cells]
    return []


def _is_cell(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or _EMPTY.fullmatch(text) is not None or "..." in text
