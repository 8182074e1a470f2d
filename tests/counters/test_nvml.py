"""NvmlSource on the stand-in library, through the real nvidia-ml-py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import GpuTotals, Reading, Sample
from tests.counters.conftest import Stage
from tests.counters.player import START_S
from tests.integrals.examples import near, totals
from tests.standins.nvml_standin import Fault, Gpu, Scenario, Segment

NASTY = Gpu(
    origin_s=0.3,
    segments=(
        Segment(
            seconds=0.7,
            tensor_ratio=0.6,
            sm_clock_mhz=1980,
            sm_active_ratio=0.9,
            power_watts=650.5,
            memory_used_bytes=70 * 10**9,
            utilisation_ratio=1.0,
        ),
        Segment(seconds=0.4, tensor_ratio=0.2, sm_clock_mhz=1200, sm_active_ratio=0.5, dram_active_ratio=0.7),
        Segment(seconds=0.333333333, sm_clock_mhz=345, power_watts=70.25, throttle_reasons=0x24),
        Segment(seconds=0.5, tensor_ratio=0.85, sm_clock_mhz=1755, sm_active_ratio=1, utilisation_ratio=1),
    ),
)
STEADY = Gpu(segments=(Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.75),))
ONE = Scenario(gpus=(NASTY,))
READ, CLOCK = ["read", 0], ["clock", 0]
Script = list[Any]


def step(seconds: float) -> Script:
    return ["step", seconds]


def readings(answers: Any) -> list[dict[str, Any]]:
    return [answer for answer in answers if isinstance(answer, dict)]


# --------------------------------------------------------------- what is true


def test_figures_equal_the_truth(stage: Stage) -> None:
    """Ratios are the exact means over the time since the last good reading, cycles the exact sums."""
    lengths = (1.0, 0.13, 30.5, 7.25)
    script = [READ, *(part for length in lengths for part in (step(length), READ))]
    its = readings(stage.play(ONE, *script))
    at = START_S
    for length, reading in zip(lengths, its[1:], strict=True):
        truth, counters = ONE.truth(0, at, at + length), ONE.counters(0, at + length)
        expected = (truth.tpa_cycle_weighted, truth.sm_active, truth.dram_active)
        names = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio")
        assert expected == pytest.approx(tuple(reading[name] for name in names), rel=1e-9)
        cycles = (counters.sm_cycles_elapsed, counters.mma_cycles_active)
        assert cycles == pytest.approx((reading["sm_cycles"], reading["mma_cycles"]), rel=1e-9)
        assert counters.energy_millijoules / 1000 == pytest.approx(reading["energy_joules"], abs=1e-3)
        at += length


def test_instantaneous_figures(stage: Stage) -> None:
    """Power, memory (without the driver's own), utilisation and throttling are those of the instant."""
    answers = stage.play(ONE, READ, CLOCK, step(0.7), READ, CLOCK)
    for reading, mhz, at in zip(readings(answers), (answers[1], answers[4]), (0.0, 0.7), strict=True):
        segment = NASTY.segment_at(START_S + at)
        assert (segment.sm_clock_mhz, segment.power_watts) == (mhz, reading["power_watts"])
        assert (segment.memory_used_bytes, segment.utilisation_ratio, segment.throttle_reasons) == (
            reading["memory_used_bytes"],
            reading["utilisation_ratio"],
            reading["throttle_mask"],
        )


def test_devices(stage: Stage) -> None:
    """Each GPU has its UUID, minor number, bus id, name and SMs; one that gives no handle is left out."""
    odd = replace(NASTY, minor=7, name="NVIDIA L40S", architecture=8, sms=142)
    scenario = Scenario(
        gpus=(NASTY, NASTY, odd), faults=(Fault(function="nvmlDeviceGetHandleByIndex*", device=1, error=4),)
    )
    (devices,) = stage.play(scenario, ["devices"])
    assert [(0, 0, "NVIDIA H100 80GB HBM3", 132), (2, 7, "NVIDIA L40S", 142)] == [
        (one["index"], one["minor"], one["gpu_model"], one["sm_count"]) for one in devices
    ]
    assert [scenario.uuid(0), scenario.uuid(2)] == [one["uuid"] for one in devices]
    assert devices[0]["pci_bus_id"].endswith(":18:00.0")


@pytest.mark.parametrize("tensor", [0.0, 1.0])
def test_never_and_always_active(stage: Stage, tensor: float) -> None:
    """0 and 100 % are values, also where rounding is unkind."""
    gpu = Gpu(segments=(Segment(seconds=0.7, tensor_ratio=tensor, sm_clock_mhz=1234.567),))
    its = readings(stage.play(Scenario(gpus=(gpu,)), READ, *[step(0.1234567), READ] * 10))
    assert [near(tensor)] * 10 == [one["tensor_active_ratio"] for one in its[1:]]
    over = Scenario(gpus=(gpu,), faults=(Fault(function="nvmlGpmMetricsGet", metric=5, value=100.000001),))
    assert 1.0 == readings(stage.play(over, READ, step(1.0), READ))[1]["tensor_active_ratio"]


# --------------------------------------------------------------- cycle counters


def retimed(answers: Any, lengths: list[float]) -> GpuTotals:
    """The totals of readings, at the stand-in's own times, with a steady clock of 1830 MHz."""
    fold = GpuFold.start(0, 10.0)
    at, since = 0, None
    for answer, length in zip(readings(answers), [0.0, *lengths], strict=True):
        at += round(length * 1e9)
        reading = Reading(**{**answer, "taken_ns": at, "since_ns": since})
        fold.add(Sample(reading=reading, clocks_mhz=(1830.0,) * 10, clock_before_mhz=1830.0), 0)
        since = at if reading.fault is None else since
    fold.clock_after(1830.0)
    return totals(fold)


@pytest.mark.parametrize(
    ("gpu", "has_cycles", "estimator"),
    [
        (STEADY, True, "cycles"),
        (replace(STEADY, counters_summed_over_sms=True), True, "cycles"),
        (replace(STEADY, counter_base=1e16), True, "cycles"),
        (replace(STEADY, reset_at_s=(START_S + 35.0,)), True, "cycles"),
        (replace(STEADY, counters="absent"), False, "sampled"),
        (replace(STEADY, counters="absent", unknown_metric_error=2), False, "sampled"),
        (replace(STEADY, counters="difference"), True, "sampled"),
    ],
)
def test_which_estimator(stage: Stage, gpu: Gpu, has_cycles: bool, estimator: str) -> None:
    """cycles where ids 248 and 250 are cumulative counters that fit the clock; else sampled."""
    lengths = [10.0] * 8
    script = [READ, *(part for length in lengths for part in (step(length), READ)), ["has_cycles"]]
    answers = stage.play(Scenario(gpus=(gpu,)), *script)
    its = retimed(answers, lengths)
    assert (has_cycles, estimator, "ok") == (answers[-1], its.estimator, its.reason)
    assert 0.5 == pytest.approx((its.tensor_ref_seconds or 0.0) / its.covered_seconds, rel=1e-6)


def test_ids_that_are_unknown_are_asked_once(stage: Stage) -> None:
    """An older driver does not know ids 248 and 250: it is asked once and never again."""
    unknown = replace(STEADY, counters="absent")
    later = ["faults", {"function": "nvmlGpmMetricsGet", "metric": 248, "value": 1e9}]
    answers = stage.play(Scenario(gpus=(unknown,)), READ, step(1), READ, later, step(1), READ, ["has_cycles"])
    assert [None, None, None, False] == [*(one["sm_cycles"] for one in readings(answers)), answers[-1]]


@pytest.mark.parametrize("fault", [{"error": 999}, {"metric": 5, "error": 999}, {"nan": True}])
def test_a_bad_start_does_not_cost_the_cycles(stage: Stage, fault: dict[str, Any]) -> None:
    """A comparison that failed for another reason does not prove the ids unknown."""
    begin = ["faults", {"function": "nvmlGpmMetricsGet", **fault}]
    answers = stage.play(ONE, READ, begin, step(1), READ, ["faults"], step(1), READ, ["has_cycles"])
    _, bad, good = readings(answers)
    assert ("source_lost", None, True) == (bad["fault"], good["fault"], answers[-1])
    assert ONE.counters(0, START_S + 2).mma_cycles_active == pytest.approx(good["mma_cycles"])


def test_an_idle_gpu_whose_clock_stands_still(stage: Stage) -> None:
    """No cycle elapses, so every gauge is 0/0: that is an activity of 0, once the counters stood still."""
    still = Segment(seconds=1000, sm_clock_mhz=345, gated=True)
    gpu = replace(STEADY, segments=(replace(STEADY.segments[0], seconds=40), still), origin_s=START_S)
    lengths = [10.0] * 6
    script = [READ, *(part for length in lengths for part in (step(length), READ)), step(0.5), READ]
    answers = stage.play(Scenario(gpus=(gpu,)), *script)
    *its, soon = readings(answers)
    assert [None, 0.5, 0.5, 0.5, 0.5, 0, 0] == [one["tensor_active_ratio"] for one in its]
    assert [None] * 7 == [one["fault"] for one in its]
    assert "source_lost" == soon["fault"]  # too soon after the last one to tell: nothing was refreshed?
    summed = retimed(answers[:-1], lengths)
    assert ("cycles", "ok", 50.0, near(15.0)) == (
        summed.estimator,
        summed.reason,
        summed.covered_seconds,
        summed.tensor_ref_seconds,
    )


def test_a_gpu_that_was_idle_from_the_start(stage: Stage) -> None:
    """Counters must be seen twice before they are known to stand still; then the time before counts too."""
    gpu = replace(STEADY, segments=(Segment(seconds=1000, sm_clock_mhz=345, gated=True),))
    first, second, third = readings(stage.play(Scenario(gpus=(gpu,)), READ, step(10), READ, step(10), READ))
    assert [(None, None), ("source_lost", None), (None, 0)] == [
        (one["fault"], one["tensor_active_ratio"]) for one in (first, second, third)
    ]
    assert first["taken_ns"] == third["since_ns"]


def test_a_clock_that_stood_still_without_cycle_counters(stage: Stage) -> None:
    """A mean over time without cycles and time with some is that of the latter alone: where no counter tells
    the two apart, time without cycles is not covered, and figures begin anew after it."""
    busy, still = replace(STEADY.segments[0], seconds=20), Segment(seconds=50, sm_clock_mhz=345, gated=True)
    gpu = Gpu(counters="absent", segments=(busy, still, busy), origin_s=START_S)
    its = readings(stage.play(Scenario(gpus=(gpu,)), READ, *[step(10), READ] * 9))
    assert [(None, None), *[(0.5, None)] * 2, *[(None, "source_lost")] * 5, (None, None), (0.5, None)] == [
        (one["tensor_active_ratio"], one["fault"]) for one in its
    ]
    assert (None, its[8]["taken_ns"]) == (its[8]["since_ns"], its[9]["since_ns"])
    idle_first = replace(gpu, segments=(still, busy))
    answers = stage.play(Scenario(gpus=(idle_first,)), READ, *[step(10), READ] * 7)
    *_, lost, begun, good = readings(answers)
    assert ("source_lost", None, 0.5) == (lost["fault"], begun["since_ns"], good["tensor_active_ratio"])


def test_gauges_that_are_missing_are_no_idleness(stage: Stage) -> None:
    """Counters that stand still do not make 0 of a gauge whose own return code is an error."""
    gpu = replace(STEADY, segments=(Segment(seconds=1000, sm_clock_mhz=345, gated=True),))
    scenario = Scenario(gpus=(gpu,), faults=(Fault(function="nvmlGpmMetricsGet", metric=5, error=3),))
    its = readings(stage.play(scenario, READ, *[step(10), READ] * 3))
    assert ["source_lost"] * 3 == [one["fault"] for one in its[1:]]


# --------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        ({"metric": 2, "error": 3}, {"sm_active_ratio"}),
        ({"metric": 10, "error": 3}, {"dram_active_ratio"}),
        ({"metric": 2, "nan": True}, {"sm_active_ratio"}),
        ({"metric": 250, "nan": True}, {"mma_cycles"}),
        ({"metric": 5, "error": 3}, {"tensor_active_ratio"}),
        ({"metric": 5, "nan": True}, {"tensor_active_ratio"}),
        ({"metric": 5, "value": 100.5}, {"tensor_active_ratio"}),
        ({"metric": 5, "value": -0.5}, {"tensor_active_ratio"}),
    ],
)
def test_each_metric_has_its_own_return_code(stage: Stage, fault: dict[str, Any], lost: set[str]) -> None:
    """A metric's own return code counts, and NaN comes with success: missing is not zero."""
    begin = ["faults", {"function": "nvmlGpmMetricsGet", **fault}]
    _, good, bad = readings(stage.play(ONE, READ, step(1), READ, begin, step(1), READ))
    kept = {name for name, value in good.items() if value is not None}
    assert lost == kept - {name for name, value in bad.items() if value is not None}
    assert ("source_lost" if "tensor_active_ratio" in lost else None) == bad["fault"]


