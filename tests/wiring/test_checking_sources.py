"""What ``ofu-node check`` says of a node's counter sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.wiring.checking import check
from tests.standins import nvml_standin
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer
from tests.standins.nvml_standin import Gpu, Scenario
from tests.standins.nvml_standin import Segment as NvmlSegment

ROOT = Path(__file__).parents[2]
BUSY = Pattern([Segment(seconds=1, tensor_active_ratio=0.5, sm_clock_mhz=1410)])
A, B = "GPU-00000000-0000-4000-8000-00000000000a", "GPU-00000000-0000-4000-8000-00000000000b"
CHECK = """
import json, sys
from slurm_ofu.wiring.checking import check
findings = check(sys.argv[1], slurm_conf=sys.argv[2], node="n1")
print(json.dumps([(its.verdict, its.what, its.text) for its in findings]))
"""


def write_node(folder: Path, sampler: str, more: str = "", gpus: int = 2) -> tuple[str, str]:
    """A node's configuration and slurm.conf."""
    config, conf = folder / "slurm-ofu.toml", folder / "slurm.conf"
    config.write_text(f'[node]\nspool_dir = "{folder}/spool"\n[sampler]\n{sampler}\n{more}')
    conf.write_text(f"NodeName=n1 Gres=gpu:{gpus}\n")
    return str(config), str(conf)


def test_an_exporter_alone(tmp_path: Path) -> None:
    """A GPU on the exporter's page is in order, at whatever pace it is collected; one without tensor activity
    is not."""
    node = ExporterNode(gpus=(ExporterGpu(uuid=A, pattern=BUSY), ExporterGpu(uuid=B, pattern=BUSY, index=1)))
    with ExporterServer(node) as server:
        page = node.page(10_000.0)
        server.body = "".join(line for line in page.splitlines(True) if B not in line or "TENSOR" not in line)
        settings = f'source = "exporter"\nexporter_url = "{server.url}"\nnvml_library = "/absent/nvml.so"'
        config, conf = write_node(tmp_path, settings, f'[gpu_map.n1]\n0 = "{A}"\n1 = "{B}"\n')
        found = {its.what: its for its in check(config, slurm_conf=conf, node="n1")}
    assert "exporter, 2 GPUs" == found["source"].text
    assert ("ok", "bad") == (found["GPU 0"].verdict, found["GPU 1"].verdict)
    assert "source exporter, estimator scraped, at the exporter's own interval" in found["GPU 0"].text
    assert found["GPU 1"].text.endswith("source exporter, reads: no_source")


def test_a_mixed_node(tmp_path: Path) -> None:
    """Each GPU of a mixed node has its own source, estimator and reason why nobody better speaks for it."""
    library = nvml_standin.build(tmp_path / "nvml")
    busy = Gpu(segments=(NvmlSegment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1700),))
    older = Gpu(segments=busy.segments, gpm=False, name="NVIDIA A100-SXM4-80GB")
    scenario = Scenario(gpus=(busy, older, older))
    node = ExporterNode(gpus=(ExporterGpu(uuid=scenario.uuid(1), pattern=BUSY),))
    with ExporterServer(node) as server:
        settings = f'exporter_url = "{server.url}"\nnvml_library = "{library}"\ndcgmi = "/absent/dcgmi"\n'
        places = write_node(tmp_path, settings, gpus=3)
        done = subprocess.run(
            [sys.executable, "-c", CHECK, *places],
            env={**os.environ, "OFU_NVML_SCENARIO": str(scenario.write(tmp_path / "scenario"))},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = {what: (verdict, text) for verdict, what, text in json.loads(done.stdout)}
    assert ("ok", "auto, 3 GPUs") == found["source"]
    assert ("ok", True) == (found["GPU 0"][0], found["GPU 0"][1].endswith("source nvml, estimator cycles"))
    assert "ok" == found["GPU 1"][0]
    assert "source exporter, estimator scraped" in found["GPU 1"][1]
    assert "(nvml: no GPM on this GPU; dcgm: " in found["GPU 1"][1]
    assert "bad" == found["GPU 2"][0]
    assert "source none, reads: no_source (nvml: no GPM on this GPU; dcgm: " in found["GPU 2"][1]


def test_a_node_of_slices(tmp_path: Path) -> None:
    """Slurm counts slices in an order of its own: that no position leads to one is no fault, and each slice
    is looked at by its UUID."""
    library = nvml_standin.build(tmp_path / "nvml")
    course = (NvmlSegment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1700),)
    its = nvml_standin.Slice(segments=course, slice_uuid=f"MIG-{A[4:]}", mig_index=1, gpu_instance=9)
    split = Gpu(segments=course, mig="on", slices=(its,))
    scenario = Scenario(gpus=(split,))
    places = write_node(tmp_path, f'nvml_library = "{library}"\n', gpus=1)
    done = subprocess.run(
        [sys.executable, "-c", CHECK, *places],
        env={**os.environ, "OFU_NVML_SCENARIO": str(scenario.write(tmp_path / "scenario"))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {what: (verdict, text) for verdict, what, text in json.loads(done.stdout)}
    assert "note" == found["GPU 0"][0]
    assert "whose CUDA_VISIBLE_DEVICES has UUIDs are measured" in found["GPU 0"][1]
    [(verdict, text)] = [its for what, its in found.items() if what.startswith("MIG ")]
    assert ("ok", True) == (verdict, "estimator sampled" in text)
