"""Bands of OFU: a mean hides that there are often two kinds of runs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures.bands import BAND_COUNT, BAND_EDGES, BAND_NAMES, added_counts, band_of


@pytest.mark.parametrize(
    ("ofu_ratio", "name"),
    [
        *((0.0, "<2"), (0.0199, "<2"), (0.02, "2-10"), (0.0999, "2-10"), (0.10, "10-20")),
        *((0.1999, "10-20"), (0.20, "20-40"), (0.3999, "20-40"), (0.40, ">=40"), (1.08, ">=40")),
    ],
)
def test_an_edge_belongs_to_the_band_above(ofu_ratio: float, name: str) -> None:
    """What a report calls a band is what lies in it."""
    assert name == BAND_NAMES[band_of(ofu_ratio)]


def test_there_is_a_name_for_each_band() -> None:
    """Edges ascend, and names are as many as bands."""
    assert BAND_COUNT == len(BAND_NAMES) == len(BAND_EDGES) + 1
    assert all(low < high for low, high in pairwise(BAND_EDGES))


@pytest.mark.property
@given(low=st.floats(0, 2), high=st.floats(0, 2))
def test_bands_ascend_with_ofu(low: float, high: float) -> None:
    """Every OFU has one band, and more OFU never a lower one."""
    low, high = sorted((low, high))
    assert 0 <= band_of(low) <= band_of(high) < BAND_COUNT


@pytest.mark.property
@given(
    parts=st.lists(st.just(()) | st.tuples(*[st.integers(0, 1000)] * BAND_COUNT), max_size=6),
)
def test_counts_add_band_by_band(parts: list[tuple[int, ...]]) -> None:
    """The sum holds as many runs in each band as its parts; () is none in any, and remains so alone."""
    added = added_counts(parts)
    known = [part for part in parts if part]
    assert (len(added) == BAND_COUNT) == bool(known)
    for at, count in enumerate(added):
        assert sum(part[at] for part in known) == count
