"""Where a run stands among others on the same GPU model (metric.md 7)."""

from collections.abc import Sequence
from typing import Final

from slurm_ofu.figures.work import work_kind
from slurm_ofu.values import BandCount, Percentile, UsageSums

PERCENTILE_DAYS: Final = 90
LEAST_RUNS: Final = 30
LEAST_COVERAGE_RATIO: Final = 0.8
LEAST_GPU_SECONDS: Final = 1800.0
#: Beyond it an OFU is no longer told apart: it is not to be had.
HIGHEST_BAND: Final = 120


def percent_band(run: UsageSums) -> int | None:
    """OFU of a run in whole per cent, rounded down; ``None`` where the run is none that others are compared
    to: over several GPU models, too little measured, too short, or without tensor work."""
    tensor_ref, covered, allocated = run.tensor_ref_seconds, run.ofu_covered_seconds, run.allocated_seconds
    if len(run.gpu_models) != 1 or tensor_ref is None or tensor_ref <= 0 or not allocated:
        return None
    if covered < LEAST_COVERAGE_RATIO * allocated or covered < LEAST_GPU_SECONDS:
        return None
    if work_kind(run) == "non_tensor":
        return None
    return int(min(HIGHEST_BAND, 100 * tensor_ref / covered))


def percentile(run: UsageSums, others: Sequence[BandCount]) -> Percentile | None:
    """The place of a run among ``others``, itself among them: GPU-hours with a lower OFU, and half of those
    with the same whole per cent. ``None``: too few, or the run is not to be compared."""
    band = None if "shared" in run.reasons else percent_band(run)  # others' work is in that OFU
    run_count = sum(other.run_count for other in others)
    whole = sum(other.gpu_seconds for other in others)
    if band is None or run_count < LEAST_RUNS or whole <= 0:
        return None
    below = sum(other.gpu_seconds for other in others if other.band < band)
    same = sum(other.gpu_seconds for other in others if other.band == band)
    return Percentile(ratio=(below + same / 2) / whole, run_count=run_count, gpu_model=run.gpu_models[0])
