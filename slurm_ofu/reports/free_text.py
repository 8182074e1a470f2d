"""Text that somebody else wrote, made safe to show: names, comments, host lists.

A terminal obeys control characters, so none gets through, in no output format; neither do characters
that reorder or hide text. Widths are counted in terminal cells, since names may be in any script.
"""

import unicodedata

REPLACEMENT = "\ufffd"
_ELLIPSIS = "…"


def printable(text: str) -> str:
    """``text`` with every character that is not printed by itself replaced, line ends included."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else REPLACEMENT for character in text)


def cell_width(text: str) -> int:
    """How many terminal cells printable ``text`` takes."""
    return sum(_character_width(character) for character in text)


def shortened(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, the cut marked."""
    if cell_width(text) <= width:
        return text
    return leading_cells(text, width - cell_width(_ELLIPSIS)) + _ELLIPSIS


def padded(text: str, width: int, *, right: bool = False) -> str:
    """``text`` shortened or filled up to exactly ``width`` cells."""
    cut = shortened(text, width)
    filling = " " * (width - cell_width(cut))
    return filling + cut if right else cut + filling


def wrapped(text: str, width: int) -> list[str]:
    """``text`` as lines of at most ``width`` cells, broken at blanks (but for one before a per cent sign),
    within a word only where it must."""
    lines = [""]
    for word in _words(text):
        rest = word
        if lines[-1] and cell_width(lines[-1]) + 1 + cell_width(rest) <= width:
            lines[-1] += " " + rest
            continue
        if lines[-1]:
            lines.append("")
        while cell_width(rest) > width:
            piece = leading_cells(rest, width) or rest[0]
            lines[-1:] = [piece, ""]
            rest = rest[len(piece) :]
        lines[-1] = rest
    return lines


def _words(text: str) -> list[str]:
    """Between blanks; a number and its per cent sign are one."""
    words: list[str] = []
    for word in text.split():
        if word.startswith("%") and words and words[-1][-1:].isdigit():
            words[-1] += " " + word
        else:
            words.append(word)
    return words


def leading_cells(text: str, width: int) -> str:
    """As much of the beginning of printable ``text`` as ``width`` cells hold."""
    used = 0
    for number, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:number]
    return text


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):  # combining() is 0 for some: Thai, Devanagari
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
