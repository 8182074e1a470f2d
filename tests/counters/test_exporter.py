"""The dcgm-exporter source, over real HTTP: collections that somebody else paces, without times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.counters.exporter import ExporterSource, open_exporter
from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.errors import SourceError
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.values import DeviceIdentity, GpuModel, GpuTotals, Reading, Sample, SamplerConfig
from tests.counters.laws import broken_laws
from tests.standins.exporter.page import DIALECTS, ExporterGpu, ExporterNode
from tests.standins.exporter.server import FAULTS, ExporterServer

ROOT = Path(__file__).parents[2]
START_S = 1_000_020.0  # a collection ends here
A, B, C = (f"GPU-00000000-0000-4000-8000-00000000000{n}" for n in "abc")
TICK = 10.0
ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


def busy(ratio: float = 0.5) -> Pattern:
    """A GPU at a constant clock whose activity is in step with nothing."""
    half = Segment(
        seconds=7.3,
        tensor_active_ratio=ratio,
        sm_clock_mhz=1410,
        sm_active_ratio=0.9,
        power_watts=350,
        memory_used_bytes=2**34,
    )
    return Pattern([half, replace(half, seconds=4.1, tensor_active_ratio=0.0)])


IDLE = Pattern(
    [
        Segment(
            seconds=1,
            tensor_active_ratio=0,
            sm_clock_mhz=345,
            sm_active_ratio=0,
            utilisation_ratio=0,
            power_watts=55.125,
        )
    ]
)


@dataclass
class Stage:
    """An exporter, a source that reads it, and the time of both."""

    server: ExporterServer
    seconds: float = START_S
    source: ExporterSource = field(init=False)

    def __post_init__(self) -> None:
        self.server.now_s = lambda: self.seconds
        uuids = dict.fromkeys(gpu.uuid for gpu in self.server.node.gpus)
        self.use(*(DeviceIdentity(index=index, uuid=uuid) for index, uuid in enumerate(uuids)))

    def use(self, *devices: DeviceIdentity) -> None:
        """A new source for these devices."""
        self.source = ExporterSource(self.server.url, devices, now_ns=lambda: round(self.seconds * 1e9))

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self.seconds += seconds

    def tick(self, seconds: float = TICK, place: int = 0) -> Reading:
        """The reading of one GPU after some time."""
        self.advance(seconds)
        return self.source.read(self.source.devices()[place])

    def ticks(self, count: int, seconds: float = TICK) -> list[Reading]:
        """Several of them."""
        return [self.tick(seconds) for _ in range(count)]


StageOf = Callable[[ExporterNode], Stage]


@pytest.fixture
def stage_of() -> Iterator[StageOf]:
    """Exporters that end with the test."""
    servers: list[ExporterServer] = []

    def stage(node: ExporterNode) -> Stage:
        server = ExporterServer(node)
        server.__enter__()
        servers.append(server)
        return Stage(server)

    yield stage
    for server in servers:
        server.__exit__(None, None, None)


def node(*patterns: Pattern, **more: object) -> ExporterNode:
    """A node of whole GPUs."""
    gpus = tuple(
        ExporterGpu(uuid=uuid, pattern=pattern, index=index)
        for index, (uuid, pattern) in enumerate(zip((A, B, C), patterns, strict=False))
    )
    return ExporterNode(gpus=gpus, **more)  # type: ignore[arg-type]


def kinds(readings: list[Reading]) -> str:
    """One letter for each reading: waiting, beginning, figure; or its fault."""
    letters = []
    for reading in readings:
        kind = "w" if reading.waiting else "f" if reading.tensor_active_ratio is not None else "b"
        letters.append(kind if reading.fault is None else f"<{reading.fault}>")
    return "".join(letters)


# ---- collections


def test_figures_hold_from_collection_to_collection(stage_of: StageOf) -> None:
    """Between two collections a reading waits; the first collection in sight only opens the time-line."""
    stage = stage_of(node(busy()))
    readings = stage.ticks(12)
    assert "wwbwwfwwfwwf" == kinds(readings)
    figures = [reading for reading in readings if reading.tensor_active_ratio is not None]
    assert [30.0] * 3 == [(its.taken_ns - (its.since_ns or 0)) / 1e9 for its in figures]
    assert [1410.0] * 4 == [its.published_clock_mhz for its in (readings[2], *figures)]
    assert stage.source.sm_clock_mhz(stage.source.devices()[0]) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_truth_comes_out(stage_of: StageOf, dialect: str) -> None:
    """Summed over a run, the figures are those of the GPU over the collections covered, in any version."""
    pattern = busy(0.8)
    stage = stage_of(node(pattern, dialect=dialect))
    fold = GpuFold.start(round(START_S * 1e9), 10)
    for reading in stage.ticks(63):
        fold.add(Sample(reading=reading, clocks_mhz=(), clock_before_mhz=None), 0)
    fold.clock_after(None)
    end = stage.server.node.collected_at(stage.seconds)
    covered = fold.sampled.covered_seconds
    assert 600 == covered
    found = fold.sampled.tensor_megacycles / 1410 / covered
    assert pytest.approx(pattern.ofu_ratio(end - covered, end, 1410), abs=1e-6) == found


def test_one_request_serves_all_gpus_of_a_tick(stage_of: StageOf) -> None:
    """However many GPUs a job has, the exporter is asked once per tick."""
    stage = stage_of(node(busy(0.2), busy(0.5), IDLE))
    for _ in range(20):
        stage.advance(TICK)
        taken = {stage.source.read(device).taken_ns for device in stage.source.devices()}
        assert 1 == len(taken)
    assert 20 == stage.server.request_count


def test_gpus_are_not_mixed_up(stage_of: StageOf) -> None:
    """Each GPU has its own figures from the common page."""
    flat = [Pattern([Segment(seconds=1, tensor_active_ratio=x, sm_clock_mhz=1400)]) for x in (0.1, 0.2, 0.3)]
    stage = stage_of(node(*flat))
    for _ in range(9):
        stage.advance(TICK)
        readings = [stage.source.read(device) for device in reversed(stage.source.devices())]
    assert [0.3, 0.2, 0.1] == [reading.tensor_active_ratio for reading in readings]


def test_slices_are_read_by_instance(stage_of: StageOf) -> None:
    """A slice is found by its GPU and instance id, whatever the profile's name; two are two devices."""
    patterns = [Pattern([Segment(seconds=1, tensor_active_ratio=x, sm_clock_mhz=1400)]) for x in (0.25, 0.75)]
    gpus = tuple(
        ExporterGpu(uuid=A, pattern=pattern, instance=instance, profile="1g.11gb")
        for instance, pattern in zip((7, 8), patterns, strict=True)
    )
    stage = stage_of(ExporterNode(gpus=gpus))
    stage.use(
        *(
            DeviceIdentity(index=i, uuid=f"MIG-{i}", parent_uuid=A, gpu_instance_id=i, mig_profile="1g.12gb")
            for i in (8, 7)
        ),
        DeviceIdentity(index=0, uuid=A),
    )
    for _ in range(6):
        stage.advance(TICK)
        readings = [stage.source.read(device) for device in stage.source.devices()]
    assert [0.75, 0.25, None] == [reading.tensor_active_ratio for reading in readings]
    assert [None, None, "no_source"] == [reading.fault for reading in readings]
    assert [1400.0, 1400.0] == [reading.published_clock_mhz for reading in readings[:2]]
    assert [None, None] == [reading.energy_joules for reading in readings[:2]]


