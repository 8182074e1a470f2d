"""What a page of dcgm-exporter looks like, version by version."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_ofu.counters.pattern import Integrals, Pattern, Segment

Value = Callable[["Collection"], float]


@dataclass(frozen=True)
class Dialect:
    """What differs between versions. ``metrics``: name → value as printed (an int: DCGM's long integers)."""

    metrics: Mapping[str, Value]
    uuid: str = "UUID"
    hostname: str = "Hostname"
    has_bus_id: bool = True
    driver_version: str | None = "DCGM_FI_DRIVER_VERSION"


@dataclass(frozen=True)
class Collection:
    """What one collection saw of a GPU."""

    now: Segment
    done: Integrals  # since the collection before
    total: Integrals
    seconds: float

    @property
    def tensor_active_ratio(self) -> float:
        """Cycle-weighted, as the hardware has it."""
        return self.done.tensor_megacycles / self.done.sm_megacycles

    @property
    def sm_active_ratio(self) -> float:
        """The same of SM activity."""
        return self.done.sm_active_megacycles / self.done.sm_megacycles

    @property
    def dram_active_ratio(self) -> float:
        """By time."""
        return self.done.dram_active_seconds / self.seconds


_PROFILING: dict[str, Value] = {
    "GR_ENGINE": lambda its: float(its.done.sm_active_megacycles > 0),
    "SM": lambda its: its.sm_active_ratio,
    "TENSOR": lambda its: its.tensor_active_ratio,
    "DRAM": lambda its: its.dram_active_ratio,
}
_OLD: dict[str, Value] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda its: round(its.now.sm_clock_mhz),
    "DCGM_FI_DEV_GPU_TEMP": lambda its: 54,
    "DCGM_FI_DEV_POWER_USAGE": lambda its: its.now.power_watts,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda its: round(1e3 * its.total.energy_joules),
    "DCGM_FI_DEV_GPU_UTIL": lambda its: round(100 * its.now.utilisation_ratio),
    "DCGM_FI_DEV_XID_ERRORS": lambda its: 0,
    "DCGM_FI_DEV_FB_USED": lambda its: its.now.memory_used_bytes // 2**20,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": _PROFILING["GR_ENGINE"],
    "DCGM_FI_PROF_SM_ACTIVE": _PROFILING["SM"],
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": _PROFILING["TENSOR"],
    "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE": _PROFILING["TENSOR"],
    "DCGM_FI_PROF_DRAM_ACTIVE": _PROFILING["DRAM"],
}
_NEW: dict[str, Value] = {
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": lambda its: round(1e6 * its.now.sm_clock_mhz),
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": lambda its: 54,
    "DCGM_FI_DEV_BOARD_POWER_WATTS": lambda its: its.now.power_watts,
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": lambda its: int(its.total.energy_joules),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": lambda its: its.now.utilisation_ratio,
    "DCGM_FI_DEV_XID_ERROR": lambda its: 0,
    "DCGM_FI_DEV_FB_USED_BYTES": lambda its: its.now.memory_used_bytes,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": _PROFILING["GR_ENGINE"],
    "DCGM_FI_PROF_SM_UTIL_RATIO": _PROFILING["SM"],
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": _PROFILING["TENSOR"],
    "DCGM_FI_PROF_HMMA_UTIL_RATIO": _PROFILING["TENSOR"],
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": _PROFILING["DRAM"],
}
_OLD_NAMESPACE = {
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_total_energy_consumption": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_fb_used": "DCGM_FI_DEV_FB_USED",
    "dcgm_fi_prof_gr_engine_active": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "dcgm_fi_prof_sm_active": "DCGM_FI_PROF_SM_ACTIVE",
    "dcgm_fi_prof_pipe_tensor_active": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "dcgm_fi_prof_dram_active": "DCGM_FI_PROF_DRAM_ACTIVE",
}
DIALECTS = {
    "1.x": Dialect(
        metrics={name: _OLD[today] for name, today in _OLD_NAMESPACE.items()},
        uuid="uuid",
        has_bus_id=False,
        driver_version=None,
    ),
    "3.3": Dialect(metrics=_OLD, has_bus_id=False),
    "4.0": Dialect(metrics=_OLD),
    "4.8": Dialect(metrics=_OLD, hostname="hostname"),
    "4.9": Dialect(metrics=_NEW, hostname="hostname", driver_version="DCGM_FI_SYSTEM_DRIVER_VERSION"),
}
#: What DCGM does not have of a slice.
_NOT_OF_SLICES = ("GPU_UTIL", "gpu_utilization", "GPU_UTIL_RATIO")


@dataclass(frozen=True, kw_only=True)
class ExporterGpu:
    """One GPU or slice (``instance``: NVML's GPU instance id) with its time-line."""

    uuid: str
    pattern: Pattern
    index: int = 0
    model: str = "NVIDIA A100-SXM4-80GB"
    instance: int | None = None
    profile: str | None = None  # as printed
    jobs: tuple[str, ...] = ()  # lines of the file that maps this GPU to jobs

    def collected(self, at_s: float, interval_seconds: float) -> Collection:
        """The collection that ends at an instant."""
        total, before = self.pattern.until(at_s), self.pattern.until(at_s - interval_seconds)
        return Collection(self.pattern.at(at_s), total.minus(before), total, interval_seconds)


@dataclass(frozen=True, kw_only=True)
class ExporterNode:
    """A node's exporter. ``without``: metrics not on its list; ``fixed``: metric → text in its place."""

    gpus: tuple[ExporterGpu, ...]
    dialect: str = "4.0"
    host: str = "node1"
    interval_seconds: float = 30.0
    without: tuple[str, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)

    def collected_at(self, at_s: float) -> float:
        """When the collection ended that is shown at an instant (seconds since boot)."""
        return math.floor(at_s / self.interval_seconds + 1e-9) * self.interval_seconds

    def page(self, at_s: float) -> str:
        """The page at an instant."""
        dialect = DIALECTS[self.dialect]
        names = [name for name in dialect.metrics if name not in self.without]
        return "".join(line + "\n" for name in names for line in self._metric(dialect, name, at_s))

    def _metric(self, dialect: Dialect, name: str, at_s: float) -> Iterator[str]:
        yield f"# HELP {name} What the site wrote here (in %)."
        yield f"# TYPE {name} {'counter' if 'energy' in name.lower() else 'gauge'}"
        for gpu in self.gpus:
            if gpu.instance is not None and name.endswith(_NOT_OF_SLICES):
                continue
            value = dialect.metrics[name](gpu.collected(self.collected_at(at_s), self.interval_seconds))
            text = self.fixed.get(name, f"{value:d}" if isinstance(value, int) else f"{value:f}")
            for job in gpu.jobs or (None,):
                yield f"{name}{{{self._labels(dialect, gpu, job)}}} {text}"

    def _labels(self, dialect: Dialect, gpu: ExporterGpu, job: str | None) -> str:
        labels: dict[str, Any] = {"gpu": gpu.index, dialect.uuid: gpu.uuid}
        if dialect.has_bus_id:
            labels["pci_bus_id"] = f"00000000:{0x18 + gpu.index:02X}:00.0"
        labels |= {"device": f"nvidia{gpu.index}", "modelName": gpu.model}
        if gpu.instance is not None:
            labels |= {"GPU_I_PROFILE": gpu.profile, "GPU_I_ID": gpu.instance}
        labels[dialect.hostname] = self.host
        if dialect.driver_version is not None:
            labels[dialect.driver_version] = "580.95.05"
        if job is not None:
            labels["hpc_job"] = job
        return ",".join(f'{label}="{value}"' for label, value in labels.items())
