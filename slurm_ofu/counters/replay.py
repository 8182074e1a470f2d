"""``replay:///file.jsonl``: counters as they were recorded, played back at their own pace.

One JSON object per line. The first holds ``{"gpus": [{"uuid": …, "gpu_model": …, "minor": …}, …]}``;
every other is one GPU at one time, ``{"at_seconds": 1.5, "gpu": 0, "sm_clock_mhz": 1755,
"tensor_active_ratio": 0.41, …}`` with the fields of a Reading; a ratio holds for the time since that
GPU's row before. ``at_seconds`` counts from the opening. After a GPU's last row it is lost.
"""

import json
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slurm_ofu.errors import SourceError
from slurm_ofu.values import DeviceIdentity, Reading, SourceChoice

Row = dict[str, Any]
_RATIOS = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio")
_LATEST = (
    "sm_cycles",
    "mma_cycles",
    "utilisation_ratio",
    "power_watts",
    "energy_joules",
    "memory_used_bytes",
    "throttle_mask",
)


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class ReplaySource:
    """A CounterSource over recorded rows."""

    name = "replay"
    min_interval_seconds = 0.0

    def __init__(
        self,
        devices: Sequence[DeviceIdentity],
        rows: Sequence[Row],
        *,
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        self._devices = tuple(devices)
        self._rows = {
            device.index: sorted(
                (row for row in rows if row["gpu"] == device.index), key=lambda row: float(row["at_seconds"])
            )
            for device in devices
        }
        self.has_cycles = any(row.get("mma_cycles") is not None for row in rows)
        self._now_ns = now_ns
        self._opened_ns = now_ns()
        self._since_ns: dict[int, int] = {}

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """The GPUs of the recording."""
        return self._devices

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """This one; there is no other to choose."""
        return SourceChoice(source=self.name)

    def read(self, device: DeviceIdentity) -> Reading:
        """The recorded ratios, averaged by time between the last good reading and now."""
        now, since = self._now_ns(), self._since_ns.get(device.index)
        rows = self._rows[device.index]
        if not rows or self._offset(now) > rows[-1]["at_seconds"] or since == now:
            return Reading(since_ns=since, taken_ns=now, fault="source_lost")
        latest = self._latest(device, now) or {}
        values: dict[str, Any] = {name: latest.get(name) for name in _LATEST}
        ratios: dict[str, Any] = {}
        if since is not None:
            ratios = {
                name: self._mean(rows, name, self._offset(since), self._offset(now)) for name in _RATIOS
            }
            if ratios["tensor_active_ratio"] is None:
                return Reading(since_ns=since, taken_ns=now, **values, fault="source_lost")
        self._since_ns[device.index] = now
        return Reading(since_ns=since, taken_ns=now, **values, **ratios)

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The latest recorded clock."""
        row = self._latest(device, self._now_ns())
        return None if row is None else row.get("sm_clock_mhz")

    def close(self) -> None:
        """Nothing is held."""

    def _offset(self, now_ns: int) -> float:
        return (now_ns - self._opened_ns) / 1e9

    def _latest(self, device: DeviceIdentity, now_ns: int) -> Row | None:
        rows = self._rows[device.index]
        place = bisect_right(rows, self._offset(now_ns), key=lambda row: float(row["at_seconds"]))
        if place == 0 or (place == len(rows) and self._offset(now_ns) > rows[-1]["at_seconds"]):
            return None
        return rows[place - 1]

    @staticmethod
    def _mean(rows: Sequence[Row], name: str, start: float, end: float) -> float | None:
        """Mean of a ratio over start..end; ``None`` when any part of it was not recorded."""
        total, covered, begin = 0.0, 0.0, 0.0
        for row in rows:
            overlap = min(end, row["at_seconds"]) - max(start, begin)
            begin = row["at_seconds"]
            if overlap > 0 and row.get(name) is not None:
                total += row[name] * overlap
                covered += overlap
        return total / covered if covered > 0.999 * (end - start) else None


def open_replay(path: Path) -> ReplaySource:
    """Read a recording. Raises SourceError when it is not as described above."""
    try:
        head, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
        devices = [DeviceIdentity(index=index, **gpu) for index, gpu in enumerate(head["gpus"])]
        return ReplaySource(devices, [_row(row) for row in rows])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: not a recording: {error!r}") from error


def _row(row: Row) -> Row:
    """A row whose every figure is a finite number or ``None``, and every ratio one of 0..1."""
    for name, value in row.items():
        if value is None and name not in ("at_seconds", "gpu"):
            continue
        highest = 1.0 if name.endswith("_ratio") else math.inf
        if isinstance(value, bool) or not 0 <= value <= highest or value == math.inf:
            raise ValueError(f"{name} = {value!r} in the row at {row.get('at_seconds')!r} s")
    return {**row, "at_seconds": float(row["at_seconds"])}
