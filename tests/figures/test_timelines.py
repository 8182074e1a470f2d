"""Many timelines as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures import pooled_timeline
from slurm_ofu.values import Timeline


def timeline(*buckets: tuple[float | None, float], start: float = 0.0, width: float = 10.0) -> Timeline:
    """A timeline of these (tensor reference seconds, covered seconds)."""
    return Timeline(start_epoch_s=start, bucket_seconds=width, buckets=buckets)


def test_one_timeline_is_itself() -> None:
    """A timeline that fits is shown bucket by bucket; what was not measured is a gap, what was zero is 0."""
    line = pooled_timeline([timeline((5.0, 10.0), (None, 0.0), (0.0, 10.0))], bucket_count=64)
    assert line is not None
    assert (0.5, None, 0.0) == line.ofu_ratios
    assert (0.0, 10.0, 30.0) == (line.start_epoch_s, line.bucket_seconds, line.end_epoch_s)


def test_what_is_missing_up_to_the_end_is_a_gap() -> None:
    """A run of which only the beginning was seen is drawn to its end: whole buckets are added, and no more
    are shown than fit."""
    for until, ratios in ((19.9, (0.5,)), (20.0, (0.5, None)), (49.0, (0.5, *[None] * 3)), (0.0, (0.5,))):
        line = pooled_timeline([timeline((5.0, 10.0))], bucket_count=64, until_epoch_s=until)
        assert line is not None
        assert ratios == line.ofu_ratios
    line = pooled_timeline([timeline((5.0, 10.0))], bucket_count=2, until_epoch_s=40.0)
    assert line is not None
    assert (0.5, None) == line.ofu_ratios


def test_two_gpus_are_pooled_by_covered_time() -> None:
    """In one bucket, 10 s at 0.9 and 2 s at 0.3 make 0.8."""
    line = pooled_timeline([timeline((9.0, 10.0)), timeline((0.6, 2.0))], bucket_count=64)
    assert line is not None
    assert (0.8,) == pytest.approx(line.ofu_ratios)


def test_an_unknown_gpu_model_is_a_gap() -> None:
    """Covered seconds without a reference clock make no OFU."""
    line = pooled_timeline([timeline((None, 10.0))], bucket_count=64)
    assert line is not None
    assert (None,) == line.ofu_ratios


def test_fewer_buckets_pool_their_neighbours() -> None:
    """Four buckets in two columns: neighbours are pooled."""
    line = pooled_timeline([timeline((10.0, 10.0), (0.0, 10.0), (None, 0.0), (5.0, 10.0))], bucket_count=2)
    assert line is not None
    assert (0.5, 0.5) == line.ofu_ratios


def test_timelines_that_start_apart_share_one_grid() -> None:
    """A node that started later leaves a gap before it, and the grid spans both."""
    line = pooled_timeline([timeline((1.0, 10.0)), timeline((8.0, 10.0), start=20.0)], bucket_count=64)
    assert line is not None
    assert (0.0, 30.0) == (line.start_epoch_s, line.end_epoch_s)


@pytest.mark.parametrize("lines", [[], [timeline()], [timeline((1.0, 1.0), width=0.0)]])
def test_nothing_is_no_timeline(lines: list[Timeline]) -> None:
    """Where no GPU kept a timeline there is none."""
    assert None is pooled_timeline(lines, bucket_count=64)


@pytest.mark.property
@given(
    st.lists(
        st.builds(
            lambda ratios, start, width: timeline(
                *((r * width, width) for r in ratios), start=start, width=width
            ),
            st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=128),
            st.floats(min_value=0, max_value=1e5),
            st.floats(min_value=0.5, max_value=1e4),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(min_value=1, max_value=128),
)
def test_no_ratio_outside_those_measured(lines: list[Timeline], columns: int) -> None:
    """Rebinning neither invents a peak nor a trough."""
    measured = [tensor / covered for line in lines for tensor, covered in line.buckets if tensor is not None]
    line = pooled_timeline(lines, bucket_count=columns)
    assert line is not None
    assert 1 <= len(line.ofu_ratios) <= columns
    shown = [ratio for ratio in line.ofu_ratios if ratio is not None]
    assert min(measured) - 1e-9 <= min(shown)
    assert max(shown) <= max(measured) + 1e-9
