"""A process that plays a script on an NvmlSource over the stand-in library, and prints what it saw.

It is its own process because a library, once loaded, stays: ``python -m tests.counters.player LIBRARY
CONTROL SCRIPT``. Time stands still unless the script moves it.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import SamplerConfig
from tests.counters.laws import broken_laws
from tests.standins.nvml_standin import Control, Fault

START_S = 1000.0


def open_files() -> list[str]:
    """What this process has open."""
    found = []
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the directory's own
            found.append(str(entry.readlink()))
    return found


def play(source: CounterSource, control: Control, script: list[list[Any]]) -> list[Any]:
    """The answer to each step."""

    def gpu(index: int) -> Any:
        return next(device for device in source.devices() if device.index == index)

    steps: dict[str, Callable[..., Any]] = {
        "step": control.step,
        "read": lambda index: asdict(source.read(gpu(index))),
        "clock": lambda index: source.sm_clock_mhz(gpu(index)),
        "faults": lambda *faults: control.inject(*(Fault(**fault) for fault in faults)),
        "devices": lambda: [asdict(device) for device in source.devices()],
        "has_cycles": lambda: source.has_cycles,
        "open_files": open_files,
        "close": source.close,
        "laws": lambda: broken_laws(source, control.step),
        "environment": os.environ.get,
    }
    return [steps[name](*arguments) for name, *arguments in script]


def main(library: str, control_path: str, script: str) -> None:
    """Print the answers, or what kept the source from opening."""
    control = Control(Path(control_path))
    control.freeze(START_S)
    try:
        source = open_source(SamplerConfig(source="nvml", nvml_library=library), job_id=1)
    except SourceError as error:
        print(json.dumps({"error": str(error), "reason": error.reason}))
        return
    try:
        print(json.dumps(play(source, control, json.loads(script))))
    finally:
        source.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
