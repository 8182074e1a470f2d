"""The loop: read clocks and counters on time, hand them to the folds, keep a checkpoint.

Everything it touches comes in as arguments, so that the same loop runs on a real GPU, on a recording
and in a test without time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from slurm_ofu.protocols import Clock, CounterSource
from slurm_ofu.samples.ticks import Schedule
from slurm_ofu.values import DeviceIdentity, Reading, Sample, SamplerHealth

WALL_STEP_NS = 10**9
#: While readings fail, their interval goes on: of its clock readings no more are kept than these.
CLOCKS_LIMIT = 512


class Fold(Protocol):
    """Where one GPU's samples go (integrals.gpu_fold)."""

    def add(self, sample: Sample, wall_offset_ns: int) -> None:
        """Count a sample."""

    def clock_after(self, mhz: float | None) -> None:
        """The first clock reading after the latest sample."""


@dataclass(slots=True)
class _Gpu:
    device: DeviceIdentity
    fold: Fold
    clocks_mhz: list[float] = field(default_factory=list)
    clock_count: int = 0  # readings in this interval, of which those above are kept
    skipped_clocks: int = 0  # instants of this interval that went by unread
    latest_mhz: float | None = None
    clock_before_mhz: float | None = None
    awaiting_clock: bool = False

    def keep(self, mhz: float, random: Random) -> None:
        """Count a clock reading; of very many all are as likely to be kept."""
        self.latest_mhz = mhz
        self.clock_count += 1
        if len(self.clocks_mhz) < CLOCKS_LIMIT:
            self.clocks_mhz.append(mhz)
        elif (place := random.randrange(self.clock_count)) < CLOCKS_LIMIT:
            self.clocks_mhz[place] = mhz

    def turn(self) -> None:
        """A new interval begins."""
        self.clock_before_mhz = self.latest_mhz if self.clocks_mhz else self.clock_before_mhz
        self.clocks_mhz, self.clock_count, self.skipped_clocks = [], 0, 0
        self.awaiting_clock = True


