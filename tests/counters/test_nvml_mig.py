"""NvmlSource on GPUs in MIG mode: slices are devices of their own, with figures of their own."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.counters.dcgm_hierarchy import Hierarchy
from slurm_ofu.counters.exporter import page_key
from slurm_ofu.counters.nvml_devices import BY_SLICES, IN_MIG_MODE, NO_SHARE, PART_OF_INSTANCE
from slurm_ofu.values import DeviceIdentity
from tests.counters.conftest import Stage
from tests.counters.player import START_S
from tests.standins.nvml_standin import Fault, Gpu, Scenario, Segment, Slice

Script = list[list[Any]]
CLOCKS = (1755.0, 1980.0)
SECONDS = (0.7, 0.4)


def course(*tensor: float, power_watts: float = 0.0, memory_used_bytes: int = 0) -> tuple[Segment, ...]:
    """A course at the GPU's clocks."""
    return tuple(
        Segment(
            seconds=seconds,
            sm_clock_mhz=mhz,
            tensor_ratio=ratio,
            sm_active_ratio=ratio,
            power_watts=power_watts,
            memory_used_bytes=memory_used_bytes,
            throttle_reasons=4,
            utilisation_ratio=1.0,
        )
        for seconds, mhz, ratio in zip(SECONDS, CLOCKS, tensor, strict=True)
    )


SMALL = Slice(
    segments=course(0.6, 0.2, memory_used_bytes=3 * 10**9),
    slice_uuid="MIG-265a219d-a49f-578a-825d-222c72699c16",
    mig_index=1,
    gpu_instance=9,
)
LARGE = Slice(
    segments=course(0.9, 1.0),
    slice_uuid="MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d001",
    mig_index=4,
    gpu_instance=2,
    profile="3g.40gb",
    sms=60,
    gpu_slices=3,
    compute_slices=3,
)
#: A caller that is root may have the counters of the whole GPU in MIG mode, which are nobody's.
SPLIT = Gpu(segments=course(0.5, 0.5, power_watts=500), mig="on", mig_monitor=1, slices=(SMALL, LARGE))
PLAIN = Gpu(segments=course(0.5, 0.5, power_watts=500))
MIXED = Scenario(gpus=(PLAIN, SPLIT))
#: Indices of the devices: two GPUs, then the slices.
WHOLE, SMALL_INDEX, LARGE_INDEX = 1, 2, 3


def devices(stage: Stage, gpu: Gpu, *faults: Fault) -> list[dict[str, Any]]:
    """What is listed of a node with one split GPU."""
    (found,) = stage.play(Scenario(gpus=(gpu,), faults=faults), ["devices"])
    return list(found)


def test_slices_follow_the_gpus(stage: Stage) -> None:
    """A GPU in MIG mode keeps its place; its slices, holes passed over, come after all GPUs."""
    found = stage.play(MIXED, ["devices"])[0]
    assert [0, 1, 2, 3] == [one["index"] for one in found]
    assert [MIXED.uuid(0), MIXED.uuid(1), SMALL.slice_uuid, LARGE.slice_uuid] == [
        one["uuid"] for one in found
    ]
    assert [None, None, MIXED.uuid(1), MIXED.uuid(1)] == [one["parent_uuid"] for one in found]
    assert [None, None, 9, 2] == [one["gpu_instance_id"] for one in found]
    assert [None, None, "1g.10gb", "3g.40gb"] == [one["mig_profile"] for one in found]
    assert [0, 1, None, None] == [one["minor"] for one in found]
    assert {"NVIDIA H100 80GB HBM3"} == {one["gpu_model"] for one in found}


def test_a_slice_weighs_its_share_of_the_sms(stage: Stage) -> None:
    """The whole GPU's SMs are the catalogue's: a 1g slice of an H100 is 16 of 132 of it, not one GPU."""
    _, small, large = devices(stage, SPLIT)
    assert [(16, 16 / 132), (60, 60 / 132)] == [
        (one["sm_count"], one["sm_share_ratio"]) for one in (small, large)
    ]


def test_the_slices_of_some_gpus_are_not_all_of_them(stage: Stage) -> None:
    """An A100 has 108 SMs, of which MIG hands out 98: its largest slice is not all of it either."""
    whole = replace(LARGE, profile="7g.40gb", sms=98, gpu_slices=7, compute_slices=7)
    _, found = devices(stage, replace(SPLIT, name="NVIDIA A100-SXM4-40GB", mig_sms=98, slices=(whole,)))
    assert 98 / 108 == found["sm_share_ratio"]


def test_an_unknown_gpu_is_as_large_as_its_largest_instance(stage: Stage) -> None:
    """A model that the catalogue does not have: the SMs of an instance over all of the GPU."""
    _, small, _ = devices(stage, replace(SPLIT, name="NVIDIA H999", mig_sms=120))
    assert 16 / 120 == small["sm_share_ratio"]


