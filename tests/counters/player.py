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
from random import Random
from typing import Any

from slurm_ofu.errors import SourceError
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.protocols import CounterSource
from slurm_ofu.samples.sampler import Sampler
from tests.counters.laws import broken_laws
from tests.integrals.examples import totals
from tests.standins.nvml_standin import Control, Fault

START_S = 1000.0


def open_files() -> list[str]:
    """What this process has open."""
    found = []
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the directory's own
            found.append(str(entry.readlink()))
    return found


def memory_kib() -> int:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def churn(source: CounterSource, control: Control, rounds: int, seconds: float) -> dict[str, int]:
    """Read every GPU round after round: how much memory all but the first tenth cost, and the faults seen."""
    before, faults = memory_kib(), 0
    for number in range(rounds):
        control.step(seconds)
        faults += sum(source.read(device).fault is not None for device in source.devices())
        if number == rounds // 10:
            before = memory_kib()
    return {"grown_kib": memory_kib() - before, "faults": faults}


class ControlledClock:
    """A Clock whose time is the stand-in's, and goes where it is waited for; it says stop at an instant."""

    def __init__(self, control: Control, stop_at_s: float) -> None:
        self._control, self._stop_at_s = control, stop_at_s

    def boottime_ns(self) -> int:
        """The time now."""
        return round(self._control.at_s * 1e9)

    def wall_ns(self) -> int:
        """The same."""
        return self.boottime_ns()

    def wait_until(self, deadline_ns: int) -> bool:
        """Be there, or at the stop; after that, short waits end in time."""
        stopped = deadline_ns / 1e9 > self._stop_at_s
        if not stopped or self._control.at_s >= self._stop_at_s:
            self._control.freeze(max(self._control.at_s, deadline_ns / 1e9))
        else:
            self._control.freeze(self._stop_at_s)
        return stopped


def sample(source: CounterSource, control: Control, indices: list[int], seconds: float) -> list[Any]:
    """The totals of a job of so many seconds on GPUs, by the sampler's own loop."""
    clock = ControlledClock(control, control.at_s + seconds)
    folds = {
        device.index: (device, GpuFold.start(clock.boottime_ns(), 10.0))
        for device in source.devices()
        if device.index in indices
    }
    sampler = Sampler(
        source=source,
        clock=clock,
        folds=folds,
        settle=lambda: None,
        save=lambda: None,
        interval_seconds=lambda has_cycles: 10.0,
        clock_readings=10,
        checkpoint_seconds=1e9,
        random=Random(1),
    )
    sampler.run()
    return [asdict(totals(fold)) for _, fold in folds.values()]


def play(source: CounterSource, control: Control, script: list[list[Any]]) -> list[Any]:
    """The answer to each step."""

    def gpu(index: int) -> Any:
        return next(device for device in source.devices() if device.index == index)

    steps: dict[str, Callable[..., Any]] = {
        "step": control.step,
        "read": lambda index: asdict(source.read(gpu(index))),
        "clock": lambda index: source.sm_clock_mhz(gpu(index)),
        "faults": lambda *faults: control.inject(*(Fault(**fault) for fault in faults)),
        "notes": lambda: [source.choice(device).note for device in source.devices()],
        "sample": lambda indices, seconds: sample(source, control, indices, seconds),
        "churn": lambda rounds, seconds: churn(source, control, rounds, seconds),
        "devices": lambda: [asdict(device) for device in source.devices()],
        "has_cycles": lambda: source.has_cycles,
        "open_files": open_files,
        "close": source.close,
        "laws": lambda rounds=6, seconds=None: broken_laws(
            source, lambda step: control.step(seconds or step), rounds=rounds
        ),
        "environment": os.environ.get,
    }
    return [steps[name](*arguments) for name, *arguments in script]


def main(library: str, control_path: str, script: str) -> None:
    """Print the answers, or what kept the source from opening."""
    control = Control(Path(control_path))
    control.freeze(START_S)
    try:
        from slurm_ofu.counters.nvml import NvmlSource

        source = NvmlSource(library, now_ns=lambda: round(control.at_s * 1e9))
    except SourceError as error:
        print(json.dumps({"error": str(error), "reason": error.reason}))
        return
    try:
        print(json.dumps(play(source, control, json.loads(script))))
    finally:
        source.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