def test_a_slice_without_a_clock_has_its_gpus(stage_of: StageOf) -> None:
    """All slices of a GPU have its clock: where a slice's lines lack it, the GPU's line has it."""
    stage = stage_of(node(busy()))
    stage.use(DeviceIdentity(index=0, uuid="MIG-1", parent_uuid=A, gpu_instance_id=1))

    def page(energy: int) -> str:
        one = f'gpu="0",UUID="{A}"'
        return (
            f"DCGM_FI_DEV_SM_CLOCK{{{one}}} 1400\n{ENERGY}{{{one}}} {energy}\n"
            f'{TENSOR}{{{one},GPU_I_PROFILE="1g.5gb",GPU_I_ID="1"}} 0.5\n'
        )

    readings = []
    for energy in (1, 2, 3):
        stage.server.body = page(energy)
        readings.append(stage.tick())
    assert "wbf" == kinds(readings)
    assert 1400.0 == readings[-1].published_clock_mhz


def test_idle_engines_are_idle_sms(stage_of: StageOf) -> None:
    """Where the page lacks SM activity, as the exporter's own list does, an engine activity of 0 is one of
    the SMs as well; any other says nothing of them."""
    stage = stage_of(node(IDLE, busy(), without=("DCGM_FI_PROF_SM_ACTIVE",)))
    for _ in range(6):
        stage.advance(TICK)
        readings = [stage.source.read(device) for device in stage.source.devices()]
    assert [0.0, None] == [reading.sm_active_ratio for reading in readings]


