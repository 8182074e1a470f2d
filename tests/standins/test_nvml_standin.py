"""The stand-in libnvidia-ml.so.1, driven by the real nvidia-ml-py in processes of their own."""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.standins.nvml_standin import (
    Control,
    Fault,
    Gpu,
    Scenario,
    Segment,
    Slice,
    StandInError,
    build,
    declared_functions,
    environment,
    exported_functions,
    header_path,
    read_calls,
)

ROOT = Path(__file__).parents[2]
GAUGES = {1: "utilisation", 2: "sm_active", 5: "tpa_cycle_weighted", 10: "dram_active"}
COUNTERS = {248: "sm_cycles_elapsed", 249: "sm_cycles_active", 250: "mma_cycles_active"}
NASTY = Gpu(
    origin_s=0.3,
    segments=(
        Segment(seconds=0.7, tensor_ratio=0.6, sm_clock_mhz=1980, sm_active_ratio=0.9, power_watts=650.5),
        Segment(seconds=0.4, tensor_ratio=0.2, sm_clock_mhz=1200, sm_active_ratio=0.5, dram_active_ratio=0.7),
        Segment(seconds=0.333333333, sm_clock_mhz=345, power_watts=70.25, throttle_reasons=1),
        Segment(seconds=0.5, tensor_ratio=0.85, sm_clock_mhz=1755, sm_active_ratio=1, utilisation_ratio=1),
    ),
)
STEADY = Gpu(segments=(Segment(seconds=1, tensor_ratio=0.5, sm_active_ratio=0.75, utilisation_ratio=0.5),))

Course = Callable[[Any, Control], object]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("full"))


@dataclass(frozen=True)
class Node:
    """A directory with a library, in which courses of driver calls run as processes."""

    nvml_path: Path
    directory: Path

    def command(self, scenario: Scenario, course: Course) -> tuple[list[str], dict[str, str]]:
        described = replace(
            scenario, control=self.directory / "control", calls_file=self.directory / "calls"
        ).write(self.directory / "scenario")
        program = f"from {__name__} import run; run({course.__name__!r}, {str(self.directory / 'control')!r})"
        return [sys.executable, "-c", program], {**os.environ, **environment(self.nvml_path, described)}

    def play(self, scenario: Scenario, course: Course) -> Any:
        command, variables = self.command(scenario, course)
        done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def calls(self) -> dict[str, int]:
        (calls,) = read_calls(self.directory / "calls").values()
        return calls


@pytest.fixture
def node(full: Path, tmp_path: Path) -> Node:
    return Node(full, tmp_path)


def run(course: str, control: str) -> None:
    """In the process of its own: initialise, run one of the courses below, print what it saw."""
    import pynvml

    print(json.dumps(globals()[course](pynvml, Control(Path(control)))))


def first_gpu(nv: Any) -> Any:
    nv.nvmlInit()
    return nv.nvmlDeviceGetHandleByIndex(0)


def sample_at(nv: Any, control: Control, gpu: Any, at_s: float) -> Any:
    control.freeze(at_s)
    sample = nv.nvmlGpmSampleAlloc()
    nv.nvmlGpmSampleGet(gpu, sample)
    return sample


def metrics(nv: Any, older: Any, newer: Any, ids: tuple[int, ...]) -> dict[int, tuple[int, float]]:
    """nvmlReturn and value per id."""
    query = nv.c_nvmlGpmMetricsGet_t()
    query.version, query.numMetrics = nv.NVML_GPM_METRICS_GET_VERSION, len(ids)
    query.sample1, query.sample2 = older, newer
    for place, number in enumerate(ids):
        query.metrics[place].metricId = number
    nv.nvmlGpmMetricsGet(query)
    return {
        query.metrics[i].metricId: (query.metrics[i].nvmlReturn, query.metrics[i].value)
        for i in range(len(ids))
    }


def error_of(nv: Any, call: Callable[[], object]) -> int:
    """The code of the NVMLError that a call raises, 0 for none."""
    try:
        call()
    except nv.NVMLError as error:
        return int(error.value)
    return 0


# ---- the truth -------------------------------------------------------------------------------

INSTANTS = ((10.0, 11.0), (1e5 + 0.123456789, 1e5 + 0.223456789), (3e6, 3e6 + 30.5), (7.25, 1e4))


