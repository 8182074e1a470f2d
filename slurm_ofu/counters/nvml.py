"""``nvml``: NVIDIA's management library, its GPM counters above all (Hopper and later).

Per GPU two sample buffers are allocated once and swapped: a figure is what happened between the last
good sample and this one. The module ``pynvml`` is NVIDIA's own nvidia-ml-py. Every error code is
translated here; a call that a driver does not have is asked once and never again.
"""

import ctypes
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from slurm_ofu.errors import SourceError
from slurm_ofu.values import DeviceIdentity, Reading, Reason, SourceChoice

# GPM metric ids, as plain integers: an older nvidia-ml-py has no names for the newest.
SM_ACTIVE, ANY_TENSOR, DRAM_ACTIVE = 2, 5, 10
SM_CYCLES_ELAPSED, MMA_CYCLES_ACTIVE = 248, 250
GAUGES = (ANY_TENSOR, SM_ACTIVE, DRAM_ACTIVE)
CYCLES = (SM_CYCLES_ELAPSED, MMA_CYCLES_ACTIVE)
#: The header asks for more than 100 ms between two samples: the counters are refreshed that often.
MIN_INTERVAL_SECONDS = 0.12
ROUNDING_PER_CENT = 0.01
DEFAULT_LIBRARY = "libnvidia-ml.so.1"
#: Answers that will not change while the driver is loaded.
_NEVER = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
_CORES_PER_SM = {
    pynvml.NVML_DEVICE_ARCH_HOPPER: 128,
    pynvml.NVML_DEVICE_ARCH_ADA: 128,
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: 128,
}


@dataclass(slots=True)
class _Gpu:
    handle: Any
    older: Any = None  # GPM samples; None: no GPM on this GPU
    newer: Any = None
    metrics: Any = None
    since_ns: int | None = None
    never: set[str] = field(default_factory=set)  # what this driver does not have
    known: set[str] = field(default_factory=set)  # what it was seen to have


class NvmlSource:
    """A CounterSource over libnvidia-ml.so.1."""

    name = "nvml"
    min_interval_seconds = MIN_INTERVAL_SECONDS

    def __init__(self, library: str = DEFAULT_LIBRARY) -> None:
        """Load the library and find the GPUs. Raises SourceError when there is none to be had."""
        _initialise(library)
        self._open = True
        self._gpus: dict[int, _Gpu] = {}
        self._devices: list[DeviceIdentity] = []
        self.driver_version = _text(_quiet(pynvml.nvmlSystemGetDriverVersion))
        for index in range(_quiet(pynvml.nvmlDeviceGetCount) or 0):
            handle = _quiet(pynvml.nvmlDeviceGetHandleByIndex, index)
            identity = None if handle is None else _identity(index, handle)
            if identity is not None:
                self._gpus[index] = _Gpu(handle)
                self._devices.append(identity)
        self.has_cycles = False

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """The GPUs that answer, in NVML's order."""
        return tuple(self._devices)

    def _prepare(self, gpu: _Gpu) -> bool:
        """Allocate what reading this GPU needs, once; True where GPM answers."""
        if gpu.older is None and "gpm" not in gpu.never:
            support = self._ask(gpu, "gpm", pynvml.nvmlGpmQueryDeviceSupport)
            if support is not None and support.isSupportedDevice != 1:
                gpu.never.add("gpm")
            elif support is not None:
                _allocate(gpu)
        return gpu.older is not None

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; there is no other to choose."""
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """GPM over the time since the last good sample, and the instantaneous figures beside it."""
        gpu = self._gpus[device.index]
        has_gpm = self._prepare(gpu)
        values = self._side(gpu)
        since = gpu.since_ns
        taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if not has_gpm:
            why: Reason = "no_source" if "gpm" in gpu.never else "source_lost"
            return Reading(since_ns=None, taken_ns=taken, **values, fault=why)
        if not _succeeds(pynvml.nvmlGpmSampleGet, gpu.handle, gpu.newer):
            return Reading(since_ns=since, taken_ns=taken, **values, fault="source_lost")
        if since is None:
            self._accept(gpu, taken)
            return Reading(since_ns=None, taken_ns=taken, **values)
        return self._compare(gpu, since, taken, values)

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The SM clock now."""
        handle = self._gpus[device.index].handle
        mhz = _quiet(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        return float(mhz) if mhz is not None and 0 < mhz < 100_000 else None

    def close(self) -> None:
        """Free the samples and shut the library down; then no device file is open any more."""
        if not self._open:
            return
        self._open = False
        for gpu in self._gpus.values():
            for sample in (gpu.older, gpu.newer):
                if sample is not None:
                    _quiet(pynvml.nvmlGpmSampleFree, sample)
        _quiet(pynvml.nvmlShutdown)

    def _accept(self, gpu: _Gpu, taken_ns: int) -> None:
        gpu.older, gpu.newer = gpu.newer, gpu.older
        gpu.since_ns = taken_ns

    def _metrics_of(self, gpu: _Gpu) -> dict[int, float | None] | None:
        """Metric id → value between the two samples; ``None`` when the call as a whole failed.

        Whether ids 248 and 250 answer is found the first time that the others do: an older driver refuses
        them one by one, or the whole call with them.
        """
        found = self._ask_metrics(gpu)
        if "cycles" in gpu.never or "cycles" in gpu.known:
            return found
        if found is not None and None not in (found[SM_CYCLES_ELAPSED], found[MMA_CYCLES_ACTIVE]):
            gpu.known.add("cycles")
            self.has_cycles = True
            return found
        if found is None:
            gpu.metrics = _metrics(GAUGES)
            found = self._ask_metrics(gpu)
        if found is None or found[ANY_TENSOR] is None:
            gpu.metrics = _metrics((*GAUGES, *CYCLES))  # it was not these ids that failed
        else:
            gpu.metrics = _metrics(GAUGES)
            gpu.never.add("cycles")
        return found

    @staticmethod
    def _ask_metrics(gpu: _Gpu) -> dict[int, float | None] | None:
        request = gpu.metrics
        request.sample1, request.sample2 = gpu.older, gpu.newer
        if not _succeeds(pynvml.nvmlGpmMetricsGet, request):
            return None
        rows = request.metrics[: request.numMetrics]
        return {row.metricId: _finite(row) for row in rows}

    def _compare(self, gpu: _Gpu, since: int, taken: int, values: dict[str, Any]) -> Reading:
        found = self._metrics_of(gpu)
        if found is None:
            return Reading(since_ns=since, taken_ns=taken, **values, fault="source_lost")
        tensor = _ratio(found.get(ANY_TENSOR))
        if tensor is not None:
            self._accept(gpu, taken)
        return Reading(
            since_ns=since,
            taken_ns=taken,
            tensor_active_ratio=tensor,
            sm_active_ratio=_ratio(found.get(SM_ACTIVE)),
            dram_active_ratio=_ratio(found.get(DRAM_ACTIVE)),
            sm_cycles=found.get(SM_CYCLES_ELAPSED),
            mma_cycles=found.get(MMA_CYCLES_ACTIVE),
            **values,
            fault=None if tensor is not None else "source_lost",
        )

    def _side(self, gpu: _Gpu) -> dict[str, Any]:
        rates = self._ask(gpu, "utilisation", pynvml.nvmlDeviceGetUtilizationRates)
        power = self._ask(gpu, "power", pynvml.nvmlDeviceGetPowerUsage)
        energy = self._ask(gpu, "energy", pynvml.nvmlDeviceGetTotalEnergyConsumption)
        return {
            "utilisation_ratio": rates.gpu / 100 if rates is not None and rates.gpu <= 100 else None,
            "power_watts": None if power is None else power / 1000,
            "energy_joules": None if energy is None else energy / 1000,
            "memory_used_bytes": self._memory(gpu),
            "throttle_mask": self._throttle(gpu),
        }

    def _memory(self, gpu: _Gpu) -> int | None:
        """The second version leaves out what the driver keeps for itself."""
        found = self._ask(
            gpu, "memory_v2", lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        )
        if found is None and "memory_v2" in gpu.never:
            found = self._ask(gpu, "memory", pynvml.nvmlDeviceGetMemoryInfo)
        return None if found is None else int(found.used)

    def _throttle(self, gpu: _Gpu) -> int | None:
        """Drivers before the renaming know only the old name."""
        found = self._ask(gpu, "event_reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        if found is None and "event_reasons" in gpu.never:
            found = self._ask(gpu, "throttle_reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        return None if found is None else int(found)

    @staticmethod
    def _ask(gpu: _Gpu, what: str, call: Callable[[Any], Any]) -> Any:
        if what in gpu.never:
            return None
        try:
            return call(gpu.handle)
        except pynvml.NVMLError as error:
            if error.value in _NEVER:
                gpu.never.add(what)
            return None


def _initialise(library: str) -> None:
    # A process-local view for MPS, in which GPM does not answer, must not be inherited.
    os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)
    try:
        if library != DEFAULT_LIBRARY:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)  # found by its soname from here on
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError) as error:
        raise SourceError(f"NVML cannot be used: {error}") from error


