"""NvmlSource where NVML stops answering for good: it is opened anew, seldom, and nothing is invented."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.values import Reading, Sample
from tests.counters.conftest import Stage
from tests.counters.player import START_S
from tests.integrals.examples import near, totals
from tests.standins.nvml_standin import Fault, Gpu, Scenario, Segment, Slice

STEADY = Gpu(segments=(Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.75),))
BROKEN_S = START_S + 25
#: As after systemd's daemon-reload in a container: every call, until NVML is initialised again.
BROKEN = Fault(function="nvml*", error=999, from_s=BROKEN_S, cured_by_init=True)
READ = ["read", 0]
TICK = ["step", 10]


def ticks(count: int) -> list[list[Any]]:
    """So many steps of 10 s with a reading after each."""
    return [part for _ in range(count) for part in (TICK, READ)]


def readings(answers: Any) -> list[dict[str, Any]]:
    return [answer for answer in answers if isinstance(answer, dict) and "taken_ns" in answer]


def folded(answers: Any) -> GpuFold:
    """Readings and a steady clock, summed."""
    fold = GpuFold.start(round(START_S * 1e9), 10.0)
    for answer in readings(answers):
        sample = Sample(reading=Reading(**answer), clocks_mhz=(1830.0,) * 10, clock_before_mhz=1830.0)
        fold.add(sample, 0)
    fold.clock_after(1830.0)
    return fold


def test_unknown_error_until_initialised_again(stage: Stage) -> None:
    """C32: every call fails with 999; after half a minute NVML is opened anew and figures begin anew."""
    scenario = Scenario(gpus=(STEADY,), faults=(BROKEN,))
    its = readings(stage.play(scenario, READ, *ticks(9)))
    # Good at 0, 10, 20 s; silent from 30 s on; opened anew at 60 s, where figures begin.
    lost = [None, None, None, "source_lost", "source_lost", "source_lost", None, None, None, None]
    assert lost == [one["fault"] for one in its]
    begin = its[6]
    assert (None, None, None) == (begin["since_ns"], begin["tensor_active_ratio"], begin["sm_cycles"])
    assert (begin["taken_ns"], near(0.5)) == (its[7]["since_ns"], its[7]["tensor_active_ratio"])


def test_cycle_counters_go_on_over_the_gap(stage: Stage) -> None:
    """The gap is a gap for `sampled`; for `cycles` it is not one, because the counters went on meanwhile."""
    scenario = Scenario(gpus=(STEADY,), faults=(BROKEN,))
    fold = folded(stage.play(scenario, READ, *ticks(9)))
    assert [near(20.0 + 30.0), near(80.0)] == [fold.sampled.covered_seconds, fold.cycles.covered_seconds]
    its = totals(fold)
    assert ("cycles", "ok", near(40.0)) == (its.estimator, its.reason, its.tensor_ref_seconds)


def test_a_reloaded_driver_counts_from_zero(stage: Stage) -> None:
    """C27: counters that restarted in the gap: the sums up to it and from it on, the gap is left out."""
    scenario = Scenario(gpus=(replace(STEADY, reset_at_s=(BROKEN_S + 20,)),), faults=(BROKEN,))
    fold = folded(stage.play(scenario, READ, *ticks(9)))
    assert (1, near(10.0 + 20.0)) == (fold.counter.reset_count, fold.cycles.covered_seconds)
    its = totals(fold)
    assert ("ok", near(0.5)) == (its.reason, (its.tensor_ref_seconds or 0) / its.covered_seconds)


def test_tries_are_ever_rarer(stage: Stage) -> None:
    """While opening anew does not help, tries come after 30, 60, 120 ... seconds, 8 minutes at most."""
    hour = 3600.0
    scenario = Scenario(gpus=(STEADY,), faults=(Fault(function="nvml*", error=999, from_s=BROKEN_S),))
    stage.play(scenario, READ, TICK, READ, ["churn", 12 * 360, 10])
    calls = stage.calls()
    tries = calls["nvmlInitWithFlags"] - 1
    assert 4 + 12 * hour / 480 == pytest.approx(tries, abs=2)
    # NVML is not initialised then: nothing is asked of it in between.
    assert calls["nvmlDeviceGetPowerUsage"] < 10
    assert 1 == calls["nvmlShutdown"]


def test_a_gpu_that_supports_nothing_is_not_silent(stage: Stage) -> None:
    """NOT_SUPPORTED is an answer: NVML is not opened anew for a GPU of which nothing is left to be asked."""
    faults = tuple(
        Fault(function=function, error=3)
        for function in (
            "nvmlDeviceGet[PT]o*",
            "nvmlDeviceGetUt*",
            "nvmlDeviceGetMem*",
            "*GetCurrent*",
            "nvmlGpm*",
        )
    )
    stage.play(Scenario(gpus=(STEADY,), faults=faults), ["churn", 40, 10])
    calls = stage.calls()
    assert (1, 1) == (calls["nvmlInitWithFlags"], calls["nvmlDeviceGetPowerUsage"])


def test_a_second_failure_is_a_new_one(stage: Stage) -> None:
    """Once NVML answered again, the next failure is tried after half a minute like the first."""
    faults = (BROKEN, replace(BROKEN, from_s=BROKEN_S + 200))
    its = readings(stage.play(Scenario(gpus=(STEADY,), faults=faults), READ, *ticks(30)))
    lost = [place for place, one in enumerate(its) if one["fault"] is not None]
    assert [3, 4, 5, 23, 24, 25] == lost


def test_a_gpu_that_stays_lost_is_asked_for_seldom(stage: Stage) -> None:
    """A job's only GPU falls off the bus: opening NVML anew brings it not back, and is tried ever less."""
    scenario = Scenario(gpus=(replace(STEADY, lost_at_s=BROKEN_S), STEADY))
    answers = stage.play(scenario, READ, *ticks(60))
    its = readings(answers)
    assert [None] * 3 + ["source_lost"] * 58 == [one["fault"] for one in its]
    assert [None] * 58 == [one["tensor_active_ratio"] for one in its[3:]]
    assert 1 + 4 == stage.calls()["nvmlInitWithFlags"]  # after 30, 60, 120 and 240 s


