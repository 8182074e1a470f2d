"""``nvml``: NVIDIA's management library, its GPM counters above all (Hopper and later).

A figure is what happened between the last good sample of a GPU and this one. Where nothing at all answers
any more (a driver that was reloaded, "Unknown Error" in a container after systemd's daemon-reload), NVML
is shut down and opened anew, at ever longer distances; GPUs are found again by UUID, and their figures
begin anew.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slurm_ofu.counters.nvml_calls import DEFAULT_LIBRARY, Asked, answer, open_library, text
from slurm_ofu.counters.nvml_devices import NvmlDevice, find_devices
from slurm_ofu.counters.nvml_gpm import (
    ANY_TENSOR,
    DRAM_ACTIVE,
    MMA_CYCLES_ACTIVE,
    SM_ACTIVE,
    SM_CYCLES_ELAPSED,
    GpmSamples,
    finite,
    ratio,
)
from slurm_ofu.counters.nvml_side import side_figures, sm_clock
from slurm_ofu.errors import SourceError
from slurm_ofu.values import DeviceIdentity, Reading, Reason, SourceChoice

__all__ = ["ANY_TENSOR", "MMA_CYCLES_ACTIVE", "SM_CYCLES_ELAPSED", "NvmlSource"]

#: The header asks for more than 100 ms between two samples: the counters are refreshed that often.
MIN_INTERVAL_SECONDS = 0.12
#: Ten refreshes: counters that are the same after that stood still.
STILL_NS = 10**9
#: Where one of these is not supported there is no GPM.
GPM_CALLS = frozenset(("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet"))
#: How long nothing answers before NVML is opened anew; doubled at each try, up to the limit.
REOPEN_NS, REOPEN_LIMIT_NS = 30 * 10**9, 480 * 10**9


def _boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class _Gpu:
    device: NvmlDevice | None  # None: gone since NVML was opened anew
    asked: Asked = field(default_factory=Asked)
    samples: GpmSamples | None = None
    good_ns: int | None = None  # when the last good reading was taken
    is_broken_off: bool = False  # its figures begin anew
    was_read: bool = False
    silent_since_ns: int | None = None  # no call about it succeeded since


class NvmlSource:
    """A CounterSource over libnvidia-ml.so.1."""

    name = "nvml"
    min_interval_seconds = MIN_INTERVAL_SECONDS

    def __init__(self, library: str = DEFAULT_LIBRARY, *, now_ns: Callable[[], int] = _boottime_ns) -> None:
        """Load the library and find the GPUs. Raises SourceError when there is none to be had."""
        self._library, self._now_ns = library, now_ns
        open_library(library)
        self._open = True
        found = find_devices()
        self._devices = tuple(device.identity for device in found)
        self._gpus = {device.identity.index: _Gpu(device) for device in found}
        self._tried_ns, self._reopen_ns = -REOPEN_LIMIT_NS, REOPEN_NS
        self.driver_version = text(answer("nvmlSystemGetDriverVersion"))
        self.has_cycles = False

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """The GPUs that answer, in NVML's order, then the slices of those in MIG mode."""
        return self._devices

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; there is no other to choose. The note says what is unusual about the GPU."""
        its = self._gpus[device.index].device
        return SourceChoice(source=self.name, note=its.note if its else None)

    def read(self, device: DeviceIdentity) -> Reading:
        """GPM over the time since the last good sample, and the instantaneous figures beside it."""
        self._reopen_if_all_are_silent()
        gpu = self._gpus[device.index]
        gpu.was_read = True
        gpu.asked.begin()
        reading = self._read(gpu)
        if not self._open or gpu.device is None or gpu.asked.is_silent:
            gpu.silent_since_ns = gpu.silent_since_ns or reading.taken_ns
        else:
            gpu.silent_since_ns, self._reopen_ns = None, REOPEN_NS
        if reading.fault is None:
            gpu.good_ns = reading.taken_ns
        return reading

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The SM clock now."""
        gpu = self._gpus[device.index]
        return sm_clock(gpu.device, gpu.asked) if self._open and gpu.device is not None else None

    def close(self) -> None:
        """Free the samples and shut the library down; then no device file is open any more."""
        if not self._open:
            return
        self._open = False
        for gpu in self._gpus.values():
            if gpu.samples is not None:
                gpu.samples.free()
                gpu.samples = None
        answer("nvmlShutdown")

    # ---- opening anew

    def _reopen_if_all_are_silent(self) -> None:
        """One GPU that is lost is no reason while others go on."""
        silences = [gpu.silent_since_ns for gpu in self._gpus.values() if gpu.was_read]
        since = [silence for silence in silences if silence is not None]
        if not since or len(since) < len(silences):
            return
        now = self._now_ns()
        if now - max(*since, self._tried_ns) < self._reopen_ns:
            return
        self._tried_ns, self._reopen_ns = now, min(2 * self._reopen_ns, REOPEN_LIMIT_NS)
        self._reopen()

    def _reopen(self) -> None:
        self.close()
        try:
            open_library(self._library)
        except SourceError:
            return  # until the next try nothing is asked
        self._open = True
        found = {device.identity.uuid: device for device in find_devices()}
        for identity in self._devices:
            gpu = self._gpus[identity.index]
            gpu.device, gpu.asked = found.get(identity.uuid), Asked()

    # ---- one reading

    def _read(self, gpu: _Gpu) -> Reading:
        if not self._open or gpu.device is None:
            return Reading(since_ns=gpu.good_ns, taken_ns=self._now_ns(), fault="source_lost")
        samples = self._prepare(gpu, gpu.device)
        # Before GPM: on a GPU in MIG mode memory was seen not to answer right after it.
        values = side_figures(gpu.device, gpu.asked)
        taken = self._now_ns()
        if samples is None or not self._sample(gpu, gpu.device, samples):
            never = gpu.device.silent or not GPM_CALLS.isdisjoint(gpu.asked.never)
            why: Reason = "no_source" if never else "source_lost"
            return Reading(since_ns=gpu.good_ns, taken_ns=taken, **values, fault=why)
        if not samples.filled:
            samples.accept()
            gpu.is_broken_off = False
            return Reading(since_ns=None, taken_ns=taken, **values)
        return self._compare(gpu, samples, taken, values)

    def _prepare(self, gpu: _Gpu, device: NvmlDevice) -> GpmSamples | None:
        """The sample buffers, allocated once, where GPM answers. A slice is asked about through its GPU."""
        if gpu.samples is None and not device.silent and GPM_CALLS.isdisjoint(gpu.asked.never):
            support = gpu.asked.ask("nvmlGpmQueryDeviceSupport", device.whole)
            if support is not None and support.isSupportedDevice != 1:
                gpu.asked.never.add("nvmlGpmQueryDeviceSupport")
            elif support is not None:
                gpu.samples = GpmSamples.allocate(may_have_cycles=device.identity.parent_uuid is None)
                self._follow_cycles()
        return gpu.samples

    @staticmethod
    def _sample(gpu: _Gpu, device: NvmlDevice, samples: GpmSamples) -> bool:
        """A slice's handle must not be given to GPM: later calls about it were seen to fail then."""
        instance = device.identity.gpu_instance_id
        if instance is None:
            return gpu.asked.ask("nvmlGpmSampleGet", device.whole, samples.newer) is not None
        return gpu.asked.ask("nvmlGpmMigSampleGet", device.whole, instance, samples.newer) is not None

    def _follow_cycles(self) -> None:
        """Whether all GPUs that give figures have cycle counters, as far as is known."""
        known = [gpu.samples.has_cycles for gpu in self._gpus.values() if gpu.samples is not None]
        self.has_cycles = True in known and False not in known

    def _compare(self, gpu: _Gpu, samples: GpmSamples, taken: int, values: dict[str, Any]) -> Reading:
        known = samples.has_cycles
        found = samples.compare()
        if samples.has_cycles is not known:
            self._follow_cycles()
        if found is None:
            return Reading(since_ns=gpu.good_ns, taken_ns=taken, **values, fault="source_lost")
        tensor, sm_active = ratio(found.get(ANY_TENSOR)), ratio(found.get(SM_ACTIVE))
        if samples.stood_still and taken - (gpu.good_ns or taken) >= STILL_NS:
            tensor = sm_active = 0.0
        begins = tensor is not None and gpu.is_broken_off
        if tensor is not None:
            samples.accept()
            gpu.is_broken_off = False
        elif samples.is_none_of_none and samples.cycles is None:
            # No cycle elapsed, so a mean over this time and later would be that of the later time alone.
            samples.accept()
            gpu.is_broken_off = True
        return Reading(
            since_ns=None if begins else gpu.good_ns,
            taken_ns=taken,
            tensor_active_ratio=None if begins else tensor,
            sm_active_ratio=None if begins else sm_active,
            dram_active_ratio=None if begins else ratio(found.get(DRAM_ACTIVE)),
            sm_cycles=finite(found.get(SM_CYCLES_ELAPSED)),
            mma_cycles=finite(found.get(MMA_CYCLES_ACTIVE)),
            **values,
            fault=None if tensor is not None else "source_lost",
        )
