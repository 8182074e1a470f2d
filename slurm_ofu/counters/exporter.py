"""``exporter``: the page of the node's dcgm-exporter, which others have set up and pace.

A page holds the values of the exporter's latest collection, by default one in 30 seconds, without a time.
So each page is held against the one before. What has moved is a new collection, and its figures hold for
the time since the collection before; while nothing moves, the reading waits. The first new collection only
opens the time-line: it began before anybody looked, perhaps before the job. So does one after an outage.

A living GPU's energy counter never stands still, nor does its power, so where they are published and nothing
moves for long, the exporter serves old values (``source_lost``). Without them standing still is no proof:
the GPU may be idle at a constant clock. Then a movement anywhere on the page shows that its values are of
today; where the whole page stands still, the reading goes on waiting: that time is neither counted as idle
nor called lost.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_ofu.counters.dcgm_fields import Quantity
from slurm_ofu.counters.exporter_http import fetch, shown
from slurm_ofu.counters.exporter_pace import Pace
from slurm_ofu.counters.exporter_page import Key, PublishedGpu, movements, read_page
from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading, Reason, SamplerConfig, SourceChoice

#: A page may serve the readings of several GPUs that are taken at one go.
PAGE_AGE_NS = 5 * 10**9
_BESIDE: tuple[Quantity, ...] = (
    *("utilisation_ratio", "power_watts", "energy_joules"),
    *("memory_used_bytes", "throttle_mask"),
)
_WHOLE_NUMBERS = frozenset({"memory_used_bytes", "throttle_mask"})


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class _Page:
    """One page; ``problem`` is why there is no text."""

    taken_ns: int
    text: str = ""
    problem: SourceError | None = None
    moves: Mapping[Key, int] = field(default_factory=dict)
    served: set[Key] = field(default_factory=set)

    @property
    def pulse(self) -> int:
        """Stands for the whole page, as each of ``moves`` does for its GPU."""
        return hash(frozenset(self.moves.items()))


class ExporterSource:
    """A CounterSource over a dcgm-exporter's page."""

    name = "exporter"
    has_cycles = False
    min_interval_seconds = 0.0

    def __init__(
        self,
        url: str,
        devices: Sequence[DeviceIdentity],
        nvml: CounterSource | None = None,
        *,
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        """``devices``: the node's, whoever has told them. ``nvml``: for the figures beside, which are then of
        now and not of the latest collection; it is closed with the source."""
        self._url = url
        self._devices = tuple(devices)
        self._nvml = nvml
        self._now_ns = now_ns
        self._page: _Page | None = None
        self._paces: dict[Key, Pace] = {}
        self._seen_tensor: set[Key] = set()

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """The node's GPUs, whether they are on the page or not."""
        return self._devices

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; there is no other to choose."""
        return SourceChoice(source=self.name)

    def look(self) -> None:
        """Raises SourceError where there is no page now."""
        self._page = self._fetched()
        if self._page.problem is not None:
            raise self._page.problem

    def read(self, device: DeviceIdentity) -> Reading:
        """The figures of a new collection; while there is none, waiting."""
        reading = self._read(page_key(device))
        if self._nvml is None:
            return reading
        now = self._nvml.read(device)
        found = {name: value for name in _BESIDE if (value := getattr(now, name)) is not None}
        return replace(reading, **found)

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """Published with the rest."""
        return None

    def close(self) -> None:
        """Nothing is held but NVML."""
        if self._nvml is not None:
            self._nvml.close()

    def _read(self, key: Key) -> Reading:
        page = self._page_for(key)
        pace = self._paces.setdefault(key, Pace())
        found = read_page(page.text, key[0])
        published = found.get(key)
        if published is None or "tensor_active_ratio" not in published.values:
            pace.missed = True
            return Reading(since_ns=pace.since_ns, taken_ns=page.taken_ns, fault=self._why_none(key, page))
        self._seen_tensor.add(key)
        return _reading(pace, page, published, found.get((key[0], None), published))

    def _why_none(self, key: Key, page: _Page) -> Reason:
        """A page that has never had this field is no source for this GPU; one that had it may be back."""
        return "no_source" if page.text and key not in self._seen_tensor else "source_lost"

    def _page_for(self, key: Key) -> _Page:
        """The page at hand unless this GPU has been read from it already."""
        page = self._page
        if page is None or key in page.served or self._now_ns() - page.taken_ns > PAGE_AGE_NS:
            page = self._page = self._fetched()
        page.served.add(key)
        return page

    def _fetched(self) -> _Page:
        earliest = 0 if self._page is None else self._page.taken_ns + 1
        try:
            text = fetch(self._url)
        except SourceError as problem:
            return _Page(max(earliest, self._now_ns()), problem=problem)
        return _Page(max(earliest, self._now_ns()), text, moves=movements(text))


def _reading(pace: Pace, page: _Page, published: PublishedGpu, whole: PublishedGpu) -> Reading:
    """``whole``: of a slice, its GPU where the page has it."""
    taken = page.taken_ns
    seen = pace.see(
        taken,
        mark=hash((page.moves.get(published.key), page.moves.get(whole.key))),
        pulse=page.pulse,
        must_move=published.must_move or whole.must_move,
    )
    since = pace.since_ns
    if seen == "stale":
        return Reading(since_ns=since, taken_ns=taken, fault="source_lost")
    if seen == "waiting":  # before the first collection in sight, what is published may be of another job
        beside = {} if since is None else _beside(published)
        return Reading(since_ns=since, taken_ns=taken, waiting=True, **beside)
    pace.since_ns = taken
    beside = {
        "published_clock_mhz": published.values.get("sm_clock_mhz", whole.values.get("sm_clock_mhz")),
        **_beside(published),
    }
    if seen == "beginning":  # its clock is the one before the first figure
        return Reading(since_ns=None, taken_ns=taken, **beside)
    return Reading(since_ns=since, taken_ns=taken, **_ratios(published), **beside)


def _ratios(published: PublishedGpu) -> dict[str, Any]:
    values = published.values
    engine_idle = values.get("engine_active_ratio") == 0
    return {
        "tensor_active_ratio": values["tensor_active_ratio"],
        # Where no engine was at work, no SM was.
        "sm_active_ratio": values.get("sm_active_ratio", 0.0 if engine_idle else None),
        "dram_active_ratio": values.get("dram_active_ratio"),
    }


def _beside(published: PublishedGpu) -> dict[str, Any]:
    values = published.values
    return {
        name: int(values[name]) if name in _WHOLE_NUMBERS else values[name]
        for name in _BESIDE
        if name in values
    }


def page_key(device: DeviceIdentity) -> Key:
    """How a page names a device: a slice by its GPU and NVML's instance id, without one by none there is."""
    if device.parent_uuid is not None:
        return device.parent_uuid, -1 if device.gpu_instance_id is None else device.gpu_instance_id
    return device.uuid, None


def open_exporter(settings: SamplerConfig, nvml: CounterSource | None = None) -> ExporterSource:
    """The exporter of ``[sampler] exporter_url``, and the node's GPUs as NVML has them, else as on the page.

    ``nvml``: opened already. Raises SourceError where neither of them knows any GPU.
    """
    url = settings.exporter_url
    devices = nvml.devices() if nvml is not None else _devices_of_nvml(settings.nvml_library)
    return ExporterSource(url, devices or _devices_of_page(url), nvml)


def _devices_of_nvml(library: str) -> tuple[DeviceIdentity, ...]:
    try:
        from slurm_ofu.counters.nvml import NvmlSource

        nvml = NvmlSource(library)
    except (ImportError, SourceError):
        return ()
    try:
        return nvml.devices()
    finally:
        nvml.close()


def _devices_of_page(url: str) -> tuple[DeviceIdentity, ...]:
    """Whole GPUs alone: of a slice a page tells neither its own UUID nor its share of the SMs."""
    gpus = [gpu for gpu in read_page(fetch(url)).values() if gpu.gpu_instance_id is None]
    hosts = {host for gpu in gpus for host in gpu.hosts}
    if len(hosts) > 1:
        gpus = [gpu for gpu in gpus if any(map(_is_here, gpu.hosts))]
    if not gpus:
        others = " but of others" if len(hosts) > 1 else ""
        raise SourceError(f"{shown(url)}: shows no GPU of this node{others}")
    return tuple(
        DeviceIdentity(
            index=place if gpu.index is None else gpu.index,
            uuid=gpu.uuid,
            pci_bus_id=gpu.pci_bus_id,
            gpu_model=gpu.gpu_model,
        )
        for place, gpu in enumerate(gpus)
    )


def _is_here(host: str) -> bool:
    return host.partition(".")[0] == os.uname().nodename.partition(".")[0]
