"""Where a run stands among others on the same GPU model, in words."""

from slurm_ofu.figures.percentiles import PERCENTILE_DAYS
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.wording import name, percent
from slurm_ofu.values import Percentile


def percentile_facts(its: Percentile | None) -> list[Fact]:
    """One line under the OFU; none where there is nobody to be compared to."""
    if its is None:
        return []
    text = (
        f"better than {percent(its.ratio, digits=0)} of the GPU-hours on {name(its.gpu_model)} in the"
        f" {PERCENTILE_DAYS} days up to its end (n = {its.run_count} jobs)"
    )
    return [("", text)]