@dataclass(slots=True)
class Sampler:
    """Samples the GPUs of one run until it is told to stop."""

    source: CounterSource
    clock: Clock
    folds: Mapping[int, tuple[DeviceIdentity, Fold]]  # position → GPU and its fold
    settle: Callable[[], None]  # called once, after the first readings; saves too
    save: Callable[[], None]
    interval_seconds: Callable[[bool], float]  # does the source have cycle counters? → seconds
    clock_readings: int
    checkpoint_seconds: float
    random: Random
    tick_count: int = 0
    missed_ticks: int = 0
    late_max_ns: int = 0
    wall_step_ns: int = 0
    wall_offset_ns: int = 0
    _gpus: dict[int, _Gpu] = field(default_factory=dict)
    _read_ns: int = 0
    _missed_before: int = 0  # deadlines that passed before the latest reading

    def run(self) -> None:
        """Sample until the clock says that somebody wants us to stop, with a last reading then."""
        self._gpus = {position: _Gpu(*given) for position, given in self.folds.items()}
        self.wall_offset_ns = self.clock.wall_ns() - self.clock.boottime_ns()
        stopped = self._prime()
        schedule = Schedule(
            start_ns=self.clock.boottime_ns(),
            width_ns=int(self.interval_seconds(self.source.has_cycles) * 1e9),
            readings=self.clock_readings,
        )
        self.settle()
        saved_ns = schedule.start_ns
        interval = 0
        while not stopped:
            stopped = self._one_interval(schedule, interval)
            if stopped:
                break
            now = self.clock.boottime_ns()
            following = schedule.interval_after(interval, now)
            missed = following - interval - 1
            self.missed_ticks += missed
            # The reading to come covers the deadlines that passed during the last one, too.
            self._skip_clocks((missed - self._missed_before) * schedule.readings)
            interval = following
            # Saved while what is not yet saved is at most one checkpoint interval old at the next tick.
            if schedule.deadline_ns(interval) - saved_ns > self.checkpoint_seconds * 1e9:
                self.save()
                saved_ns = now
        self._last_reading()

    def health(self, placement: str | None) -> SamplerHealth:
        """How the loop fared so far."""
        return SamplerHealth(
            tick_count=self.tick_count,
            missed_ticks=self.missed_ticks,
            late_max_seconds=self.late_max_ns / 1e9,
            wall_step_seconds=self.wall_step_ns / 1e9,
            placement=placement,
            source=self.source.name,
        )

    def _prime(self) -> bool:
        """Two readings close together: figures over time have a beginning from here on."""
        for gpu in self._gpus.values():
            self.source.read(gpu.device)
            gpu.clock_before_mhz = self.source.sm_clock_mhz(gpu.device)
        earliest_ns = self._earliest_ns(self.clock.boottime_ns())
        stopped = self.clock.wait_until(earliest_ns)
        if stopped:
            self.clock.wait_until(earliest_ns)  # a stop brings no two readings too close together
        self._read_clocks()
        self._read_all()
        return stopped

    def _one_interval(self, schedule: Schedule, interval: int) -> bool:
        for instant, position in schedule.clock_instants(interval, tuple(self._gpus), self.random):
            if self.clock.wait_until(instant):
                return True
            gpu = self._gpus[position]
            if self.clock.boottime_ns() - instant > schedule.width_ns // schedule.readings:
                gpu.skipped_clocks += 1  # read now, it would stand for another slice's time
            else:
                self._read_clock(gpu)
        deadline = schedule.deadline_ns(interval)
        if self.clock.wait_until(deadline):
            return True
        self._missed_before = (self.clock.boottime_ns() - deadline) // schedule.width_ns
        self._skip_clocks(self._missed_before * schedule.readings)
        self.tick_count += 1
        self._follow_wall_clock()
        self._read_all()
        self.late_max_ns = max(self.late_max_ns, self.clock.boottime_ns() - deadline)
        return False

    def _skip_clocks(self, count: int) -> None:
        for gpu in self._gpus.values():
            gpu.skipped_clocks += count

    def _follow_wall_clock(self) -> None:
        offset = self.clock.wall_ns() - self.clock.boottime_ns()
        if abs(offset - self.wall_offset_ns) > WALL_STEP_NS:
            self.wall_step_ns += abs(offset - self.wall_offset_ns)
        self.wall_offset_ns = offset

    def _earliest_ns(self, since_ns: int) -> int:
        return since_ns + int(self.source.min_interval_seconds * 1e9)

    def _read_clock(self, gpu: _Gpu) -> None:
        mhz = self.source.sm_clock_mhz(gpu.device)
        if mhz is None:
            gpu.skipped_clocks += 1
            return
        gpu.keep(mhz, self.random)
        if gpu.awaiting_clock:
            gpu.awaiting_clock = False
            gpu.fold.clock_after(mhz)

    def _read_clocks(self) -> None:
        for gpu in self._gpus.values():
            self._read_clock(gpu)

    def _read_all(self) -> None:
        self._read_ns = self.clock.boottime_ns()
        for gpu in self._gpus.values():
            self._fold(gpu, self.source.read(gpu.device))

    def _fold(self, gpu: _Gpu, reading: Reading) -> None:
        # With most of the interval's slices unread the clock of this interval is not known.
        known = gpu.skipped_clocks <= gpu.clock_count
        sample = Sample(
            reading=reading,
            clocks_mhz=tuple(gpu.clocks_mhz) if known else (),
            clock_before_mhz=gpu.clock_before_mhz,
        )
        gpu.fold.add(sample, self.wall_offset_ns)
        if reading.fault is None and not reading.waiting:
            gpu.turn()

    def _last_reading(self) -> None:
        """Up to the end of the run, but not closer to the reading before than the source can tell apart."""
        self._follow_wall_clock()
        self._read_clocks()
        self.clock.wait_until(self._earliest_ns(self._read_ns))
        self._read_all()
        self._read_clocks()
