"""Long options by a beginning, as Slurm's commands take them: --start for --starttime."""

from collections.abc import Sequence
from itertools import islice

import click


def spelled_out(arguments: Sequence[str], options: Sequence[click.Option]) -> list[str]:
    """The arguments with long options in full, where the beginning of one is that of no other. What an
    option takes as its value, what is no option, and all that comes after it, stay as they are."""
    takes_value = {
        name: not option.is_flag and not option.count for option in options for name in option.opts
    }
    whose = {name: option for option in options for name in option.opts if name.startswith("--")}
    told: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--" or not argument.startswith("-") or argument == "-":
            return [*told, argument, *rest]
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            name = _full(name, whose)
            told.append(name + equals + value)
            wants_next = not equals and takes_value.get(name, False)
        else:
            told.append(argument)
            wants_next = _ends_in_want(argument, takes_value)
        told += islice(rest, int(wants_next))
    return told


def _full(name: str, whose: dict[str, click.Option]) -> str:
    """The only option that so begins; two names of one option are as good as one."""
    if name in whose:
        return name
    candidates = sorted(full for full in whose if full.startswith(name))
    return candidates[0] if len({id(whose[full]) for full in candidates}) == 1 else name


def _ends_in_want(argument: str, takes_value: dict[str, bool]) -> bool:
    """Of short ones written together, as in -nPo: whether the last one's value is the next argument."""
    for at, letter in enumerate(argument[1:], start=1):
        if takes_value.get(f"-{letter}", False):
            return at == len(argument) - 1
    return False
