"""Which GPUs and nodes a finding is about, in few words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ofu.reports.wording import name
from slurm_ofu.values import Finding, JobPage

_MOST = 6  # nodes that are named: a run may have thousands of GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """``text``: as in ``n1:0-2, n2:5``; without places of its own a finding is about the whole run."""

    text: str
    nodes: tuple[str, ...]
    node_text: str
    whole_nodes: bool  # all GPUs of these nodes, as far as they are known
    node_count: int  # of the run
    most_on_a_node: int  # GPUs


def places_of(finding: Finding, page: JobPage) -> Places:
    """The places of a finding, beside those of its run."""
    counts = Counter(gpu.node_name for gpu in page.gpus)
    of_nodes = finding.kind == "slow_node"
    positions: dict[str, list[int]] = {} if finding.where else {node: [] for node in sorted(counts)}
    for place in finding.where:
        node, _, position = (place, "", "") if of_nodes else place.rpartition(":")
        positions.setdefault(node, []).extend([int(position)] if position.isdigit() else [])
    nodes = tuple(positions)
    parts = [name(node) + (f":{_ranges(which)}" if which else "") for node, which in positions.items()]
    return Places(
        text=_some(parts),
        nodes=nodes,
        node_text=_some([name(node) for node in nodes]) if nodes else "its nodes",
        whole_nodes=all(len(which) == counts[node] for node, which in positions.items()),
        node_count=len(counts),
        most_on_a_node=max(counts.values(), default=0),
    )


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - _MOST
    return ", ".join(parts[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _ranges(numbers: Sequence[int]) -> str:
    """0,1,2,5 as 0-2+5: a comma would be taken for the next node."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "+".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
