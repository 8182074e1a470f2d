"""A GPU whose truth is known: a periodic time-line with exact integrals.

The time-line hangs on an absolute clock (CLOCK_BOOTTIME), so every process sees the same GPU. Tensor
activity is cycle-weighted, as GPM's is: over a time it is the cycles with an active tensor pipe
divided by all cycles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of constant behaviour. Raises ValueError where it makes no sense."""

    seconds: float
    tensor_active_ratio: float
    sm_clock_mhz: float
    sm_active_ratio: float = 1.0
    dram_active_ratio: float = 0.0
    utilisation_ratio: float = 1.0
    power_watts: float = 400.0
    memory_used_bytes: int = 0
    throttle_mask: int = 0  # NVML's clocks event reasons, bit by bit

    def __post_init__(self) -> None:
        for name in ("seconds", "sm_clock_mhz"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} = {getattr(self, name)!r} must be greater than 0")
        for field in fields(self):
            value, highest = getattr(self, field.name), 1 if field.name.endswith("_ratio") else math.inf
            if not 0 <= value <= highest or value == math.inf:
                raise ValueError(f"{field.name} = {value!r} is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrals:
    """What happened since time 0, in (mega)cycles, seconds and joules."""

    sm_megacycles: float = 0.0
    tensor_megacycles: float = 0.0
    sm_active_megacycles: float = 0.0
    dram_active_seconds: float = 0.0
    energy_joules: float = 0.0

    def minus(self, other: "Integrals") -> "Integrals":
        """What happened between ``other`` and this."""
        return Integrals(
            **{
                field.name: getattr(self, field.name) - getattr(other, field.name)
                for field in fields(Integrals)
            }
        )


class Pattern:
    """A periodic sequence of segments."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        """At least one segment; raises ValueError without."""
        self.segments = tuple(segments)
        if not self.segments:
            raise ValueError("a pattern needs a segment")
        self.period_seconds = math.fsum(segment.seconds for segment in segments)
        self._whole = self._within(self.period_seconds)

    def at(self, seconds: float) -> Segment:
        """The segment that is going on at a time."""
        left = seconds % self.period_seconds
        for segment in self.segments:
            if left < segment.seconds:
                return segment
            left -= segment.seconds
        return self.segments[-1]

    def until(self, seconds: float) -> Integrals:
        """Integrals from time 0 to ``seconds``."""
        periods, rest = divmod(seconds, self.period_seconds)
        part = self._within(rest)
        return Integrals(
            **{
                field.name: periods * getattr(self._whole, field.name) + getattr(part, field.name)
                for field in fields(Integrals)
            }
        )

    def ofu_ratio(self, start_seconds: float, end_seconds: float, reference_clock_mhz: float) -> float:
        """The true OFU between two times."""
        done = self.until(end_seconds).minus(self.until(start_seconds))
        return done.tensor_megacycles / reference_clock_mhz / (end_seconds - start_seconds)

    def _within(self, seconds: float) -> Integrals:
        sums = dict.fromkeys((field.name for field in fields(Integrals)), 0.0)
        left = seconds
        for segment in self.segments:
            part = min(left, segment.seconds)
            megacycles = segment.sm_clock_mhz * part
            sums["sm_megacycles"] += megacycles
            sums["tensor_megacycles"] += segment.tensor_active_ratio * megacycles
            sums["sm_active_megacycles"] += segment.sm_active_ratio * megacycles
            sums["dram_active_seconds"] += segment.dram_active_ratio * part
            sums["energy_joules"] += segment.power_watts * part
            left -= part
            if left <= 0:
                break
        return Integrals(**sums)
