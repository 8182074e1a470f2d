"""Student's t quantile."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.figures.student import t_quantile

TABLE = [
    (1, 12.706204736),
    (1.5, 6.016663104),
    (2, 4.302652730),
    (3, 3.182446305),
    (4, 2.776445105),
    (5, 2.570581836),
    (9, 2.262157163),
    (10, 2.228138852),
    (20, 2.085963447),
    (29, 2.045229642),
    (30, 2.042272456),
    (40, 2.021075390),
    (60, 2.000297822),
    (120, 1.979930405),
    (1000, 1.962339081),
    (1e300, 1.959963985),
    (math.inf, 1.959963985),
]


@pytest.mark.parametrize(("degrees", "quantile"), TABLE)
def test_agrees_with_the_printed_tables(degrees: float, quantile: float) -> None:
    """The quantile is right to seven decimals, for whole, broken and infinite degrees of freedom."""
    assert quantile == pytest.approx(t_quantile(degrees), abs=1e-7)


@pytest.mark.property
@given(st.floats(min_value=1, max_value=1e6), st.floats(min_value=1.0001, max_value=10))
def test_falls_with_more_degrees_of_freedom(degrees: float, factor: float) -> None:
    """More degrees of freedom never make the interval wider, also where the method changes."""
    assert t_quantile(degrees * factor) <= t_quantile(degrees) + 4e-8


@pytest.mark.parametrize("degrees", [0.0, -1.0, 0.5, math.nan])
def test_less_than_one_degree_counts_as_one(degrees: float) -> None:
    """Degrees of freedom that cannot be give the widest interval, not an error."""
    assert 12.706204736 == pytest.approx(t_quantile(degrees))