@pytest.mark.parametrize(
    "fault",
    [
        {"function": "nvmlGpmSampleGet", "error": 999},
        {"function": "nvmlGpmMetricsGet", "error": 999},
        {"function": "nvmlGpmMetricsGet", "metric": 5, "error": 999},
        {"function": "nvmlGpmMetricsGet", "metric": 5, "value": 250.0},
    ],
    ids=["sampling", "comparing", "one metric", "nonsense"],
)
def test_after_a_fault_the_next_reading_covers_all(stage: Stage, fault: dict[str, Any]) -> None:
    """since_ns stays at the last good reading, and the ratios are over all of the time since."""
    begin = ["faults", fault]
    script = [READ, step(1), READ, begin, step(1), READ, step(1), READ, ["faults"], step(1), READ]
    _, good, *bad, recovered = readings(stage.play(ONE, *script))
    assert ["source_lost"] * 2 == [one["fault"] for one in bad]
    assert good["taken_ns"] == recovered["since_ns"]
    truth = ONE.truth(0, START_S + 1, START_S + 4)
    assert truth.tpa_cycle_weighted == pytest.approx(recovered["tensor_active_ratio"])


def test_a_lost_gpu_leaves_the_others_alone(stage: Stage) -> None:
    """A GPU that is lost has faults and no clock; the other GPUs go on."""
    scenario = Scenario(gpus=(replace(NASTY, lost_at_s=START_S + 1.5), NASTY))
    both = [READ, ["read", 1]]
    answers = stage.play(scenario, *both, step(1), *both, step(1), *both, CLOCK, ["clock", 1])
    lost, well = readings(answers)[4:]
    assert ("source_lost", None, None, None) == (
        lost["fault"],
        lost["tensor_active_ratio"],
        lost["power_watts"],
        answers[-2],
    )
    truth = scenario.truth(1, START_S + 1, START_S + 2)
    assert truth.tpa_cycle_weighted == pytest.approx(well["tensor_active_ratio"])
    assert answers[-1] is not None


