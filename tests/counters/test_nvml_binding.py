"""Modules called pynvml that are not, or not quite, the nvidia-ml-py that NvmlSource wants."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.counters.conftest import ROOT, Stage
from tests.standins.nvml_standin import Gpu, Scenario, Segment, Slice

STEADY = (Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.75, throttle_reasons=4),)
SPLIT = Gpu(
    segments=STEADY,
    mig="on",
    slices=(Slice(segments=STEADY, slice_uuid="MIG-a", mig_index=0, gpu_instance=1),),
)
NODE = Scenario(gpus=(Gpu(segments=STEADY), SPLIT))
EACH = [["read", index] for index in (0, 1, 2)]
#: nvidia-ml-py as installed, less some names.
LESS = """
import importlib.util
import sys
_spec = importlib.util.spec_from_file_location("installed_pynvml", {path!r})
_installed = importlib.util.module_from_spec(_spec)
sys.modules["installed_pynvml"] = _installed
_spec.loader.exec_module(_installed)
globals().update({{name: value for name, value in vars(_installed).items() if name not in {less!r}}})
"""


def put(folder: Path, text: str) -> str:
    """A module pynvml that goes before the installed one: PYTHONPATH."""
    (folder / "pynvml.py").write_text(text)
    return str(folder)


def less(folder: Path, *names: str) -> str:
    return put(folder, LESS.format(path=pynvml.__file__, less=names))


@pytest.mark.parametrize(
    "text",
    ["", "class NVMLError(Exception): pass\ndef nvmlInit(): raise NVMLError\n"],
    ids=["empty", "old"],
)
def test_another_module_of_that_name_is_no_source(stage: Stage, tmp_path: Path, text: str) -> None:
    """C25: a pynvml without GPM is refused at once, with where it is and what to install."""
    answer: Any = stage.play(NODE, PYTHONPATH=put(tmp_path, text))
    assert "no_source" == answer["reason"]
    assert f"{tmp_path}/pynvml.py" in answer["error"]
    assert "install nvidia-ml-py" in answer["error"]


def test_one_without_a_single_function_of_gpm_is_no_source(stage: Stage, tmp_path: Path) -> None:
    """An nvidia-ml-py from before GPM is named by what it lacks."""
    answer = stage.play(NODE, PYTHONPATH=less(tmp_path, "nvmlGpmSampleGet"))
    assert ("no_source", True) == (answer["reason"], "has no nvmlGpmSampleGet" in answer["error"])


def test_a_module_for_python_2_is_as_good_as_none(tmp_path: Path) -> None:
    """Its syntax error is an ImportError, which every caller expects."""
    code = "try:\n import slurm_ofu.counters.nvml\nexcept ImportError as error:\n print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": put(tmp_path, "except NVMLError, err:\n")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the module pynvml is none for this Python" in done.stdout


def test_names_that_are_missing_cost_their_figure_only(stage: Stage, tmp_path: Path) -> None:
    """Older versions of nvidia-ml-py lack names: what they stand for is absent, and the rest goes on."""
    path = less(
        tmp_path,
        *("nvmlDeviceGetCurrentClocksEventReasons", "nvmlMemory_v2", "nvmlGpmMigSampleGet"),
        *("nvmlDeviceGetTotalEnergyConsumption", "NVML_CLOCK_SM", "NVML_DEVICE_ARCH_BLACKWELL"),
    )
    answers = stage.play(NODE, *EACH, ["step", 1], *EACH, ["clock", 0], PYTHONPATH=path)
    plain, whole, slice_, mhz = answers[4], answers[5], answers[6], answers[7]
    assert [None, "no_source", "no_source"] == [one["fault"] for one in (plain, whole, slice_)]
    assert (0.5, 4, 0, None) == (
        plain["tensor_active_ratio"],
        plain["throttle_mask"],
        plain["memory_used_bytes"],
        plain["energy_joules"],
    )
    assert 1830.0 == mhz
