"""libcudart and libcublasLt through ctypes: where they are, and the few functions that are used.

Signatures are those of cuda_runtime_api.h and cublasLt.h of CUDA 12 and 13, which agree in all of them.
"""

import ctypes
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gpu.worker import Refused

MAJORS = (13, 12)
#: Where NVIDIA's wheels keep them below site-packages, then where packages of the system do.
_IN_SITE_PACKAGES = ("nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cuda_runtime/lib")
_IN_SYSTEM = ("usr/local/cuda*/lib64", "usr/local/cuda*/lib", "usr/lib/*-linux-gnu")

_RUNTIME: dict[str, tuple[Any, ...]] = {
    "cudaGetDeviceCount": (POINTER(c_int),),
    "cudaRuntimeGetVersion": (POINTER(c_int),),
    "cudaDriverGetVersion": (POINTER(c_int),),
    "cudaDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cudaMalloc": (POINTER(c_void_p), c_size_t),
    "cudaFree": (c_void_p,),
    "cudaMemcpy": (c_void_p, c_void_p, c_size_t, c_int),
    "cudaStreamCreateWithFlags": (POINTER(c_void_p), c_uint),
    "cudaStreamSynchronize": (c_void_p,),
    "cudaStreamBeginCapture": (c_void_p, c_int),
    "cudaStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cudaGraphInstantiate": (POINTER(c_void_p), c_void_p, c_uint64),
    "cudaGraphLaunch": (c_void_p, c_void_p),
    "cudaGraphDestroy": (c_void_p,),
    "cudaGraphExecDestroy": (c_void_p,),
    "cudaEventCreateWithFlags": (POINTER(c_void_p), c_uint),
    "cudaEventDestroy": (c_void_p,),
    "cudaEventRecord": (c_void_p, c_void_p),
    "cudaEventSynchronize": (c_void_p,),
    "cudaEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cudaGetLastError": (),
}
_CUBLAS_LT: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (POINTER(c_void_p),),
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulAlgoGetHeuristic": (
        *(c_void_p,) * 7,  # handle, operation, layouts of A, B, C, D, preference
        c_int,
        c_void_p,
        POINTER(c_int),
    ),
    "cublasLtMatmul": (
        *(c_void_p, c_void_p, c_void_p),  # handle, operation, alpha
        *(c_void_p,) * 4,  # A, its layout, B, its layout
        c_void_p,  # beta
        *(c_void_p,) * 4,  # C, its layout, D, its layout
        *(c_void_p, c_void_p, c_size_t, c_void_p),  # algorithm, workspace, its size, stream
    ),
}
_ERROR_NAMES = ("cudaGetErrorName", "cublasLtGetStatusName")


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, 96 bytes; it begins with the algorithm."""

    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int32),
        ("waves_count", c_float),
        ("reserved", c_int32 * 4),
    ]


class Libraries:
    """Both libraries of one CUDA version. Every call that fails raises Refused with the function's name."""

    def __init__(self, runtime: str, cublas_lt: str) -> None:
        """Raises Refused where they cannot be loaded, lack a function or see no GPU."""
        self.paths = (runtime, cublas_lt)
        self._functions: dict[str, Any] = {}
        for path, signatures in ((runtime, _RUNTIME), (cublas_lt, _CUBLAS_LT)):
            self._bind(path, signatures)
        count = c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        if count.value < 1:
            raise Refused(f"{runtime} sees no GPU")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; its status must be 0."""
        status = self._functions[name](*arguments)
        if status != 0:
            raise Refused(f"{name} failed: {self._word(name, status)}")

    def quietly(self, name: str, *arguments: Any) -> int:
        """Call a function whose failure does not matter; its status."""
        return int(self._functions[name](*arguments))

    def function(self, name: str) -> Any:
        """For the loop in which every microsecond counts; its status is the caller's affair."""
        return self._functions[name]

    def number(self, name: str, *arguments: Any) -> int:
        """What a function writes through its first argument, an int."""
        found = c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """What a function creates through its first argument."""
        found = c_void_p()
        self.call(name, ctypes.byref(found), *arguments)
        return found

    def _bind(self, path: str, signatures: dict[str, tuple[Any, ...]]) -> None:
        try:
            library = ctypes.CDLL(path)
            for name, arguments in signatures.items():
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, c_int
                self._functions[name] = function
            for name in (name for name in _ERROR_NAMES if hasattr(library, name)):
                function = getattr(library, name)
                function.argtypes, function.restype = (c_int,), c_char_p
                self._functions[name] = function
        except (OSError, AttributeError) as error:
            raise Refused(f"{path} cannot be used: {error}") from error

    def _word(self, name: str, status: int) -> str:
        words = self._functions.get(
            "cublasLtGetStatusName" if name.startswith("cublasLt") else "cudaGetErrorName"
        )
        word = words(status) if words else None
        return word.decode() if word else f"status {status}"


def candidates() -> Iterator[tuple[str, str]]:
    """(libcudart, libcublasLt) of the same version, each by the loader's own search or as found on disk."""
    for major in MAJORS:
        yield from product(_ways(f"libcudart.so.{major}"), _ways(f"libcublasLt.so.{major}"))


def _ways(name: str) -> list[str]:
    found = _found(name)
    return [name] if found is None else [name, found]


def _found(name: str) -> str | None:
    places = [Path(place) / inside for place in sys.path if place for inside in _IN_SITE_PACKAGES]
    places += [place for pattern in _IN_SYSTEM for place in sorted(Path("/").glob(pattern))]
    return next((str(place / name) for place in places if (place / name).exists()), None)


def open_libraries() -> Libraries:
    """The first pair that works. Raises Refused with what was tried."""
    reasons = []
    for runtime, cublas_lt in candidates():
        try:
            return Libraries(runtime, cublas_lt)
        except Refused as refused:
            reasons.append(str(refused))
    raise Refused("; ".join(reasons))