def test_without_any_sm_count_slices_are_counted(stage: Stage) -> None:
    """Where nothing gives the whole GPU's SMs, a share is that of the slices, which the note says."""
    scenario = Scenario(gpus=(replace(SPLIT, name="NVIDIA H999", mig_sms=0),))
    found, notes = stage.play(scenario, ["devices"], ["notes"])
    assert [1.0, 1 / 7, 3 / 7] == [one["sm_share_ratio"] for one in found]
    assert [IN_MIG_MODE, BY_SLICES, BY_SLICES] == notes


def test_without_attributes_the_profile_tells_the_slices(stage: Stage) -> None:
    """A driver that gives no attributes of a slice: its name has the number of slices."""
    found = devices(stage, SPLIT, Fault(function="nvmlDeviceGetAttributes*", error=3))
    assert [(None, 1 / 7), (None, 3 / 7)] == [(one["sm_count"], one["sm_share_ratio"]) for one in found[1:]]


def test_a_slice_of_no_known_share_has_no_figures(stage: Stage) -> None:
    """What cannot be weighed must not weigh as a whole GPU: no source, and the weight of a smallest slice."""
    nameless = replace(SPLIT, slices=(replace(SMALL, profile=""), LARGE))
    faults = (Fault(function="nvmlDeviceGetAttributes*", error=3),)
    scenario = Scenario(gpus=(nameless,), faults=faults)
    found, notes, _, _, reading = stage.play(
        scenario, ["devices"], ["notes"], ["read", 1], ["step", 1], ["read", 1]
    )
    assert (None, 1 / 7, NO_SHARE) == (found[1]["mig_profile"], found[1]["sm_share_ratio"], notes[1])
    assert ("no_source", None) == (reading["fault"], found[1]["gpu_instance_id"])


def test_a_slice_larger_than_its_gpu_is_counted_in_slices(stage: Stage) -> None:
    """SMs that contradict the catalogue are not put against it: a share is never above 1."""
    _, small, _ = devices(stage, replace(SPLIT, slices=(replace(SMALL, sms=200), LARGE)))
    assert 1 / 7 == small["sm_share_ratio"]


def test_figures_of_slices_equal_the_truth(stage: Stage) -> None:
    """A slice's ratios are relative to its own SMs, and a slice knows nothing of the one beside it."""
    lengths = (1.0, 0.13, 7.25)
    pair = [["read", SMALL_INDEX], ["read", LARGE_INDEX]]
    answers = stage.play(MIXED, *pair, *(part for length in lengths for part in (["step", length], *pair)))
    readings = [answer for answer in answers if answer is not None]
    at = START_S
    for place, length in enumerate(lengths, start=1):
        for which in (0, 1):
            truth = MIXED.slice_truth(1, which, at, at + length)
            reading = readings[2 * place + which]
            assert truth.tpa_cycle_weighted == pytest.approx(reading["tensor_active_ratio"], rel=1e-9)
            assert truth.sm_active == pytest.approx(reading["sm_active_ratio"], rel=1e-9)
            assert reading["fault"] is None
        at += length


def test_a_slice_has_its_gpus_clock_and_its_own_memory(stage: Stage) -> None:
    """Clock and throttling are the GPU's, memory the slice's; power and energy are nobody's."""
    reading, mhz = stage.play(MIXED, ["read", SMALL_INDEX], ["clock", SMALL_INDEX])
    segment = SPLIT.segment_at(START_S)
    assert (segment.sm_clock_mhz, segment.throttle_reasons) == (mhz, reading["throttle_mask"])
    assert 3 * 10**9 == reading["memory_used_bytes"]
    assert [None] * 3 == [reading[name] for name in ("power_watts", "energy_joules", "utilisation_ratio")]


def test_utilisation_of_a_slice_where_the_driver_tells_it(stage: Stage) -> None:
    """Later drivers tell a slice's utilisation; the others are asked once."""
    told = replace(SPLIT, slices=(SMALL, replace(LARGE, slice_utilisation=1)))
    pair: Script = [["read", 1], ["read", 2]]
    answers = stage.play(Scenario(gpus=(told,)), *pair, ["step", 0.1], *pair)
    assert [None, 1.0] * 2 == [answers[at]["utilisation_ratio"] for at in (0, 1, 3, 4)]
    calls = stage.calls()
    assert (3, None) == (calls["nvmlDeviceGetUtilizationRates"], calls.get("nvmlDeviceGetPowerUsage"))


def test_a_slice_has_no_cycle_counters(stage: Stage) -> None:
    """Ids 248 and 250 count for whole GPUs only: with a slice, not every GPU of the job has them."""
    script: Script = [["read", 0], ["step", 1], ["read", 0], ["has_cycles"]]
    slice_too: Script = [
        ["read", SMALL_INDEX],
        ["step", 1],
        ["read", 0],
        ["read", SMALL_INDEX],
        ["has_cycles"],
    ]
    tempting = replace(SPLIT, slices=(replace(SMALL, counters="absolute"), LARGE))
    answers = stage.play(Scenario(gpus=(PLAIN, tempting)), *script, *slice_too)
    assert (True, False) == (answers[3], answers[8])
    assert [True, False] == [answers[at]["sm_cycles"] is not None for at in (6, 7)]
    assert (None, None) == (answers[7]["mma_cycles"], answers[7]["fault"])


