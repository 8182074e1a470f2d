"""Stored series of a dcgm-exporter → one GPU's looks, one after the other."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.counters.stored_series import (
    GAP_STEPS,
    Course,
    Device,
    Look,
    StoredSeries,
    device_of,
    looks_of,
)

TENSOR, CLOCK, UTIL = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL"
GPU = Device("GPU-aa", None)
S = 10**9


def series(name: str, samples: Mapping[float, float], **labels: str) -> StoredSeries:
    """One series of GPU-aa, by seconds."""
    own = {"UUID": "GPU-aa", "gpu": "3", "modelName": "NVIDIA A100-SXM4-80GB", **labels}
    return StoredSeries(
        {"__name__": name, **own}, [(round(at * 1000), value) for at, value in samples.items()]
    )


def every(step: float, count: int, value: float = 0.5, *, first: float = 30.0) -> dict[float, float]:
    """Samples at equal distances."""
    return {first + step * at: value for at in range(count)}


def looks(*given: StoredSeries, courses: dict[Device, Course] | None = None) -> list[Look]:
    """Of GPU-aa."""
    return looks_of(given, {} if courses is None else courses).get(GPU, [])


def tensors(found: Iterable[Look]) -> dict[float, float | None]:
    """The tensor figure at each second."""
    return {look.taken_ns / S: look.values.get("tensor_active_ratio") for look in found}


def test_a_sample_speaks_for_the_time_since_the_one_before() -> None:
    """The first of all for none that is known."""
    found = looks(series(TENSOR, every(30, 6)), series(CLOCK, every(30, 6, 1410.0)))
    assert [None, 30 * S, 60 * S, 90 * S, 120 * S, 150 * S] == [look.since_ns for look in found]
    assert {"tensor_active_ratio": 0.5, "sm_clock_mhz": 1410.0} == found[0].values


def test_a_step_of_more_than_two_and_a_half_usual_ones_is_a_gap() -> None:
    """One missed scrape is none."""
    assert 2.5 == GAP_STEPS
    samples = {**every(30, 6), **every(30, 6, first=240.0), **every(30, 6, first=240.0 + 150 + 75.1)}
    found = looks(series(TENSOR, samples))
    assert [30.0, 465.1] == [look.taken_ns / S for look in found if look.since_ns is None]


def test_a_scrape_without_the_tensor_figure_is_a_look_without_it() -> None:
    """The one after it speaks for its own interval alone."""
    samples = every(30, 6)
    del samples[90.0]
    found = looks(series(TENSOR, samples), series(CLOCK, every(30, 6, 1410.0)))
    assert (None, 90 * S) == (tensors(found)[90.0], found[3].since_ns)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 1.2, 140737488355328.0])
def test_what_is_no_ratio_is_missing(value: float) -> None:
    """C01, C75: never a number."""
    found = looks(series(TENSOR, {**every(30, 6), 90.0: value}), series(CLOCK, every(30, 6, 1410.0)))
    assert {90.0: None} == {at: one for at, one in tensors(found).items() if one != 0.5}


def test_a_scrape_that_failed_is_no_look() -> None:
    """VictoriaMetrics gives its markers as NaN of every series, Prometheus none: both come to the same."""
    nan = float("nan")
    marked = looks(series(TENSOR, {**every(30, 6), 90.0: nan}), series(CLOCK, {**every(30, 6), 90.0: nan}))
    left_out = {at: value for at, value in every(30, 6).items() if at != 90.0}
    assert (
        looks(series(TENSOR, left_out), series(CLOCK, left_out))
        == [look for look in marked if look.values]
        != []
    )
    assert 60 * S == marked[2].since_ns


def test_copies_by_job_are_one_sample() -> None:
    """C07: and every job that the exporter mapped to the GPU is known."""
    copies = [series(TENSOR, every(30, 6), hpc_job=job) for job in ("123", "", "456")]
    found = looks(*copies, series(TENSOR, every(30, 6)))
    assert (6, frozenset({"123", "456"})) == (len(found), found[0].jobs)


def test_of_two_names_for_a_field_one_counts() -> None:
    """C05: the older one."""
    found = looks(series(TENSOR, every(30, 5)), series("DCGM_FI_PROF_TENSOR_UTIL_RATIO", every(30, 5, 0.9)))
    assert {0.5} == set(tensors(found).values())
    newer = looks(series("DCGM_FI_PROF_TENSOR_UTIL_RATIO", every(30, 5, 0.9)))
    assert {0.9} == set(tensors(newer).values())


def test_parts_of_the_tensor_pipe_are_not_added() -> None:
    """C16: their fields are not even read."""
    parts = [
        series(f"DCGM_FI_PROF_PIPE_TENSOR_{name}_ACTIVE", every(30, 5, 0.6)) for name in ("HMMA", "IMMA")
    ]
    assert [{"tensor_active_ratio": 0.5}] * 5 == [
        look.values for look in looks(series(TENSOR, every(30, 5)), *parts)
    ]


def test_the_replica_with_the_most_samples_speaks() -> None:
    """And the other where it is silent, with no value between the two."""
    better = {at: 0.5 for at in every(30, 40) if not 300 < at < 600}
    other = every(30, 12, 0.7, first=310.0)
    found = looks(
        series(TENSOR, other, prometheus_replica="b"), series(TENSOR, better, prometheus_replica="a")
    )
    assert {at: 0.7 for at in other if 300 < at < 600} == {
        at: v for at, v in tensors(found).items() if v == 0.7
    }
    assert len(better) + 10 == len(found)
    assert [30.0] == [look.taken_ns / S for look in found if look.since_ns is None]


def test_labels_that_change_leave_no_gap() -> None:
    """A new driver or pod is another series of the same GPU."""
    found = looks(series(TENSOR, every(30, 10), pod="x"), series(TENSOR, every(30, 9, first=330.0), pod="y"))
    assert (19, [30.0]) == (len(found), [look.taken_ns / S for look in found if look.since_ns is None])


def test_windows_follow_each_other_without_a_seam() -> None:
    """Whatever the windows: the same looks."""
    whole = [series(TENSOR, every(30, 100)), series(CLOCK, every(30, 100, 1410.0))]
    courses: dict[Device, Course] = {}
    parts = []
    for start in range(0, 3100_000, 310_000):
        cut = [
            StoredSeries(
                one.labels, [(at, value) for at, value in one.samples if start < at <= start + 310_000]
            )
            for one in whole
        ]
        parts += looks(*cut, courses=courses)
    assert looks(*whole) == parts
    assert [] == looks(*whole, courses=courses)


def test_slices_are_devices_of_their_own() -> None:
    """C08: by UUID and instance; their GPU is none beside them."""
    given = [series(TENSOR, every(30, 5), GPU_I_ID=number, GPU_I_PROFILE="1g.11gb") for number in ("7", "8")]
    courses: dict[Device, Course] = {}
    found = looks_of([*given, series(UTIL, every(30, 5))], courses)
    assert {Device("GPU-aa", "7"), Device("GPU-aa", "8")} == set(found)
    assert {"1g.11gb"} == {course.mig_profile for course in courses.values()}


def test_what_a_gpu_is_called() -> None:
    """By its UUID, in whichever case the label is written; without one it is none."""
    assert Device("GPU-1", None) == device_of({"uuid": "GPU-1", "GPU_I_ID": ""})
    assert device_of({"gpu": "0"}) is None
    courses: dict[Device, Course] = {}
    looks(series(TENSOR, every(30, 5)), courses=courses)
    assert ("3", "NVIDIA A100-SXM4-80GB", 30 * S) == (
        *(courses[GPU].gpu, courses[GPU].gpu_model),
        courses[GPU].step_ns,
    )


def _energy(moves: Iterable[bool]) -> StoredSeries:
    """An energy counter, sample after sample."""
    value, samples = 1e6, {}
    for at, moved in enumerate(moves, start=1):
        value += 3e6 * moved
        samples[30.0 * at] = value
    return series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", samples)


def test_an_exporter_that_serves_old_values() -> None:
    """While the energy counter stands still for more than a quarter of an hour nothing is said, from the
    first old value on; the first new one speaks for its own interval."""
    moves = [True] * 10 + [False] * 40 + [True] * 10
    found = looks(series(TENSOR, every(30, 60)), _energy(moves))
    assert [not moved for moved in moves] == [not look.values for look in found]
    assert (51 * 30 * S, 50 * 30 * S) == (found[50].taken_ns, found[50].since_ns)


@pytest.mark.parametrize(
    "moves", [[True] * 10 + [False] * 30 + [True], [False] * 60], ids=["shortly", "never"]
)
def test_a_counter_that_stands_still_shortly_or_always(moves: list[bool]) -> None:
    """Proves nothing: exporters collect more rarely than they are read, and some counters never move."""
    found = looks(series(TENSOR, every(30, len(moves))), _energy(moves))
    assert [] == [look for look in found if not look.values]


STREAMS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.lists(st.integers(1, 3000).map(lambda at: at * 1000), max_size=30, unique=True),
        st.sampled_from(["", "1", "2"]),
    ),
    max_size=4,
)


@pytest.mark.property
@given(streams=STREAMS, values=st.lists(st.floats(), min_size=1, max_size=5))
def test_no_instant_is_counted_twice(streams: list[tuple[int, list[int], str]], values: list[float]) -> None:
    """Whatever series there are: looks in order, no two over the same time, figures finite and in range."""
    given = [
        StoredSeries(
            {"__name__": TENSOR, "UUID": "GPU-aa", "replica": str(offset), "hpc_job": job},
            [(at + offset, values[number % len(values)]) for number, at in enumerate(sorted(times))],
        )
        for offset, times, job in streams
    ]
    found = looks(*given)
    until = 0
    for look in found:
        assert until < look.taken_ns
        assert look.since_ns is None or until <= look.since_ns < look.taken_ns
        assert all(0 <= value <= 1 for value in look.values.values())
        until = look.taken_ns
