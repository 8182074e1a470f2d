"""``dcgm``: NVIDIA's GPU manager, by its own command line: A100s above all, which have no GPM.

``dcgmi dmon`` prints the hardware's means of tensor activity; the SM clock is read by NVML at the sampler's
random instants, as everywhere (``sampled``), and so are the figures beside. Without NVML the clock is the one
that dmon prints (``scraped``). No DCGM library or Python binding is used: they move from version to version.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from slurm_ofu.counters.dcgm_child import Failure, ask, failure_of
from slurm_ofu.counters.dcgm_course import PATIENCE, Course, Stretch
from slurm_ofu.counters.dcgm_hierarchy import Hierarchy, listed_gpus, listed_instances
from slurm_ofu.counters.dcgm_rows import POWER, SM_CLOCK, TENSOR_ACTIVE, UTILISATION, Entity, Row
from slurm_ofu.counters.dcgm_watch import FIELD_SETS, FieldSet, Watch
from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading, Reason, SamplerConfig, SourceChoice

#: Between two rows: what DCGM itself takes where nobody asks for another, and ten to an interval of the
#: sampler. Under 100 ms its figures are not valid; over a second the error bar would not hold.
DELAY_SECONDS = 1.0
ANSWER_SECONDS = 5.0
NOTE_LIMIT = 200
_REASONS: dict[Failure, Reason] = {
    "no_engine": "source_lost",
    "locked": "profiling_locked",
    "fields": "no_source",
    "entity": "source_lost",
    "ended": "source_lost",
}
_BESIDE = ("utilisation_ratio", "power_watts", "energy_joules", "memory_used_bytes", "throttle_mask")


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class _Gpu:
    """One GPU, or MIG slice, that somebody reads."""

    def __init__(self, entity: Entity | None, delay_seconds: float, *, samples_clock: bool) -> None:
        self.entity = entity
        self.course = Course(delay_ns=int(delay_seconds * 1e9))
        self.samples_clock = samples_clock
        self.latest: Mapping[int, float] = {}


class DcgmSource:
    """A CounterSource over a running host engine."""

    name = "dcgm"
    has_cycles = False
    min_interval_seconds = 0.1

    def __init__(
        self,
        command: Callable[[str], list[str]],
        hierarchy: Hierarchy,
        nvml: CounterSource | None,
        *,
        delay_seconds: float = DELAY_SECONDS,
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        self._command = command
        self._hierarchy = hierarchy
        self._nvml = nvml
        self._delay_seconds = delay_seconds
        self._now_ns = now_ns
        self._devices = nvml.devices() if nvml is not None else _listed(hierarchy)
        self._gpus: dict[str, _Gpu] = {}
        self.watch = Watch(
            command=command,
            delay_seconds=delay_seconds,
            now_ns=now_ns,
            field_sets=_field_sets(self._devices),
        )

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """NVML's GPUs; without it those that DCGM lists, whose minor numbers it does not know."""
        return tuple(self._devices)

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; the note is what DCGM says where it gives no figures. From here on the GPU is watched."""
        gpu = self._gpu(device)
        note = None
        if gpu.entity is None:
            note = f"DCGM does not list {device.uuid}"
        elif gpu.course.good_ns is None and self.watch.trouble is not None:
            note = f"dcgmi dmon: {self.watch.trouble_words[-NOTE_LIMIT:]}"
        return SourceChoice(source=self.name, note=note)

    def probe(self, device: DeviceIdentity) -> None:
        """Raise SourceError, with the reason, where DCGM has no tensor activity of this GPU now."""
        entity = self._entity(device)
        if entity is None:
            raise SourceError(f"DCGM does not list {device.uuid}: dcgmi discovery -l shows what it does")
        fields = f"{TENSOR_ACTIVE},{SM_CLOCK}"
        _answer([*self._command("dmon"), "-e", fields, "-i", entity.argument(), "-c", "1"])

    def read(self, device: DeviceIdentity) -> Reading:
        """The mean over the rows that came since the last good reading, and NVML's figures beside it."""
        gpu = self._gpu(device)
        self._look()
        if gpu.entity is None:
            beside, good_ns = self._beside(device, gpu), gpu.course.good_ns
            fault: Reason | None = "no_source" if good_ns is None else "source_lost"
            return Reading(since_ns=good_ns, taken_ns=self._now_ns(), **beside, fault=fault)
        stretch = gpu.course.take()
        beside = self._beside(device, gpu)
        if stretch is not None:
            return _measured(gpu, stretch, beside)
        now = self._now_ns()
        fault = self._fault(gpu, now)
        return Reading(
            since_ns=gpu.course.good_ns, taken_ns=now, **beside, fault=fault, waiting=fault is None
        )

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The SM clock now, by NVML."""
        self._look()
        if self._nvml is None or not self._gpu(device).samples_clock:
            return None
        return self._nvml.sm_clock_mhz(device)

    def close(self) -> None:
        """End dmon, and let NVML go."""
        self.watch.close()
        if self._nvml is not None:
            self._nvml.close()

    def _gpu(self, device: DeviceIdentity) -> _Gpu:
        gpu = self._gpus.get(device.uuid)
        if gpu is None:
            samples = self._nvml is not None and self._nvml.sm_clock_mhz(device) is not None
            gpu = _Gpu(self._entity(device), self._delay_seconds, samples_clock=samples)
            self._gpus[device.uuid] = gpu
            if gpu.entity is not None:
                self.watch.want([gpu.entity])
        return gpu

    def _entity(self, device: DeviceIdentity) -> Entity | None:
        return self._hierarchy.entity(device.uuid, device.parent_uuid, device.gpu_instance_id)

    def _list_anew(self) -> None:
        """The numbers are DCGM's own: after a restart without a GPU that was lost they are other GPUs'."""
        try:
            self._hierarchy = _hierarchy(self._command, self._nvml)
        except SourceError as problem:
            self.watch.put_off(str(problem))
            return
        by_uuid = {device.uuid: device for device in self._devices}
        for uuid, gpu in self._gpus.items():
            gpu.entity = self._entity(by_uuid[uuid])
        self.watch.entities = {gpu.entity for gpu in self._gpus.values() if gpu.entity is not None}
        if not self.watch.entities:
            self.watch.put_off("DCGM lists none of these GPUs any more")

    def _look(self) -> None:
        """Take what dmon printed, for every GPU."""
        if self.watch.is_starting_anew:
            self._list_anew()
        look = self.watch.look()
        by_entity = {gpu.entity: (uuid, gpu) for uuid, gpu in self._gpus.items()}
        if look.begun:
            for gpu in self._gpus.values():
                gpu.course.begin()
        for row in look.rows:
            if row.entity in by_entity:
                uuid, gpu = by_entity[row.entity]
                gpu.latest = row.values
                gpu.course.add(row, look.earliest_ns, look.latest_ns, self._missing_clock(uuid, row))

    def _missing_clock(self, uuid: str, row: Row) -> float | None:
        """NVML's clock for a row without one, as those of MIG slices may be."""
        if SM_CLOCK in row.values or TENSOR_ACTIVE not in row.values or self._nvml is None:
            return None
        device = next(device for device in self._devices if device.uuid == uuid)
        return self._nvml.sm_clock_mhz(device)

    def _fault(self, gpu: _Gpu, now: int) -> Reason | None:
        """Why no figure came; ``None`` while one may still be under way."""
        if self.watch.trouble is not None:
            reason = _REASONS[self.watch.trouble]
            return "source_lost" if reason == "no_source" and gpu.course.good_ns is not None else reason
        if gpu.course.empty_count >= PATIENCE:
            # Blank where the rest of the row answers: so it is while profiling is paused or taken.
            return "profiling_locked" if gpu.latest and not gpu.course.is_beyond else "source_lost"
        row_ns = gpu.course.row_ns
        silent_ns = now - row_ns if row_ns is not None else 0
        return "source_lost" if silent_ns > PATIENCE * max(self._delay_seconds, 1.0) * 1e9 else None

    def _beside(self, device: DeviceIdentity, gpu: _Gpu) -> dict[str, Any]:
        """NVML's figures of this instant; where it has none, dmon's, but for a slice, of which dmon tells
        its whole GPU's."""
        values: dict[str, Any] = {}
        if self._nvml is not None:
            reading = self._nvml.read(device)
            values = {name: getattr(reading, name) for name in _BESIDE}
        for name, field_id in (("utilisation_ratio", UTILISATION), ("power_watts", POWER)):
            if values.get(name) is None and device.parent_uuid is None:
                values[name] = gpu.latest.get(field_id)
        return values