def test_the_whole_of_a_split_gpu_has_no_source(stage: Stage) -> None:
    """A GPU in MIG mode has no figures of its own, from the first reading on; power and clock go on."""
    script: Script = [["read", WHOLE], ["step", 1], ["read", WHOLE], ["clock", WHOLE], ["notes"]]
    first, _, second, mhz, notes = stage.play(MIXED, *script)
    assert ["no_source"] * 2 == [first["fault"], second["fault"]]
    assert (500.0, None) == (second["power_watts"], second["tensor_active_ratio"])
    assert SPLIT.segment_at(START_S + 1).sm_clock_mhz == mhz
    assert [None, IN_MIG_MODE, None, None] == notes


@pytest.mark.parametrize(
    "slices",
    [
        (SMALL, replace(LARGE, compute_slices=1, sms=20, profile="1c.3g.40gb")),
        (replace(LARGE, mig_index=0, slice_uuid="MIG-0"), LARGE),
    ],
    ids=["one of three", "two in one"],
)
def test_a_part_of_a_gpu_instance_has_no_source(stage: Stage, slices: tuple[Slice, ...]) -> None:
    """GPM counts per GPU instance: of a compute instance that is a part of one it says nothing of its own."""
    scenario = Scenario(gpus=(replace(SPLIT, slices=slices),))
    script: Script = [["read", 2], ["step", 1], ["read", 2], ["notes"], ["devices"]]
    reading, _, second, notes, found = stage.play(scenario, *script)
    assert ["no_source"] * 2 == [reading["fault"], second["fault"]]
    assert (
        None is found[2]["gpu_instance_id"]
    )  # or another source would give the instance's figure for its own
    assert (None, PART_OF_INSTANCE) == (second["tensor_active_ratio"], notes[2])


def test_another_source_finds_no_part_of_an_instance() -> None:
    """Sources that know slices by their GPU instance know nothing of a part of one, least of all its GPU."""
    part = DeviceIdentity(index=3, uuid="MIG-a", parent_uuid="GPU-a")
    assert page_key(part) != page_key(DeviceIdentity(index=0, uuid="GPU-a"))
    whole = Hierarchy(gpus={}, instances={("GPU-a", 1): 5})
    assert None is whole.entity(part.uuid, part.parent_uuid, part.gpu_instance_id)


def test_without_attributes_the_profile_tells_parts(stage: Stage) -> None:
    """A compute instance that is a part of its GPU instance is known by its name, too."""
    part = replace(LARGE, compute_slices=1, sms=20, profile="1c.3g.40gb")
    faults = (Fault(function="nvmlDeviceGetAttributes*", error=3),)
    scenario = Scenario(gpus=(replace(SPLIT, slices=(part,)),), faults=faults)
    found, notes = stage.play(scenario, ["devices"], ["notes"])
    assert (1 / 7, PART_OF_INSTANCE) == (found[1]["sm_share_ratio"], notes[1])


def test_gpm_never_gets_a_slices_handle(stage: Stage) -> None:
    """GPM on a MIG handle was seen to make later calls fail: slices are sampled through their GPU."""
    stage.play(Scenario(gpus=(SPLIT,)), ["read", 1], ["step", 1], ["read", 1])
    calls = stage.calls()
    assert (2, None) == (calls["nvmlGpmMigSampleGet"], calls.get("nvmlGpmSampleGet"))
    assert 1 == calls["nvmlGpmQueryDeviceSupport"]


@pytest.mark.parametrize("error", [3, 13])
def test_a_driver_that_cannot_sample_slices_has_no_source(stage: Stage, error: int) -> None:
    """Where sampling a slice is not supported, or not there, it has no source; asked once."""
    scenario = Scenario(gpus=(SPLIT,), faults=(Fault(function="nvmlGpmMigSampleGet", error=error),))
    readings = stage.play(scenario, ["read", 1], ["step", 1], ["read", 1])
    assert ["no_source"] * 2 == [readings[0]["fault"], readings[2]["fault"]]
    assert 1 == stage.calls()["nvmlGpmMigSampleGet"]


def test_a_lost_gpu_takes_its_slices_with_it(stage: Stage) -> None:
    """Where the GPU is lost its slices are; the GPU beside it goes on."""
    scenario = Scenario(gpus=(PLAIN, replace(SPLIT, lost_at_s=START_S + 1.5)))
    both = [["read", 0], ["read", SMALL_INDEX]]
    answers = stage.play(scenario, *both, ["step", 1], *both, ["step", 1], *both)
    assert [None, None, None, "source_lost"] == [answers[at]["fault"] for at in (3, 4, 6, 7)]
