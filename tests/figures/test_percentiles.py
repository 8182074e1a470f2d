"""Where a run stands among others on its GPU model: metric.md, section 7."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures.percentiles import HIGHEST_BAND, LEAST_RUNS, percent_band, percentile
from slurm_ofu.values import BandCount, UsageSums
from tests.figures.examples import BY_MINUTES, HOUR, measured, unmeasured


def at(ofu_ratio: float, **changes: Any) -> UsageSums:
    """A run of 16 GPU-hours with this OFU."""
    return measured(tensor_ref_seconds=ofu_ratio * 16 * HOUR, **changes)


def band(number: int, run_count: int, gpu_seconds: int) -> BandCount:
    """So many runs in one band."""
    return BandCount(band=number, run_count=run_count, gpu_seconds=gpu_seconds)


COUNTS = st.lists(
    st.builds(
        BandCount,
        band=st.integers(0, HIGHEST_BAND),
        run_count=st.integers(1, 100),
        gpu_seconds=st.integers(1800, 10**9),
    ),
    max_size=20,
    unique_by=lambda count: count.band,
)


@pytest.mark.parametrize(
    ("ofu_ratio", "expected"),
    [(0.001, 0), (0.0099, 0), (0.01, 1), (0.25, 25), (0.999, 99), (1.08, 108), (5.0, HIGHEST_BAND)],
)
def test_a_band_is_a_whole_per_cent(ofu_ratio: float, expected: int) -> None:
    """OFU is rounded down, and what is not to be had shares one band."""
    assert expected == percent_band(at(ofu_ratio))


def test_a_figure_beyond_all_numbers_has_a_band() -> None:
    """No number that the database holds stops the program."""
    assert HIGHEST_BAND == percent_band(measured(tensor_ref_seconds=9e307))


@pytest.mark.parametrize(
    ("why", "run"),
    [
        ("nothing measured", unmeasured()),
        ("no tensor work", at(0.0)),
        ("two GPU models", at(0.4, gpu_models=("A", "B"))),
        ("no GPU model", at(0.4, gpu_models=())),
        ("under 0.8 covered", at(0.4, ofu_covered_seconds=0.79 * 16 * HOUR)),
        ("under half a GPU-hour", at(0.4, allocated_seconds=1799.0, ofu_covered_seconds=1799.0)),
        ("charged nothing", at(0.4, allocated_seconds=0.0)),
        ("nobody knows the time", at(0.4, allocated_seconds=None)),
        (
            "busy without tensor cores",
            at(
                0.002,
                **{**BY_MINUTES, "non_tensor_seconds": 15 * HOUR, "non_tensor_covered_seconds": 16 * HOUR},
            ),
        ),
    ],
)
def test_others_are_not_compared_to_it(why: str, run: UsageSums) -> None:
    """A run that was measured too little, or did another kind of work, is in no band and has no place."""
    assert (why, None) == (why, percent_band(run))
    assert (why, None) == (why, percentile(run, [band(10, 100, 10**6)]))


def test_a_shared_gpu_has_no_place() -> None:
    """Its OFU holds other jobs' work, and says nothing of where this one stands."""
    assert None is percentile(at(0.4, reasons=("ok", "shared")), [band(10, 100, 10**6)])


def test_just_enough_is_enough() -> None:
    """Coverage of 0.8 and half a measured GPU-hour are compared."""
    assert 50 == percent_band(
        measured(tensor_ref_seconds=900.0, allocated_seconds=2250.0, ofu_covered_seconds=1800.0)
    )


def test_it_weighs_by_gpu_hours_not_by_runs() -> None:
    """Twenty-nine small runs below count as much as their GPU-hours, and its own band for half."""
    found = percentile(at(0.40), [band(5, 29, 1000), band(40, 1, 1000), band(60, 1, 2000)])
    assert found is not None
    assert (0.375, 31, "NVIDIA H100 80GB HBM3") == (found.ratio, found.run_count, found.gpu_model)


@pytest.mark.parametrize(("run_count", "known"), [(LEAST_RUNS - 1, False), (LEAST_RUNS, True)])
def test_fewer_than_thirty_are_no_crowd(run_count: int, known: bool) -> None:
    """Among 29 runs, itself included, nothing is said; among 30 it is."""
    assert known == (percentile(at(0.4), [band(40, run_count, 10**6)]) is not None)


@pytest.mark.property
@given(counts=COUNTS, ofu_ratio=st.floats(0.001, 1.3))
def test_it_is_a_ratio_and_says_of_how_many(counts: list[BandCount], ofu_ratio: float) -> None:
    """0 <= ratio <= 1, over the runs counted; absent exactly where there are fewer than 30."""
    found = percentile(at(ofu_ratio), counts)
    run_count = sum(count.run_count for count in counts)
    assert (found is None) == (run_count < LEAST_RUNS)
    if found is not None:
        assert 0.0 <= found.ratio <= 1.0
        assert run_count == found.run_count


@pytest.mark.property
@given(counts=COUNTS, low=st.floats(0.001, 1.3), high=st.floats(0.001, 1.3))
def test_more_ofu_never_stands_lower(counts: list[BandCount], low: float, high: float) -> None:
    """Among the same runs the place grows with OFU."""
    low, high = sorted((low, high))
    below, above = percentile(at(low), counts), percentile(at(high), counts)
    if below is not None and above is not None:
        assert below.ratio <= above.ratio


@pytest.mark.property
@given(counts=COUNTS, ofu_ratio=st.floats(0.001, 1.3), factor=st.integers(2, 50))
def test_only_shares_of_gpu_hours_count(counts: list[BandCount], ofu_ratio: float, factor: int) -> None:
    """Ten times the GPU-hours everywhere is the same place."""
    grown = [replace(count, gpu_seconds=count.gpu_seconds * factor) for count in counts]
    before, after = percentile(at(ofu_ratio), counts), percentile(at(ofu_ratio), grown)
    assert (None if before is None else pytest.approx(before.ratio)) == (
        None if after is None else after.ratio
    )
