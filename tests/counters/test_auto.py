"""Who speaks for which GPU, and why nobody better."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.counters.auto import AutoSource
from slurm_ofu.counters.exporter import ExporterSource
from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading, SourceChoice
from tests.counters.laws import broken_laws
from tests.standins import dcgmi_standin
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer
from tests.standins.nvml_standin import Fault, Gpu, Scenario
from tests.standins.nvml_standin import Segment as NvmlSegment

ROOT = Path(__file__).parents[2]
HOPPER, AMPERE, OTHER = (
    DeviceIdentity(index=index, uuid=f"GPU-00000000-0000-4000-8000-{index:012}", minor=index)
    for index in range(3)
)
NO_GPM = "nvml: no GPM on this GPU"
FIGURE, WAITING = "figure", "waiting"


@dataclass
class Stage:
    """The time, and what happened in it."""

    now_ns: int = 10**15
    log: list[str] = field(default_factory=list)

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self.now_ns += round(seconds * 1e9)


@dataclass
class Scripted:
    """A source that says what a test wants: per GPU what its readings are, the last one for ever."""

    stage: Stage
    name: str
    known: Sequence[DeviceIdentity]
    script: dict[str, list[str]]  # UUID → FIGURE, WAITING or a fault
    has_cycles: bool = False
    min_interval_seconds: float = 0.1
    since_ns: dict[str, int] = field(default_factory=dict)
    told_at: list[int] = field(default_factory=list)  # how long the log was when a choice was asked for

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Those it was given."""
        return tuple(self.known)

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """Itself."""
        self.told_at.append(len(self.stage.log))
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """The next line of the script."""
        self.stage.log.append(f"{self.name} {device.index}")
        lines = self.script[device.uuid]
        said = lines.pop(0) if len(lines) > 1 else lines[0]
        since, now = self.since_ns.get(device.uuid), self.stage.now_ns
        beside: dict[str, Any] = {"power_watts": 100.0} if self.name == "nvml" else {}
        cycles: dict[str, Any] = {"sm_cycles": 2.0, "mma_cycles": 1.0} if self.has_cycles else {}
        if said == WAITING:
            return Reading(since_ns=since, taken_ns=now, waiting=True, **beside)
        if said != FIGURE:
            return Reading(since_ns=since, taken_ns=now, fault=said, **beside)  # type: ignore[arg-type]
        self.since_ns[device.uuid] = now
        ratio = None if since is None else 0.5
        return Reading(since_ns=since, taken_ns=now, tensor_active_ratio=ratio, **cycles, **beside)

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """One that tells who was asked."""
        return {"nvml": 1.0, "dcgm": 2.0}.get(self.name)

    def close(self) -> None:
        """Noted."""
        self.stage.log.append(f"close {self.name}")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def nvml_of(stage: Stage, **script: list[str]) -> Scripted:
    """NVML with three GPUs: the first has GPM, the others do not, unless a script says otherwise."""
    usual = {"hopper": [FIGURE], "ampere": ["no_source"], "other": ["no_source"]} | script
    devices = (HOPPER, AMPERE, OTHER)
    told = {device.uuid: lines for device, lines in zip(devices, usual.values(), strict=True)}
    return Scripted(stage, "nvml", devices, told, has_cycles=True)


def source_of(stage: Stage, name: str, *said: str, known: Sequence[DeviceIdentity] | None = None) -> Scripted:
    """Another source, which says the same of each GPU."""
    devices = (AMPERE, OTHER) if known is None else known
    return Scripted(stage, name, devices, {device.uuid: list(said) for device in devices})


Given = CounterSource | SourceError


def auto(stage: Stage, nvml: Given, *, dcgm: Given, exporter: Given) -> AutoSource:
    """``auto`` over these, each opened or with the reason why it is not."""

    def opener(name: str, given: Given) -> Callable[[CounterSource | None], CounterSource]:
        def opened(_: CounterSource | None) -> CounterSource:
            stage.log.append(f"open {name}")
            if isinstance(given, SourceError):
                raise given
            return given

        return opened

    others = (("dcgm", opener("dcgm", dcgm)), ("exporter", opener("exporter", exporter)))
    return AutoSource(nvml, others, now_ns=lambda: stage.now_ns)


