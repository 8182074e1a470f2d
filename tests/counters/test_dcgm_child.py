"""Nothing of a dmon is left behind, and it ends as it should."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.counters.dcgm_child import DmonChild
from tests.counters.dcgm_stage import (
    PATIENT_S,
    ROOT,
    TWO,
    Opener,
    dmons,
    lives,
    measured,
    opened,
    until,
)
from tests.standins.dcgmi_standin import install

__all__ = ["opened"]


def open_files() -> set[str]:
    """The numbers of this process's open files."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_closing_ends_dmon(tmp_path: Path, opened: Opener) -> None:
    """After close there is no child, no zombie and no open pipe; closing twice is fine."""
    installed = install(tmp_path, TWO)
    before = open_files()
    source = opened()
    until(source, "GPU-a", measured)
    pid = dmons(installed)[-1]["pid"]
    assert lives(pid)
    source.close()
    source.close()
    assert not Path(f"/proc/{pid}").exists()
    assert before == open_files()


HOLDER = """
import sys, time
from slurm_ofu.counters.dcgm import open_dcgm
from slurm_ofu.values import SamplerConfig
source = open_dcgm(SamplerConfig(dcgmi=sys.argv[1], nvml_library="/none"))
while True:
    source.read(source.devices()[0])
    time.sleep(0.1)
"""


@pytest.mark.parametrize("stalled", [False, True])
def test_dmon_dies_with_its_sampler(tmp_path: Path, stalled: bool) -> None:
    """Also when the sampler is killed on the spot, and dmon has nothing to print that would tell it."""
    installed = install(tmp_path, replace(TWO, stalled=stalled))
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(installed.program)], cwd=ROOT) as holder:
        try:
            deadline = time.monotonic() + PATIENT_S
            while not dmons(installed):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            pid = dmons(installed)[-1]["pid"]
            assert lives(pid)
        finally:
            holder.kill()
    deadline = time.monotonic() + PATIENT_S
    while lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_child_has_no_signals_blocked(tmp_path: Path) -> None:
    """The sampler blocks what ends it; its child would inherit that, and not end at a TERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))
    try:
        child = DmonChild(["/bin/sleep", "600"])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGUSR1))
    os.kill(child.pid, signal.SIGTERM)
    assert -signal.SIGTERM == child.wait(PATIENT_S)
    child.close()
