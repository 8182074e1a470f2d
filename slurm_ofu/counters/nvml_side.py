"""What NVML says of one instant: power, energy, memory, utilisation, throttling.

Of a MIG slice it says its memory and, by later drivers, its utilisation; its clock, and what slows that, are
its GPU's; power and energy are not to be had of a slice.
"""

from typing import Any

import pynvml

from slurm_ofu.counters.nvml_calls import Asked
from slurm_ofu.counters.nvml_devices import NvmlDevice

NVML_CLOCK_SM = 1
MEMORY_V2 = 0x02000028


def side_figures(device: NvmlDevice, asked: Asked) -> dict[str, Any]:
    """The side figures of a Reading, by name."""
    rates = asked.ask("nvmlDeviceGetUtilizationRates", device.handle)
    figures = {
        "utilisation_ratio": rates.gpu / 100 if rates is not None and rates.gpu <= 100 else None,
        "memory_used_bytes": _memory(device.handle, asked),
        "throttle_mask": _throttle(device.whole, asked),
    }
    if device.identity.parent_uuid is not None:
        return figures
    power = asked.ask("nvmlDeviceGetPowerUsage", device.handle)
    energy = asked.ask("nvmlDeviceGetTotalEnergyConsumption", device.handle)
    return {
        **figures,
        "power_watts": None if power is None else power / 1000,
        "energy_joules": None if energy is None else energy / 1000,
    }


def sm_clock(device: NvmlDevice, asked: Asked) -> float | None:
    """The SM clock now, in MHz."""
    mhz = asked.ask("nvmlDeviceGetClockInfo", device.whole, NVML_CLOCK_SM)
    return float(mhz) if mhz is not None and 0 < mhz < 100_000 else None


def _memory(handle: Any, asked: Asked) -> int | None:
    """The second version leaves out what the driver keeps for itself."""
    version = getattr(pynvml, "nvmlMemory_v2", MEMORY_V2)
    found = asked.ask("nvmlDeviceGetMemoryInfo", handle, version, key="memory_v2")
    if found is None and "memory_v2" in asked.never:
        found = asked.ask("nvmlDeviceGetMemoryInfo", handle)
    return None if found is None else int(found.used)


def _throttle(handle: Any, asked: Asked) -> int | None:
    """Drivers and bindings before the renaming know only the old name."""
    found = asked.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if found is None and "nvmlDeviceGetCurrentClocksEventReasons" in asked.never:
        found = asked.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if found is None else int(found)
