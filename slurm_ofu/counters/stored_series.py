"""Stored series of a dcgm-exporter's metrics → what each GPU said, sample after sample. Pure.

Of one GPU there may be several series of a metric: copies of one sample, one per job that the exporter maps
to it; two Prometheis or two scrapers that watch the same exporter; one after the other, as labels change.
Copies are never added or averaged: one stream speaks at a time, the one with the most samples, and others
only where it is silent.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Final, NamedTuple

from slurm_ofu.counters.dcgm_fields import FIELDS, Quantity, canonical, has_base_units

#: A step of more than so many usual ones is a gap.
GAP_STEPS: Final = 2.5
#: A GPU's energy counter never stands still: while one does for so long, the exporter serves old values.
OLD_NS: Final = 900 * 10**9
#: Fewer samples do not say what their usual step is.
_ENOUGH_STEPS: Final = 4
_NOT_OF_A_STREAM: Final = frozenset({"__name__", "hpc_job"})
_MS: Final = 10**6  # nanoseconds
_RANKS: Final = {name: rank for rank, name in enumerate(FIELDS)}  # of two names the first counts


class StoredSeries(NamedTuple):
    """One series of an answer: its labels, and its samples as (milliseconds since 1970, value)."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[int, float]]


class Device(NamedTuple):
    """A GPU, or an instance of one (MIG), as its labels tell it."""

    uuid: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one GPU's samples said at one instant, over the time since the look before (``since_ns``; None:
    that is unknown, or too long ago)."""

    taken_ns: int
    since_ns: int | None
    jobs: frozenset[str]
    values: Mapping[Quantity, float]
    has_tensor: bool  # whether its stream has a tensor figure at any time


@dataclass(slots=True)
class Course:
    """One GPU's looks, window after window."""

    gpu: str | None = None  # the exporter's number of it
    gpu_model: str | None = None
    mig_profile: str | None = None
    step_ns: int | None = None  # usual distance of two looks
    last_ns: int | None = None
    energy_joules: float | None = None  # the latest
    energy_ns: int | None = None  # since when it has been that; None: it was never seen to move

    @property
    def longest_step_ns(self) -> float:
        """A look that comes later than this after the one before does not speak for the time between."""
        return 0.0 if self.step_ns is None else GAP_STEPS * self.step_ns


@dataclass(slots=True)
class _Stream:
    """The samples of one GPU from one scraper, by their time."""

    labels: Mapping[str, str]
    rows: dict[int, dict[str, float]] = field(default_factory=dict)
    jobs: dict[int, set[str]] = field(default_factory=dict)
    tensor_count: int = 0


def looks_of(series: Iterable[StoredSeries], courses: dict[Device, Course]) -> dict[Device, list[Look]]:
    """The looks of each GPU in a window, in order. ``courses`` goes along from window to window."""
    streams: dict[Device, dict[frozenset[tuple[str, str]], _Stream]] = {}
    known = (one for one in series if one.labels.get("__name__") in _RANKS and one.samples)
    for one in sorted(known, key=lambda one: _RANKS[one.labels["__name__"]]):
        device = device_of(one.labels)
        if device is not None:
            _add(streams.setdefault(device, {}), one)
    sliced = {device.uuid for device in streams if device.instance_id is not None}
    return {
        device: _looks(list(its.values()), courses.setdefault(device, Course()))
        for device, its in streams.items()
        if device.instance_id is not None or device.uuid not in sliced
    }


def device_of(labels: Mapping[str, str]) -> Device | None:
    """Whose sample it is; ``None`` without a UUID. The profile in the labels is not to be trusted."""
    lower = {name.lower(): value for name, value in labels.items()}
    uuid = lower.get("uuid")
    return Device(uuid, lower.get("gpu_i_id") or None) if uuid else None