def test_a_gpu_without_gpm_has_no_source(stage: Stage) -> None:
    """Pre-Hopper GPUs have no GPM: no_source, never GPU utilisation in its place; side figures go on."""
    its = readings(stage.play(Scenario(gpus=(replace(NASTY, gpm=False),)), READ, step(1), READ))
    assert ["no_source"] * 2 == [one["fault"] for one in its]
    assert [None] * 2 == [one["tensor_active_ratio"] for one in its]
    assert NASTY.segment_at(START_S + 1).power_watts == its[1]["power_watts"]


def test_a_driver_without_gpm_has_no_source(stage_of: Callable[[str], Stage]) -> None:
    """A library without the GPM functions: no_source."""
    its = readings(stage_of("no_gpm").play(ONE, READ, step(1), READ))
    assert ["no_source"] * 2 == [one["fault"] for one in its]


def test_sampling_that_is_not_supported_is_asked_once(stage: Stage) -> None:
    """C20: a GPU that says yes to GPM and no to a sample has no source; it is asked once."""
    scenario = Scenario(gpus=(NASTY, NASTY), faults=(Fault(function="nvmlGpmSampleGet", device=0, error=3),))
    its = readings(stage.play(scenario, READ, step(1), READ, ["read", 1]))
    assert ["no_source", "no_source", None] == [one["fault"] for one in its]
    assert 2 == stage.calls()["nvmlGpmSampleGet"]


