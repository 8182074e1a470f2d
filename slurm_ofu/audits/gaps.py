"""A run's time without OFU, by node and reason: what its single GPUs say, added up to what the run says."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ofu.figures.reasons import dominating_reason
from slurm_ofu.values import RunGpu, UsageRow

#: Of what was measured but for its beginning, its end, or some readings.
GAPS = "gaps"
_NOT_KNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Time of a run without OFU. ``node_name``: ``None`` where it is not known whose."""

    row: UsageRow
    node_name: str | None
    reason: str
    seconds: float


def gaps(row: UsageRow, gpus: Sequence[RunGpu]) -> list[Gap]:
    """Where single GPUs are not known, all of it for the worst reason. They are of the whole run: of one that
    a window cuts its part in the window is shared out as the whole is."""
    total = unmeasured_seconds(row)
    weights = _weights(gpus)
    whole = sum(weights.values())
    if whole <= 0:
        run = row.run
        node = None if run is None or run.node_count != 1 else run.node_list
        weights, whole = {(node, run_reason(row)): 1.0}, 1.0
    return [
        Gap(row=row, node_name=node, reason=reason, seconds=total * weight / whole)
        for (node, reason), weight in weights.items()
        if weight > 0
    ]


def run_reason(row: UsageRow) -> str:
    """The worst reason why time of a run is without OFU."""
    silent = row.run is not None and not row.run.heard
    reasons = ("not_delivered",) if silent and not row.sums.reasons else row.sums.reasons
    has_figure = row.sums.tensor_ref_seconds is not None
    return _named(dominating_reason(reasons, has_figure=has_figure) or _NOT_KNOWN)


def unmeasured_seconds(row: UsageRow) -> float:
    """GPU-seconds without OFU."""
    return max(0.0, (row.sums.allocated_seconds or 0.0) - row.sums.ofu_covered_seconds)


def _weights(gpus: Sequence[RunGpu]) -> dict[tuple[str | None, str], float]:
    """A GPU of which no node said how long it was held counts as one of the others of its run."""
    held = [its for gpu in gpus if (its := gpu.totals.allocated_seconds) is not None]
    usual = sum(held) / len(held) if held else 1.0
    weights: dict[tuple[str | None, str], float] = defaultdict(float)
    for gpu in sorted(gpus, key=lambda gpu: (gpu.node_name, gpu.totals.position)):
        totals = gpu.totals
        seconds = usual if totals.allocated_seconds is None else totals.allocated_seconds
        covered = 0.0 if totals.tensor_ref_seconds is None else totals.covered_seconds
        weights[gpu.node_name, _named(totals.reason or _NOT_KNOWN)] += max(0.0, seconds - covered)
    return weights


def _named(reason: str) -> str:
    return GAPS if reason == "ok" else reason
