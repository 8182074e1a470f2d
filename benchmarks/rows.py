"""One line of the results: what was measured, and whether that is what we aim at."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured value. ``goal``: at most this much; ``None`` where nothing is aimed at."""

    what: str
    value: float
    unit: Literal["ms", "s", "x", "B", "MB", "count", "%"]
    goal: float | None = None

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` or nothing."""
        if self.goal is None:
            return ""
        return "met" if self.value <= self.goal else "MISSED"


def ms(what: str, seconds: float, goal_ms: float | None = None) -> Row:
    """A time in milliseconds."""
    return Row(what=what, value=seconds * 1000, unit="ms", goal=goal_ms)


def ratio(what: str, ours: float, bare: float, goal: float | None = None) -> Row:
    """How many times the bare one."""
    return Row(what=what, value=ours / bare, unit="x", goal=goal)


def count(what: str, value: float, goal: float | None = None) -> Row:
    """A number of things."""
    return Row(what=what, value=value, unit="count", goal=goal)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def table(title: str, rows: Sequence[Row]) -> str:
    """The rows as Markdown, so that they can go into README.md as they are."""
    lines = [f"### {title}", "", "| | measured | goal | |", "|---|---:|---:|---|"]
    for row in rows:
        goal = "" if row.goal is None else f"≤ {_number(row.goal)} {_unit(row)}".rstrip()
        lines.append(f"| {row.what} | {_number(row.value)} {_unit(row)} | {goal} | {row.verdict} |")
    return "\n".join((*lines, ""))


def _unit(row: Row) -> str:
    return {"x": "×", "count": ""}.get(row.unit, row.unit)


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


__all__ = ["Row", "count", "median", "ms", "percentile", "ratio", "table"]
