"""Sums of sums."""

import math
from dataclasses import astuple, fields
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures import figures, pool, pool_gpus
from slurm_ofu.figures.pooling import sums_of_gpu
from slurm_ofu.values import GpuTotals, UsageSums
from tests.figures.examples import BY_MINUTES, HOUR, gpu, measured, silent_gpu, unmeasured

SECONDS = st.floats(min_value=1e-3, max_value=1e9)
SHARES = st.floats(min_value=0, max_value=1)
NUMERATORS = (
    *("idle_seconds", "idle_tail_seconds", "non_tensor_seconds", "peak_tensor_ref_seconds"),
    *("throttled_power_seconds", "throttled_thermal_seconds", "held_suspended_seconds"),
)
DENOMINATORS = (
    *("idle_covered_seconds", "non_tensor_covered_seconds", "peak_covered_seconds"),
    "throttle_covered_seconds",
)


@st.composite
def runs(draw: st.DrawFn) -> UsageSums:
    """A run that is measured in whole, in part or not at all."""
    allocated = draw(SECONDS)
    if draw(st.booleans()):
        return unmeasured(allocated_seconds=draw(st.sampled_from([allocated, None])))
    covered = allocated * draw(st.floats(min_value=0.01, max_value=1))
    tensor = covered * draw(SHARES)
    variance = (covered * draw(SHARES) * 0.1) ** 2
    return measured(
        allocated_seconds=allocated,
        covered_seconds=covered,
        ofu_covered_seconds=covered,
        tpa_covered_seconds=covered,
        tensor_active_seconds=tensor,
        tensor_ref_seconds=tensor * draw(st.floats(min_value=0.1, max_value=1.1)),
        tensor_ref_variance=draw(st.sampled_from([variance, None])),
        tensor_ref_variance_per_degree=variance**2 / draw(st.floats(min_value=1, max_value=1e4)),
        estimators=(draw(st.sampled_from(["cycles", "sampled"])),),
        reasons=(draw(st.sampled_from(["ok", "suspect", "short"])),),
        **{name: draw(st.sampled_from([None, covered * draw(SHARES)])) for name in NUMERATORS},
        **{name: covered * draw(SHARES) for name in DENOMINATORS},
    )


MANY = st.lists(runs(), min_size=1, max_size=6)


def close(one: UsageSums, other: UsageSums) -> bool:
    """Equal but for rounding."""
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(astuple(one), astuple(other), strict=True)
    )


@pytest.mark.property
@given(MANY)
def test_pooled_lies_between_its_members(members: list[UsageSums]) -> None:
    """A pooled OFU, and a pooled coverage, lie between the least and the greatest of their members."""
    pooled = figures(pool(members))
    ofu = [its.ofu_ratio for its in map(figures, members) if its.ofu_ratio is not None]
    assert (pooled.ofu_ratio is None) == (not ofu)
    if pooled.ofu_ratio is not None:
        assert min(ofu) * (1 - 1e-9) <= pooled.ofu_ratio <= max(ofu) * (1 + 1e-9)


@pytest.mark.property
@given(MANY, st.randoms())
def test_order_does_not_matter(members: list[UsageSums], random: Random) -> None:
    """Members in any order pool to the very same sums."""
    shuffled = list(members)
    random.shuffle(shuffled)
    assert pool(members) == pool(shuffled)


@pytest.mark.property
@given(MANY, MANY)
def test_pooling_of_pooled_is_pooling_of_all(some: list[UsageSums], others: list[UsageSums]) -> None:
    """It makes no difference whether runs are pooled at once or group by group."""
    assert close(pool([*some, *others]), pool([pool(some), pool(others)]))


@pytest.mark.property
@given(MANY)
def test_missing_is_not_zero(members: list[UsageSums]) -> None:
    """A run of which nothing was measured changes hours and coverage, but not the OFU or its error."""
    before, after = figures(pool(members)), figures(pool([*members, unmeasured()]))
    assert (before.ofu_ratio, before.ofu_error_pp, before.tpa_mean_ratio) == (
        after.ofu_ratio,
        after.ofu_error_pp,
        after.tpa_mean_ratio,
    )
    assert after.gpu_hours == pytest.approx((before.gpu_hours or 0.0) + 16.0)


@pytest.mark.property
@given(MANY)
def test_never_nan(members: list[UsageSums]) -> None:
    """Every figure is finite or absent, and coverage lies in 0..1."""
    its = figures(pool(members))
    assert [] == [x for x in astuple(its) if isinstance(x, float) and not math.isfinite(x)]
    assert its.coverage_ratio is None or 0 <= its.coverage_ratio <= 1


