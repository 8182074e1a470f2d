"""Slurm's host lists: `rack[1-2]n[01-02],login1` as names, and names as a host list."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator

# What Slurm's commands print where there is no node list.
_NO_NODES = frozenset({"", "(null)", "none", "none assigned"})
# At most 18 digits: more is no node number, and int() of a hostile text stays cheap.
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)")


def expand(text: str, *, limit: int = 100_000) -> tuple[str, ...]:
    """The names that a host list stands for, in its order, repeats included.

    Several bracket groups multiply, the last varying fastest; zero padding is that of a range's start.
    Raises ValueError where the list is malformed or stands for more than `limit` names.
    """
    if text.strip().lower() in _NO_NODES:
        return ()
    names: list[str] = []
    for item in _split_outside_brackets(text.strip()):
        # Slurm skips empty items ("n1,,n2"), so we do.
        if item:
            names.extend(_expand_item(item, text, limit - len(names)))
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """Names as a short host list for display, sorted in natural order (n2 before n10), without repeats.

    The law: `expand(compress(names))` is `natural_order(names)`. Raises ValueError for a name that cannot
    stand in a host list (brackets, commas, white space, or a word that means "no nodes").
    """
    ordered = natural_order(names)
    for name in ordered:
        if re.search(r"[\[\],\s]", name) or name.lower() in _NO_NODES:
            raise ValueError(f"{name!r} cannot be a name in a host list")
    # Only neighbours are joined, so that expanding gives back the same order.
    groups = itertools.groupby(ordered, key=_around_number)
    return ",".join(itertools.chain.from_iterable(_join(around, list(group)) for around, group in groups))


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names without repeats, numbers in them compared as numbers: n2 before n10."""
    return tuple(sorted(set(names), key=_natural_key))


def _split_outside_brackets(text: str) -> Iterator[str]:
    """The items between commas that stand outside brackets; raises ValueError for unbalanced brackets."""
    start, inside = 0, False
    for at, char in enumerate(text):
        if char in "[]":
            if inside is (char == "["):
                raise ValueError(f"host list {text!r}: unexpected {char!r} at character {at + 1}")
            inside = not inside
        elif char == "," and not inside:
            yield text[start:at]
            start = at + 1
    if inside:
        raise ValueError(f"host list {text!r}: a '[' is not closed")
    yield text[start:]


def _expand_item(item: str, text: str, room: int) -> Iterator[str]:
    """One item's names, at most `room` of them."""
    if re.search(r"\s", item):
        raise ValueError(f"host list {text!r}: white space in {item!r}")
    # Splitting by the bracket group leaves plain text at even places and the groups' insides at odd ones.
    parts = re.split(r"\[([^\]]*)\]", item)
    groups = [_ranges(inside, text) for inside in parts[1::2]]
    # Counted before anything is built: n[0-999999999] must cost nothing.
    if math.prod(sum(len(numbers) for numbers, _ in ranges) for ranges in groups) > room:
        raise ValueError(f"host list {text!r}: more names than the limit allows")
    choices: list[list[str]] = [[part] for part in parts]
    choices[1::2] = [[str(n).zfill(width) for numbers, width in ranges for n in numbers] for ranges in groups]
    return ("".join(choice) for choice in itertools.product(*choices))


def _ranges(inside: str, text: str) -> list[tuple[range, int]]:
    """A bracket group's ranges, each with the width its numbers are padded to."""
    found = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise ValueError(f"host list {text!r}: {piece!r} is not a number or a range of numbers")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low):
            raise ValueError(f"host list {text!r}: the range {piece!r} runs backwards")
        found.append((range(int(low), int(high) + 1), len(low)))
    return found


def _natural_key(name: str) -> tuple[list[tuple[str, int]], str]:
    """Sorts by (text, number) pairs, then by the name itself, so that n01 and n1 have a fixed order."""
    pairs = re.findall(r"([^0-9]*)([0-9]{0,18})", name)
    return [(text, int(number or -1)) for text, number in pairs], name


def _around_number(name: str) -> tuple[str, str] | None:
    """What stands before and after the last number of a name; None where it has no number."""
    match = _LAST_NUMBER.fullmatch(name)
    return (match[1], match[3]) if match else None


def _join(around: tuple[str, str] | None, names: list[str]) -> list[str]:
    """Neighbouring names that differ in one number, as one item: n[1-3,07]."""
    if around is None or len(names) == 1:
        return names
    before, after = around
    numbers = [name[len(before) : len(name) - len(after)] for name in names]
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1].append(number)
        else:
            runs.append([number])
    inside = ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return [f"{before}[{inside}]{after}"]
