"""A stand-in dcgmi in a test's folder, sources over it in real time, and what tests ask of both."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.counters.dcgm import DcgmSource, open_dcgm
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading, SamplerConfig, SourceChoice
from tests.standins.dcgmi_standin import Card, Installed, Scenario
from tests.standins.nvml_standin import Segment

DELAY_S = 0.1
PATIENT_S = 30.0
ROOT = Path(__file__).parents[2]
STEADY = (Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1410, sm_active_ratio=0.75, power_watts=300),)
IDLE = (Segment(seconds=1, sm_clock_mhz=210, power_watts=55),)
TWO = Scenario(
    cards=(Card(number=4, uuid="GPU-a", segments=STEADY), Card(number=1, uuid="GPU-b", segments=IDLE))
)
Opener = Callable[..., DcgmSource]


class FakeNvml:
    """NVML on GPUs without GPM: identities, clocks and figures beside."""

    name = "nvml"
    has_cycles = False
    min_interval_seconds = 0.1

    def __init__(self, *devices: DeviceIdentity, clock_mhz: float | None = 1410.0) -> None:
        self._devices = devices
        self._clock_mhz = clock_mhz
        self.closed = 0

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """As given."""
        return self._devices

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """Nobody asks."""
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """No tensor activity here."""
        return Reading(since_ns=None, taken_ns=1, fault="no_source", energy_joules=7.0, throttle_mask=4)

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """As given."""
        return self._clock_mhz

    def close(self) -> None:
        """Count."""
        self.closed += 1


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens sources over the stand-in in the test's folder, and closes them after the test."""
    sources: list[DcgmSource] = []

    def opener(nvml: CounterSource | None = None) -> DcgmSource:
        settings = SamplerConfig(
            source="dcgm", dcgmi=str(tmp_path / "dcgmi"), nvml_library=str(tmp_path / "no-nvml.so")
        )
        sources.append(open_dcgm(settings, nvml, delay_seconds=DELAY_S))
        return sources[-1]

    yield opener
    for source in sources:
        source.close()


def by_uuid(source: DcgmSource, uuid: str) -> DeviceIdentity:
    """The GPU of that name."""
    return next(device for device in source.devices() if device.uuid == uuid)


def until(source: DcgmSource, uuid: str, holds: Callable[[Reading], bool]) -> Reading:
    """Read on until it holds."""
    deadline = time.monotonic() + PATIENT_S
    while time.monotonic() < deadline:
        reading = source.read(by_uuid(source, uuid))
        if holds(reading):
            return reading
        time.sleep(0.05)
    raise AssertionError(f"never came; last: {reading}; {source.watch}")


def measured(reading: Reading) -> bool:
    """Whether it has a figure."""
    return reading.tensor_active_ratio is not None


def dmons(installed: Installed) -> list[dict[str, Any]]:
    """The calls of dmon."""
    return [call for call in installed.calls() if call["arguments"][0] == "dmon"]


def option(call: dict[str, Any], name: str) -> str:
    """One of its arguments."""
    arguments = call["arguments"]
    return str(arguments[arguments.index(name) + 1])


def lives(pid: int) -> bool:
    """Whether a process is there, and not only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
