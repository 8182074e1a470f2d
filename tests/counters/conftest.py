"""A node with stand-in GPUs, on which NvmlSource plays scripts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.counters.player import START_S
from tests.standins.nvml_standin import Scenario, build, read_calls

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Stage:
    """A directory and a library."""

    folder: Path
    nvml_path: Path

    def play(self, scenario: Scenario, *script: list[Any], **environment: str) -> Any:
        """The answers to a script's steps, in a process of its own."""
        control = self.folder / "control"
        control.write_text(f"time frozen {START_S}\n")
        described = replace(scenario, control=control, calls_file=self.folder / "calls")
        variables = {
            **os.environ,
            "OFU_NVML_SCENARIO": str(described.write(self.folder / "scenario")),
            **environment,
        }
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.counters.player",
                str(self.nvml_path),
                str(control),
                json.dumps(script),
            ],
            env=variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def calls(self) -> dict[str, int]:
        """Driver calls of the process that played last."""
        return list(read_calls(self.folder / "calls").values())[-1]


@pytest.fixture(scope="session")
def library_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each variant of the stand-in, built when first asked for."""
    built: dict[str, Path] = {}

    def library(variant: str) -> Path:
        if variant not in built:
            built[variant] = build(tmp_path_factory.mktemp(variant), variant=variant)
        return built[variant]

    return library


@pytest.fixture
def stage(tmp_path: Path, library_of: Callable[[str], Path]) -> Stage:
    """The whole library."""
    return Stage(tmp_path, library_of("full"))


@pytest.fixture
def stage_of(tmp_path: Path, library_of: Callable[[str], Path]) -> Callable[[str], Stage]:
    """A library that lacks some functions."""
    return lambda variant: Stage(tmp_path, library_of(variant))