def test_others_go_on_is_no_reason_to_open_anew(stage: Stage) -> None:
    """While one GPU answers, NVML stays as it is: opening anew would cost the well one its sample."""
    scenario = Scenario(gpus=(replace(STEADY, lost_at_s=BROKEN_S), STEADY))
    both = [TICK, READ, ["read", 1]]
    answers = stage.play(scenario, READ, ["read", 1], *both * 30)
    well = readings(answers)[1::2]
    assert [near(0.5)] * 30 == [one["tensor_active_ratio"] for one in well[1:]]
    assert 1 == stage.calls()["nvmlInitWithFlags"]


def test_gpus_are_found_again_by_uuid(stage: Stage) -> None:
    """NVML numbers GPUs anew: after that GPU 0 is read by its UUID, also as a slice."""
    other = Gpu(segments=(Segment(seconds=1, tensor_ratio=0.9, sm_clock_mhz=1830),))
    slices = (
        Slice(segments=STEADY.segments, slice_uuid="MIG-a", mig_index=0, gpu_instance=1),
        Slice(segments=other.segments, slice_uuid="MIG-b", mig_index=3, gpu_instance=5),
    )
    split = replace(other, mig="on", slices=slices)
    gone = Fault(function="nvmlDeviceGetHandleByIndex*", device=0, error=15, from_s=START_S + 45)
    scenario = Scenario(gpus=(other, STEADY, split), faults=(BROKEN, gone))
    every: list[list[Any]] = [["read", index] for index in (1, 3, 4)]
    answers = stage.play(scenario, *every, TICK, *every, *[TICK, *every] * 6)
    last = readings(answers)[-3:]
    assert [near(0.5), near(0.5), near(0.9)] == [one["tensor_active_ratio"] for one in last]