def _identity(index: int, handle: Any) -> DeviceIdentity | None:
    uuid = _text(_quiet(pynvml.nvmlDeviceGetUUID, handle))
    if uuid is None:
        return None
    pci = _quiet(pynvml.nvmlDeviceGetPciInfo, handle)
    cores_per_sm = _CORES_PER_SM.get(_quiet(pynvml.nvmlDeviceGetArchitecture, handle))
    cores = _quiet(pynvml.nvmlDeviceGetNumGpuCores, handle)
    return DeviceIdentity(
        index=index,
        uuid=uuid,
        minor=_quiet(pynvml.nvmlDeviceGetMinorNumber, handle),
        pci_bus_id=None if pci is None else _text(pci.busId),
        gpu_model=_text(_quiet(pynvml.nvmlDeviceGetName, handle)),
        sm_count=None if cores is None or cores_per_sm is None else cores // cores_per_sm,
    )


def _allocate(gpu: _Gpu) -> None:
    """Both samples and the request, or neither."""
    samples = [_quiet(pynvml.nvmlGpmSampleAlloc), _quiet(pynvml.nvmlGpmSampleAlloc)]
    if None in samples:
        for sample in samples:
            if sample is not None:
                _quiet(pynvml.nvmlGpmSampleFree, sample)
        return
    gpu.older, gpu.newer = samples
    gpu.metrics = _metrics((*GAUGES, *CYCLES))


def _metrics(ids: tuple[int, ...]) -> Any:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(ids)
    for place, metric in enumerate(ids):
        request.metrics[place].metricId = metric
    return request


def _finite(row: Any) -> float | None:
    """A metric's value; its own return code counts, and NaN comes with success."""
    if row.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    value = float(row.value)
    return value if math.isfinite(value) else None


def _ratio(per_cent: float | None) -> float | None:
    """A share; one that is beyond 0 or 100 % by no more than rounding is 0 or 100 %."""
    if per_cent is None or not -ROUNDING_PER_CENT <= per_cent <= 100 + ROUNDING_PER_CENT:
        return None
    return min(max(per_cent, 0.0), 100.0) / 100


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _quiet(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's answer, or ``None`` where NVML has none."""
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


def _succeeds(call: Callable[..., Any], *arguments: Any) -> bool:
    return _quiet(call, *arguments) is not None
