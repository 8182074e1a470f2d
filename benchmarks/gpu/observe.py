"""The process that reads NVML: ``python -m benchmarks.gpu.observe LIBRARY GPU [UID]``.

What it measures it measures with the product's own source, sampler and fold. It only reads: no setting of
a GPU is ever changed. With a UID it becomes that user before it speaks to the driver.
"""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pynvml

from benchmarks.gpu import probes, timings
from benchmarks.gpu.gpm import Gpm
from benchmarks.gpu.watching import TimedClock, Watched
from benchmarks.gpu.worker import Refused, own_channel, serve
from slurm_ofu.counters.nvml import NvmlSource
from slurm_ofu.errors import SourceError
from slurm_ofu.figures.student import t_quantile
from slurm_ofu.gpu_models import find_model
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.series import BucketLine, Series
from slurm_ofu.integrals.totals import Choice, choose
from slurm_ofu.samples.sampler import Sampler
from slurm_ofu.values import DeviceIdentity, GpuModel, SamplerConfig

PROBES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "ids": probes.ids,
    "counters": probes.counters,
    "same_sample": probes.same_sample,
    "clock_samples": probes.clock_samples,
    "weighting": probes.weighting,
    "refresh": timings.refresh,
    "cost": timings.cost,
}
REFRESH_SECONDS = SamplerConfig().counter_refresh_seconds


