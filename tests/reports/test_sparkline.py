"""A timeline in one line."""

import pytest

from slurm_ofu.reports.sparkline import sparkline


@pytest.mark.parametrize(
    ("ratios", "top", "line"),
    [
        ((0.0, 0.5, 1.0), 1.0, "▁▅█"),
        ((0.0, None, 0.0), 1.0, "▁·▁"),
        ((None, None), 0.0, "··"),
        ((0.0, 0.0), 0.0, "▁▁"),
        ((), 1.0, ""),
        ((1.2,), 1.0, "█"),
    ],
)
def test_gaps_are_not_zeros(ratios: tuple[float | None, ...], top: float, line: str) -> None:
    """A bucket that was not measured is a dot, a zero is the lowest bar."""
    assert line == sparkline(ratios, top=top)
