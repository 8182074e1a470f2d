"""How much of a fleet's time has an OFU."""

from slurm_ofu.figures.fleet import fleet_coverage, gpu_hours
from slurm_ofu.values import CoveredRuns


def covered(seconds: float, without: float, *, runs: int = 1, unknown: float = 0.0) -> CoveredRuns:
    """Runs of one partition and reason."""
    return CoveredRuns(
        partition="gpu",
        reason="ok",
        run_count=runs,
        run_count_with_ofu=runs if seconds else 0,
        gpu_count=float(runs),
        gpu_count_unknown_time=unknown,
        ofu_covered_seconds=seconds,
        unmeasured_seconds=without,
    )


def test_the_share_is_pooled_by_time() -> None:
    """An hour with and three without are a quarter, however many runs that were."""
    its = fleet_coverage([covered(3600.0, 0.0, runs=9), covered(0.0, 3 * 3600.0)])
    assert (10, 9, 1.0, 3.0, 0.25) == (
        its.run_count,
        its.run_count_with_ofu,
        its.gpu_hours_with_ofu,
        its.gpu_hours_without,
        its.share_ratio,
    )


def test_without_known_time_there_is_no_share() -> None:
    """Nothing of nothing is not 0 %; GPUs of unknown time are told."""
    its = fleet_coverage([covered(0.0, 0.0, unknown=2.0)])
    assert (None, 2.0) == (its.share_ratio, its.gpu_count_unknown_time)
    assert fleet_coverage([]).share_ratio is None


def test_hours_of_the_unknown_are_unknown() -> None:
    """None stays None."""
    assert (None, 0.0, 0.5) == (gpu_hours(None), gpu_hours(0.0), gpu_hours(1800.0))
