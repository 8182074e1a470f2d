"""GPM's sample buffers: two per GPU for as long as the source is open, whatever fails."""

import pytest

from tests.counters.conftest import Stage
from tests.standins.nvml_standin import Fault, Gpu, Scenario, Segment

STEADY = Gpu(segments=(Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.75),))
ROUNDS = 4000


@pytest.mark.parametrize(
    "fault",
    [
        {"function": "nvmlGpmMetricsGet", "error": 999},
        {"function": "nvmlGpmMetricsGet", "metric": 5, "error": 999},
        {"function": "nvmlGpmMetricsGet", "nan": True},
        {"function": "nvmlGpmSampleGet", "error": 999},
        {"function": "nvmlGpmQueryDeviceSupport", "error": 999},
    ],
    ids=["comparing", "one metric", "nan", "sampling", "asking"],
)
def test_failing_for_ever_costs_nothing(stage: Stage, fault: dict[str, object]) -> None:
    """C23: reading after reading fails, and neither samples nor memory grow; what was allocated is freed."""
    scenario = Scenario(gpus=(STEADY,), faults=(Fault(**fault),))  # type: ignore[arg-type]
    (grown,) = stage.play(scenario, ["churn", ROUNDS, 10])
    calls = stage.calls()
    expected = 0 if fault["function"] == "nvmlGpmQueryDeviceSupport" else 2
    assert (expected, expected) == (calls["samples_allocated"], calls["samples_freed"])
    assert ROUNDS - 1 <= grown["faults"]
    assert 300 > grown["grown_kib"]


def test_one_of_two_samples_is_none(stage: Stage) -> None:
    """Where only one sample can be allocated it is freed again."""
    only_first = Fault(function="nvmlGpmSampleAlloc", skip=1, error=20)
    stage.play(Scenario(gpus=(STEADY,), faults=(only_first,)), ["read", 0])
    calls = stage.calls()
    assert (1, 1) == (calls["samples_allocated"], calls["samples_freed"])