def test_a_passing_trouble_is_no_missing_gpm(stage: Stage) -> None:
    """A GPU that does not answer at first, or has no memory for samples, is asked again."""
    for function in ("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc"):
        begin = ["faults", {"function": function, "error": 20}]
        answers = stage.play(ONE, begin, READ, ["faults"], step(1), READ, step(1), READ)
        first, second, third = readings(answers)
        assert ("source_lost", None, None) == (first["fault"], second["fault"], third["fault"])
        assert third["tensor_active_ratio"] is not None


def test_old_function_names_do(stage_of: Callable[[str], Stage]) -> None:
    """Drivers before the renaming know only the old name of the clocks' event reasons."""
    its = readings(stage_of("old_names").play(ONE, READ, step(0.7), READ, step(0.4), READ))
    masks = [NASTY.segment_at(START_S + at).throttle_reasons for at in (0, 0.7, 1.1)]
    assert 0x24 in masks
    assert masks == [one["throttle_mask"] for one in its]


def test_memory_of_older_drivers(stage: Stage) -> None:
    """Where the second version of the memory call is missing, the first does."""
    scenario = Scenario(gpus=(NASTY,), faults=(Fault(function="nvmlDeviceGetMemoryInfo_v2", error=13),))
    (reading,) = readings(stage.play(scenario, READ))
    reserved = NASTY.memory_reserved_bytes
    assert NASTY.segment_at(START_S).memory_used_bytes + reserved == reading["memory_used_bytes"]


