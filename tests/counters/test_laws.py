"""The laws of CounterSource, over every source."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.counters.replay import ReplaySource
from slurm_ofu.counters.synthetic import SyntheticSource
from slurm_ofu.values import DeviceIdentity, SamplerConfig
from tests.counters.conftest import Stage
from tests.counters.laws import broken_laws
from tests.samples.fake_clock import BURSTY, STEADY
from tests.standins.nvml_standin import Fault, Gpu, Scenario, Segment, Slice

pytestmark = pytest.mark.contract


@dataclass
class Now:
    """A clock that a test moves."""

    ns: int = 10**12

    def __call__(self) -> int:
        return self.ns

    def advance(self, seconds: float) -> None:
        """Let so many seconds go by."""
        self.ns += round(seconds * 1e9)


BUSY = Gpu(
    segments=(
        Segment(seconds=0.7, tensor_ratio=0.6, sm_clock_mhz=1980, sm_active_ratio=0.9, power_watts=650.5),
        Segment(seconds=0.4, tensor_ratio=1.0, sm_clock_mhz=1200, sm_active_ratio=1, dram_active_ratio=0.7),
        Segment(seconds=0.3, sm_clock_mhz=345, power_watts=70.25, throttle_reasons=1),
    )
)


@pytest.mark.parametrize("has_cycles", [False, True])
def test_synthetic(has_cycles: bool) -> None:
    """The synthetic source obeys the laws."""
    now = Now()
    source = SyntheticSource({0: STEADY, 3: BURSTY}, gpu_model="H", has_cycles=has_cycles, now_ns=now)
    assert [] == broken_laws(source, now.advance, rounds=200)


def test_replay() -> None:
    """The replay source obeys the laws, through gaps in a recording and past its end."""
    now = Now()
    rows: list[dict[str, Any]] = [
        {"at_seconds": number * 0.25, "gpu": gpu, "sm_clock_mhz": 1755, "tensor_active_ratio": number / 100}
        for number in range(60)
        for gpu in (0, 1)
        if not (gpu == 1 and 20 <= number < 40)
    ]
    rows[30] = {"at_seconds": rows[30]["at_seconds"], "gpu": rows[30]["gpu"]}
    devices = [DeviceIdentity(index=index, uuid=f"GPU-{index}") for index in (0, 1, 2)]
    assert [] == broken_laws(ReplaySource(devices, rows, now_ns=now), now.advance, rounds=200)


SPLIT = replace(
    BUSY,
    mig="on",
    slices=(
        Slice(segments=BUSY.segments, slice_uuid="MIG-a", mig_index=0, gpu_instance=7),
        Slice(segments=BUSY.segments, slice_uuid="MIG-b", mig_index=2, gpu_instance=1, compute_slices=2),
    ),
)
IDLE = replace(BUSY, segments=(Segment(seconds=4, sm_clock_mhz=345, gated=True), *BUSY.segments))
NVML: dict[str, Scenario] = {
    "cycles": Scenario(gpus=(BUSY, replace(BUSY, origin_s=0.4, counters_summed_over_sms=True))),
    "sampled": Scenario(gpus=(replace(BUSY, counters="absent"), BUSY)),
    "difference": Scenario(gpus=(replace(BUSY, counters="difference"),)),
    "no GPM on one": Scenario(gpus=(replace(BUSY, gpm=False), BUSY)),
    "MIG": Scenario(gpus=(replace(BUSY, mig="on"), BUSY)),
    "MIG slices": Scenario(gpus=(SPLIT, BUSY)),
    "slices are lost": Scenario(gpus=(replace(SPLIT, lost_at_s=1001.0), BUSY)),
    "the clock stands still": Scenario(gpus=(IDLE, replace(IDLE, counters="absent"))),
    "one is lost": Scenario(gpus=(replace(BUSY, lost_at_s=1001.0), BUSY)),
    "one was lost": Scenario(gpus=(replace(BUSY, lost_at_s=0.0), BUSY)),
    "resets": Scenario(gpus=(replace(BUSY, reset_at_s=(1000.5, 1001.0)),)),
    "slow refresh": Scenario(gpus=(replace(BUSY, refresh_seconds=0.9),)),
    "NaN": Scenario(gpus=(BUSY,), faults=(Fault(function="nvmlGpmMetricsGet", nan=True, from_s=1001.0),)),
    "infinite": Scenario(
        gpus=(BUSY,), faults=(Fault(function="nvmlGpmMetricsGet", value=1e309, from_s=1001.0),)
    ),
    "beyond": Scenario(gpus=(BUSY,), faults=(Fault(function="nvmlGpmMetricsGet", value=250.0, metric=5),)),
    "negative": Scenario(
        gpus=(BUSY,), faults=(Fault(function="nvmlGpmMetricsGet", value=-3.0, from_s=1001.0),)
    ),
    "no clock": Scenario(gpus=(BUSY,), faults=(Fault(function="nvmlDeviceGetClockInfo", error=3),)),
    "no side figures": Scenario(gpus=(BUSY,), faults=(Fault(function="nvmlDeviceGet[PTUMC]*", error=3),)),
    "cannot sample": Scenario(
        gpus=(BUSY, BUSY), faults=(Fault(function="nvmlGpmSampleGet", error=999, device=1),)
    ),
    "cannot allocate": Scenario(
        gpus=(BUSY,), faults=(Fault(function="nvmlGpmSampleAlloc", error=20, until_s=1001.0),)
    ),
    "cannot compare": Scenario(
        gpus=(BUSY,), faults=(Fault(function="nvmlGpmMetricsGet", error=999, until_s=1001.0),)
    ),
    "everything fails": Scenario(gpus=(BUSY,), faults=(Fault(function="nvml*", error=999, from_s=1000.5),)),
}


@pytest.mark.parametrize("name", NVML)
def test_nvml(stage: Stage, name: str) -> None:
    """The NVML source obeys the laws, whatever the driver answers."""
    assert [[]] == stage.play(NVML[name], ["laws"])


@pytest.mark.parametrize("cured", [True, False])
def test_nvml_opened_anew(stage: Stage, cured: bool) -> None:
    """The NVML source obeys the laws where all fails until NVML is opened anew, and where that is no help."""
    faults = (Fault(function="nvml*", error=999, from_s=1035.0, cured_by_init=cured),)
    scenario = Scenario(gpus=(BUSY, SPLIT), faults=faults)
    assert [[]] == stage.play(scenario, ["laws", 30, 9.0])


@pytest.mark.parametrize("variant", ["no_gpm", "old_names"])
def test_nvml_of_older_drivers(stage_of: Callable[[str], Stage], variant: str) -> None:
    """The NVML source obeys the laws where the library lacks functions."""
    assert [[]] == stage_of(variant).play(NVML["cycles"], ["laws"])


def test_sources_have_a_name(tmp_path: Path) -> None:
    """The catalogue opens each source by the name in the configuration; the source knows its own."""
    from slurm_ofu.counters.catalogue import open_source

    synthetic, replay = tmp_path / "s.json", tmp_path / "r.jsonl"
    segment = {"seconds": 1, "tensor_active_ratio": 0.5, "sm_clock_mhz": 1755}
    synthetic.write_text(json.dumps({"gpu_model": "H", "gpus": 2, "default": [segment]}))
    replay.write_text(json.dumps({"gpus": [{"uuid": "GPU-1"}]}))
    for scheme, path in (("synthetic", synthetic), ("replay", replay)):
        assert scheme == open_source(SamplerConfig(source=f"{scheme}://{path}"), job_id=1).name
