"""The table of scenarios: for each a reason and figures, whatever the estimator and the interval."""

from pathlib import Path

import pytest

from slurm_ofu.figures import gpu_figures
from slurm_ofu.values import Estimator
from tests.integrals.examples import near
from tests.integrals.scenarios import SCENARIOS, Scenario, document
from tests.integrals.simulated import ESTIMATORS, MINUTE, measured

DOCUMENT = Path(__file__).parents[2] / "docs/scenarios.md"
CASES = [
    pytest.param(scenario, estimator, interval_s, id=f"{scenario.words}-{estimator}-{interval_s:g} s")
    for scenario in SCENARIOS
    for estimator in ESTIMATORS
    for interval_s in scenario.intervals
]


@pytest.mark.parametrize(("scenario", "estimator", "interval_s"), CASES)
def test_what_comes_out(scenario: Scenario, estimator: Estimator, interval_s: float) -> None:
    """Reason, OFU, coverage, idle time and its tail, time without tensor work and peak are as expected."""
    its = measured(scenario.course, estimator, interval_s)
    shown, expected = gpu_figures(its), scenario.expected

    def minutes(hours: float | None) -> float | None:
        return None if hours is None else hours * MINUTE

    def like(value: float | None, within: float) -> object:
        return None if value is None else near(value, within=within)

    assert (
        *(expected.reason, like(expected.ofu, 0.005), like(expected.coverage, 0.001)),
        *(like(expected.idle, 0.01), like(expected.tail, 0.01), like(expected.non_tensor, 0.01)),
        like(expected.peak, 0.005),
    ) == (
        *(its.reason, shown.ofu_ratio, shown.coverage_ratio),
        *(minutes(shown.idle_gpu_hours), minutes(shown.idle_tail_gpu_hours)),
        *(minutes(shown.non_tensor_gpu_hours), shown.peak_ofu_ratio),
    )


def test_the_document_is_up_to_date() -> None:
    """docs/scenarios.md is what ``python -m tests.integrals.scenarios`` prints."""
    assert document() == DOCUMENT.read_text(encoding="utf-8")