def _measured(gpu: _Gpu, stretch: Stretch, beside: dict[str, Any]) -> Reading:
    return Reading(
        since_ns=stretch.since_ns,
        taken_ns=stretch.until_ns,
        tensor_active_ratio=stretch.tensor_active_ratio,
        sm_active_ratio=stretch.sm_active_ratio,
        dram_active_ratio=stretch.dram_active_ratio,
        published_clock_mhz=None if gpu.samples_clock else stretch.clock_mhz,
        **beside,
    )


def _listed(hierarchy: Hierarchy) -> tuple[DeviceIdentity, ...]:
    return tuple(
        DeviceIdentity(index=gpu.number, uuid=gpu.uuid, pci_bus_id=gpu.pci_bus_id, gpu_model=gpu.gpu_model)
        for gpu in sorted(hierarchy.gpus.values(), key=lambda gpu: gpu.number)
    )


def _field_sets(devices: tuple[DeviceIdentity, ...]) -> tuple[FieldSet, ...]:
    """A V100 cannot count SM and tensor activity at once: DCGM would take turns, and some of its versions
    say 0 for the one whose turn it is not."""
    if any("V100" in (device.gpu_model or "") for device in devices):
        return FIELD_SETS[-1:]
    return FIELD_SETS


def open_dcgm(
    settings: SamplerConfig, nvml: CounterSource | None = None, *, delay_seconds: float = DELAY_SECONDS
) -> DcgmSource:
    """Find the host engine and its GPUs. ``nvml``: opened already; it is closed with the source.

    Raises SourceError where no host engine answers. Whether profiling is held by somebody else shows only
    when a GPU is watched: then its readings say so, and it is tried again.
    """

    def command(subsystem: str) -> list[str]:
        host = [] if settings.dcgm_host is None else ["--host", settings.dcgm_host]
        return [settings.dcgmi, subsystem, *host]

    known = _hierarchy(command, nvml)
    if nvml is None and (own := _open_nvml(settings)) is not None:
        nvml, known = own, _with_instances(known, command, own)
    return DcgmSource(command, known, nvml, delay_seconds=delay_seconds)


