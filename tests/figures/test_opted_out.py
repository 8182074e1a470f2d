"""A job that asked not to be profiled is allocated time without a figure, and nothing else."""

from slurm_ofu.figures.ratios import gpu_figures
from slurm_ofu.values import GpuTotals


def test_it_is_neither_idle_nor_wasteful() -> None:
    """Its hours count as allocated and unmeasured; nothing judges them, and the reason says why."""
    its = gpu_figures(GpuTotals(position=0, reason="opted_out", allocated_seconds=3600.0))
    assert (1.0, 0.0, 1.0) == (its.gpu_hours, its.gpu_hours_measured, its.gpu_hours_unmeasured)
    assert (None, None, None) == (its.ofu_ratio, its.peak_ofu_ratio, its.tpa_mean_ratio)
    assert 0.0 == its.coverage_ratio
    assert not its.idle_gpu_hours
    assert not its.non_tensor_gpu_hours
    assert (0.0, 0.0) == (its.idle_judged_gpu_hours, its.non_tensor_judged_gpu_hours)
    assert "opted_out" == its.reason
