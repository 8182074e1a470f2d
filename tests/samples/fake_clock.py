"""A clock whose time jumps to whatever is waited for, and GPUs that cost time or fall ill."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.counters.synthetic import SyntheticSource
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.samples.sampler import Sampler
from slurm_ofu.values import DeviceIdentity, Reading, SourceChoice

SECOND = 10**9
START_NS = 5_000 * SECOND
EPOCH_NS = 1_764_424_800 * SECOND  # wall clock minus boottime


class Died(Exception):
    """The process was killed."""


@dataclass(slots=True)
class FakeClock:
    """A Clock without real time. ``wall_steps``: (boottime from which on, nanoseconds) each."""

    now_ns: int = START_NS
    stop_at_ns: int | None = None
    die_at_ns: int | None = None
    wall_steps: tuple[tuple[int, int], ...] = ()
    waits: list[int] = field(default_factory=list)

    def boottime_ns(self) -> int:
        """The time now."""
        return self.now_ns

    def wall_ns(self) -> int:
        """The wall clock now."""
        return self.now_ns + EPOCH_NS + sum(step for since, step in self.wall_steps if self.now_ns >= since)

    def wait_until(self, deadline_ns: int) -> bool:
        """Jump there, or to the instant at which somebody wants us to stop, or die on the way."""
        self.waits.append(deadline_ns)
        arrival_ns = max(self.now_ns, deadline_ns)
        if self.die_at_ns is not None and arrival_ns >= self.die_at_ns:
            raise Died
        if self.stop_at_ns is None or arrival_ns < self.stop_at_ns:
            self.now_ns = arrival_ns
            return False
        # Once stopped, it still waits for the distance that a last reading has to keep.
        self.now_ns = max(self.now_ns, self.stop_at_ns) if self.now_ns < self.stop_at_ns else arrival_ns
        return True


@dataclass(slots=True)
class SlowGpus:
    """A CounterSource whose readings cost time, and whose GPUs may be sick for a while."""

    inner: SyntheticSource
    clock: FakeClock
    read_cost_ns: Callable[[int], int] = lambda gpu: 0
    clock_cost_ns: Callable[[int], int] = lambda gpu: 0
    is_sick: Callable[[int, int], bool] = lambda gpu, now_ns: False  # (GPU, time)
    name: str = "slow"
    min_interval_seconds: float = 0.12
    has_cycles: bool = False
    is_clock_sick: bool = True  # where the GPU is
    reads: list[tuple[int, int]] = field(default_factory=list)  # (GPU, time)
    clock_reads: list[tuple[int, int]] = field(default_factory=list)
    since_ns: dict[int, int | None] = field(default_factory=dict)

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Its GPUs."""
        return self.inner.devices()

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one."""
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """A reading, taken when the call begins."""
        self.reads.append((device.index, self.clock.now_ns))
        if self.is_sick(device.index, self.clock.now_ns):
            found = Reading(
                since_ns=self.since_ns.get(device.index), taken_ns=self.clock.now_ns, fault="source_lost"
            )
        else:
            found = self.inner.read(device)
            self.since_ns[device.index] = found.taken_ns
        self.clock.now_ns += self.read_cost_ns(device.index)
        return found

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The clock when the call begins; a sick GPU has none."""
        self.clock_reads.append((device.index, self.clock.now_ns))
        sick = self.is_clock_sick and self.is_sick(device.index, self.clock.now_ns)
        mhz = None if sick else self.inner.sm_clock_mhz(device)
        self.clock.now_ns += self.clock_cost_ns(device.index)
        return mhz

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Trial:
    """A sampler on GPUs whose truth is known, in a world without time."""

    patterns: Mapping[int, Pattern]
    clock: FakeClock = field(default_factory=FakeClock)
    width_s: float = 10.0
    checkpoint_s: float = 30.0
    readings: int = 10
    seed: int | None = 1
    cycles: bool = False
    saved: list[tuple[int, str]] = field(default_factory=list)  # (time, the folds as JSON)
    folds: dict[int, GpuFold] = field(default_factory=dict)
    source: SlowGpus = field(init=False)
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        inner = SyntheticSource(
            dict(self.patterns),
            gpu_model="NVIDIA H100 80GB HBM3",
            has_cycles=self.cycles,
            now_ns=self.clock.boottime_ns,
        )
        self.source = SlowGpus(inner, self.clock, has_cycles=self.cycles)
        self.folds = {gpu: GpuFold.start(self.clock.now_ns, self.width_s) for gpu in self.patterns}
        self.sampler = Sampler(
            source=self.source,
            clock=self.clock,
            folds={device.index: (device, self.folds[device.index]) for device in self.source.devices()},
            settle=self.save,
            save=self.save,
            interval_seconds=lambda has_cycles: self.width_s,
            clock_readings=self.readings,
            checkpoint_seconds=self.checkpoint_s,
            random=Random(self.seed),
        )

    def save(self) -> None:
        """Keep a checkpoint."""
        states = {gpu: fold.state() for gpu, fold in self.folds.items()}
        self.saved.append((self.clock.now_ns, json.dumps(states)))

    def run(self, seconds: float) -> None:
        """Sample until somebody asks to stop."""
        self.clock.stop_at_ns = self.clock.now_ns + round(seconds * SECOND)
        self.sampler.run()
        for fold in self.folds.values():
            fold.clock_after(None)

    def die_after(self, seconds: float) -> None:
        """Sample until killed."""
        self.clock.die_at_ns = self.clock.now_ns + round(seconds * SECOND)
        try:
            self.sampler.run()
        except Died:
            return
        raise AssertionError("it outlived its death")

    def last_saved(self) -> dict[int, GpuFold]:
        """The folds of the last checkpoint."""
        states: dict[str, Any] = json.loads(self.saved[-1][1])
        return {int(gpu): GpuFold.from_state(state) for gpu, state in states.items()}


def pattern(*segments: tuple[float, float, float]) -> Pattern:
    """(seconds, tensor activity, MHz) each."""
    return Pattern(
        [
            Segment(seconds=seconds, tensor_active_ratio=tensor, sm_clock_mhz=mhz)
            for seconds, tensor, mhz in segments
        ]
    )


STEADY = pattern((1.0, 0.5, 1830.0))
#: In step with a ten-second interval and its clock readings: what a fixed rate gets wrong.
NASTY = pattern((0.5, 0.9, 1200.0), (0.2, 0.0, 345.0), (0.3, 0.6, 1980.0))
BURSTY = pattern((3.7, 0.8, 1755.0), (1.1, 0.0, 345.0), (0.4, 1.0, 1410.0), (7.3, 0.1, 1980.0))
