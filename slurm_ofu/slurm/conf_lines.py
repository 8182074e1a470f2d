"""The syntax that slurm.conf and gres.conf share: comments, continued lines, Include, key=value."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

Include = Callable[[str], str]

# Slurm follows Include without bound and hangs on a circle; no real configuration is nested this deep.
_DEPTH = 8
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*")
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*$")
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)


def beside(slurm_conf_path: Path) -> Include:
    """Reads files as Include names them: relative to slurm.conf's directory, and no wildcards."""
    return lambda name: (slurm_conf_path.parent / name).read_text(encoding="utf-8", errors="replace")


def conf_lines(
    text: str, include: Include | None, *, tolerant: bool = False, within: tuple[str, ...] = ()
) -> Iterator[str]:
    """The logical lines: comments gone, continued lines joined, Include replaced by what it includes."""
    pending = ""
    for physical in text.split("\n"):
        line = pending + _COMMENT.sub(r"\1", physical)
        pending = ""
        if _CONTINUED.search(line):
            pending = _CONTINUED.sub(r"\1", line)
            continue
        if match := _INCLUDE.match(line):
            yield from _included(match[1], include, tolerant=tolerant, within=within)
        elif line.strip():
            yield re.sub(r"\\(.)", r"\1", line)
    if pending.strip():
        yield pending


def _included(
    name: str, include: Include | None, *, tolerant: bool, within: tuple[str, ...]
) -> Iterator[str]:
    """The lines of an included file; raises ValueError for a circle or too deep a nesting."""
    if name in within or len(within) >= _DEPTH:
        raise ValueError(f"Include {name}: includes itself, or is nested deeper than {_DEPTH}")
    try:
        text = include(name) if include else ""
    except OSError as error:
        if not tolerant:
            raise ValueError(f"Include {name}: {error}") from error
        return
    yield from conf_lines(text, include, tolerant=tolerant, within=(*within, name))


def conf_pairs(line: str, *, tolerant: bool = False) -> dict[str, str]:
    """A line's keys, in lower case and in order, with their values; of a repeated key the last counts."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(line, at):
        pairs[match[1].lower()] = match[3] if match[2] is None else match[2]
        at = match.end()
    if line[at:].strip() and not tolerant:
        raise ValueError(f"{line[at:].strip()!r} is not key=value")
    return pairs


def slurm_conf_settings(slurm_conf_path: Path) -> dict[str, str]:
    """slurm.conf's settings of the whole cluster, keys in lower case; of a repeated key all values,
    joined by commas (several Prolog= lines add up). Raises OSError."""
    include = beside(slurm_conf_path)
    settings: dict[str, str] = {}
    for line in conf_lines(include(slurm_conf_path.name), include, tolerant=True):
        pairs = conf_pairs(line, tolerant=True)
        if next(iter(pairs), "nodename") in ("nodename", "partitionname", "nodeset", "downnodes"):
            continue
        for key, value in pairs.items():
            settings[key] = f"{settings[key]},{value}" if key in settings else value
    return settings