def test_a_slice_that_is_gone_has_no_figures(stage: Stage) -> None:
    """A slice that was destroyed meanwhile is lost; the one that got its place is not taken for it."""
    slices = tuple(
        Slice(segments=STEADY.segments, slice_uuid=f"MIG-{place}", mig_index=place, gpu_instance=place)
        for place in (0, 1)
    )
    scenario = Scenario(gpus=(replace(STEADY, mig="on", slices=slices),), faults=(BROKEN,))
    hidden = {"function": "nvmlDeviceGetMigDeviceHandleByIndex", "error": 6}
    one: list[Any] = ["read", 1]
    answers = stage.play(scenario, one, TICK, one, ["faults", hidden], *[TICK, one] * 8)
    assert [None] + ["source_lost"] * 7 == [reading["fault"] for reading in readings(answers)[2:]]


def test_no_buffer_is_left_behind(stage: Stage) -> None:
    """Each opening anew frees the samples of the one before: as many freed as allocated."""
    faults = [
        replace(BROKEN, function=function, from_s=START_S + at)
        for at in (25, 125, 225)
        for function in ("nvmlDevice*", "nvmlGpmSampleGet")
    ]
    stage.play(Scenario(gpus=(STEADY, STEADY), faults=tuple(faults)), ["churn", 40, 10])
    calls = stage.calls()
    assert (4 * 4, 4 * 4) == (calls["samples_allocated"], calls["samples_freed"])


def test_a_driver_of_another_version_stays_closed(stage: Stage) -> None:
    """C27: the driver that was loaded meanwhile does not fit the library: no figures, and no error."""
    mismatch = Fault(function="nvmlInit*", error=18, from_s=BROKEN_S)
    scenario = Scenario(gpus=(STEADY,), faults=(mismatch, Fault(function="nvml*", error=18, from_s=BROKEN_S)))
    answers = stage.play(scenario, READ, *ticks(20), ["clock", 0], ["close"], ["close"])
    assert ["source_lost"] * 18 == [one["fault"] for one in readings(answers)[3:]]
    assert [None, None, None] == answers[-3:]


def sampled(stage: Stage, gpus: tuple[Gpu, ...], *faults: Fault) -> list[dict[str, Any]]:
    """Totals of 605 s of each GPU, through the sampler's own loop."""
    scenario = Scenario(gpus=gpus, faults=faults)
    (found,) = stage.play(scenario, ["sample", list(range(len(gpus))), 605])
    return list(found)


@pytest.mark.parametrize(("counters", "lost_seconds"), [("absolute", 0.0), ("absent", 40.0)])
def test_a_job_through_unknown_errors(stage: Stage, counters: str, lost_seconds: float) -> None:
    """A whole job in whose middle every call fails: `sampled` misses the gap, `cycles` misses nothing, and
    both say the truth of what they have."""
    (its,) = sampled(stage, (replace(STEADY, counters=counters),), replace(BROKEN, from_s=START_S + 123))
    assert ("ok", near(0.5)) == (its["reason"], its["tensor_ref_seconds"] / its["covered_seconds"])
    assert 605 - lost_seconds == pytest.approx(its["covered_seconds"], abs=1)


def test_a_job_whose_gpu_is_lost(stage: Stage) -> None:
    """C26: one GPU of two is lost in the middle: its figures end there, the other's do not."""
    lost, well = sampled(stage, (replace(STEADY, lost_at_s=START_S + 123), STEADY))
    assert ("source_lost", "ok") == (lost["reason"], well["reason"])
    assert [120, 605] == pytest.approx([one["covered_seconds"] for one in (lost, well)], abs=1)
    assert [near(0.5)] * 2 == [one["tensor_ref_seconds"] / one["covered_seconds"] for one in (lost, well)]


def test_a_job_on_a_slice_through_unknown_errors(stage: Stage) -> None:
    """The same on a slice, which has no cycle counters."""
    slices = (Slice(segments=STEADY.segments, slice_uuid="MIG-a", mig_index=0, gpu_instance=7),)
    scenario = Scenario(gpus=(replace(STEADY, mig="on", slices=slices),), faults=(BROKEN,))
    ((its,),) = stage.play(scenario, ["sample", [1], 605])
    assert ("ok", "sampled", near(0.5)) == (
        its["reason"],
        its["estimator"],
        its["tensor_ref_seconds"] / its["covered_seconds"],
    )
    assert 605 - 40 == pytest.approx(its["covered_seconds"], abs=1)
