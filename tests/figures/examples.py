"""Sums and GPUs with known figures, for tests."""

from typing import Any

from slurm_ofu.values import GpuTotals, UsageSums

HOUR = 3600.0
#: By the minute, of a GPU of two hours: half an hour idle at its end, another without tensor work.
BY_MINUTES: dict[str, Any] = {
    "idle_seconds": 0.5 * HOUR,
    "idle_covered_seconds": 2 * HOUR,
    "idle_tail_seconds": 0.5 * HOUR,
    "non_tensor_seconds": 0.5 * HOUR,
    "non_tensor_covered_seconds": 2 * HOUR,
    "peak_tensor_ref_seconds": 0.7 * 300,
    "peak_covered_seconds": 300.0,
    "throttled_power_seconds": 0.25 * HOUR,
    "throttled_thermal_seconds": 0.0,
    "throttle_covered_seconds": 2 * HOUR,
}


def measured(**changes: Any) -> UsageSums:
    """One run of 8 GPUs for two hours: tensor activity 0.5 at 0.8 of the reference clock, OFU 0.4."""
    seconds = 16 * HOUR
    values: dict[str, Any] = {
        "run_count": 1,
        "gpu_count": 8.0,
        "gpu_count_unknown_time": 0.0,
        "allocated_seconds": seconds,
        "covered_seconds": seconds,
        "ofu_covered_seconds": seconds,
        "ofu_tensor_active_seconds": changes.get("tensor_active_seconds", 0.5 * seconds),
        "tensor_active_seconds": 0.5 * seconds,
        "tensor_ref_seconds": 0.4 * seconds,
        "tensor_ref_variance": (0.001 * seconds) ** 2,
        "tensor_ref_variance_per_degree": None,
        "tpa_covered_seconds": seconds,
        "sm_active_seconds": 0.9 * seconds,
        "sm_active_covered_seconds": seconds,
        "energy_joules": 3.6e7,
        "estimators": ("cycles",),
        "reasons": ("ok",),
        "gpu_models": ("NVIDIA H100 80GB HBM3",),
    }
    return UsageSums(**{**values, **changes})


def unmeasured(**changes: Any) -> UsageSums:
    """The same run with nothing measured."""
    values: dict[str, Any] = {
        "covered_seconds": 0.0,
        "ofu_covered_seconds": 0.0,
        "ofu_tensor_active_seconds": None,
        "tensor_active_seconds": None,
        "tensor_ref_seconds": None,
        "tensor_ref_variance": None,
        "tpa_covered_seconds": 0.0,
        "sm_active_seconds": None,
        "sm_active_covered_seconds": 0.0,
        "energy_joules": None,
        "estimators": (),
        "reasons": ("no_source",),
        "gpu_models": (),
    }
    return measured(**{**values, **changes})


def gpu(position: int = 0, *, tensor: float = 0.5, clock: float = 0.8, **changes: Any) -> GpuTotals:
    """One GPU for two hours with that tensor activity at that part of the reference clock."""
    values: dict[str, Any] = {
        "position": position,
        "reason": "ok",
        "allocated_seconds": 2 * HOUR,
        "covered_seconds": 2 * HOUR,
        "uuid": f"GPU-0000000{position}",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "reference_clock_mhz": 1830.0,
        "estimator": "cycles",
        "interval_count": 480,
        "tensor_active_seconds": tensor * 2 * HOUR,
        "tensor_ref_seconds": tensor * clock * 2 * HOUR,
        "tensor_ref_error_seconds": 0.001 * 2 * HOUR,
        "sm_active_seconds": 0.9 * 2 * HOUR,
        "sm_active_covered_seconds": 2 * HOUR,
    }
    return GpuTotals(**{**values, **changes})


def silent_gpu(position: int = 0, reason: str = "no_source", **changes: Any) -> GpuTotals:
    """One GPU of which nothing was measured."""
    values: dict[str, Any] = {"position": position, "reason": reason, "allocated_seconds": 2 * HOUR}
    return GpuTotals(**{**values, **changes})
