"""A place where the validation script finds a GPU that is played, and somebody to multiply for it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.worker import Worker
from tests.standins.nvml_standin import Gpu, Scenario, Segment

ROOT = Path(__file__).parents[2]
REFERENCE_MHZ = 1830.0
TENSOR_RATIO, CLOCK_MHZ = 0.75, 1755.0
OFU_RATIO = TENSOR_RATIO * CLOCK_MHZ / REFERENCE_MHZ
STEADY = Segment(
    seconds=1.0, tensor_ratio=TENSOR_RATIO, sm_clock_mhz=CLOCK_MHZ, sm_active_ratio=1.0, power_watts=650.0
)
#: 8192 is no multiple of 192: such a product is padded by 1.6 %.
KERNEL = "nvjet_hsh_192x192_64x4_2x1_v_bz_coopB_TNT"
RATES = {"fp16": 4096, "bf16": 4096, "tf32": 2048, "fp8": 8192}
FAKE = "tests.benchmarks.fake_gemm"


@dataclass(frozen=True)
class Ended:
    """What a run left."""

    code: int
    printed: str
    complained: str
    table: dict[str, Any]
    report: str


@dataclass(frozen=True)
class Stage:
    """A directory, a stand-in NVML, perhaps a stand-in CUDA, and what they play."""

    place: Path
    nvml: Path
    scenario: Scenario
    more: dict[str, Any]

    @property
    def out(self) -> Path:
        """The result file."""
        return self.place / "validate.json"

    def environment(self) -> dict[str, str]:
        """Of the script and its processes."""
        played = {
            "ofu": OFU_RATIO,
            "sm_count": 132,
            "rates": RATES,
            "reference_clock_mhz": REFERENCE_MHZ,
            "kernel": KERNEL,
            **{name: value for name, value in self.more.items() if name.islower()},
        }
        return {
            **os.environ,
            "OFU_NVML_SCENARIO": str(self.scenario.write(self.place / "nvml-scenario")),
            "OFU_FAKE_GEMM": json.dumps(played),
            **{name: str(value) for name, value in self.more.items() if name.isupper()},
        }

    def command(self, *options: str, backend: str = FAKE) -> Sequence[str]:
        """The script's."""
        given = ("--out", str(self.out), "--nvml-library", str(self.nvml), "--backend", backend)
        return (sys.executable, "-m", "benchmarks.gpu.validate", *given, *options)

    def run(self, *options: str, backend: str = FAKE) -> Ended:
        """To its end."""
        done = subprocess.run(
            self.command(*options, backend=backend),
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        table = json.loads(self.out.read_text(encoding="utf-8"))
        report = self.out.with_suffix(".md").read_text(encoding="utf-8")
        return Ended(done.returncode, done.stdout, done.stderr, table, report)

    def worker(self, module: str, *arguments: str) -> Worker:
        """One of the script's processes on its own."""
        return Worker(module, arguments, self.environment())


def stage(
    place: Path, nvml: Path, *segments: Segment, gpu: dict[str, Any] | None = None, **more: Any
) -> Stage:
    """One H200 with these segments; ``more``: for the fake GEMMs, or variables in capitals."""
    place.mkdir(parents=True, exist_ok=True)
    played = Gpu(segments=segments or (STEADY,), name="NVIDIA H200", **(gpu or {}))
    return Stage(place, nvml, Scenario(gpus=(played,)), more)
