"""The laws of ``protocols.CounterSource``, as a function of any source: what it breaks, in words."""

import math
from collections.abc import Callable
from dataclasses import fields

from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading

RATIOS = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio", "utilisation_ratio")


def broken_laws(
    source: CounterSource, advance: Callable[[float], None], *, rounds: int = 6, has_gaps: bool = False
) -> list[str]:
    """Read every GPU again and again; ``advance`` lets so many seconds go by. ``has_gaps``: its figures are
    of stretches that others have set, between which time may be lost."""
    good_ns: dict[int, int] = {}
    broken_off: set[int] = set()  # by faults or waits
    broken = []
    for number in range(rounds):
        advance(max(source.min_interval_seconds, 0.05) * 3)
        for device in source.devices():
            reading = source.read(device)
            where = f"round {number}, GPU {device.index}: {reading}"
            began = reading.since_ns is None and reading.fault is None and device.index in broken_off
            before = None if began else good_ns.get(device.index)
            if has_gaps and reading.since_ns is not None and reading.since_ns > (before or 0):
                before = reading.since_ns
            if has_gaps and reading.since_ns is None and reading.fault is None:
                before = None
            broken += [f"{law} ({where})" for law in _of_reading(reading, before)]
            good = reading.fault is None and not reading.waiting
            (broken_off.discard if good else broken_off.add)(device.index)
            broken += _of_clock(source, device)
            if good:
                good_ns[device.index] = reading.taken_ns
    source.close()
    source.close()
    return broken


def _of_reading(reading: Reading, good_ns: int | None) -> list[str]:
    values = {field.name: getattr(reading, field.name) for field in fields(reading)}
    numbers = {name: value for name, value in values.items() if isinstance(value, float)}
    first = reading.since_ns is None
    laws = {
        "a figure is a finite number or None": all(map(math.isfinite, numbers.values())),
        "a ratio lies in 0..1": all(0 <= values[name] <= 1 for name in RATIOS if values[name] is not None),
        "a figure over no time is None": not first or reading.tensor_active_ratio is None,
        "a None tensor figure carries a fault or waits, but for the first reading, which is over no time": (
            first or (reading.tensor_active_ratio is None) == (reading.fault is not None or reading.waiting)
        ),
        "who waits has no fault and no cycles": not reading.waiting
        or (reading.fault, reading.sm_cycles, reading.mma_cycles) == (None, None, None),
        "since_ns is the last good reading's taken_ns, or figures begin after faults": reading.since_ns
        == good_ns,
        "time goes on": first or reading.taken_ns > (reading.since_ns or 0),
    }
    return [law for law, holds in laws.items() if not holds]


def _of_clock(source: CounterSource, device: DeviceIdentity) -> list[str]:
    mhz = source.sm_clock_mhz(device)
    holds = mhz is None or (math.isfinite(mhz) and mhz > 0)
    return [] if holds else [f"a clock is a positive number or None: {mhz}"]