@dataclass(slots=True)
class Observer:
    """Answers the script's questions about one GPU."""

    source: NvmlSource
    device: DeviceIdentity
    gpm: Gpm

    def identity(self) -> dict[str, Any]:
        """What the driver and the catalogue say of the GPU, and in which state it is."""
        model, handle = self._model(), self.gpm.handle
        return {
            "user": os.getuid(),
            "driver": _asked(pynvml.nvmlSystemGetDriverVersion),
            "nvml": _asked(pynvml.nvmlSystemGetNVMLVersion),
            "gpu_count": len(self.source.devices()),
            "uuid": self.device.uuid,
            "gpu_model": self.device.gpu_model,
            "sm_count": self._sm_count(),
            "catalogue": None if model is None else _catalogue_row(model),
            "gpm_supported": self.gpm.is_supported,
            "gpm_support_code": self.gpm.support_code,
            "sm_clock_mhz": self.gpm.sm_clock_mhz(),
            "max_sm_clock_mhz": _asked(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
            "persistence_mode": _asked(pynvml.nvmlDeviceGetPersistenceMode, handle),
            "performance_state": _asked(pynvml.nvmlDeviceGetPerformanceState, handle),
            "mig_mode": _asked(pynvml.nvmlDeviceGetMigMode, handle),
            "clock_event_reasons": _asked(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle),
            "utilisation": _asked(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "power_milliwatts": _asked(pynvml.nvmlDeviceGetPowerUsage, handle),
        }

    def observe(
        self, seconds: float, interval_seconds: float, clock_readings: int, seed: int
    ) -> dict[str, Any]:
        """Sample as the product does, for so long; the figures by each estimator."""
        clock = TimedClock(seconds)
        watched = Watched(GpuFold.start(clock.boottime_ns(), max(0.1, interval_seconds)))
        begin_ns = clock.boottime_ns()
        Sampler(
            source=self.source,
            clock=clock,
            folds={0: (self.device, watched)},
            settle=_nothing,
            save=_nothing,
            interval_seconds=lambda _: interval_seconds,
            clock_readings=clock_readings,
            checkpoint_seconds=1e9,
            random=Random(seed),
        ).run()
        end_ns = clock.boottime_ns()
        watched.clock_after(None)
        return {"begin_ns": begin_ns, "over_ns": end_ns, **self._figures(watched)}

    def whole_reading(self) -> dict[str, Any]:
        """Two readings by the product's source."""
        first = self.source.read(self.device)
        time.sleep(2 * self.source.min_interval_seconds)
        second = self.source.read(self.device)
        return {
            "user": os.getuid(),
            "answer": "counters are read"
            if second.fault is None and first.fault is None
            else f"no counters: {second.fault or first.fault}",
            "tensor_active_ratio": second.tensor_active_ratio,
            "has_cycles": self.source.has_cycles,
            "clock_mhz": self.source.sm_clock_mhz(self.device),
        }

    def probe(self, name: str, **arguments: Any) -> dict[str, Any]:
        """One of ``PROBES``."""
        if not self.gpm.is_supported and name != "clock_samples":
            raise Refused("this GPU has no GPM")
        if name == "counters":
            arguments["sm_count"] = self._sm_count()
        if name == "cost":
            arguments["product_read"] = lambda: self.source.read(self.device)
        try:
            found = PROBES[name](self.gpm, **arguments)
        except pynvml.NVMLError as error:
            raise Refused(f"NVML: {error} ({error.value})") from error
        return found

    def _model(self) -> GpuModel | None:
        return find_model(self.device.gpu_model)

    def _sm_count(self) -> int | None:
        model = self._model()
        return self.device.sm_count or (model.sm_count if model else None)

    def _figures(self, watched: Watched) -> dict[str, Any]:
        fold = watched.fold
        chosen = self._choice(fold)
        clocks = watched.clocks_mhz
        return {
            "start_ns": watched.start_ns,
            "counted_from_ns": watched.counted_from_ns,
            "end_ns": watched.end_ns,
            "faults": watched.faults,
            "product_says": None if chosen is None else chosen.estimator,
            "sampled": self._figure(self._choice(replace(fold, cycles=_empty()))),
            "cycles": self._figure(self._choice(replace(fold, sampled=_empty()))),
            "clock_readings": len(clocks),
            "clock_range_mhz": [min(clocks), max(clocks)] if clocks else None,
            "power_watts": _mean(fold.side.power.known_total, fold.side.power.seconds),
            "throttled_power_ratio": _mean(
                fold.side.throttled_power.known_total, fold.side.throttled_power.seconds
            ),
        }

    def _choice(self, fold: GpuFold) -> Choice | None:
        return choose(fold, self._model(), self._sm_count(), REFRESH_SECONDS)

    def _figure(self, choice: Choice | None) -> dict[str, Any] | None:
        model = self._model()
        if choice is None:
            return None
        covered = choice.series.covered_seconds
        mean_mhz = choice.series.tensor_megacycles / choice.scale / covered
        tpa = choice.series.tensor_active_seconds / covered
        found: dict[str, Any] = {"covered_seconds": covered, "tpa": tpa, "scale": choice.scale}
        found["active_clock_mhz"] = mean_mhz / tpa if tpa > 0 else None
        if model is not None:
            sigma = choice.sigma_megacycles / covered / model.reference_clock_mhz
            found["ofu"] = mean_mhz / model.reference_clock_mhz
            found["error_pp"] = 100 * t_quantile(choice.degrees) * sigma
        return found


def _empty() -> Series:
    return Series(BucketLine(0, 10**9))


def _mean(total: float | None, seconds: float) -> float | None:
    return None if total is None or seconds <= 0 else total / seconds


def _catalogue_row(model: GpuModel) -> dict[str, Any]:
    return {
        "sm_count": model.sm_count,
        "reference_clock_mhz": model.reference_clock_mhz,
        "max_clock_mhz": model.max_clock_mhz,
        "flop_per_clock_per_sm": dict(model.rates),
        "peak_tflops": dict(model.peaks),
        "calibrated": model.calibrated,
        "status": model.status,
    }


def _nothing() -> None:
    """The product would save a checkpoint here."""


def _asked(call: Any, *arguments: Any) -> Any:
    """The driver's answer; where there is none, its word for that."""
    try:
        found = call(*arguments)
    except pynvml.NVMLError as error:
        return f"code {error.value} ({error})"
    return found.decode() if isinstance(found, bytes) else found


def become(uid: int, library: str) -> None:
    """Another user, for good; only root can. The library is loaded before: the question is what the driver
    lets that user do, not which files he may read."""
    with contextlib.suppress(OSError):  # then the source says so
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    except PermissionError as error:
        raise Refused(f"user {os.getuid()} cannot become user {uid}: {error}") from error


def main(library: str, index: str, uid: str | None = None) -> int:
    """Serve. Without a driver or this GPU every question is refused."""
    channel = own_channel()
    try:
        if uid is not None:
            become(int(uid), library)
        source = NvmlSource(library)
        whole = (each for each in source.devices() if each.mig_profile is None)
        device = next((each for each in whole if each.index == int(index)), None)
        if device is None:
            raise Refused(f"NVML sees no whole GPU {index}; it sees {len(source.devices())} in all")
        handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
        observer = Observer(source, device, Gpm(handle))
    except (Refused, SourceError) as refused:
        why = str(refused)

        def refuse(**_: Any) -> Any:
            raise Refused(why)

        serve(channel, dict.fromkeys(_QUESTIONS, refuse))
        return 0
    serve(channel, {name: getattr(observer, name) for name in _QUESTIONS})
    source.close()
    return 0


_QUESTIONS = ("identity", "observe", "whole_reading", "probe")

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