def test_what_was_published_before_the_run_is_not_the_runs(stage_of: StageOf) -> None:
    """Until the first new collection nothing of the page is told: it may be of the job before."""
    stage = stage_of(node(busy()))
    first, second, beginning = stage.ticks(3)
    bare = Reading(since_ns=None, taken_ns=0, waiting=True)
    assert [bare, bare] == [replace(reading, taken_ns=0) for reading in (first, second)]
    assert (2**34, 350.0) == (beginning.memory_used_bytes, beginning.power_watts)


# ---- what goes wrong


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"stale"}))
def test_a_page_that_cannot_be_had_is_missing(stage_of: StageOf, fault: str) -> None:
    """Whatever the exporter answers in place of its page, figures are missing, and then come back."""
    stage = stage_of(node(busy()))
    stage.ticks(6)
    stage.server.fault = fault
    during = stage.tick()
    assert "<source_lost>" == kinds([during])
    assert replace(during, since_ns=None, taken_ns=0) == Reading(
        since_ns=None, taken_ns=0, fault="source_lost"
    )
    stage.server.fault = None
    assert "wfwwf" == kinds(stage.ticks(5))


def test_an_outage_is_not_covered_by_what_comes_after_it(stage_of: StageOf) -> None:
    """A collection says nothing of the time before the one that was missed: the time-line begins anew."""
    stage = stage_of(node(busy()))
    stage.ticks(9)
    stage.server.fault = "status 500"
    assert "<source_lost>" * 12 == kinds(stage.ticks(12))
    stage.server.fault = None
    readings = stage.ticks(8)
    assert "wwbwwfww" == kinds(readings)
    assert readings[2].since_ns is None
    assert readings[5].since_ns == readings[2].taken_ns


def test_nobody_is_there(stage_of: StageOf) -> None:
    """A refused connection is a missing figure of every GPU, at one request."""
    stage = stage_of(node(busy(), busy()))
    stage.source = ExporterSource("http://127.0.0.1:1/metrics", stage.source.devices())
    assert ["source_lost"] * 2 == [stage.source.read(device).fault for device in stage.source.devices()]


def test_tensor_activity_is_not_published(stage_of: StageOf) -> None:
    """A healthy page without the profiling fields is no source, from the first reading on; it is one as soon
    as it has them; and lost, not absent, when they go."""
    whole = node(busy())
    stage = stage_of(replace(whole, without=(TENSOR,)))
    assert "<no_source>" * 3 == kinds(stage.ticks(3))
    stage.server.node = whole
    assert "wwbwwf" == kinds(stage.ticks(6))
    stage.server.node = replace(whole, without=(TENSOR,))
    assert "<source_lost>" == kinds(stage.ticks(1))


def test_a_blank_value_is_missing(stage_of: StageOf) -> None:
    """A code for "no value" is missing, not a figure."""
    whole = node(busy())
    stage = stage_of(whole)
    stage.ticks(6)
    stage.server.node = replace(whole, fixed={TENSOR: "140737488355328.000000"})
    assert "<source_lost>" * 3 == kinds(stage.ticks(3))


def test_a_page_with_fewer_gpus(stage_of: StageOf) -> None:
    """GPUs that the page does not show have no source; the others' figures go on."""
    stage = stage_of(node(busy()))
    stage.use(DeviceIdentity(index=0, uuid=A), DeviceIdentity(index=1, uuid=B))
    for _ in range(6):
        stage.advance(TICK)
        readings = [stage.source.read(device) for device in stage.source.devices()]
    assert [None, "no_source"] == [reading.fault for reading in readings]