def test_pooled_is_not_the_mean_of_ratios() -> None:
    """A short run at 0.8 beside one nine times as long at 0.0 pools to 0.08, not to 0.4."""
    short = measured(ofu_covered_seconds=100.0, tensor_ref_seconds=80.0)
    long = measured(ofu_covered_seconds=900.0, tensor_ref_seconds=0.0)
    assert 0.08 == pytest.approx(figures(pool([short, long])).ofu_ratio)


def test_nothing_pools_to_nothing() -> None:
    """The sums over no rows have no figure and unknown hours."""
    its = figures(pool([]))
    assert (0, None, None, None) == (its.run_count, its.gpu_hours, its.ofu_ratio, its.reason)


def test_errors_of_runs_add_in_quadrature() -> None:
    """Two like runs have together a relative error smaller by the square root of two."""
    one = figures(measured()).ofu_error_pp
    assert one is not None
    assert one / math.sqrt(2) == pytest.approx(figures(pool([measured(), measured()])).ofu_error_pp)


def test_errors_of_gpus_of_one_run_add_linearly() -> None:
    """GPUs of one run swing together: eight like GPUs have the relative error of one."""
    one = figures(pool_gpus([gpu(0)])).ofu_error_pp
    eight = figures(pool_gpus([gpu(position) for position in range(8)]))
    assert (8.0, 1) == (eight.gpu_count, eight.run_count)
    assert one == pytest.approx(eight.ofu_error_pp)


def test_gpus_of_one_run_have_the_fewest_degrees_of_any() -> None:
    """Behind a sum of errors in step stand no more degrees of freedom than behind its least known part."""
    pair = figures(pool_gpus([gpu(0, error_degrees=9.0), gpu(1, error_degrees=900.0)]))
    assert 100 * 2.262157 * 0.001 == pytest.approx(pair.ofu_error_pp, rel=1e-6)


def test_one_unknown_error_makes_the_pooled_one_unknown() -> None:
    """The error of a pooled figure is not known if that of a measured member is not."""
    pooled = figures(pool([measured(), measured(tensor_ref_variance=None)]))
    gpus = figures(pool_gpus([gpu(0), gpu(1, tensor_ref_error_seconds=None)]))
    assert (None, None) == (pooled.ofu_error_pp, gpus.ofu_error_pp)


def test_welch_and_satterthwaite() -> None:
    """Two independent runs with 9 degrees each and equal variances have 18 together."""
    variance = (0.001 * 57600) ** 2
    run = measured(tensor_ref_variance=variance, tensor_ref_variance_per_degree=variance**2 / 9)
    expected = 100 * 2.100922 * 0.001 / math.sqrt(2)
    assert expected == pytest.approx(figures(pool([run, run])).ofu_error_pp, rel=1e-6)


def test_silent_gpus_of_a_node_count() -> None:
    """Of 8 GPUs 4 silent: coverage 0.5, 16 GPU-hours, and their reason qualifies the figure."""
    its = figures(pool_gpus([*map(gpu, range(4)), *(silent_gpu(n, "source_lost") for n in range(4, 8))]))
    assert (0.5, 16.0, "source_lost") == (its.coverage_ratio, its.gpu_hours, its.reason)
    assert 0.4 == pytest.approx(its.ofu_ratio)


def test_an_unknown_model_leaves_both_factors_to_the_others() -> None:
    """Tensor activity without an OFU does not mix into the factors of the pooled OFU."""
    odd = gpu(1, tensor=0.9, reason="unknown_model", tensor_ref_seconds=None, tensor_ref_error_seconds=None)
    its = figures(pool_gpus([gpu(0), odd]))
    assert (0.4, 0.5, 0.8) == pytest.approx((its.ofu_ratio, its.tpa_mean_ratio, its.active_clock_ratio))
    assert ("unknown_model", 0.5) == (its.reason, its.coverage_ratio)


def test_gpus_of_unknown_time_are_counted() -> None:
    """GPUs whose time nobody knows are in no sum of seconds, but their number is known."""
    its = figures(pool_gpus([gpu(0), silent_gpu(1, "not_started", allocated_seconds=None)]))
    assert (2.0, 1.0, 2.0) == (its.gpu_count, its.gpu_count_unknown_time, its.gpu_hours)
    together = pool([measured(), unmeasured(allocated_seconds=None, gpu_count_unknown_time=8.0)])
    assert (16.0, 8.0, 16.0) == (
        together.gpu_count,
        together.gpu_count_unknown_time,
        figures(together).gpu_hours,
    )


