"""GPM of one GPU or slice: two sample buffers, and what happened between the samples in them.

The buffers are allocated once and swapped. They are the process's own memory, of no use after NVML was
shut down: whoever does that frees them first.
"""

import math
from dataclasses import dataclass
from typing import Any

import pynvml

from slurm_ofu.counters.nvml_calls import answer

# GPM metric ids, as plain integers: an older nvidia-ml-py has no names for the newest.
SM_ACTIVE, ANY_TENSOR, DRAM_ACTIVE = 2, 5, 10
SM_CYCLES_ELAPSED, MMA_CYCLES_ACTIVE = 248, 250
GAUGES = (ANY_TENSOR, SM_ACTIVE, DRAM_ACTIVE)
CYCLES = (SM_CYCLES_ELAPSED, MMA_CYCLES_ACTIVE)
ROUNDING_PER_CENT = 0.01
#: By id; ``None``: the metric's own return code says that it has no value.
Metrics = dict[int, float | None]


@dataclass(slots=True)
class GpmSamples:
    """The samples of one GPU. ``has_cycles``: whether ids 248 and 250 answer; ``None``: not known yet."""

    older: Any
    newer: Any
    request: Any
    has_cycles: bool | None
    filled: bool = False  # the older one
    cycles: tuple[float, float] | None = None  # as the latest comparison that had them gave them
    stood_still: bool = False  # they did, up to the latest comparison from the one before
    is_none_of_none: bool = False  # the latest comparison's tensor activity: 0/0

    @classmethod
    def allocate(cls, *, may_have_cycles: bool) -> "GpmSamples | None":
        """Both samples, or neither."""
        older, newer = answer("nvmlGpmSampleAlloc"), answer("nvmlGpmSampleAlloc")
        if older is None or newer is None:
            _free([older, newer])
            return None
        ids = (*GAUGES, *CYCLES) if may_have_cycles else GAUGES
        return cls(older, newer, _request(ids), None if may_have_cycles else False)

    def free(self) -> None:
        """Give both samples back."""
        _free([self.older, self.newer])

    def accept(self) -> None:
        """The newer sample is the older one of the next comparison."""
        self.older, self.newer, self.filled = self.newer, self.older, True

    def compare(self) -> Metrics | None:
        """Metric id → value between the two samples; ``None`` when the call as a whole failed.

        A metric whose own return code says so is ``None``; one that was 0/0 is NaN. Whether ids 248 and 250
        answer is found the first time that the others do: an older driver refuses them one by one, or the
        whole call with them.
        """
        found = self._ask()
        if self.has_cycles is None:
            found = self._settle_cycles(found)
        self._follow(found)
        return found

    def _settle_cycles(self, found: Metrics | None) -> Metrics | None:
        if _cycles_of(found) is not None:
            self.has_cycles = True
            return found
        if found is None:
            self._ask_for(GAUGES)
            found = self._ask()
        if found is None or finite(found[ANY_TENSOR]) is None:
            self._ask_for((*GAUGES, *CYCLES))  # it was not these ids that failed
        else:
            self._ask_for(GAUGES)
            self.has_cycles = False
        return found

    def _follow(self, found: Metrics | None) -> None:
        """An idle GPU may stop its clock: then no cycle elapses, and every gauge is 0/0."""
        cycles = _cycles_of(found)
        gauge = found.get(ANY_TENSOR) if found else None
        self.is_none_of_none = gauge is not None and math.isnan(gauge)
        self.stood_still = self.is_none_of_none and cycles is not None and cycles == self.cycles
        self.cycles = cycles or self.cycles

    def _ask_for(self, ids: tuple[int, ...]) -> None:
        if self.request.numMetrics != len(ids):
            self.request = _request(ids)

    def _ask(self) -> Metrics | None:
        self.request.sample1, self.request.sample2 = self.older, self.newer
        try:
            pynvml.nvmlGpmMetricsGet(self.request)
        except pynvml.NVMLError:
            return None
        rows = self.request.metrics[: self.request.numMetrics]
        return {row.metricId: float(row.value) if row.nvmlReturn == 0 else None for row in rows}


def finite(value: float | None) -> float | None:
    """A metric's value: NaN comes with success."""
    return value if value is not None and math.isfinite(value) else None


def ratio(per_cent: float | None) -> float | None:
    """A share; one that is beyond 0 or 100 % by no more than rounding is 0 or 100 %."""
    if per_cent is None or not -ROUNDING_PER_CENT <= per_cent <= 100 + ROUNDING_PER_CENT:
        return None
    return min(max(per_cent, 0.0), 100.0) / 100


def _cycles_of(found: Metrics | None) -> tuple[float, float] | None:
    """Both counters, or neither."""
    elapsed, active = (finite(found.get(metric)) if found else None for metric in CYCLES)
    return None if elapsed is None or active is None else (elapsed, active)


def _free(samples: list[Any]) -> None:
    for sample in samples:
        if sample is not None:
            answer("nvmlGpmSampleFree", sample)


def _request(ids: tuple[int, ...]) -> Any:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(ids)
    for place, metric in enumerate(ids):
        request.metrics[place].metricId = metric
    return request
