"""A GPU's course over a run, and whatever is wrong with its counters → samples → totals.

Everything that is tested here is the program's own: truths of ``counters.pattern``, clock instants of
``samples.ticks``, fold and totals of ``integrals``.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import get_args

from slurm_ofu.counters.pattern import Integrals, Pattern, Segment
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.samples.ticks import Schedule
from slurm_ofu.values import Estimator, GpuModel, GpuTotals, Reading, Reason, Sample
from tests.integrals.examples import H100, SECOND

MINUTE = 60.0
CLOCK_READINGS = 10
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Window = tuple[float, float]  # minutes
NEVER: Window = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One GPU over one run. Windows are in minutes from its start."""

    segments: tuple[Segment, ...]
    repeats: int = 1
    stuck: Window = NEVER  # the profiling counters say 0
    failing: Window = NEVER  # readings fail, with this fault
    fault: Reason = "source_lost"
    throttled: Window = NEVER  # by the power limit
    died_after: float | None = None  # the sampler, in minutes
    sm_known: bool = True
    utilisation_known: bool = True
    model: GpuModel | None = H100
    sm_count: int = 132
    sharers: int = 1
    sm_share_ratio: float = 1.0

    @property
    def seconds(self) -> float:
        """How long the run is."""
        return self.repeats * sum(segment.seconds for segment in self.segments)


def stretch(
    minutes: float,
    tensor: float,
    *,
    mhz: float = 1755.0,
    sm: float = 0.9,
    utilisation: float = 1.0,
    watts: float = 500.0,
) -> Segment:
    """So many minutes of the same behaviour."""
    return Segment(
        seconds=minutes * MINUTE,
        tensor_active_ratio=tensor,
        sm_clock_mhz=mhz,
        sm_active_ratio=sm,
        utilisation_ratio=utilisation,
        power_watts=watts,
    )


def idling(minutes: float) -> Segment:
    """So many minutes of nothing; the clock is down."""
    return stretch(minutes, 0.0, mhz=345.0, sm=0.0, utilisation=0.0, watts=80.0)


def within(minutes: Window, seconds: float) -> bool:
    """Whether an instant lies in a window, its beginning left out."""
    return minutes[0] * MINUTE < seconds <= minutes[1] * MINUTE


class _Counters:
    """What the counters say at an instant."""

    def __init__(self, course: Course, estimator: Estimator) -> None:
        self.course, self.estimator = course, estimator
        self.pattern = Pattern(course.segments)
        self.good: tuple[float, Integrals, Integrals] | None = None  # the latest: when, and both below

    def truth(self, at: float) -> Integrals:
        return self.pattern.until(at)

    def counted(self, at: float) -> Integrals:
        """The truth without what happened while the counters were stuck."""
        begin, end = (min(at, edge * MINUTE) for edge in self.course.stuck)
        return self.truth(at).minus(self.truth(end).minus(self.truth(begin)))

    def read(self, at: float) -> Reading:
        course, now = self.course, self.pattern.at(max(0.0, at - 1e-6))
        since = None if self.good is None else round(self.good[0] * SECOND)
        aside = Reading(
            since_ns=since,
            taken_ns=round(at * SECOND),
            utilisation_ratio=now.utilisation_ratio if course.utilisation_known else None,
            power_watts=now.power_watts,
            throttle_mask=4 if within(course.throttled, at) else 0,
        )
        if within(course.failing, at):
            return replace(aside, fault=course.fault)
        true, counted, before = self.truth(at), self.counted(at), self.good
        self.good = (at, true, counted)
        if self.estimator == "cycles":
            cycles = counted.sm_megacycles * 1e6, counted.tensor_megacycles * 1e6
            aside = replace(aside, sm_cycles=cycles[0], mma_cycles=cycles[1])
        elif self.estimator == "scraped":
            aside = replace(aside, published_clock_mhz=now.sm_clock_mhz)
        if before is None or at <= before[0]:
            return aside
        elapsed, seen = true.minus(before[1]), counted.minus(before[2])
        return replace(
            aside,
            tensor_active_ratio=_ratio(seen.tensor_megacycles, elapsed.sm_megacycles),
            sm_active_ratio=_ratio(seen.sm_active_megacycles, elapsed.sm_megacycles)
            if course.sm_known
            else None,
        )


def _ratio(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole))


def folded(course: Course, estimator: Estimator, interval_s: float, *, seed: int = 0) -> GpuFold:
    """The fold at the end of the run, or at the sampler's."""
    fold, random = GpuFold.start(0, interval_s), Random(seed)
    counters = _Counters(course, estimator)
    schedule = Schedule(start_ns=0, width_ns=round(interval_s * SECOND), readings=CLOCK_READINGS)
    end_s = course.seconds if course.died_after is None else course.died_after * MINUTE
    fold.add(Sample(reading=counters.read(0.0), clocks_mhz=(), clock_before_mhz=None), 0)
    clocks: list[float] = []
    before, interval = counters.pattern.at(0.0).sm_clock_mhz, 0
    while interval * interval_s < end_s - 1e-9:
        at = min(end_s, (interval + 1) * interval_s)
        for instant, _ in schedule.clock_instants(interval, (0,), random):
            if instant / SECOND <= at:
                clocks.append(counters.pattern.at(instant / SECOND).sm_clock_mhz)
        if at == end_s:
            clocks.append(counters.pattern.at(at - 1e-6).sm_clock_mhz)
        reading = counters.read(at)
        fold.clock_after(clocks[0] if clocks else None)
        fold.add(Sample(reading=reading, clocks_mhz=tuple(clocks), clock_before_mhz=before), 0)
        if reading.fault is None and clocks:
            before, clocks = clocks[-1], []
        interval += 1
    return fold


def measured(
    course: Course, estimator: Estimator = "cycles", interval_s: float = 10.0, *, seed: int = 0
) -> GpuTotals:
    """What a record says of the run."""
    fold = folded(course, estimator, interval_s, seed=seed)
    if course.died_after is not None:
        fold = GpuFold.from_state(fold.state())
    fold.clock_after(None)
    given = Allocation(
        position=0,
        allocated_seconds=course.seconds,
        uuid="GPU-0",
        gpu_model="unheard-of" if course.model is None else course.model.name,
        mapped_by="minor",
        sm_count=course.sm_count,
        sharers=course.sharers,
        sm_share_ratio=course.sm_share_ratio,
    )
    rules = Rules(interval_seconds=interval_s, refresh_seconds=0.1)
    died = course.died_after is not None
    return gpu_totals(fold, given, course.model, rules, died=died, wall_offset_ns=0)