def test_every_sum_is_pooled() -> None:
    """Twice the same run is twice every sum: none is left out."""
    names = [
        field.name
        for field in fields(UsageSums)
        if field.name not in ("estimators", "reasons", "gpu_models", "band_run_counts")
    ]
    one = measured(**{name: 8.0 for name in names if name != "run_count"}, band_run_counts=(1, 0, 0, 2, 0))
    two = pool([one, one])
    assert (2, 0, 0, 4, 0) == two.band_run_counts
    assert [2 * getattr(one, name) for name in names] == [getattr(two, name) for name in names]


def test_every_sum_of_a_gpu_is_taken() -> None:
    """What a GPU's row has by the name of a sum is in that sum."""
    names = {field.name for field in fields(GpuTotals)} & {field.name for field in fields(UsageSums)}
    eights: dict[str, Any] = dict.fromkeys(names, 8.0)
    its = gpu(**eights)
    assert [8.0] * len(names) == [getattr(sums_of_gpu(its), name) for name in sorted(names)]


def test_a_suspect_gpu_is_not_measured() -> None:
    """Samples of a wedged profiling module are excluded from means: its GPU is allocated, drew power, and has
    no figure by profiling counters."""
    wedged = gpu(1, tensor=0.0, reason="suspect", energy_joules=5.0, **BY_MINUTES)
    good = gpu(0, energy_joules=5.0, **BY_MINUTES)
    its, alone = figures(pool_gpus([good, wedged])), figures(pool_gpus([good]))
    assert ("suspect", 0.5, 4.0, 10.0) == (its.reason, its.coverage_ratio, its.gpu_hours, its.energy_joules)
    assert (alone.ofu_ratio, alone.ofu_error_pp, alone.tpa_mean_ratio, alone.sm_active_ratio) == (
        *(its.ofu_ratio, its.ofu_error_pp, its.tpa_mean_ratio, its.sm_active_ratio),
    )  # fmt: skip
    assert (alone.idle_gpu_hours, alone.non_tensor_gpu_hours, alone.peak_ofu_ratio) == (
        *(its.idle_gpu_hours, its.non_tensor_gpu_hours, its.peak_ofu_ratio),
    )  # fmt: skip
    assert 2 * (alone.throttled_power_gpu_hours or 0.0) == its.throttled_power_gpu_hours
    only = figures(pool_gpus([wedged]))
    assert (None, None, 0.0, "suspect") == (
        only.ofu_ratio,
        only.tpa_mean_ratio,
        only.coverage_ratio,
        only.reason,
    )


def test_a_job_counts_by_its_gpus_not_by_what_was_there() -> None:
    """2 nodes x 4 GPUs, one node without rows; of the others one was seen for a moment: OFU is not dominated
    by who was seen most, and coverage says how much there was."""
    seen = [gpu(position) for position in range(3)]
    moment = gpu(
        3, tensor=1.0, clock=1.0, covered_seconds=24.0, tensor_active_seconds=24.0, tensor_ref_seconds=24.0
    )
    silent = [silent_gpu(position, "not_delivered") for position in range(4, 8)]
    its = figures(pool_gpus([*seen, moment, *silent]))
    assert its.coverage_ratio == pytest.approx((3 * 7200 + 24) / (8 * 7200))
    assert its.ofu_ratio == pytest.approx((3 * 0.4 * 7200 + 24) / (3 * 7200 + 24))


def test_whom_idle_hours_find() -> None:
    """Job A, not measured, has none; job B, held for nothing, has all; job C, 5 min busy and 23 h idle, is
    found by its tail."""
    nothing = figures(pool_gpus([silent_gpu()]))
    held = figures(pool_gpus([gpu(tensor=0.0, **_idle(2.0, 2.0))]))
    left = figures(pool_gpus([gpu(**_idle(23.0, 23.0))]))
    assert (None, None, 0.0) == (
        nothing.idle_gpu_hours,
        nothing.idle_tail_gpu_hours,
        nothing.idle_judged_gpu_hours,
    )
    assert (2.0, 2.0, 0.0, 1.0) == (
        *(held.idle_gpu_hours, held.idle_judged_gpu_hours, held.ofu_ratio, held.coverage_ratio),
    )  # fmt: skip
    assert 23.0 == left.idle_tail_gpu_hours


def _idle(hours: float, of: float) -> dict[str, Any]:
    return {
        "idle_seconds": hours * HOUR,
        "idle_covered_seconds": of * HOUR,
        "idle_tail_seconds": hours * HOUR,
    }