def totals_of(stage: Stage, count: int) -> GpuTotals:
    """What a run of so many ticks comes to, on an A100."""
    fold = GpuFold.start(round(stage.seconds * 1e9), TICK)
    for reading in stage.ticks(count):
        fold.add(Sample(reading=reading, clocks_mhz=(), clock_before_mhz=None), 0)
    given = Allocation(position=0, allocated_seconds=None, uuid=A, gpu_model=None, mapped_by=None)
    model = GpuModel(name="A100", sm_count=108, reference_clock_mhz=1410, max_clock_mhz=1410)
    rules = Rules(interval_seconds=TICK, refresh_seconds=0.1)
    return gpu_totals(fold, given, model, rules, died=False, wall_offset_ns=0)


@pytest.mark.parametrize(("engines", "reason"), [("0.000000", "suspect"), ("0.870000", "ok")])
def test_a_wedged_profiling_module(stage_of: StageOf, engines: str, reason: str) -> None:
    """Profiling counters that are all 0 on a busy GPU are suspect, by what an exporter publishes by default;
    a program without tensor work, whose engines are busy, is not."""
    zeros = {TENSOR: "0.000000", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": engines}
    totals = totals_of(stage_of(node(busy(), without=("DCGM_FI_PROF_SM_ACTIVE",), fixed=zeros)), 60)
    assert (reason, "scraped", 0.0) == (totals.reason, totals.estimator, totals.tensor_ref_seconds)


# ---- old values


def test_old_values_are_found_out(stage_of: StageOf) -> None:
    """An exporter that goes on serving the same page is lost after two minutes, whatever the page shows; when
    it moves again, the time-line begins anew."""
    stage = stage_of(node(busy()))
    stage.ticks(9)
    stage.server.fault = "stale"
    assert "w" * 12 + "<source_lost>" * 2 == kinds(stage.ticks(14))
    stage.server.fault = None
    assert "bwwf" == kinds(stage.ticks(4))


def test_old_values_of_an_idle_gpu_are_found_out(stage_of: StageOf) -> None:
    """An idle GPU's energy grows as well."""
    stage = stage_of(node(IDLE))
    assert "wwbwwfwwf" == kinds(stage.ticks(9))
    stage.server.fault = "stale"
    assert "w" * 12 + "<source_lost>" == kinds(stage.ticks(13))


def test_a_slow_exporter_is_not_stale(stage_of: StageOf) -> None:
    """A collection every five minutes is learnt, and covers its five minutes."""
    stage = stage_of(node(busy(), interval_seconds=300.0))
    readings = stage.ticks(180)
    figures = [reading for reading in readings if reading.tensor_active_ratio is not None]
    assert {300.0} == {(its.taken_ns - (its.since_ns or 0)) / 1e9 for its in figures}
    assert 3 <= len(figures)
    assert all(reading.fault is None for reading in readings[-60:])


def test_a_long_silence_teaches_nothing(stage_of: StageOf) -> None:
    """After an hour's outage two minutes are still too long."""
    stage = stage_of(node(busy()))
    stage.ticks(9)
    stage.server.fault = "stale"
    stage.ticks(359)
    stage.server.fault = None
    assert "bwwf" == kinds(stage.ticks(4))
    stage.server.fault = "stale"
    assert "<source_lost>" == kinds(stage.ticks(14)[-1:])


WITHOUT_A_COUNTER = (ENERGY, POWER, "DCGM_FI_DEV_GPU_TEMP")


def test_standing_still_is_no_staleness_by_itself(stage_of: StageOf) -> None:
    """An idle GPU of which nothing is published that must move neither becomes lost nor is counted while the
    whole page stands still; nor does what moves at last cover that time."""
    stage = stage_of(node(IDLE, without=WITHOUT_A_COUNTER))
    readings = stage.ticks(90)
    assert {"w"} == set(kinds(readings))
    stage.server.node = node(busy(), without=WITHOUT_A_COUNTER)
    readings = stage.ticks(1)
    assert "b" == kinds(readings)


def test_a_page_that_moves_elsewhere_is_of_today(stage_of: StageOf) -> None:
    """Where nothing of a GPU must move, another GPU's movement shows that its values are of today."""
    still = node(IDLE, busy(), without=WITHOUT_A_COUNTER)
    stage = stage_of(still)
    readings = stage.ticks(12)
    assert "wwbwwfwwfwwf" == kinds(readings)
    assert [0.0] * 3 == [its.tensor_active_ratio for its in readings if its.tensor_active_ratio is not None]


def test_a_stuck_gpu_on_a_living_page(stage_of: StageOf) -> None:
    """Where a GPU's energy is published and stands still while the other's moves, its values are old ones."""
    stuck = node(busy(), busy())
    stage = stage_of(stuck)
    stage.ticks(9)
    frozen = stage.server.node.page(stage.seconds)
    own = "".join(line + "\n" for line in frozen.splitlines() if A in line)
    readings = []
    for _ in range(14):
        stage.advance(TICK)
        page = stuck.page(stage.seconds)
        stage.server.body = "".join(line + "\n" for line in page.splitlines() if A not in line) + own
        readings.append(stage.source.read(stage.source.devices()[0]))
    assert "w" * 12 + "<source_lost>" * 2 == kinds(readings)


# ---- which GPUs


def of_url(url: str) -> SamplerConfig:
    """Settings with no NVML."""
    return SamplerConfig(source="exporter", exporter_url=url, nvml_library="/absent/libnvidia-ml.so.1")


def test_devices_of_the_page(stage_of: StageOf) -> None:
    """Without NVML the page says which GPUs there are."""
    stage = stage_of(node(busy(), IDLE))
    source = open_source(of_url(stage.server.url), job_id=1)
    expected = [
        DeviceIdentity(
            index=index, uuid=uuid, pci_bus_id=f"00000000:{bus}:00.0", gpu_model="NVIDIA A100-SXM4-80GB"
        )
        for index, (uuid, bus) in enumerate(((A, "18"), (B, "19")))
    ]
    assert ("exporter", expected) == (source.name, list(source.devices()))


def test_a_page_of_several_hosts(stage_of: StageOf) -> None:
    """Of a page that shows a whole cluster only this node's GPUs count."""
    here = os.uname().nodename.partition(".")[0]
    stage = stage_of(node(busy()))
    other = ExporterNode(gpus=(ExporterGpu(uuid=B, pattern=busy()),), host="elsewhere-7").page(START_S)
    own = replace(stage.server.node, host=f"{here}.example.org").page(START_S)
    stage.server.body = other + own
    assert [A] == [device.uuid for device in open_exporter(of_url(stage.server.url)).devices()]
    stage.server.body = other + own.replace(here, "elsewhere-8")
    with pytest.raises(SourceError, match="shows no GPU of this node"):
        open_exporter(of_url(stage.server.url))


def test_slices_need_nvml(stage_of: StageOf) -> None:
    """A page tells neither a slice's UUID nor its share of the SMs: by itself it has no slices."""
    gpu = ExporterGpu(uuid=A, pattern=busy(), instance=7, profile="1g.10gb")
    stage = stage_of(ExporterNode(gpus=(gpu,)))
    with pytest.raises(SourceError, match="no GPU"):
        open_exporter(of_url(stage.server.url))


def test_without_a_page_and_without_nvml() -> None:
    """With neither NVML nor a page there is no source, and the error says where it was looked for."""
    with pytest.raises(SourceError, match=r"http://127.0.0.1:1/metrics: Connection refused"):
        open_source(of_url("http://127.0.0.1:1/metrics"), job_id=1)


# ---- laws, and what it costs


@pytest.mark.contract
@pytest.mark.parametrize("fault", [None, *sorted(set(FAULTS) - {"hangs", "drips"})])
@pytest.mark.parametrize("dialect", ["1.x", "4.0", "4.9"])
def test_laws(stage_of: StageOf, dialect: str, fault: str | None) -> None:
    """The exporter source obeys the laws, whatever the exporter answers and when."""
    stage = stage_of(node(busy(), IDLE, dialect=dialect, interval_seconds=0.4))
    count = 0

    def advance(seconds: float) -> None:
        nonlocal count
        stage.advance(seconds)
        stage.server.fault = fault if count % 40 > 25 else None
        count += 1

    assert [] == broken_laws(stage.source, advance, rounds=120)


def test_the_parser_is_loaded_where_it_is_needed_alone() -> None:
    """The hooks' path with NVML loads no prometheus_client, which costs more than NVML itself."""
    script = (
        "import json, sys; import slurm_ofu.hooks.sample, slurm_ofu.counters.auto, slurm_ofu.counters.nvml;"
        "print(json.dumps([name for name in sys.modules if name.startswith('prometheus')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [] == json.loads(done.stdout)
