"""Labelled lines: what a page says in words."""

from collections.abc import Iterable

from slurm_ofu.reports.free_text import wrapped

_INDENT = "  "
_LABEL_WIDTH = 10

Fact = tuple[str, str]


def text_width(width: int) -> int:
    """How much room beside the label a page of ``width`` has."""
    return width - len(_INDENT) - _LABEL_WIDTH


def as_facts(facts: Iterable[Fact], *, width: int) -> list[str]:
    """One labelled paragraph per fact; an empty label continues the one above."""
    lines = []
    for label, text in facts:
        paragraph = wrapped(text, text_width(width))
        for number, line in enumerate(paragraph):
            lines.append(f"{_INDENT}{label if number == 0 else '':<{_LABEL_WIDTH}}{line}".rstrip())
    return lines
