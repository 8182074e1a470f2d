"""DCGM's activity and NVML's clock together: real nvidia-ml-py over the one stand-in, a dmon of the other."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.counters.dcgm_stage import ROOT
from tests.standins.dcgmi_standin import Card, Instance, Scenario, install
from tests.standins.nvml_standin import Gpu, Segment, Slice
from tests.standins.nvml_standin import Scenario as NvmlScenario

WHOLE = (Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1410, sm_active_ratio=0.75, power_watts=300),)
SMALL = (Segment(seconds=1, tensor_ratio=0.9, sm_clock_mhz=1200, sm_active_ratio=1),)
LARGE = (Segment(seconds=1, tensor_ratio=0.2, sm_clock_mhz=1200, sm_active_ratio=0.4),)


def a100(segments: tuple[Segment, ...], **more: Any) -> Gpu:
    """A GPU without GPM."""
    return Gpu(
        segments=segments,
        name="NVIDIA A100-SXM4-40GB",
        gpm=False,
        sms=108,
        cores_per_sm=64,
        architecture=7,
        compute_capability=(8, 0),
        **more,
    )


NODE = NvmlScenario(
    gpus=(
        a100(WHOLE),
        a100(
            SMALL,
            mig="on",
            mig_sms=98,
            slices=(
                Slice(segments=SMALL, slice_uuid="MIG-1", mig_index=0, gpu_instance=7, sms=14),
                Slice(segments=LARGE, slice_uuid="MIG-3", mig_index=1, gpu_instance=2, sms=42),
            ),
        ),
    )
)
DCGM = Scenario(
    cards=(
        Card(
            number=5,
            uuid=NODE.uuid(1),
            segments=SMALL,
            instances=(
                Instance(gi=2, entity=0, segments=LARGE),
                Instance(gi=7, entity=1, segments=SMALL),
            ),
        ),
        Card(number=3, uuid=NODE.uuid(0), segments=WHOLE),
    )
)


@pytest.mark.contract
@pytest.mark.parametrize("source", ["dcgm", "auto"])
def test_each_gpu_and_slice_has_its_own(
    tmp_path: Path, library_of: Callable[[str], Path], source: str
) -> None:
    """GPUs and slices are matched by what NVML calls them; activity is DCGM's, the clock NVML's."""
    installed = install(tmp_path, DCGM)
    settings = {
        "source": source,
        "dcgmi": str(installed.program),
        "nvml_library": str(library_of("full")),
        "exporter_url": "http://127.0.0.1:1/metrics",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.counters.dcgm_player", json.dumps(settings)],
        env={**os.environ, "OFU_NVML_SCENARIO": str(NODE.write(tmp_path / "nvml"))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    names = ("tensor_active_ratio", "clock_mhz", "published_clock_mhz", "power_watts")
    seen = {uuid: tuple(its[name] for name in names) for uuid, its in said["seen"].items()}
    assert (0.5, 1410.0, None, 300.0) == seen[NODE.uuid(0)]
    assert (0.9, 1200.0, None, None) == seen["MIG-1"]
    assert (0.2, 1200.0, None, None) == seen["MIG-3"]
    assert {"dcgm"} == {its["choice"]["source"] for its in said["seen"].values()}
    assert [] == said["broken"]