@pytest.mark.parametrize("function", ["PowerUsage", "TotalEnergyConsumption", "UtilizationRates"])
def test_a_side_figure_that_fails_is_missing(stage: Stage, function: str) -> None:
    """A side figure that the driver does not give is absent, and costs nothing else."""
    scenario = Scenario(gpus=(NASTY,), faults=(Fault(function=f"nvmlDeviceGet{function}", error=3),))
    reading = readings(stage.play(scenario, READ, step(1), READ))[1]
    names = ("power_watts", "energy_joules", "utilisation_ratio")
    assert 1 == sum(reading[name] is None for name in names)
    assert (None, True) == (reading["fault"], reading["tensor_active_ratio"] is not None)


# --------------------------------------------------------------- opening and closing


def test_without_a_library_there_is_no_source(tmp_path: Path) -> None:
    """No libnvidia-ml.so.1: SourceError with the reason no_source."""
    answer = Stage(tmp_path, tmp_path / "libnvidia-ml.so.1").play(ONE)
    assert "no_source" == answer["reason"]
    assert "NVML cannot be used" in answer["error"]


def test_without_a_driver_there_is_no_source(stage: Stage) -> None:
    """A library without its driver: SourceError with the reason no_source."""
    answer = stage.play(Scenario(gpus=(NASTY,), faults=(Fault(function="nvmlInit*", error=9),)))
    assert "no_source" == answer["reason"]


def test_without_gpus_there_are_no_devices(stage: Stage) -> None:
    """A driver that counts no GPU is a source without devices."""
    scenario = Scenario(gpus=(NASTY,), faults=(Fault(function="nvmlDeviceGetCount*", error=999),))
    assert [[]] == stage.play(scenario, ["devices"])


def test_close_lets_go_of_everything(stage: Stage) -> None:
    """After close no GPU handle and no device file stays open; every sample was freed."""
    device = stage.folder / "nvidia0"
    device.write_text("")
    scenario = Scenario(gpus=(replace(NASTY, device=device), NASTY))
    script = [READ, ["read", 1], step(1), READ, ["open_files"], ["close"], ["open_files"], ["close"]]
    answers = stage.play(scenario, *script)
    assert (True, False) == (str(device) in answers[4], str(device) in answers[6])
    calls = stage.calls()
    assert (4, 4, 1) == (calls["samples_allocated"], calls["samples_freed"], calls["nvmlShutdown"])


def test_driver_calls_per_tick(stage: Stage) -> None:
    """A tick costs 7 driver calls per GPU, a clock reading 1: each takes the driver's lock."""
    warm = [READ, step(1), READ, step(1), READ]
    stage.play(ONE, *warm)
    before = stage.calls()
    stage.play(ONE, *warm, *[step(1), READ] * 10, *[CLOCK] * 10)
    after = stage.calls()
    more = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert 10 == more.pop("nvmlDeviceGetClockInfo")
    assert {10} == set(more.values())
    assert 7 == len(more), more


def test_a_call_that_is_missing_is_made_once(stage: Stage) -> None:
    """A call that a driver does not have is asked once and never again."""
    scenario = Scenario(gpus=(NASTY,), faults=(Fault(function="nvmlDeviceGetPowerUsage", error=3),))
    stage.play(scenario, READ, *[step(1), READ] * 5)
    assert 1 == stage.calls()["nvmlDeviceGetPowerUsage"]


def test_a_view_for_mps_is_not_inherited(stage: Stage) -> None:
    """NVML_MPS_DEVICE_ENUMERATION, with which GPM does not answer, is taken out of the environment."""
    answers = stage.play(ONE, ["environment", "NVML_MPS_DEVICE_ENUMERATION"], NVML_MPS_DEVICE_ENUMERATION="1")
    assert [None] == answers
