"""GEMMs by PyTorch, where it is installed.

A row-major product X·Y is column-major Yᵀ·Xᵀ: the result of N rows of M is the library's M×N.
"""

import importlib
from typing import Any

from benchmarks.gpu.gemm import Product
from benchmarks.gpu.worker import Refused


class TorchGemm:
    """A Backend."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._operands: tuple[Any, ...] = ()
        self._graph: Any = None
        self._call: Any = None

    def describe(self) -> dict[str, Any]:
        """Versions and the GPU."""
        properties = self._torch.cuda.get_device_properties(0)
        return {
            "torch": str(self._torch.__version__),
            "cuda": str(self._torch.version.cuda),
            "gpu_model": properties.name,
            "sm_count": properties.multi_processor_count,
            "compute_capability": f"{properties.major}.{properties.minor}",
        }

    def prepare(self, product: Product) -> int:
        """Operands, a first run, and a CUDA graph of several; plain calls where capturing fails."""
        try:
            self._load(product)
            self._call()
            self._torch.cuda.synchronize()
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            self._forget()
            raise Refused(f"torch does not do {product.name}: {_first_line(error)}") from error
        try:
            self._graph = self._captured(product.per_launch)
        except RuntimeError:
            self._graph = None
            self._torch.cuda.synchronize()
            return 1
        return product.per_launch

    def launch(self) -> None:
        """One graph, or one product."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._call()

    def mark(self) -> Any:
        """An event on the current stream."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        """Until the event has come."""
        mark.synchronize()

    def seconds_between(self, first: Any, second: Any) -> float:
        """By the GPU's clock."""
        return float(first.elapsed_time(second)) / 1000

    def kernel(self, product: Product) -> str | None:
        """The kernel that takes most of the time, by torch's profiler."""
        self.prepare(product)
        profiler = self._torch.profiler
        try:
            with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
                self._call()
                self._torch.cuda.synchronize()
        except (RuntimeError, AssertionError):
            return None  # no profiler here: cuBLASLt's trace has the tile
        kernels = [(_device_seconds(row), str(row.key)) for row in profile.key_averages() if _is_kernel(row)]
        longest = max(kernels, default=(0.0, ""))
        return longest[1] if longest[0] > 0 else None

    def _load(self, product: Product) -> None:
        self._forget()
        torch = self._torch
        x = self._random(product.n, product.k, product.precision)
        y = self._random(product.m, product.k, product.precision).t()
        if product.precision == "fp8":
            one = torch.ones((), device="cuda", dtype=torch.float32)
            self._operands = (x, y, one)
            self._call = lambda: torch._scaled_mm(
                x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
            )
            return
        out = torch.empty(product.n, product.m, device="cuda", dtype=x.dtype)
        self._operands = (x, y, out)
        self._call = lambda: torch.mm(x, y, out=out)

    def _random(self, rows: int, columns: int, precision: str) -> Any:
        """Random values: a GPU draws less power, and runs faster, on zeros."""
        torch = self._torch
        kind = {
            "fp16": "float16",
            "bf16": "bfloat16",
            "tf32": "float32",
            "fp8": "float8_e4m3fn",
        }[precision]
        return torch.randn(rows, columns, device="cuda", dtype=torch.float32).to(getattr(torch, kind))

    def _captured(self, count: int) -> Any:
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            for _ in range(count):
                self._call()
        return graph

    def _forget(self) -> None:
        self._graph, self._call, self._operands = None, None, ()
        self._torch.cuda.empty_cache()


def open_backend() -> TorchGemm:
    """Raises Refused without PyTorch, or where it sees no GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Refused(f"PyTorch is not installed ({error})") from error
    if not torch.cuda.is_available():
        raise Refused(f"PyTorch {torch.__version__} sees no GPU")
    torch.set_float32_matmul_precision("high")  # TF32
    return TorchGemm(torch)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def _is_kernel(row: Any) -> bool:
    """Not one of the calls that started it."""
    return getattr(row.device_type, "name", "") == "CUDA" and not row.key.startswith(("Memset", "Memcpy"))


def _device_seconds(row: Any) -> float:
    """Its name changed between versions of PyTorch."""
    for name in ("self_device_time_total", "self_cuda_time_total"):
        value = getattr(row, name, None)
        if value is not None:
            return float(value)
    return 0.0