def course_pairs(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    seen = []
    for start_s, end_s in INSTANTS:
        older = sample_at(nv, control, gpu, start_s)
        first_mj = nv.nvmlDeviceGetTotalEnergyConsumption(gpu)
        newer = sample_at(nv, control, gpu, end_s)
        values = metrics(nv, older, newer, (*GAUGES, *COUNTERS))
        seen.append([nv.nvmlDeviceGetTotalEnergyConsumption(gpu) - first_mj, values])
    return seen


def test_truth_is_the_integral_of_the_product() -> None:
    """OFU is the time integral of activity x clock over the reference clock, not a product of means."""
    pairs = ((0.80, 1755), (0.00, 345), (0.78, 1740))
    segments = tuple(Segment(seconds=10, tensor_ratio=tensor, sm_clock_mhz=mhz) for tensor, mhz in pairs)
    truth = Scenario(gpus=(Gpu(segments=segments),)).truth(0, 60.0, 120.0)
    assert truth.ofu == pytest.approx((0.80 * 1755 + 0.78 * 1740) / 3 / 1830, rel=1e-12)
    assert truth.tpa_time_weighted == pytest.approx(1.58 / 3, rel=1e-12)
    assert truth.tpa_cycle_weighted == pytest.approx((0.80 * 1755 + 0.78 * 1740) / 3840, rel=1e-12)
    assert truth.mean_clock_mhz == pytest.approx(1280, rel=1e-12)
    assert truth.tpa_cycle_weighted * truth.mean_clock_mhz / 1830 == pytest.approx(truth.ofu, rel=1e-12)


@pytest.mark.parametrize("summed", [False, True])
def test_gauges_and_counters_agree_with_the_truth(node: Node, summed: bool) -> None:
    """GPM gauges, absolute counters and energy are the exact integrals of the time-line."""
    scenario = Scenario(gpus=(replace(NASTY, counters_summed_over_sms=summed),))
    for (start_s, end_s), (energy_mj, values) in zip(
        INSTANTS, node.play(scenario, course_pairs), strict=True
    ):
        truth, counters = scenario.truth(0, start_s, end_s), scenario.counters(0, end_s)
        for number in (2, 5, 10):
            assert values[str(number)] == [0, pytest.approx(100 * getattr(truth, GAUGES[number]), rel=1e-9)]
        for number, name in COUNTERS.items():
            assert values[str(number)] == [0, pytest.approx(getattr(counters, name), rel=1e-12)]
        assert energy_mj == pytest.approx(1e3 * truth.energy_joules, abs=1.001)


def test_counter_differences_give_ofu() -> None:
    """The difference of two absolute counters over reference clock and time is the OFU."""
    scenario = Scenario(gpus=(NASTY,))
    start_s, end_s = INSTANTS[2]
    mma_cycles = (
        scenario.counters(0, end_s).mma_cycles_active - scenario.counters(0, start_s).mma_cycles_active
    )
    ofu = mma_cycles / 1830e6 / (end_s - start_s)
    assert ofu == pytest.approx(scenario.truth(0, start_s, end_s).ofu, rel=1e-9)


def test_counters_may_come_as_differences(node: Node) -> None:
    """With `difference`, ids 248-250 are the second sample's counter minus the first one's."""
    scenario = Scenario(gpus=(replace(NASTY, counters="difference", counter_base=5.0),))
    for (start_s, end_s), (_, values) in zip(INSTANTS, node.play(scenario, course_pairs), strict=True):
        truth = scenario.truth(0, start_s, end_s)
        assert values["248"][1] == pytest.approx(truth.mean_clock_mhz * 1e6 * truth.seconds, rel=1e-9)
        assert values["250"][1] == pytest.approx(truth.tensor_ref_seconds * 1830e6, rel=1e-9)


@pytest.mark.parametrize("code", [2, 3])
def test_unknown_metrics_answer_per_metric_and_are_poisoned(node: Node, code: int) -> None:
    """An id that the driver does not know is an error of that metric alone, with an absurd value."""
    scenario = Scenario(gpus=(replace(STEADY, counters="absent", unknown_metric_error=code),))
    values = node.play(scenario, course_pairs)[0][1]
    assert [values[str(number)] for number in COUNTERS] == [[code, 1e300]] * 3
    assert values["5"] == [0, pytest.approx(50)]


def course_counters_over_time(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    samples = [sample_at(nv, control, gpu, at_s) for at_s in (10.0, 10.15, 10.19, 10.2)]
    return [metrics(nv, samples[0], sample, (5, 248)) for sample in samples]


def test_counters_advance_in_steps_of_the_refresh_period(node: Node) -> None:
    """A sample holds the state at the latest refresh; no time between two samples makes gauges NaN."""
    scenario = Scenario(gpus=(replace(NASTY, refresh_seconds=0.1),))
    seen = node.play(scenario, course_counters_over_time)
    for at_s, values in zip((10.0, 10.1, 10.1, 10.2), seen, strict=True):
        assert values["248"] == [0, pytest.approx(scenario.counters(0, at_s).sm_cycles_elapsed, rel=1e-12)]
    assert scenario.gpus[0].seen_at(10.19) == 10.1
    assert seen[0]["5"][0] == 0
    assert math.isnan(seen[0]["5"][1])
    assert seen[1]["5"][1] == pytest.approx(100 * scenario.truth(0, 10.0, 10.1).tpa_cycle_weighted, rel=1e-9)


def test_counters_restart_at_a_reset(node: Node) -> None:
    """After a reset the absolute counters hold only what came since; gauges go on."""
    scenario = Scenario(gpus=(replace(STEADY, reset_at_s=(5.0, 10.12)),))
    seen = node.play(scenario, course_counters_over_time)
    assert [values["248"][1] for values in seen] == pytest.approx(
        [5 * 1980e6, 0.03 * 1980e6, 0.07 * 1980e6, 0.08 * 1980e6]
    )
    assert [values["5"][1] for values in seen[1:]] == pytest.approx([50, 50, 50])


def course_running(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    sample = nv.nvmlGpmSampleAlloc()
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    nv.nvmlGpmSampleGet(gpu, sample)
    after_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return [before_s, metrics(nv, sample, sample, (248,))[248][1], after_s]


def test_processes_see_the_same_gpu(node: Node) -> None:
    """While time runs, every process finds the counters of the same CLOCK_BOOTTIME time-line."""
    scenario = Scenario(gpus=(NASTY,))
    seen = [node.play(scenario, course_running) for _ in range(2)]
    for before_s, cycles, after_s in seen:
        low, high = (scenario.counters(0, at_s).sm_cycles_elapsed for at_s in (before_s, after_s))
        assert low - 1e3 <= cycles <= high + 1e3
    assert seen[0][1] < seen[1][1]


# ---- readings and identity -------------------------------------------------------------------


def course_readings(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    seen = []
    for at_s in (0.3, 1.399999999, 1.4, 1.75, 2.0):
        control.freeze(at_s)
        use, v1, v2 = (
            nv.nvmlDeviceGetUtilizationRates(gpu),
            nv.nvmlDeviceGetMemoryInfo(gpu),
            memory_v2(nv, gpu),
        )
        reasons = nv.nvmlDeviceGetCurrentClocksEventReasons(gpu)
        clocks = [nv.nvmlDeviceGetClock(gpu, 1, 0), nv.nvmlDeviceGetClockInfo(gpu, 1)]
        power_mw = nv.nvmlDeviceGetPowerUsage(gpu)
        seen.append([at_s, clocks, power_mw, use.gpu, use.memory, reasons, v1.used, v2.used, v2.reserved])
    return seen


def memory_v2(nv: Any, gpu: Any) -> Any:
    return nv.nvmlDeviceGetMemoryInfo(gpu, version=nv.nvmlMemory_v2)


@pytest.mark.parametrize("step_mhz", [0, 15])
def test_readings_are_those_of_the_instant(node: Node, step_mhz: int) -> None:
    """Clock, power, utilisation, memory and reasons are the segment's that holds at the call."""
    segments = tuple(
        replace(segment, memory_used_bytes=10**9 * number) for number, segment in enumerate(NASTY.segments)
    )
    gpu = replace(NASTY, segments=segments, clock_step_mhz=step_mhz)
    for at_s, clocks, power_mw, busy, dram, reasons, *memory in node.play(
        Scenario(gpus=(gpu,)), course_readings
    ):
        now = gpu.segment_at(at_s)
        expected = round(now.sm_clock_mhz / (step_mhz or 1)) * (step_mhz or 1)
        assert [expected] * 2 == clocks
        assert round(1e3 * now.power_watts) == power_mw
        assert [100 * now.utilisation_ratio, 100 * now.dram_active_ratio] == pytest.approx([busy, dram])
        assert now.throttle_reasons == reasons
        reserved = gpu.memory_reserved_bytes
        assert [now.memory_used_bytes + reserved, now.memory_used_bytes, reserved] == memory


def course_identities(nv: Any, control: Control) -> object:
    nv.nvmlInit()
    seen = []
    for index in range(nv.nvmlDeviceGetCount()):
        gpu = nv.nvmlDeviceGetHandleByIndex(index)
        again = nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(gpu))
        bus = nv.nvmlDeviceGetPciInfo(again).busId
        seen.append(
            [nv.nvmlDeviceGetUUID(gpu), nv.nvmlDeviceGetMinorNumber(again), bus, nv.nvmlDeviceGetIndex(again)]
        )
    return seen


def test_minor_numbers_may_be_permuted(node: Node) -> None:
    """NVML's index, the minor number, the UUID and the PCI address are independent of each other."""
    minors = (4, 5, 6, 7, 2, 3, 0, 1)
    scenario = Scenario(gpus=tuple(replace(STEADY, minor=minor) for minor in minors))
    seen = node.play(scenario, course_identities)
    assert [minor for _, minor, _, _ in seen] == list(minors)
    assert [index for _, _, _, index in seen] == list(range(8))
    assert [uuid for uuid, _, _, _ in seen] == [scenario.uuid(index) for index in range(8)]
    assert len({bus for _, _, bus, _ in seen}) == 8
    assert seen[2][2] == "00000000:1A:00.0"


def course_facts(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    return [
        nv.nvmlSystemGetDriverVersion(),
        nv.nvmlSystemGetNVMLVersion(),
        nv.nvmlDeviceGetName(gpu),
        nv.nvmlDeviceGetNumGpuCores(gpu),
        nv.nvmlDeviceGetMaxClockInfo(gpu, nv.NVML_CLOCK_SM),
        nv.nvmlDeviceGetArchitecture(gpu),
        nv.nvmlDeviceGetCudaComputeCapability(gpu),
        nv.nvmlDeviceGetMigMode(gpu),
        nv.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice,
        error_of(nv, lambda: nv.nvmlDeviceGetHandleByIndex(1)),
        error_of(nv, lambda: nv.nvmlDeviceGetHandleByUUID("GPU-unknown")),
        error_of(nv, lambda: nv.nvmlDeviceGetClock(gpu, nv.NVML_CLOCK_SM, nv.NVML_CLOCK_ID_APP_CLOCK_TARGET)),
        error_of(nv, lambda: nv.nvmlDeviceGetFanSpeed(gpu)),
    ]


def test_default_gpu_is_an_h100_on_r595(node: Node) -> None:
    """Without further words a GPU is an H100 SXM, and what is not played is NOT_SUPPORTED."""
    known = ["595.45.04", "13.595.45.04", "NVIDIA H100 80GB HBM3", 132 * 128, 1980, 9, [9, 0], [0, 0], 1]
    assert node.play(Scenario(gpus=(STEADY,)), course_facts) == [*known, 2, 6, 26, 3]


# ---- what goes wrong -------------------------------------------------------------------------


def course_clock_errors(nv: Any, control: Control) -> object:
    control.freeze(0.0)
    nv.nvmlInit()
    gpus = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    seen = []
    for at_s in (9.0, 10.0, 19.9, 20.0):
        control.freeze(at_s)
        seen.append([error_of(nv, partial(nv.nvmlDeviceGetClock, gpu, 1, 0)) for gpu in gpus])
    control.inject(Fault(function="nvmlDeviceGetC*", error=999))
    seen.append([error_of(nv, partial(nv.nvmlDeviceGetClock, gpu, 1, 0)) for gpu in gpus])
    control.inject()
    seen.append([error_of(nv, partial(nv.nvmlDeviceGetClock, gpu, 1, 0)) for gpu in gpus])
    return seen


def test_faults_hit_one_function_of_one_gpu_for_a_while(node: Node) -> None:
    """A fault holds for a function pattern, a GPU and a time window, and can be switched while running."""
    fault = Fault(function="nvmlDeviceGetClock", device=1, from_s=10.0, until_s=20.0, error=4)
    seen = node.play(Scenario(gpus=(STEADY, STEADY), faults=(fault,)), course_clock_errors)
    assert seen == [[0, 0], [0, 4], [0, 4], [0, 0], [999, 999], [0, 0]]


def test_a_lost_gpu_does_not_touch_the_others(node: Node) -> None:
    """From lost_at_s on one GPU answers GPU_IS_LOST, its neighbours answer as before."""
    gpus = (STEADY, replace(STEADY, lost_at_s=19.0))
    seen = node.play(Scenario(gpus=gpus), course_clock_errors)
    assert seen == [[0, 0], [0, 0], [0, 15], [0, 15], [999, 999], [0, 15]]


def course_metric_faults(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    older, newer = (sample_at(nv, control, gpu, at_s) for at_s in (10.0, 11.0))
    swapped = error_of(nv, lambda: metrics(nv, newer, older, (5,)))
    return [swapped, metrics(nv, older, newer, (2, 5, 10, 250))]


def test_single_metrics_can_fail_or_lie(node: Node) -> None:
    """A successful MetricsGet may carry an error, a NaN or an impossible value in one metric."""
    faults = (
        Fault(function="nvmlGpmMetricsGet", metric=5, error=3),
        Fault(function="nvmlGpmMetricsGet", metric=2, nan=True),
        Fault(function="nvmlGpmMetricsGet", metric=10, device=0, value=130.0),
    )
    swapped, values = node.play(Scenario(gpus=(STEADY,), faults=faults), course_metric_faults)
    assert swapped == 2
    assert values["5"] == [3, 1e300]
    assert values["2"][0] == 0
    assert math.isnan(values["2"][1])
    assert values["10"] == [0, 130.0]
    assert values["250"] == [0, pytest.approx(0.5 * 11 * 1980e6)]


def course_reinit(nv: Any, control: Control) -> object:
    control.freeze(10.0)
    gpu = first_gpu(nv)
    seen = [error_of(nv, lambda: nv.nvmlDeviceGetPowerUsage(gpu))]
    control.freeze(20.0)
    seen += [error_of(nv, lambda: nv.nvmlDeviceGetPowerUsage(gpu)), error_of(nv, nv.nvmlShutdown)]
    nv.nvmlInit()
    return [*seen, error_of(nv, lambda: nv.nvmlDeviceGetPowerUsage(gpu))]


def test_some_faults_last_until_the_next_init(node: Node) -> None:
    """After a fault that cured_by_init marks, shutdown and init make the library work again."""
    fault = Fault(function="nvml*", from_s=15.0, error=999, cured_by_init=True)
    assert node.play(Scenario(gpus=(STEADY,), faults=(fault,)), course_reinit) == [0, 999, 999, 0]


def course_hang(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    threading.Thread(target=nv.nvmlDeviceGetPowerUsage, args=(gpu,), daemon=True).start()
    clocks = [nv.nvmlDeviceGetClockInfo(gpu, nv.NVML_CLOCK_SM) for _ in range(100)]
    return [len(clocks), threading.active_count()]


def test_a_hanging_call_leaves_other_threads_alone(node: Node) -> None:
    """A call that never returns blocks neither other threads nor the exit of the process."""
    fault = Fault(function="nvmlDeviceGetPowerUsage", hang=True)
    assert node.play(Scenario(gpus=(STEADY,), faults=(fault,)), course_hang) == [100, 2]
    assert node.calls()["nvmlDeviceGetClockInfo"] == 100


def course_slow(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    started_s = time.monotonic()
    nv.nvmlDeviceGetPowerUsage(gpu)
    waited_s, costs_s = time.monotonic() - started_s, []
    for _ in range(20):  # on a busy machine one or another gets less of the CPU than of the time
        cpu_s = time.process_time()
        nv.nvmlDeviceGetClockInfo(gpu, nv.NVML_CLOCK_SM)
        costs_s.append(time.process_time() - cpu_s)
    return [waited_s, max(costs_s)]


def test_calls_can_take_time(node: Node) -> None:
    """delay_us makes one function wait, call_cost_us makes every call burn CPU time."""
    fault = Fault(function="nvmlDeviceGetPowerUsage", delay_us=30_000)
    scenario = Scenario(gpus=(STEADY,), faults=(fault,), call_cost_us=2000)
    waited_s, cpu_s = node.play(scenario, course_slow)
    assert waited_s >= 0.032
    assert cpu_s >= 0.001


def course_gpm_errors(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    sample = nv.nvmlGpmSampleAlloc()
    return [
        nv.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice,
        error_of(nv, lambda: nv.nvmlGpmSampleGet(gpu, sample)),
        error_of(nv, lambda: metrics(nv, sample, sample, (5,))),
        error_of(nv, lambda: nv.nvmlDeviceGetUtilizationRates(gpu)),
    ]


def test_gpus_without_usable_gpm(node: Node) -> None:
    """A pre-Hopper GPU has no GPM; under MIG the whole GPU's GPM needs a privilege."""
    assert node.play(Scenario(gpus=(replace(STEADY, gpm=False),)), course_gpm_errors) == [0, 3, 2, 0]
    assert node.play(Scenario(gpus=(replace(STEADY, mig="on"),)), course_gpm_errors) == [1, 4, 2, 3]


def course_poison(nv: Any, control: Control) -> object:
    first_gpu(nv)
    clock = ctypes.c_uint(7)
    library = ctypes.CDLL("libnvidia-ml.so.1")
    return [library.nvmlDeviceGetClockInfo(None, 1, ctypes.byref(clock)), clock.value]


def test_invalid_results_are_poisoned(node: Node) -> None:
    """What a failed call leaves behind is absurd, so that using it shows."""
    assert node.play(Scenario(gpus=(STEADY,)), course_poison) == [2, 0xDEADBEEF]


# ---- MIG ---------------------------------------------------------------------------------------

SPLIT = replace(
    NASTY,
    mig="on",
    slices=(
        Slice(segments=NASTY.segments, slice_uuid="MIG-a", mig_index=1, gpu_instance=9),
        Slice(
            segments=STEADY.segments,
            slice_uuid="MIG-b",
            mig_index=4,
            gpu_instance=2,
            compute_instance=1,
            profile="1c.3g.40gb",
            sms=20,
            gpu_slices=3,
        ),
    ),
)


def course_slices(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    holes = [error_of(nv, partial(nv.nvmlDeviceGetMigDeviceHandleByIndex, gpu, slot)) for slot in range(8)]
    own = nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 4)
    attributes = nv.nvmlDeviceGetAttributes_v2(own)
    others = (nv.nvmlDeviceGetPowerUsage, nv.nvmlDeviceGetNumGpuCores, nv.nvmlGpmQueryDeviceSupport)
    return {
        "counts": [nv.nvmlDeviceGetCount(), nv.nvmlDeviceGetMaxMigDeviceCount(gpu)],
        "holes": holes,
        "name": nv.nvmlDeviceGetName(own),
        "ids": [nv.nvmlDeviceGetGpuInstanceId(own), nv.nvmlDeviceGetComputeInstanceId(own)],
        "is_slice": [nv.nvmlDeviceIsMigDeviceHandle(each).value for each in (gpu, own)],
        "sms": attributes.multiprocessorCount,
        "slices": [attributes.computeInstanceSliceCount, attributes.gpuInstanceSliceCount],
        "uuid": nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByUUID("MIG-b")),
        "refused": [error_of(nv, partial(call, own)) for call in others],
        "of_the_whole": error_of(nv, lambda: nv.nvmlDeviceGetGpuInstanceId(gpu)),
        "largest": nv.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 4, 1).multiprocessorCount,
    }


def test_slices_sit_in_sparse_slots(node: Node) -> None:
    """MIG devices are found by slot, with holes; their handles answer what is theirs and nothing else."""
    assert {
        "counts": [1, 7],
        "holes": [6, 0, 6, 6, 0, 6, 6, 2],
        "name": "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb",
        "ids": [2, 1],
        "is_slice": [0, 1],
        "sms": 20,
        "slices": [1, 3],
        "uuid": "MIG-b",
        "refused": [3, 3, 3],
        "of_the_whole": 3,
        "largest": 132,
    } == node.play(Scenario(gpus=(SPLIT,)), course_slices)


def course_slice_metrics(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    pair = []
    for at_s in (10.0, 17.5):
        control.freeze(at_s)
        pair.append(nv.nvmlGpmMigSampleGet(gpu, 9, nv.nvmlGpmSampleAlloc()))
    return [
        metrics(nv, pair[0], pair[1], (*GAUGES, 248)),
        error_of(nv, lambda: nv.nvmlGpmMigSampleGet(gpu, 5, pair[0])),
        error_of(nv, lambda: nv.nvmlGpmSampleGet(gpu, pair[0])),
    ]


def test_a_gpu_instance_is_sampled_through_its_gpu(node: Node) -> None:
    """GPM of a GPU instance is that of its slice, without the cumulative ids; no other instance answers."""
    scenario = Scenario(gpus=(SPLIT,))
    values, unknown, whole = node.play(scenario, course_slice_metrics)
    truth = scenario.slice_truth(0, 0, 10.0, 17.5)
    for number in (2, 5, 10):
        assert [0, pytest.approx(100 * getattr(truth, GAUGES[number]), rel=1e-9)] == values[str(number)]
    assert (3, 2, 4) == (values["248"][0], unknown, whole)


def test_the_whole_of_a_split_gpu_may_be_open_to_root(node: Node) -> None:
    """With the capability for it, device-level GPM answers under MIG."""
    scenario = Scenario(gpus=(replace(SPLIT, mig_monitor=1),))
    assert 0 == node.play(scenario, course_slice_metrics)[2]


def course_gated(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    older, newer = (sample_at(nv, control, gpu, at_s) for at_s in (10.0, 20.0))
    return [nv.nvmlDeviceGetClockInfo(gpu, 1), metrics(nv, older, newer, (5, 248))]


def test_a_gated_clock_makes_nothing_of_nothing(node: Node) -> None:
    """Where the clock stands still no cycle elapses and gauges are 0/0; a reading of it still gives some."""
    gated = replace(STEADY, segments=(Segment(seconds=1, sm_clock_mhz=345, gated=True),))
    mhz, values = node.play(Scenario(gpus=(gated,)), course_gated)
    assert (345, [0, 0.0]) == (mhz, values["248"])
    assert math.isnan(values["5"][1])


def course_second_call(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    return [error_of(nv, lambda: nv.nvmlDeviceGetPowerUsage(gpu)) for _ in range(3)]


def test_faults_may_begin_after_some_calls(node: Node) -> None:
    """`skip` lets the first calls of a function pass."""
    faults = (Fault(function="nvmlDeviceGetPowerUsage", skip=2, error=999),)
    assert [0, 0, 999] == node.play(Scenario(gpus=(STEADY,), faults=faults), course_second_call)


# ---- bookkeeping -----------------------------------------------------------------------------


def course_samples(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    for _ in range(50):
        older, newer = (sample_at(nv, control, gpu, at_s) for at_s in (10.0, 11.0))
        error_of(nv, partial(metrics, nv, older, newer, (5,)))
        nv.nvmlGpmSampleFree(older)
        nv.nvmlGpmSampleFree(newer)
    codes = [
        error_of(nv, lambda: nv.nvmlGpmSampleFree(newer)),
        error_of(nv, lambda: nv.nvmlGpmSampleGet(gpu, newer)),
    ]
    forgotten = nv.nvmlGpmSampleAlloc()  # last: it may get the address that was freed
    return [bool(forgotten), *codes]


def test_leaked_samples_and_calls_are_counted(node: Node) -> None:
    """Allocations, frees and calls of a process are told at its exit; a second free is refused."""
    fault = Fault(function="nvmlGpmMetricsGet", error=999)
    assert node.play(Scenario(gpus=(STEADY,), faults=(fault,)), course_samples) == [True, 2, 2]
    calls = node.calls()
    assert [calls["samples_allocated"], calls["samples_freed"]] == [101, 100]
    assert [calls["nvmlGpmSampleFree"], calls["nvmlGpmSampleGet"], calls["nvmlGpmMetricsGet"]] == [
        101,
        101,
        50,
    ]


def course_device_nodes(nv: Any, control: Control) -> object:
    node = str(control.path.with_name("nvidia0"))
    seen = []
    for call in (nv.nvmlInit, nv.nvmlInit, nv.nvmlShutdown, nv.nvmlShutdown):
        call()
        seen.append(
            sum(node == str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
        )
    nv.nvmlInit()
    return [seen, error_of(nv, lambda: nv.nvmlDeviceGetHandleByIndex(1))]


def test_device_nodes_are_held_from_init_to_last_shutdown(node: Node) -> None:
    """The library keeps each GPU's node open while initialised; one it cannot open is NO_PERMISSION."""
    present, absent = node.directory / "nvidia0", node.directory / "nvidia1"
    present.touch()
    scenario = Scenario(gpus=(replace(STEADY, device=present), replace(STEADY, device=absent)))
    assert node.play(scenario, course_device_nodes) == [[1, 1, 1, 0], 4]


def course_init(nv: Any, control: Control) -> object:
    codes = [error_of(nv, nv.nvmlInit), error_of(nv, nv.nvmlDeviceGetCount)]
    return [*codes, error_of(nv, nv.nvmlShutdown), error_of(nv, nv.nvmlDeviceGetCount)]


def test_init_is_counted(node: Node) -> None:
    """Before init and after the last shutdown every call is UNINITIALIZED."""
    assert node.play(Scenario(gpus=(STEADY,)), course_init) == [0, 0, 0, 1]


def test_init_can_fail(node: Node) -> None:
    """A failing nvmlInit, as after a driver upgrade, leaves the library uninitialised."""
    fault = Fault(function="nvmlInit*", error=18)
    assert node.play(Scenario(gpus=(STEADY,), faults=(fault,)), course_init) == [18, 1, 1, 1]


def test_scenario_is_found_beside_the_library_or_missed(tmp_path: Path, full: Path) -> None:
    """Without the variable the scenario lies beside the library; without any the driver is not loaded."""
    library = tmp_path / full.name
    library.write_bytes(full.read_bytes())
    node = Node(library, tmp_path)
    command, variables = node.command(Scenario(gpus=(STEADY,)), course_init)
    del variables["OFU_NVML_SCENARIO"]
    missed = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(missed.stdout) == [9, 1, 1, 1]
    (tmp_path / "scenario").rename(tmp_path / "nvml-scenario")
    found = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [0, 0, 0, 1]


def test_faulty_scenario_says_which_line(node: Node) -> None:
    """A scenario with a mistake makes nvmlInit fail, and the line is named on stderr."""
    command, variables = node.command(Scenario(gpus=(STEADY,)), course_init)
    (node.directory / "scenario").write_text("call_cost_us 1\n\ngpu\nminor four\n")
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [999, 1, 1, 1]
    assert "scenario:4: cannot read `minor four`" in done.stderr


# ---- variants --------------------------------------------------------------------------------


def course_names(nv: Any, control: Control) -> object:
    gpu = first_gpu(nv)
    calls = (
        lambda: nv.nvmlGpmQueryDeviceSupport(gpu),
        lambda: nv.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        lambda: nv.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    )
    return [error_of(nv, call) for call in calls]


@pytest.mark.parametrize(("variant", "codes"), [("no_gpm", [13, 0, 0]), ("old_names", [0, 13, 0])])
def test_variants_truly_lack_their_symbols(tmp_path: Path, variant: str, codes: list[int]) -> None:
    """An older driver's library lacks functions altogether, which nvidia-ml-py reports as code 13."""
    node = Node(build(tmp_path, variant=variant), tmp_path)
    assert node.play(Scenario(gpus=(STEADY,)), course_names) == codes


def test_every_declared_function_is_there(full: Path) -> None:
    """The full library exports exactly what the installed nvml.h declares."""
    listing = subprocess.run(["nm", "-D", "--defined-only", full], capture_output=True, text=True, check=True)
    exported = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert exported == set(exported_functions("full"))
    assert exported == set(declared_functions(header_path().read_text(encoding="utf-8")))


def test_unusable_requests_are_refused(tmp_path: Path) -> None:
    """An unknown variant, an empty stretch of time and a segment without duration are errors."""
    with pytest.raises(StandInError, match="none of full, no_gpm, old_names"):
        build(tmp_path, variant="newest")
    with pytest.raises(StandInError, match="no time lies between"):
        Scenario(gpus=(STEADY,)).truth(0, 5.0, 5.0)
    with pytest.raises(StandInError, match="above 0"):
        Segment(seconds=0)


def test_absent_header_is_named() -> None:
    """Where nvidia-nvml-dev is not installed, the error says what to install."""
    program = "from tests.standins.nvml_standin import header_path; header_path()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "nvidia-nvml-dev is not installed: pip install nvidia-nvml-dev" in done.stderr
