"""The figures beside OFU: activity, power, energy, memory, throttling. Each knows its own coverage."""

from dataclasses import dataclass

from slurm_ofu.values import Reading

# NVML clocks event reasons
POWER_BITS = 0x04 | 0x80  # software power cap, external power brake
THERMAL_BITS = 0x20 | 0x40  # software and hardware thermal slowdown


@dataclass(slots=True)
class MeanSum:
    """A mean's numerator and denominator: value x s, and s."""

    total: float = 0.0
    seconds: float = 0.0

    def add(self, value: float | None, seconds: float) -> None:
        """Count ``value`` for ``seconds``; a missing value counts for nothing."""
        if value is not None and seconds > 0:
            self.total += value * seconds
            self.seconds += seconds

    @property
    def known_total(self) -> float | None:
        """The numerator, or ``None`` where nothing was measured."""
        return self.total if self.seconds > 0 else None


@dataclass(slots=True)
class SideSums:
    """Sums of one GPU's side figures over a run."""

    sm_active: MeanSum
    dram_active: MeanSum
    utilisation: MeanSum
    power: MeanSum
    throttled_power: MeanSum
    throttled_thermal: MeanSum
    last_taken_ns: int | None = None
    last_energy_joules: float | None = None
    energy_joules: float | None = None
    memory_max_bytes: int | None = None

    @classmethod
    def empty(cls) -> "SideSums":
        """Nothing measured yet."""
        return cls(MeanSum(), MeanSum(), MeanSum(), MeanSum(), MeanSum(), MeanSum())

    def add(self, reading: Reading) -> None:
        """Count one reading. Instantaneous values stand for the time since the reading before; means are of
        good readings only, because after a failed one the next begins at the same instant."""
        if reading.since_ns is not None and reading.fault is None:
            averaged = (reading.taken_ns - reading.since_ns) / 1e9
            self.sm_active.add(reading.sm_active_ratio, averaged)
            self.dram_active.add(reading.dram_active_ratio, averaged)
        if self.last_taken_ns is not None:
            held = (reading.taken_ns - self.last_taken_ns) / 1e9
            self.utilisation.add(reading.utilisation_ratio, held)
            self.power.add(reading.power_watts, held)
            if reading.throttle_mask is not None:
                self.throttled_power.add(float(bool(reading.throttle_mask & POWER_BITS)), held)
                self.throttled_thermal.add(float(bool(reading.throttle_mask & THERMAL_BITS)), held)
        self.last_taken_ns = reading.taken_ns
        self._add_energy(reading.energy_joules)
        if reading.memory_used_bytes is not None:
            self.memory_max_bytes = max(reading.memory_used_bytes, self.memory_max_bytes or 0)

    def _add_energy(self, now: float | None) -> None:
        """The energy counter starts anew when the driver is reloaded: a decrease adds nothing."""
        if now is None:
            return
        if self.last_energy_joules is not None:
            grown = max(0.0, now - self.last_energy_joules)
            self.energy_joules = grown if self.energy_joules is None else self.energy_joules + grown
        self.last_energy_joules = now
