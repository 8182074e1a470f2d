"""NVML's GPM as it is, with the code that each call and each metric returns.

The product's own source (``slurm_ofu.counters.nvml``) turns every refusal into a missing value; here the
codes are what is asked for.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

from slurm_ofu.counters.nvml import ANY_TENSOR, MMA_CYCLES_ACTIVE, SM_CYCLES_ELAPSED


@dataclass(frozen=True, slots=True)
class Taken:
    """A filled sample buffer."""

    buffer: Any
    at_ns: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What MetricsGet said: its own code, and code and value of each metric."""

    code: int
    metrics: dict[int, tuple[int, float | None]] = field(default_factory=dict)

    def value(self, metric: int) -> float | None:
        """A metric's value where both codes are 0 and it is a number."""
        code, value = self.metrics.get(metric, (1, None))
        return value if self.code == 0 and code == 0 and value is not None and math.isfinite(value) else None

    def plain(self) -> dict[str, Any]:
        """For the result file: NaN and infinities as words."""
        rows = {
            str(metric): {"code": code, "says": word(code), "value": _plain(value)}
            for metric, (code, value) in self.metrics.items()
        }
        return {"code": self.code, "says": word(self.code), "metrics": rows}


class Gpm:
    """One GPU's GPM. ``is_supported`` is the driver's word."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        try:
            self.is_supported = pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1
            self.support_code = 0
        except pynvml.NVMLError as error:
            self.is_supported, self.support_code = False, int(error.value)

    def take(self, again: Taken | None = None) -> Taken:
        """A sample of now, in a new buffer or in that of an old sample. Raises NVMLError."""
        buffer = pynvml.nvmlGpmSampleAlloc() if again is None else again.buffer
        pynvml.nvmlGpmSampleGet(self.handle, buffer)
        return Taken(buffer, time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    @staticmethod
    def free(*samples: Taken) -> None:
        """Give the buffers back."""
        for sample in samples:
            pynvml.nvmlGpmSampleFree(sample.buffer)

    @staticmethod
    def ask(older: Taken, newer: Taken, ids: Sequence[int]) -> Answer:
        """Metrics between two samples."""
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(ids)
        request.sample1, request.sample2 = older.buffer, newer.buffer
        for place, metric in enumerate(ids):
            request.metrics[place].metricId = metric
        try:
            pynvml.nvmlGpmMetricsGet(request)
        except pynvml.NVMLError as error:
            return Answer(int(error.value))
        rows = request.metrics[: request.numMetrics]
        return Answer(0, {int(row.metricId): (int(row.nvmlReturn), float(row.value)) for row in rows})

    def sm_clock_mhz(self) -> float | None:
        """The SM clock now."""
        try:
            return float(pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM))
        except pynvml.NVMLError:
            return None


def word(code: int) -> str:
    """NVML's own word for a code."""
    if code == 0:
        return "success"
    return str(pynvml.NVMLError(code))


def _plain(value: float | None) -> Any:
    return value if value is None or math.isfinite(value) else str(value)


#: What is asked of every driver; 9999 is no metric of any.
KNOWN_IDS = (ANY_TENSOR, 2, 10, SM_CYCLES_ELAPSED, 249, MMA_CYCLES_ACTIVE)
NO_METRIC = 9999
