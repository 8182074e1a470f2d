"""In which order lines come, and which runs lost most."""

from collections.abc import Sequence
from heapq import nlargest
from typing import Final, Literal

from slurm_ofu.figures.work import RANKED, work_kind
from slurm_ofu.values import UsageRow, UsageSums

SortBy = Literal["name", "ofu", "gpu-hours", "lost"]
SORTS: Final[tuple[SortBy, ...]] = ("name", "ofu", "gpu-hours", "lost")


def in_order(rows: Sequence[UsageRow], sort: SortBy) -> list[UsageRow]:
    """The rows by the lowest OFU, or the most GPU-hours (lost) first; what is not known comes last. By name
    they stay as they are."""
    if sort == "name":
        return list(rows)
    keys = [_key(row.sums, sort) for row in rows]
    known = [(key, row) for key, row in zip(keys, rows, strict=True) if key is not None]
    known.sort(key=lambda one: one[0])
    return [row for _, row in known] + [row for key, row in zip(keys, rows, strict=True) if key is None]


def worst_of(runs: Sequence[UsageRow], most: int) -> list[UsageRow]:
    """The runs that lost most, of those that lost anything. Nobody is blamed for what is not measured, nor
    for work without tensor cores."""
    ranked = [row for row in runs if _lost(row.sums) > 0 and work_kind(row.sums) in RANKED]
    return nlargest(most, ranked, key=lambda row: _lost(row.sums))


def _lost(sums: UsageSums) -> float:
    return 0.0 if sums.lost_seconds is None else sums.lost_seconds


def _key(sums: UsageSums, sort: SortBy) -> float | None:
    if sort == "ofu":
        if sums.tensor_ref_seconds is None or sums.ofu_covered_seconds <= 0:
            return None
        return sums.tensor_ref_seconds / sums.ofu_covered_seconds
    value = sums.lost_seconds if sort == "lost" else sums.allocated_seconds
    return None if value is None else -value
