"""``synthetic:///file.json``: GPUs with a known truth, for the demo and for trying an installation.

The file::

    {"gpu_model": "NVIDIA H100 80GB HBM3", "gpus": 4, "cycles": false, "host": "",
     "default": [{"seconds": 1, "tensor_active_ratio": 0.5, "sm_clock_mhz": 1755}],
     "jobs": {"101": {"0": [...], "1": [...]}}}

``jobs`` gives a job's GPUs (by index) time-lines of their own; ``default`` is every other GPU's. ``host``
tells the GPUs of one file from those of another: their UUIDs depend on it.
A segment has the fields of :class:`~slurm_ofu.counters.pattern.Segment`.
"""

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_ofu.counters.pattern import Integrals, Pattern, Segment
from slurm_ofu.errors import SourceError
from slurm_ofu.values import DeviceIdentity, Reading, SourceChoice


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SyntheticSource:
    """A CounterSource whose every figure follows from a file and the clock."""

    name = "synthetic"
    min_interval_seconds = 0.0

    def __init__(
        self,
        patterns: dict[int, Pattern],
        *,
        gpu_model: str,
        has_cycles: bool = False,
        host: str = "",
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        self.has_cycles = has_cycles
        self._patterns = patterns
        self._gpu_model, self._host = gpu_model, host
        self._now_ns = now_ns
        self._before: dict[int, tuple[int, Integrals]] = {}

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """One device per pattern; minor numbers equal indexes."""
        return tuple(
            DeviceIdentity(
                index=index, uuid=device_uuid(index, self._host), minor=index, gpu_model=self._gpu_model
            )
            for index in sorted(self._patterns)
        )

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; there is no other to choose."""
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """Exact figures between the last reading and now."""
        pattern, now = self._patterns[device.index], self._now_ns()
        total, segment = pattern.until(now / 1e9), pattern.at(now / 1e9)
        since, before = self._before.get(device.index, (None, None))
        if before is not None and since == now:
            return Reading(since_ns=since, taken_ns=now, fault="source_lost")
        self._before[device.index] = (now, total)
        ratios = _ratios(total.minus(before), (now - since) / 1e9) if before and since is not None else {}
        return Reading(
            since_ns=since,
            taken_ns=now,
            **ratios,
            sm_cycles=total.sm_megacycles * 1e6 if self.has_cycles else None,
            mma_cycles=total.tensor_megacycles * 1e6 if self.has_cycles else None,
            utilisation_ratio=segment.utilisation_ratio,
            power_watts=segment.power_watts,
            energy_joules=total.energy_joules,
            memory_used_bytes=segment.memory_used_bytes,
            throttle_mask=segment.throttle_mask,
        )

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The clock at this instant."""
        return self._patterns[device.index].at(self._now_ns() / 1e9).sm_clock_mhz

    def close(self) -> None:
        """Nothing is held."""


def _ratios(done: Integrals, seconds: float) -> dict[str, Any]:
    ratios = {
        "tensor_active_ratio": done.tensor_megacycles / done.sm_megacycles,
        "sm_active_ratio": done.sm_active_megacycles / done.sm_megacycles,
        "dram_active_ratio": done.dram_active_seconds / seconds,
    }
    # The integrals are large and their difference is small: rounding may lead past 0 and 1.
    return {name: min(max(ratio, 0.0), 1.0) for name, ratio in ratios.items()}


def device_uuid(index: int, host: str = "") -> str:
    """The UUID of synthetic GPU ``index``: well-formed, and the same every time."""
    name = " ".join(["slurm-ofu", "synthetic", *([host] if host else []), str(index)])
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"


def open_synthetic(path: Path, job_id: int) -> SyntheticSource:
    """Read the file. Raises SourceError when it is not as described above."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        own = table.get("jobs", {}).get(str(job_id), {})
        patterns = {
            index: Pattern([Segment(**row) for row in own.get(str(index), table["default"])])
            for index in range(int(table.get("gpus", 1)))
        }
        return SyntheticSource(
            patterns,
            gpu_model=table["gpu_model"],
            has_cycles=bool(table.get("cycles", False)),
            host=str(table.get("host", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: not a synthetic source: {error!r}") from error
