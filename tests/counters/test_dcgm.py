"""DcgmSource over a stand-in dcgmi, in real time: what it reads, and the laws."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.counters.dcgm import open_dcgm
from slurm_ofu.values import DeviceIdentity, SamplerConfig, SourceChoice
from tests.counters.dcgm_stage import (
    IDLE,
    STEADY,
    TWO,
    FakeNvml,
    Opener,
    dmons,
    measured,
    opened,
    option,
    until,
)
from tests.counters.laws import broken_laws
from tests.integrals.examples import near
from tests.standins.dcgmi_standin import Card, Instance, Scenario, install
from tests.standins.nvml_standin import Segment

__all__ = ["opened"]


@pytest.mark.parametrize("version", [2, 3])
def test_figures_are_the_hardwares(tmp_path: Path, opened: Opener, version: int) -> None:
    """Each GPU has its own rows' figures, whatever DCGM numbers it; without NVML the clock is theirs."""
    install(tmp_path, replace(TWO, version=version, descending=version == 3))
    source = opened()
    busy, idle = until(source, "GPU-a", measured), until(source, "GPU-b", measured)
    assert (0.5, 0.75, near(1410), 300.0) == (
        busy.tensor_active_ratio,
        busy.sm_active_ratio,
        busy.published_clock_mhz,
        busy.power_watts,
    )
    assert (0.0, 0.0, near(210)) == (idle.tensor_active_ratio, idle.sm_active_ratio, idle.published_clock_mhz)
    assert [("GPU-b", None), ("GPU-a", None)] == [(one.uuid, one.minor) for one in source.devices()]


def test_a_changing_course_adds_up(tmp_path: Path, opened: Opener) -> None:
    """Many readings' activity, cycle for cycle, is the truth's: 0.8 of half a second at 1400 MHz and nothing
    of half a second at 350 MHz are 0.64 of all cycles."""
    course = (
        Segment(seconds=0.5, tensor_ratio=0.8, sm_clock_mhz=1400),
        Segment(seconds=0.5, sm_clock_mhz=350),
    )
    install(tmp_path, Scenario(cards=(Card(number=0, uuid="GPU-a", segments=course),)))
    source = opened()
    tensor = cycles = 0.0
    first = until(source, "GPU-a", measured)
    assert first.since_ns is not None
    start_ns, reading = first.since_ns, first
    while reading.taken_ns < start_ns + 5 * 10**9:
        assert reading.since_ns is not None
        assert reading.tensor_active_ratio is not None
        assert reading.published_clock_mhz is not None
        megacycles = reading.published_clock_mhz * (reading.taken_ns - reading.since_ns)
        tensor += reading.tensor_active_ratio * megacycles
        cycles += megacycles
        time.sleep(0.4)
        reading = until(source, "GPU-a", measured)
    assert near(0.64, within=0.05) == tensor / cycles


def test_nvml_has_the_clock_and_what_stands_beside(tmp_path: Path, opened: Opener) -> None:
    """With NVML the GPUs are its own, their clock is sampled, and dmon fills in only what NVML lacks."""
    install(tmp_path, TWO)
    nvml = FakeNvml(
        DeviceIdentity(index=0, uuid="GPU-b", minor=3), DeviceIdentity(index=1, uuid="GPU-unknown")
    )
    source = opened(nvml)
    reading = until(source, "GPU-b", measured)
    assert (None, 7.0, 4, 55.0) == (
        reading.published_clock_mhz,
        reading.energy_joules,
        reading.throttle_mask,
        reading.power_watts,
    )
    assert nvml.devices() == source.devices()
    assert 1410.0 == source.sm_clock_mhz(nvml.devices()[0])
    unknown = nvml.devices()[1]
    assert "no_source" == source.read(unknown).fault
    assert SourceChoice(source="dcgm", note="DCGM does not list GPU-unknown") == source.choice(unknown)
    source.close()
    assert nvml.closed >= 1


def test_where_nvml_has_no_clock_dmons_is_published(tmp_path: Path, opened: Opener) -> None:
    """A GPU whose clock NVML does not tell is not sampled."""
    install(tmp_path, TWO)
    source = opened(FakeNvml(DeviceIdentity(index=0, uuid="GPU-a"), clock_mhz=None))
    assert near(1410) == until(source, "GPU-a", measured).published_clock_mhz


