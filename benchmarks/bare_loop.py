"""The least that anybody could do: pynvml in a loop, at the same instants, with the same calls.

``python bare_loop.py LIBRARY INTERVAL_SECONDS INTERVALS``; SIGUSR1 ends it earlier. It keeps what it reads
in two lists per GPU and drops it after each interval: no sums, no files, no error handling. It prints the
instant of its first reading (CLOCK_BOOTTIME in nanoseconds).
"""

import ctypes
import random
import signal
import sys
import time

import pynvml

CLOCK_READINGS = 10
METRICS = (5, 2, 10, 248, 250)
MIN_INTERVAL_SECONDS = 0.12


class Gpu:
    """Handle, sample buffers and what was read."""

    def __init__(self, index: int) -> None:
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.older, self.newer = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
        self.metrics = pynvml.c_nvmlGpmMetricsGet_t()
        self.metrics.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self.metrics.numMetrics = len(METRICS)
        for place, metric in enumerate(METRICS):
            self.metrics.metrics[place].metricId = metric
        self.clocks: list[int] = []
        self.values: list[float] = []
        self.is_first = True

    def read_clock(self) -> None:
        """The SM clock now."""
        self.clocks.append(pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM))

    def read_counters(self) -> None:
        """What the sampler reads at the end of an interval."""
        self.values = [
            pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu,
            pynvml.nvmlDeviceGetPowerUsage(self.handle),
            pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle),
            pynvml.nvmlDeviceGetMemoryInfo(self.handle, pynvml.nvmlMemory_v2).used,
            pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle),
        ]
        pynvml.nvmlGpmSampleGet(self.handle, self.newer)
        if not self.is_first:
            self.metrics.sample1, self.metrics.sample2 = self.older, self.newer
            pynvml.nvmlGpmMetricsGet(self.metrics)
            self.values += [self.metrics.metrics[place].value for place in range(len(METRICS))]
        self.is_first = False
        self.older, self.newer = self.newer, self.older
        self.clocks.clear()


def wait_until(deadline_ns: int) -> bool:
    """Wait; True when told to stop."""
    left = max(0.0, (deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9)
    return signal.sigtimedwait([signal.SIGUSR1], left) is not None


def main(interval_seconds: float, intervals: int) -> None:
    """Read until told to stop, or for so many intervals."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    pynvml.nvmlInit()
    gpus = [Gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
    print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
    for gpu in gpus:
        gpu.read_counters()
        gpu.read_clock()
    time.sleep(MIN_INTERVAL_SECONDS)
    for gpu in gpus:
        gpu.read_clock()
        gpu.read_counters()
    draw, width_ns = random.Random(1), int(interval_seconds * 1e9)
    begin, slice_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME), width_ns / CLOCK_READINGS
    for _ in range(intervals):
        instants = sorted(
            (begin + int((stratum + draw.random()) * slice_ns), index)
            for index in range(len(gpus))
            for stratum in range(CLOCK_READINGS)
        )
        for instant, index in instants:
            if wait_until(instant):
                return
            gpus[index].read_clock()
        begin += width_ns
        if wait_until(begin):
            return
        for gpu in gpus:
            gpu.read_counters()


if __name__ == "__main__":
    ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)  # found by its soname from here on
    main(float(sys.argv[2]), int(sys.argv[3]))
    pynvml.nvmlShutdown()