def rounds(source: AutoSource, stage: Stage, count: int, *devices: DeviceIdentity) -> list[list[Reading]]:
    """Every GPU read so many times, in turn."""
    found = []
    for _ in range(count):
        stage.advance(1)
        found.append([source.read(device) for device in devices or (HOPPER, AMPERE)])
    return found


NOT_THERE = SourceError("no host engine answers", reason="source_lost")
REFUSED = SourceError("http://localhost:9400/metrics: Connection refused")
LOCKED = SourceError("profiling is in other hands", reason="profiling_locked")


# ---- the choice


def test_nvml_alone_is_asked_where_it_has_everything(stage: Stage) -> None:
    """A job whose GPUs all have GPM starts neither dcgmi nor a request, and there is nothing to say of it."""
    source = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=REFUSED)
    rounds(source, stage, 3, HOPPER)
    assert [] == [entry for entry in stage.log if entry.startswith("open")]
    assert SourceChoice(source="nvml") == source.choice(HOPPER)
    assert source.has_cycles


def test_the_other_gpus_first_reading_waits_for_nobody(stage: Stage) -> None:
    """What a GPU without GPM needs is asked after every GPU has been read once, and only once."""
    source = auto(stage, nvml_of(stage), dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    first, second = rounds(source, stage, 2, AMPERE, OTHER, HOPPER)
    assert ["nvml 1", "nvml 2", "nvml 0"] == stage.log[:3]
    assert ["nvml 1", "open dcgm", "dcgm 1", "nvml 2", "dcgm 2", "nvml 0"] == stage.log[3:]
    assert [True, True, False] == [reading.waiting for reading in first]
    assert [None] * 3 == [reading.fault for reading in (*first, *second)][3:]


def test_each_gpu_of_a_mixed_node_has_its_own_source(stage: Stage) -> None:
    """One GPU by NVML, one by DCGM: each says so, and why nobody better."""
    source = auto(stage, nvml_of(stage), dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    readings = rounds(source, stage, 3)[-1]
    assert [0.5, 0.5] == [reading.tensor_active_ratio for reading in readings]
    assert SourceChoice(source="nvml") == source.choice(HOPPER)
    assert SourceChoice(source="dcgm", note=NO_GPM) == source.choice(AMPERE)
    assert [1.0, 2.0] == [source.sm_clock_mhz(device) for device in (HOPPER, AMPERE)]
    assert not source.has_cycles


def test_the_exporter_comes_last(stage: Stage) -> None:
    """Where no host engine answers the exporter speaks, and the note says so."""
    exporter = source_of(stage, "exporter", WAITING, FIGURE)
    source = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=exporter)
    rounds(source, stage, 2)
    note = f"{NO_GPM}; dcgm: no host engine answers"
    assert SourceChoice(source="exporter", note=note) == source.choice(AMPERE)


def test_a_choice_asks_nobody(stage: Stage) -> None:
    """Before the readings NVML speaks for every GPU; who asks for the choice waits for nobody, ever."""
    source = auto(stage, nvml_of(stage), dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    assert ["nvml", "nvml"] == [source.choice(device).source for device in (HOPPER, AMPERE)]
    assert [] == stage.log
    rounds(source, stage, 2)
    source.close()
    stage.log.clear()
    assert ["nvml", "dcgm"] == [source.choice(device).source for device in (HOPPER, AMPERE)]
    assert [] == stage.log


def test_dcgm_is_told_of_all_gpus_at_once(stage: Stage) -> None:
    """A source that watches what it is asked for is told of every GPU before it is read the first time."""
    dcgm = source_of(stage, "dcgm", FIGURE)
    source = auto(stage, nvml_of(stage), dcgm=dcgm, exporter=REFUSED)
    rounds(source, stage, 2, AMPERE, OTHER)
    assert [stage.log.index("dcgm 1")] * 2 == dcgm.told_at


def test_the_slowest_sets_the_pace(stage: Stage) -> None:
    """Two readings lie as far apart as the most demanding source wants."""
    dcgm = source_of(stage, "dcgm", FIGURE)
    dcgm.min_interval_seconds = 0.7
    source = auto(stage, nvml_of(stage), dcgm=dcgm, exporter=REFUSED)
    assert 0.1 == source.min_interval_seconds
    rounds(source, stage, 2)
    assert 0.7 == source.min_interval_seconds


def test_a_slice_is_found_by_gpu_and_instance(stage: Stage) -> None:
    """Another source may know a slice under another name."""
    slice_ = replace(AMPERE, uuid="MIG-by-nvml", parent_uuid=AMPERE.uuid, gpu_instance_id=7)
    others = [replace(slice_, uuid=f"slice {i}", gpu_instance_id=i) for i in (1, 7)]
    nvml = Scripted(stage, "nvml", [slice_], {slice_.uuid: ["no_source"]})
    dcgm = source_of(stage, "dcgm", FIGURE, known=others)
    source = auto(stage, nvml, dcgm=dcgm, exporter=REFUSED)
    rounds(source, stage, 2, slice_)
    assert ["slice 7"] == list(dcgm.since_ns)


# ---- what is no reason to change, and what is


def test_an_error_that_may_pass_does_not_demote(stage: Stage) -> None:
    """A GPU that NVML has lost for the moment stays NVML's."""
    nvml = nvml_of(stage, hopper=["source_lost"] * 5 + [FIGURE])
    source = auto(stage, nvml, dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    faults = [reading.fault for [reading] in rounds(source, stage, 7, HOPPER)]
    assert ["source_lost"] * 5 + [None] * 2 == faults
    assert [] == [entry for entry in stage.log if entry.startswith("open")]


def test_a_late_no_demotes(stage: Stage) -> None:
    """A GPU whose first answers failed and that then turns out to have no GPM goes to the next."""
    nvml = nvml_of(stage, ampere=["source_lost", "source_lost", "no_source"])
    source = auto(stage, nvml, dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    rounds(source, stage, 4)
    assert "dcgm" == source.choice(AMPERE).source


@pytest.mark.parametrize("end", ["source_lost", "no_source", "profiling_locked"])
def test_who_has_spoken_is_not_replaced(stage: Stage, end: str) -> None:
    """A source that gave figures and falls silent stays the GPU's, and the silence is told."""
    dcgm = source_of(stage, "dcgm", FIGURE, FIGURE, FIGURE, end)
    source = auto(stage, nvml_of(stage), dcgm=dcgm, exporter=source_of(stage, "exporter", FIGURE))
    faults = [reading.fault for [reading] in rounds(source, stage, 9, AMPERE)]
    assert [None] * 4 + [end] * 5 == faults
    assert "open exporter" not in stage.log


def test_a_lock_that_shows_late(stage: Stage) -> None:
    """DCGM that turns out to be locked out before its first figure makes way for the exporter, whose own
    engine may be who holds the lock; and is closed, so that it does not fight for it."""
    dcgm = source_of(stage, "dcgm", WAITING, WAITING, "profiling_locked")
    exporter = source_of(stage, "exporter", WAITING, FIGURE)
    source = auto(stage, nvml_of(stage), dcgm=dcgm, exporter=exporter)
    rounds(source, stage, 8, AMPERE, HOPPER)
    note = f"{NO_GPM}; dcgm: somebody else holds the profiling hardware"
    assert SourceChoice(source="exporter", note=note) == source.choice(AMPERE)
    assert "close dcgm" in stage.log
    assert "close nvml" not in stage.log


def test_a_lock_without_an_exporter(stage: Stage) -> None:
    """Locked out, and nobody else there: DCGM goes on trying, and its reason is told."""
    dcgm = source_of(stage, "dcgm", "profiling_locked", "profiling_locked", FIGURE)
    source = auto(stage, nvml_of(stage), dcgm=dcgm, exporter=REFUSED)
    faults = [reading.fault for [reading] in rounds(source, stage, 5, AMPERE)]
    assert [None, "profiling_locked", "profiling_locked", None, None] == faults
    assert "dcgm" == source.choice(AMPERE).source
    assert 1 == stage.log.count("open exporter")


def test_the_most_telling_reason_survives(stage: Stage) -> None:
    """Where nobody speaks because somebody holds the hardware, that is the reason, not that nobody does."""
    locked = auto(stage, nvml_of(stage), dcgm=LOCKED, exporter=REFUSED)
    nobody = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=REFUSED)
    assert ["profiling_locked", "no_source"] == [
        rounds(source, stage, 2, AMPERE)[-1][0].fault for source in (locked, nobody)
    ]
    note = f"{NO_GPM}; dcgm: profiling is in other hands; exporter: {REFUSED}"
    assert SourceChoice(source="none", note=note) == locked.choice(AMPERE)


def test_a_gpu_without_a_source_has_its_other_figures(stage: Stage) -> None:
    """What NVML says of power and memory is kept where nobody has the tensor activity."""
    source = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=REFUSED)
    assert [100.0] * 3 == [reading.power_watts for [reading] in rounds(source, stage, 3, AMPERE)]
    assert source.sm_clock_mhz(AMPERE) is None


def test_a_failure_holds_for_every_gpu(stage: Stage) -> None:
    """Who could not be opened for one GPU is not tried again for the next: an engine that hangs takes its
    time once."""
    source = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=REFUSED)
    rounds(source, stage, 20, AMPERE, OTHER)
    assert (1, 1) == (stage.log.count("open dcgm"), stage.log.count("open exporter"))
    notes = {source.choice(device).note for device in (AMPERE, OTHER)}
    assert {f"{NO_GPM}; dcgm: {NOT_THERE}; exporter: {REFUSED}"} == notes


def test_who_comes_later_is_found(stage: Stage) -> None:
    """Where nobody speaks, all are asked again after one, two, four minutes; a source that has come by then
    speaks from there on."""
    exporter = source_of(stage, "exporter", "no_source", "no_source", WAITING, FIGURE)
    source = auto(stage, nvml_of(stage), dcgm=NOT_THERE, exporter=exporter)
    readings = [reading for [reading] in rounds(source, stage, 200, AMPERE)]
    assert [2, 62, 182] == [place + 1 for place, entry in enumerate(asked(stage)) if entry]
    assert [None, "no_source", None] == [readings[place].fault for place in (0, 150, 190)]
    assert "exporter" == source.choice(AMPERE).source


def asked(stage: Stage) -> list[bool]:
    """For each reading by NVML of the GPU, whether DCGM was opened after it."""
    found: list[bool] = []
    for entry in stage.log:
        if entry == "nvml 1":
            found.append(False)
        elif entry == "open dcgm":
            found[-1] = True
    return found


# ---- without NVML


def test_without_nvml_the_next_knows_the_gpus(stage: Stage) -> None:
    """Where NVML cannot be used the GPUs are those of the first other source that has any."""
    why = SourceError("NVML cannot be used: no such library")
    dcgm = source_of(stage, "dcgm", FIGURE)
    source = auto(stage, why, dcgm=dcgm, exporter=REFUSED)
    assert (AMPERE, OTHER) == source.devices()
    rounds(source, stage, 2, AMPERE)
    assert SourceChoice(source="dcgm", note=str(why)) == source.choice(AMPERE)
    exporter = source_of(stage, "exporter", FIGURE, known=[OTHER])
    assert (OTHER,) == auto(stage, why, dcgm=NOT_THERE, exporter=exporter).devices()


def test_nobody_at_all(stage: Stage) -> None:
    """With nobody there opening fails, and the error says what each of them said."""
    why = SourceError("NVML cannot be used")
    with pytest.raises(SourceError) as raised:
        auto(stage, why, dcgm=LOCKED, exporter=REFUSED)
    assert f"{why}; dcgm: {LOCKED}; exporter: {REFUSED}" == str(raised.value)
    assert "profiling_locked" == raised.value.reason


def test_closing_closes_everybody_once(stage: Stage) -> None:
    """All that was opened is closed, and NVML by its owner alone."""
    source = auto(stage, nvml_of(stage), dcgm=source_of(stage, "dcgm", FIGURE), exporter=REFUSED)
    rounds(source, stage, 2)
    source.close()
    assert ["close nvml", "close dcgm"] == [entry for entry in stage.log if entry.startswith("close")]


def test_a_source_cannot_close_nvml(stage: Stage) -> None:
    """The NVML that others are given to use stays open when they are closed."""
    lent: list[CounterSource | None] = []
    nvml = nvml_of(stage)
    dcgm = source_of(stage, "dcgm", FIGURE)

    def opened(given: CounterSource | None) -> CounterSource:
        lent.append(given)
        return dcgm

    source = AutoSource(nvml, (("dcgm", opened),), now_ns=lambda: stage.now_ns)
    rounds(source, stage, 2)
    assert lent[0] is not None
    assert (nvml.devices(), "nvml") == (lent[0].devices(), lent[0].name)
    lent[0].close()
    assert "close nvml" not in stage.log


# ---- laws, with a real exporter and a real library

BUSY = Pattern(
    [
        Segment(seconds=0.7, tensor_active_ratio=0.6, sm_clock_mhz=1410, power_watts=310.25),
        Segment(seconds=0.4, tensor_active_ratio=0.1, sm_clock_mhz=1200, power_watts=250),
    ]
)


@pytest.mark.contract
@pytest.mark.parametrize("fault", [None, "status 500", "stale", "cut"])
def test_laws(stage: Stage, fault: str | None) -> None:
    """``auto`` obeys the laws: a GPU by NVML, one by a real exporter that fails now and then, one by none."""
    node = ExporterNode(gpus=(ExporterGpu(uuid=AMPERE.uuid, pattern=BUSY),), interval_seconds=0.8)
    nvml = nvml_of(stage, hopper=[FIGURE, FIGURE, "source_lost", FIGURE, "source_lost", FIGURE])
    with ExporterServer(node, now_s=lambda: stage.now_ns / 1e9) as server:
        exporter = ExporterSource(server.url, nvml.devices(), now_ns=lambda: stage.now_ns)
        source = auto(stage, nvml, dcgm=NOT_THERE, exporter=exporter)
        count = 0

        def advance(seconds: float) -> None:
            nonlocal count
            count += 1
            server.fault = fault if count % 30 > 20 else None
            stage.advance(seconds)

        assert [] == broken_laws(source, advance, rounds=120)
        assert ["nvml", "exporter", "none"] == [source.choice(device).source for device in source.devices()]


def test_the_exporters_other_figures_are_nvmls(stage: Stage) -> None:
    """Where NVML answers, power and memory are those of now, also while the exporter has nothing new; NVML is
    closed with the source that holds it."""
    node = ExporterNode(gpus=(ExporterGpu(uuid=AMPERE.uuid, pattern=BUSY),))
    nvml = nvml_of(stage)
    with ExporterServer(node, now_s=lambda: stage.now_ns / 1e9) as server:
        source = ExporterSource(server.url, nvml.devices(), nvml, now_ns=lambda: stage.now_ns)
        readings = []
        for _ in range(8):
            stage.advance(10)
            readings.append(source.read(AMPERE))
    assert {100.0} == {reading.power_watts for reading in readings}
    assert {True, False} == {reading.waiting for reading in readings}
    assert any(reading.tensor_active_ratio is not None for reading in readings)
    source.close()
    assert "close nvml" == stage.log[-1]


def gpm(**more: Any) -> Gpu:
    """A GPU of the stand-in library."""
    return Gpu(segments=(NvmlSegment(seconds=0.1, tensor_ratio=0.5, sm_clock_mhz=1700),), **more)


def opened(
    tmp_path: Path,
    library: Path,
    scenario: Scenario,
    *,
    url: str = "http://127.0.0.1:1/metrics",
    dcgmi: str = "/absent/dcgmi",
) -> dict[str, Any]:
    """What ``auto`` of the catalogue makes of a node, in a process of its own."""
    variables = {**os.environ, "OFU_NVML_SCENARIO": str(scenario.write(tmp_path / "scenario"))}
    settings = {"nvml_library": str(library), "exporter_url": url, "dcgmi": dcgmi}
    done = subprocess.run(
        [sys.executable, "-m", "tests.counters.auto_player", json.dumps(settings), "12"],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.contract
def test_a_mixed_node_as_the_sampler_opens_it(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """On a node with and without GPM, over the driver's library and a real exporter, each GPU has its source
    and all obey the laws."""
    scenario = Scenario(gpus=(gpm(), gpm(gpm=False), gpm(gpm=False)))
    node = ExporterNode(
        gpus=(ExporterGpu(uuid=scenario.uuid(1), pattern=BUSY, index=1),), interval_seconds=0.8
    )
    with ExporterServer(node) as server:
        found = opened(tmp_path, library_of("full"), scenario, url=server.url)
    assert [] == found["broken"]
    assert ["nvml", "exporter", "none"] == [choice["source"] for choice in found["choices"]]
    nvml, exporter, none = (choice["note"] for choice in found["choices"])
    assert nvml is None
    assert exporter.startswith(f"{NO_GPM}; dcgm: ")
    assert "/absent/dcgmi" in exporter
    assert none.endswith("exporter: no tensor activity of this GPU")
    assert not found["has_cycles"]


def dcgm_of(folder: Path, scenario: Scenario, **more: Any) -> dcgmi_standin.Installed:
    """A dcgmi that knows every GPU of a node."""
    cards = tuple(
        dcgmi_standin.Card(number=9 - index, uuid=scenario.uuid(index), segments=gpu.segments)
        for index, gpu in enumerate(scenario.gpus)
    )
    return dcgmi_standin.install(folder, dcgmi_standin.Scenario(cards=cards, **more))


@pytest.mark.contract
def test_dcgm_for_those_without_gpm(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """With a host engine the GPUs without GPM are DCGM's, watched by one dmon from the start; the exporter is
    not asked."""
    scenario = Scenario(gpus=(gpm(), gpm(gpm=False), gpm(gpm=False)))
    dcgm = dcgm_of(tmp_path, scenario)
    found = opened(tmp_path, library_of("full"), scenario, dcgmi=str(dcgm.program))
    assert ["nvml", "dcgm", "dcgm"] == [choice["source"] for choice in found["choices"]]
    assert [None, NO_GPM, NO_GPM] == [choice["note"] for choice in found["choices"]]
    assert (False, []) == (found["parser"], found["broken"])
    [dmon] = [call["arguments"] for call in dcgm.calls() if call["arguments"][0] == "dmon"]
    assert "7,8" == dmon[dmon.index("-i") + 1]


@pytest.mark.contract
def test_the_exporters_engine_holds_the_lock(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """Where DCGM is locked out, the exporter that shuts it out gives the figures."""
    scenario = Scenario(gpus=(gpm(), gpm(gpm=False)))
    dcgm = dcgm_of(tmp_path, scenario, locked=True)
    node = ExporterNode(gpus=(ExporterGpu(uuid=scenario.uuid(1), pattern=BUSY),), interval_seconds=0.8)
    with ExporterServer(node) as server:
        found = opened(tmp_path, library_of("full"), scenario, url=server.url, dcgmi=str(dcgm.program))
    assert ["nvml", "exporter"] == [choice["source"] for choice in found["choices"]]
    note = f"{NO_GPM}; dcgm: somebody else holds the profiling hardware"
    assert (note, []) == (found["choices"][1]["note"], found["broken"])


def test_gpm_everywhere_needs_nobody_else(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """With GPM on every GPU the exporter's parser is not even loaded."""
    found = opened(tmp_path, library_of("full"), Scenario(gpus=(gpm(), gpm())))
    assert (False, True, []) == (found["parser"], found["has_cycles"], found["broken"])


def test_a_gpu_whose_samples_are_not_supported(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """ "Not supported" from the sample itself is as good as from the question whether there is GPM."""
    scenario = Scenario(gpus=(gpm(), gpm()), faults=(Fault(function="nvmlGpmSampleGet", error=3, device=1),))
    found = opened(tmp_path, library_of("full"), scenario)
    assert ["nvml", "none"] == [choice["source"] for choice in found["choices"]]


def test_a_lost_gpu_stays_nvmls(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """A GPU about which every call fails is lost, which no other source mends."""
    scenario = Scenario(gpus=(gpm(), gpm()), faults=(Fault(function="nvmlGpm*", error=15, device=1),))
    found = opened(tmp_path, library_of("full"), scenario)
    assert ["nvml", "nvml"] == [choice["source"] for choice in found["choices"]]


def test_a_driver_without_gpm(tmp_path: Path, library_of: Callable[[str], Path]) -> None:
    """An old driver's library, without GPM, still tells the GPUs; others give their figures."""
    scenario = Scenario(gpus=(gpm(),))
    node = ExporterNode(gpus=(ExporterGpu(uuid=scenario.uuid(0), pattern=BUSY),), interval_seconds=0.8)
    with ExporterServer(node) as server:
        found = opened(tmp_path, library_of("no_gpm"), scenario, url=server.url)
    assert (["exporter"], []) == ([choice["source"] for choice in found["choices"]], found["broken"])