def test_a_slice_has_its_own_figures(tmp_path: Path, opened: Opener) -> None:
    """A MIG slice is found by its GPU's UUID and NVML's instance id, and reads its own SMs; one that DCGM
    does not know has none, not those of its GPU."""
    instances = (
        Instance(gi=2, entity=0, segments=IDLE),
        Instance(gi=1, entity=130, segments=(Segment(seconds=1, tensor_ratio=0.9, sm_clock_mhz=1200),)),
    )
    install(
        tmp_path,
        Scenario(cards=(Card(number=3, uuid="GPU-a", segments=STEADY, instances=instances),)),
    )
    slices = [
        DeviceIdentity(index=index, uuid=f"MIG-{gi}", parent_uuid="GPU-a", gpu_instance_id=gi)
        for index, gi in enumerate((1, 2, 5))
    ]
    source = opened(FakeNvml(*slices))
    assert 0.9 == until(source, "MIG-1", measured).tensor_active_ratio
    assert 0.0 == until(source, "MIG-2", measured).tensor_active_ratio
    assert "no_source" == source.read(slices[2]).fault


def test_one_child_asks_by_number_with_a_clean_environment(tmp_path: Path, opened: Opener) -> None:
    """One dmon watches what is read and nothing else, by numeric ids; nothing of ours is handed to it."""
    installed = install(tmp_path, TWO)
    source = opened()
    for device in source.devices():
        source.read(device)
    until(source, "GPU-a", measured)
    assert 1 == source.watch.start_count
    [call] = dmons(installed)
    assert ("1004,100,1002,1005,203,155", "1,4", "100") == tuple(
        option(call, name) for name in ("-e", "-i", "-d")
    )
    assert {"LC_ALL", "PATH", "__DCGM_DBG_FILE"} == set(call["environment"]) - {
        "PWD",
        "SHLVL",
        "_",
        "LC_CTYPE",
    }


def test_a_gpu_that_nobody_reads_is_not_watched(tmp_path: Path, opened: Opener) -> None:
    """A watch may keep others from profiling: it is set on the job's GPUs alone."""
    installed = install(tmp_path, TWO)
    until(opened(), "GPU-b", measured)
    assert ["1"] == [option(call, "-i") for call in dmons(installed)]


def test_a_remote_engine_comes_after_the_subsystem(tmp_path: Path) -> None:
    """dcgmi wants its subsystem first, then the host."""
    installed = install(tmp_path, TWO)
    open_dcgm(
        SamplerConfig(dcgmi=str(installed.program), dcgm_host="gpu7:5555", nvml_library="/none")
    ).close()
    assert [["discovery", "--host", "gpu7:5555", "-l"]] == [call["arguments"] for call in installed.calls()]


LAWS: dict[str, Scenario] = {
    "steady": TWO,
    "DCGM 2": replace(TWO, version=2),
    "every other blank": replace(TWO, every_other_blank=True),
    "paused": replace(TWO, paused=True),
    "locked": replace(TWO, locked=True),
    "stalled": replace(TWO, stalled=True),
    "dies": replace(TWO, engine="dies"),
    "beyond": replace(TWO, values={"1004": "1.5", "1002": "2.5"}),
    "blank codes": replace(TWO, values={"1005": "140737488355328.0", "203": "9223372036854775794"}),
}


@pytest.mark.contract
@pytest.mark.parametrize(
    ("name", "has_nvml"), [*((name, False) for name in LAWS), ("steady", True), ("locked", True)]
)
def test_laws(tmp_path: Path, opened: Opener, name: str, has_nvml: bool) -> None:
    """The DCGM source obeys the laws, whatever dcgmi prints."""
    install(tmp_path, LAWS[name])
    devices = [DeviceIdentity(index=index, uuid=f"GPU-{name}") for index, name in enumerate("ab")]
    nvml = FakeNvml(*devices) if has_nvml else None
    assert [] == broken_laws(opened(nvml), time.sleep, rounds=8, has_gaps=True)
