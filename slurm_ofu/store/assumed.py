"""Which nodes of a run are silent, and how many GPUs do we assume on them? Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_ofu.store.lives import NodeShare


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNode:
    """One row of run_node, as far as assumptions go. ``gpu_count_assumed``: it was never heard from, nor
    ``backfilled``."""

    gpu_count: float | None
    gpu_count_assumed: bool
    backfilled: bool
    allocated_seconds: float | None
    allocated_seconds_assumed: bool
    accounted_seconds: float | None
    accounted_suspended_seconds: float | None


Silent = dict[str, float | None]  # the GPUs of each node that was never heard from


def silent_nodes(
    stored: Mapping[str, StoredNode],
    listed: tuple[str, ...] | None,
    shares: Mapping[str, NodeShare],
    slurm_gpu_count: int | None,
) -> Silent:
    """The nodes that should have been heard from: those of the prologs' list (``listed``), and of
    Slurm's accounting (``shares``, empty before it was read) where that list is unknown or too short.

    What Slurm counts beyond the GPUs of the nodes heard is theirs; where it counts none, or fewer than the
    prologs saw, they have as many as the mean of those.
    """
    heard = {name: node for name, node in stored.items() if not node.gpu_count_assumed}
    counts = [node.gpu_count for node in heard.values() if node.gpu_count is not None]
    from_list = [name for name in dict.fromkeys(listed or ()) if name not in heard]
    beyond = [name for name in shares if name not in heard and name not in from_list]
    mean = math.fsum(counts) / len(counts) if counts else None
    left = None if slurm_gpu_count is None else slurm_gpu_count - math.fsum(counts)
    if not shares or left is None or left < 0:
        return dict.fromkeys(from_list if listed is not None else beyond, mean)
    silent = from_list if from_list or (listed is not None and left == 0) else beyond
    return dict.fromkeys(silent, left / len(silent)) if silent else {}


def unheard_nodes(stored: Mapping[str, StoredNode], shares: Mapping[str, NodeShare]) -> Silent:
    """The nodes of a run that is known from Slurm's accounting alone, without those that were backfilled."""
    filled = {name for name, node in stored.items() if node.backfilled}
    return {name: share.gpu_count for name, share in shares.items() if name not in filled}
