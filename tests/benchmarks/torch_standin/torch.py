"""A stand-in for PyTorch with a GPU: what benchmarks/gpu/gemm_torch.py uses of it, and no arithmetic.

Shapes and types are checked as PyTorch does; a product takes the time that a GPU of OFU_TORCH_TFLOPS needs.
With OFU_TORCH_BROKEN every product fails.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

__version__ = "0.0+standin"
version = SimpleNamespace(cuda="13.0")
float16, bfloat16, float32, float8_e4m3fn = "float16", "bfloat16", "float32", "float8_e4m3fn"
RATE = float(os.environ.get("OFU_TORCH_TFLOPS", "100")) * 1e12


class Gpu:
    """When it will be done with what it was given; what a graph being captured takes."""

    busy_until = time.monotonic()
    captured: "list[float] | None" = None
    last_kernel = ""

    @classmethod
    def take(cls, seconds: float) -> None:
        """Work, or a part of a graph."""
        if cls.captured is not None:
            cls.captured.append(seconds)
        else:
            cls.busy_until += seconds

    @classmethod
    def drain(cls) -> None:
        """Wait until it is done. From then on it never rests between launches, however late they come."""
        time.sleep(max(0.0, cls.busy_until - time.monotonic()))
        cls.busy_until = time.monotonic()


class Tensor:
    """A shape, a type, and whether columns lie in memory one after the other."""

    def __init__(self, shape: tuple[int, ...], dtype: str, *, turned: bool = False) -> None:
        self.shape, self.dtype, self.turned = shape, dtype, turned

    def to(self, dtype: str) -> "Tensor":
        """In another type."""
        return Tensor(self.shape, dtype)

    def t(self) -> "Tensor":
        """Transposed."""
        return Tensor(self.shape[::-1], self.dtype, turned=not self.turned)


def _made(*shape: int, device: str, dtype: str) -> Tensor:
    assert device == "cuda"
    return Tensor(shape, dtype)


randn = empty = _made


def ones(shape: tuple[int, ...], *, device: str, dtype: str) -> Tensor:
    """A scalar, too."""
    return _made(*shape, device=device, dtype=dtype)


def set_float32_matmul_precision(precision: str) -> None:
    """TF32."""
    assert precision == "high"


def _multiply(x: Tensor, y: Tensor, kernel: str) -> tuple[int, int]:
    if "OFU_TORCH_BROKEN" in os.environ:
        raise RuntimeError("CUDA error: no kernel image is available\nand more")
    (n, k), (also_k, m) = x.shape, y.shape
    if k != also_k or x.dtype != y.dtype or not y.turned:
        raise RuntimeError(f"{x.shape} and {y.shape} of {x.dtype} and {y.dtype}")
    Gpu.take(2 * m * n * k / RATE)
    Gpu.last_kernel = kernel
    return n, m


def mm(x: Tensor, y: Tensor, *, out: Tensor) -> Tensor:
    """The product of two matrices."""
    if _multiply(x, y, "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT") != out.shape or out.dtype != x.dtype:
        raise RuntimeError(f"out is {out.shape} of {out.dtype}")
    return out


def _scaled_mm(
    x: Tensor, y: Tensor, *, scale_a: Tensor, scale_b: Tensor, out_dtype: str, use_fast_accum: bool
) -> Tensor:
    if (scale_a.shape, scale_b.dtype) != ((), float32) or not use_fast_accum:
        raise RuntimeError("scales")
    if any(side % 16 for side in (*x.shape, *y.shape)):
        raise RuntimeError("Expected trailing dimension of mat1 to be divisible by 16")
    return Tensor(_multiply(x, y, "nvjet_qqtst_128x160_128x4_2x1_v_bz_TNT"), out_dtype)


class _Event:
    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        self.at = Gpu.busy_until

    def synchronize(self) -> None:
        time.sleep(max(0.0, self.at - time.monotonic()))

    def elapsed_time(self, later: "_Event") -> float:
        return (later.at - self.at) * 1000


class _Graph:
    seconds = 0.0

    def replay(self) -> None:
        Gpu.take(self.seconds)


@contextmanager
def _capturing(graph: _Graph) -> Iterator[None]:
    Gpu.captured = []
    yield
    graph.seconds, Gpu.captured = sum(Gpu.captured), None


@contextmanager
def _profile(activities: list[str]) -> Iterator[Any]:
    assert activities == ["CUDA"]

    def row(key: str, where: str, microseconds: float) -> Any:
        return SimpleNamespace(
            key=key, device_type=SimpleNamespace(name=where), self_device_time_total=microseconds
        )

    yield SimpleNamespace(
        key_averages=lambda: [
            row("cudaLaunchKernel", "CPU", 0.0),
            row("Memset (Device)", "CUDA", 900.0),
            row(Gpu.last_kernel, "CUDA", 100.0),
            row("splitK_reduce", "CUDA", 5.0),
        ]
    )


cuda = SimpleNamespace(
    is_available=lambda: True,
    get_device_properties=lambda _: SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, major=9, minor=0
    ),
    synchronize=Gpu.drain,
    empty_cache=lambda: None,
    Event=_Event,
    CUDAGraph=_Graph,
    graph=_capturing,
)
profiler = SimpleNamespace(profile=_profile, ProfilerActivity=SimpleNamespace(CUDA="CUDA"))
