"""Slurm's device list of one node: which device file is GPU 0, which is GPU 1, from gres.conf and slurm.conf.

The order was taken from what `slurmd -G` prints (22.05.8), not from the manual, which does not say it:

* Lines that begin with Name= come before lines that begin with NodeName=, wherever they stand.
* Each kind keeps the order of the file; a File= range keeps its own order ([1,3,0] is 1, 3, 0).
* slurm.conf decides over types: Gres=gpu:a:2,gpu:b:2 puts every Type=a first, whatever gres.conf's order,
  and cuts each type's devices off at its count. Type and Name are compared without regard to case.
* With AutoDetect Slurm sorts the list anew; `gpu_order` deals with that.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slurm_ofu.slurm.conf_lines import Include, beside, conf_lines, conf_pairs
from slurm_ofu.slurm.hostlists import expand

_COUNT = re.compile(r"([0-9]{1,9})([KMGTP]?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    """One gres.conf line about GPUs, or about a node's AutoDetect. `nodes` is None for every node."""

    nodes: tuple[str, ...] | None
    name: str | None  # "gpu" here, or None on a line that sets only AutoDetect
    gpu_type: str | None
    files: tuple[str, ...]  # one entry per GPU; a MultipleFiles= GPU is its files joined by commas
    autodetect: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GresConf:
    """gres.conf as written. `problem` says why it, as a whole, cannot be relied on."""

    autodetect: str | None = None
    lines: tuple[GpuLine, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredGpus:
    """One entry of slurm.conf's Gres=: `gpu:h100:4`."""

    gpu_type: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGres:
    """One node's device list: `files[position]` is the device file, None where no File= is given.

    `autodetect` is None where it is off. `problem` says why the list must not be used.
    """

    files: tuple[str, ...] | None = None
    autodetect: str | None = None
    problem: str | None = None


def parse(text: str, *, include: Include) -> GresConf:
    """gres.conf's text; `include` gives the text of an included file and raises OSError without one."""
    conf = GresConf()
    try:
        for line in conf_lines(text, include):
            conf = _add_line(conf, conf_pairs(line))
    except (ValueError, OSError) as error:
        return GresConf(autodetect=conf.autodetect, lines=conf.lines, problem=f"gres.conf: {error}")
    return conf


def node_gres(conf: GresConf, node: str, configured: tuple[ConfiguredGpus, ...] | None) -> NodeGres:
    """The device list of one node; `configured` is its Gres= in slurm.conf, None where that is not known."""
    lines = [line for line in conf.lines if line.nodes is None or node in line.nodes]
    gpu_lines = [line for line in lines if line.name is not None]
    with_files = [line for line in gpu_lines if line.files]
    own = {line.autodetect for line in lines if line.autodetect is not None}
    autodetect = min(own) if own else conf.autodetect
    autodetect = None if autodetect == "off" else autodetect
    problems = [text for text in (conf.problem, *(line.problem for line in lines)) if text]
    if len(own) > 1:
        problems.append("gres.conf: AutoDetect of the node is given twice, and differently")
    # Without File= a GPU does not exist for Slurm, unless AutoDetect finds all of them.
    if len(with_files) < len(gpu_lines) and (with_files or autodetect is None):
        problems.append("gres.conf: a GPU line of the node has no File=")
    files: tuple[str, ...] | None = None
    if with_files and not problems:
        try:
            files = _in_slurms_order(with_files, configured)
        except ValueError as error:
            problems.append(f"gres.conf: {error}")
    return NodeGres(files=files, autodetect=autodetect, problem=problems[0] if problems else None)


def configured_gpus(
    slurm_conf_text: str, node: str, *, include: Include | None = None
) -> tuple[ConfiguredGpus, ...] | None:
    """The GPUs that slurm.conf's NodeName lines give a node; () for a node without, None for an unknown one.

    Understands NodeName=DEFAULT. An included file that cannot be read is passed over.
    """
    default, found = "", None
    try:
        for line in conf_lines(slurm_conf_text, include, tolerant=True):
            pairs = conf_pairs(line, tolerant=True)
            if next(iter(pairs), None) != "nodename":
                continue
            if pairs["nodename"].upper() == "DEFAULT":
                default = pairs.get("gres", default)
            elif node in expand(pairs["nodename"]):
                found = pairs.get("gres", default)
        return None if found is None else _parse_gres(found)
    except ValueError:
        return None


def configured_gpu_count(slurm_conf_text: str, node: str, *, include: Include | None = None) -> int | None:
    """How many GPUs slurm.conf gives a node; None where it does not say."""
    gpus = configured_gpus(slurm_conf_text, node, include=include)
    return None if gpus is None else sum(entry.count for entry in gpus)


def nodes_without_gpus(slurm_conf_path: Path, nodes: Iterable[str]) -> frozenset[str]:
    """Those of ``nodes`` that slurm.conf names and gives no GPU. Raises OSError, ValueError."""
    include = beside(slurm_conf_path)
    wanted, default = frozenset(nodes), ""
    without: set[str] = set()
    for line in conf_lines(include(slurm_conf_path.name), include, tolerant=True):
        pairs = conf_pairs(line, tolerant=True)
        if next(iter(pairs), None) != "nodename":
            continue
        gres = pairs.get("gres", default)
        if pairs["nodename"].upper() == "DEFAULT":
            default = gres
            continue
        here = wanted.intersection(expand(pairs["nodename"]))
        without = without - here if _parse_gres(gres) else without | here
    return frozenset(without)


def read_gres_conf(slurm_conf_path: Path) -> GresConf:
    """gres.conf beside slurm.conf, where Slurm looks for it. A missing file is an empty one, as for Slurm."""
    include = beside(slurm_conf_path)
    try:
        text = include("gres.conf")
    except FileNotFoundError:
        return GresConf()
    except OSError as error:
        return GresConf(problem=f"gres.conf: {error}")
    return parse(text, include=include)


def read_node_gres(slurm_conf_path: Path, node: str) -> tuple[NodeGres, int | None]:
    """One node's device list, and how many GPUs slurm.conf gives it (None where it does not say)."""
    include = beside(slurm_conf_path)
    try:
        configured = configured_gpus(include(slurm_conf_path.name), node, include=include)
    except OSError:
        configured = None
    count = None if configured is None else sum(entry.count for entry in configured)
    return node_gres(read_gres_conf(slurm_conf_path), node, configured), count


def _add_line(conf: GresConf, pairs: dict[str, str]) -> GresConf:
    """What Slurm takes from one line. A line's first key decides what it is; others there stop slurmd."""
    first = next(iter(pairs), None)
    autodetect = pairs.get("autodetect", "").lower() or None
    if first == "autodetect" and len(pairs) == 1:
        return GresConf(autodetect=autodetect, lines=conf.lines)
    if first not in ("name", "nodename"):
        raise ValueError(f"a line with {', '.join(pairs)} must begin with Name= or NodeName=")
    is_gpu = pairs.get("name", "").lower() == "gpu"
    # AutoDetect within a line counts only together with NodeName=.
    autodetect = autodetect if first == "nodename" else None
    if not is_gpu and autodetect is None:
        return conf
    line = _gpu_line(pairs, is_gpu=is_gpu, autodetect=autodetect)
    # Slurm reads the Name= lines into its list before the NodeName= lines.
    before = [other for other in conf.lines if line.nodes is not None or other.nodes is None]
    after = [other for other in conf.lines if line.nodes is None and other.nodes is not None]
    return GresConf(autodetect=conf.autodetect, lines=(*before, line, *after))


def _gpu_line(pairs: dict[str, str], *, is_gpu: bool, autodetect: str | None) -> GpuLine:
    """One line's keys as a GpuLine; of a line about another resource only AutoDetect is kept."""
    files = expand(pairs.get("file", "")) if is_gpu else ()
    several = expand(pairs.get("multiplefiles", "")) if is_gpu else ()
    count = _count(pairs["count"]) if files and "count" in pairs else len(files)
    problem = None
    if files and several:
        problem = "gres.conf: a line has both File= and MultipleFiles="
    elif count != len(files):
        problem = f"gres.conf: Count={pairs['count']} beside {len(files)} files"
    return GpuLine(
        nodes=expand(pairs["nodename"]) if "nodename" in pairs else None,
        name="gpu" if is_gpu else None,
        gpu_type=pairs["type"].lower() if "type" in pairs else None,
        files=(",".join(several),) if several else files,
        autodetect=autodetect,
        problem=problem,
    )


def _in_slurms_order(lines: list[GpuLine], configured: tuple[ConfiguredGpus, ...] | None) -> tuple[str, ...]:
    """The files by position; raises ValueError where slurm.conf is needed for it, or contradicts."""
    types = {line.gpu_type for line in lines}
    if configured is None:
        if len(types) > 1:
            raise ValueError("the order of several GPU types is slurm.conf's, which does not name this node")
        return tuple(file for line in lines for file in line.files)
    wanted = {entry.gpu_type for entry in configured}
    if (len(types) > 1 and None in types) or (len(wanted) > 1 and None in wanted):
        raise ValueError("some GPUs of the node have a type and others have none")
    if types == {None} and wanted - {None}:
        raise ValueError("slurm.conf gives the node's GPUs a type, gres.conf does not")
    files: list[str] = []
    for entry in configured:
        matching = [line for line in lines if entry.gpu_type in (None, line.gpu_type)]
        files += [file for line in matching for file in line.files][: entry.count]
    return tuple(files)


def _parse_gres(text: str) -> tuple[ConfiguredGpus, ...]:
    """The GPU entries of `gpu:a:2(S:0),gpu:b:1,shard:8`, entries of one type joined, as Slurm joins them."""
    counts: dict[str | None, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = (part.strip().lower() for part in entry.split(":"))
        if name != "gpu":
            continue
        rest = [part for part in rest if part != "no_consume"]
        count = _count(rest.pop()) if rest and _COUNT.fullmatch(rest[-1]) else 1
        gpu_type = rest[0] if rest else None
        counts[gpu_type] = counts.get(gpu_type, 0) + count
    return tuple(ConfiguredGpus(gpu_type=gpu_type, count=count) for gpu_type, count in counts.items())


def _count(text: str) -> int:
    """A count with Slurm's suffixes: 1K is 1024."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a count")
    return int(match[1]) << (10 * " KMGTP".index(match[2].upper() or " "))