def _hierarchy(command: Callable[[str], list[str]], nvml: CounterSource | None) -> Hierarchy:
    """What DCGM lists now. Raises SourceError."""
    asked = [*command("discovery"), "-l"]
    gpus = listed_gpus(_answer(asked))
    if not gpus:
        raise SourceError(f"DCGM lists no GPU: {asked[0]} discovery -l shows what it does")
    known = Hierarchy(gpus=gpus)
    return known if nvml is None else _with_instances(known, command, nvml)


def _with_instances(known: Hierarchy, command: Callable[[str], list[str]], nvml: CounterSource) -> Hierarchy:
    """Instances as well, where NVML has slices."""
    if not any(device.parent_uuid for device in nvml.devices()):
        return known
    return replace(known, instances=listed_instances(_answer([*command("discovery"), "-c"])))


def _open_nvml(settings: SamplerConfig) -> CounterSource | None:
    try:
        from slurm_ofu.counters.nvml import NvmlSource

        return NvmlSource(settings.nvml_library)
    except (ImportError, SourceError):
        return None


def _answer(command: list[str]) -> str:
    """What dcgmi says to a question. Raises SourceError, with the reason."""
    asked = " ".join(command)
    try:
        code, words = ask(command, ANSWER_SECONDS)
    except OSError as error:  # TimeoutError is one
        raise SourceError(
            f"{asked}: {error}; is DCGM installed, and does [sampler] dcgmi name its program?"
        ) from error
    if code == 0:
        return words
    failure = failure_of(words)
    reason = "profiling_locked" if failure == "locked" else "no_source"
    said = " ".join(words.split())[-300:] or f"exit code {code}"
    hint = "; is nvidia-dcgm running? It is never started from here" if failure == "no_engine" else ""
    raise SourceError(f"{asked}: {said}{hint}", reason=reason)