def _add(streams: dict[frozenset[tuple[str, str]], _Stream], one: StoredSeries) -> None:
    key = frozenset(item for item in one.labels.items() if item[0] not in _NOT_OF_A_STREAM)
    stream = streams.setdefault(key, _Stream(labels=one.labels))
    name, job = one.labels["__name__"], one.labels.get("hpc_job")
    for at_ms, value in one.samples:
        if not isfinite(value):  # also of a scrape that failed, in the words of VictoriaMetrics
            continue
        stream.rows.setdefault(at_ms, {}).setdefault(name, value)
        if job:
            stream.jobs.setdefault(at_ms, set()).add(job)
    if FIELDS[name].quantity == "tensor_active_ratio":
        stream.tensor_count += len(one.samples)


def _looks(streams: list[_Stream], course: Course) -> list[Look]:
    streams.sort(key=lambda stream: (-stream.tensor_count, -len(stream.rows), sorted(stream.labels.items())))
    _learn(course, streams[0])
    limit_ms = course.longest_step_ns / _MS
    times = sorted(streams[0].rows)
    speaker = dict.fromkeys(times, streams[0])
    for stream in streams[1:]:
        silent = [at_ms for at_ms in sorted(stream.rows) if _is_silent(times, at_ms, limit_ms)]
        speaker.update(dict.fromkeys(silent, stream))
        times = sorted(speaker)
    looks = []
    for at_ms in times:
        taken_ns = at_ms * _MS
        if course.last_ns is not None and taken_ns <= course.last_ns:
            continue
        near = course.last_ns is not None and taken_ns - course.last_ns <= course.longest_step_ns
        looks.append(_look(speaker[at_ms], at_ms, course.last_ns if near else None))
        course.last_ns = taken_ns
    return _without_old(looks, course)


def _without_old(looks: list[Look], course: Course) -> list[Look]:
    """The looks, of which those say nothing that were taken while the energy counter stood still for long."""
    still: list[int] = []
    old: set[int] = set()
    for at, look in enumerate(looks):
        energy = look.values.get("energy_joules")
        if energy is None:
            continue
        if energy != course.energy_joules:
            course.energy_ns = None if course.energy_joules is None else look.taken_ns
            course.energy_joules, still = energy, []
        elif course.energy_ns is not None:
            still.append(at)
            if look.taken_ns - course.energy_ns > OLD_NS:
                old.update(still)
    return [replace(look, values={}) if at in old else look for at, look in enumerate(looks)]


def _learn(course: Course, stream: _Stream) -> None:
    """What the stream that speaks says of the GPU, and how often it does."""
    lower = {name.lower(): value for name, value in stream.labels.items()}
    course.gpu = lower.get("gpu", course.gpu)
    course.gpu_model = lower.get("modelname", course.gpu_model)
    course.mig_profile = lower.get("gpu_i_profile") or course.mig_profile
    steps = [after - before for before, after in pairwise(sorted(stream.rows))]
    if len(steps) >= _ENOUGH_STEPS or (steps and course.step_ns is None):
        course.step_ns = round(median(steps)) * _MS


def _is_silent(times: Sequence[int], at_ms: int, limit_ms: float) -> bool:
    """Whether nobody spoke around an instant: between two samples further apart than they may be, or beyond
    the first and last by half a usual step."""
    at = bisect_left(times, at_ms)
    before = times[at - 1] if at > 0 else None
    after = times[at] if at < len(times) else None
    if before is not None and after is not None:
        return after - before > limit_ms and after != at_ms
    near = before if before is not None else after
    return near is None or abs(at_ms - near) > limit_ms / GAP_STEPS / 2


def _look(stream: _Stream, at_ms: int, since_ns: int | None) -> Look:
    row = stream.rows[at_ms]
    base_units = has_base_units(row)
    values: dict[Quantity, float] = {}
    for name, said in row.items():  # in the order of FIELDS
        quantity = FIELDS[name].quantity
        if quantity not in values and (value := canonical(name, said, base_units=base_units)) is not None:
            values[quantity] = value
    return Look(
        taken_ns=at_ms * _MS,
        since_ns=since_ns,
        jobs=frozenset(stream.jobs.get(at_ms, ())),
        values=values,
        has_tensor=stream.tensor_count > 0,
    )
