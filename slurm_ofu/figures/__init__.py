"""The only place that divides: from sums to ratios, and their error bars."""

from slurm_ofu.figures.claims import ClaimComparison, compare_claim
from slurm_ofu.figures.pooling import pool, pool_gpus
from slurm_ofu.figures.ratios import figures, gpu_figures
from slurm_ofu.figures.timelines import OfuTimeline, pooled_timeline

__all__ = [
    "ClaimComparison",
    "OfuTimeline",
    "compare_claim",
    "figures",
    "gpu_figures",
    "pool",
    "pool_gpus",
    "pooled_timeline",
]
