"""The stand-in exporter prints what the real one prints, and serves as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from slurm_ofu.counters.exporter_http import fetch
from slurm_ofu.counters.exporter_page import read_page
from slurm_ofu.counters.pattern import Pattern, Segment
from tests.standins.exporter.page import ExporterGpu, ExporterNode

ROOT = Path(__file__).parents[2]
SEGMENT: dict[str, Any] = {"seconds": 1, "tensor_active_ratio": 0.25, "sm_clock_mhz": 1410}


def test_lines_are_those_of_the_real_template() -> None:
    """Labels stand in the exporter's order, integers are printed as such and doubles with six places."""
    busy = Pattern([Segment(**SEGMENT)])
    gpus = (
        ExporterGpu(uuid="GPU-a", pattern=busy, jobs=("123",)),
        ExporterGpu(uuid="GPU-b", pattern=busy, index=1, instance=7, profile="1g.10gb"),
    )
    page = ExporterNode(gpus=gpus, host="n1").page(90.0)
    labels = 'pci_bus_id="00000000:{}:00.0",device="nvidia{}",modelName="NVIDIA A100-SXM4-80GB"'
    more = 'Hostname="n1",DCGM_FI_DRIVER_VERSION="580.95.05"'
    expected = (
        "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
        f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-a",{labels.format(18, 0)},{more},hpc_job="123"}} 1410\n'
        f'DCGM_FI_DEV_SM_CLOCK{{gpu="1",UUID="GPU-b",{labels.format(19, 1)},'
        f'GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",{more}}} 1410\n'
    )
    assert expected in page
    assert f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",UUID="GPU-a",{labels.format(18, 0)},' in page
    assert 'hpc_job="123"} 0.250000\n' in page
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in page


def test_it_serves_as_a_process(tmp_path: Path) -> None:
    """``python -m tests.standins.exporter`` serves the node that a file describes."""
    node = tmp_path / "node.json"
    node.write_text(json.dumps({"gpus": [{"uuid": "GPU-a", "pattern": [SEGMENT]}], "interval_seconds": 5}))
    command = [sys.executable, "-m", "tests.standins.exporter", str(node)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            [gpu] = read_page(fetch(f"http://127.0.0.1:{port}/metrics", seconds=30)).values()
        finally:
            process.kill()
    assert 0.25 == gpu.values["tensor_active_ratio"]
