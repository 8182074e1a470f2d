"""GEMMs by cuBLASLt through ctypes: no compiler and no PyTorch needed.

All precisions take one way: A transposed, B not, both K-major (the only layout that FP8 has); sums in
FP32. cuBLAS's own cublasGemmEx comes down to the same library.
"""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_int32, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu.cuda_libraries import Heuristic, Libraries, open_libraries
from benchmarks.gpu.gemm import Product
from benchmarks.gpu.worker import Refused

# cublasComputeType_t, cudaDataType_t
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
R_32F, R_16F, R_16BF, R_8F_E4M3 = 0, 2, 14, 28
# cublasOperation_t; cublasLtMatmulDescAttributes_t; cublasLtMatmulPreferenceAttributes_t
OP_T, OP_N = 1, 0
DESC_TRANSA, DESC_TRANSB, DESC_FAST_ACCUM = 3, 4, 25
PREF_MAX_WORKSPACE_BYTES = 1
HOST_TO_DEVICE, STREAM_NON_BLOCKING, CAPTURE_THREAD_LOCAL = 1, 1, 1
ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_SM_COUNT = 75, 76, 16  # cudaDeviceAttr
WORKSPACE_BYTES = 32 << 20
PATTERN_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Kind:
    """A precision: its data types, the bits that make random bytes a number from ±[0.5, 1)."""

    compute: int
    operand: int
    result: int
    operand_bytes: int
    result_bytes: int
    keep: bytes
    add: bytes


KINDS = {
    "fp16": Kind(COMPUTE_32F, R_16F, R_16F, 2, 2, b"\xff\x83", b"\x00\x38"),
    "bf16": Kind(COMPUTE_32F, R_16BF, R_16BF, 2, 2, b"\x7f\x80", b"\x00\x3f"),
    "tf32": Kind(COMPUTE_32F_FAST_TF32, R_32F, R_32F, 4, 4, b"\xff\xff\x7f\x80", b"\x00\x00\x00\x3f"),
    "fp8": Kind(COMPUTE_32F, R_8F_E4M3, R_16BF, 1, 2, b"\x87", b"\x30"),
}


@dataclass(slots=True)
class Descriptors:
    """cuBLASLt's description of one product."""

    operation: c_void_p
    a: c_void_p
    b: c_void_p
    d: c_void_p
    heuristic: Heuristic = field(default_factory=Heuristic)


class CublasGemm:
    """A Backend."""

    name = "cublasLt"

    def __init__(self, libraries: Libraries) -> None:
        self._cuda = libraries
        self._stream = libraries.handle("cudaStreamCreateWithFlags", STREAM_NON_BLOCKING)
        self._lt = libraries.handle("cublasLtCreate")
        self._workspace = libraries.handle("cudaMalloc", WORKSPACE_BYTES)
        self._one, self._zero = c_float(1.0), c_float(0.0)
        self._buffers: list[c_void_p] = []
        self._patterns: dict[Kind, bytes] = {}
        self._events: list[c_void_p] = []  # of the product at hand
        self._arguments: tuple[Any, ...] = ()
        self._descriptors: Descriptors | None = None
        self._graph: c_void_p | None = None
        self._multiply = libraries.function("cublasLtMatmul")
        self._replay = libraries.function("cudaGraphLaunch")

    def describe(self) -> dict[str, Any]:
        """Versions and the GPU."""
        major, minor, sm_count = (
            self._cuda.number("cudaDeviceGetAttribute", attribute, 0)
            for attribute in (ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_SM_COUNT)
        )
        return {
            "libraries": list(self._cuda.paths),
            "cuda_runtime": self._cuda.number("cudaRuntimeGetVersion"),
            "cuda_driver": self._cuda.number("cudaDriverGetVersion"),
            "sm_count": sm_count,
            "compute_capability": f"{major}.{minor}",
        }

    def prepare(self, product: Product) -> int:
        """Operands, an algorithm, a first run, and a CUDA graph of several."""
        self._forget()
        kind = KINDS[product.precision]
        try:
            self._describe_product(product, kind)
            self._load(product, kind)
            self._once()
            self._cuda.call("cudaStreamSynchronize", self._stream)
        except Refused as refused:
            self._forget()
            raise Refused(f"cuBLASLt does not do {product.name}: {refused}") from refused
        self._graph = self._captured(product.per_launch)
        return 1 if self._graph is None else product.per_launch

    def launch(self) -> None:
        """One graph, or one product."""
        if self._graph is None:
            self._once()
        elif status := self._replay(self._graph, self._stream):
            raise RuntimeError(f"cudaGraphLaunch: {status}")

    def mark(self) -> c_void_p:
        """An event on the stream."""
        event = self._cuda.handle("cudaEventCreateWithFlags", 0)
        self._events.append(event)
        self._cuda.call("cudaEventRecord", event, self._stream)
        return event

    def wait(self, mark: c_void_p) -> None:
        """Until the event has come."""
        self._cuda.call("cudaEventSynchronize", mark)

    def seconds_between(self, first: c_void_p, second: c_void_p) -> float:
        """By the GPU's clock."""
        milliseconds = c_float()
        self._cuda.call("cudaEventElapsedTime", byref(milliseconds), first, second)
        return milliseconds.value / 1000

    def kernel(self, product: Product) -> str | None:
        """Its name is not to be had without a profiler; cuBLASLt's trace has the tile."""
        self.prepare(product)
        return None

    def _describe_product(self, product: Product, kind: Kind) -> None:
        cuda, m, n, k = self._cuda, product.m, product.n, product.k
        operation = cuda.handle("cublasLtMatmulDescCreate", kind.compute, R_32F)
        for attribute, value in ((DESC_TRANSA, OP_T), (DESC_TRANSB, OP_N)):
            self._set("cublasLtMatmulDescSetAttribute", operation, attribute, c_int32(value))
        if kind.operand == R_8F_E4M3:
            self._set("cublasLtMatmulDescSetAttribute", operation, DESC_FAST_ACCUM, ctypes.c_int8(1))
        self._descriptors = Descriptors(
            operation=operation,
            a=cuda.handle("cublasLtMatrixLayoutCreate", kind.operand, k, m, k),
            b=cuda.handle("cublasLtMatrixLayoutCreate", kind.operand, k, n, k),
            d=cuda.handle("cublasLtMatrixLayoutCreate", kind.result, m, n, m),
        )
        self._choose(self._descriptors)

    def _choose(self, given: Descriptors) -> None:
        """The library's first choice of an algorithm."""
        preference = self._cuda.handle("cublasLtMatmulPreferenceCreate")
        self._set(
            "cublasLtMatmulPreferenceSetAttribute",
            preference,
            PREF_MAX_WORKSPACE_BYTES,
            c_uint64(WORKSPACE_BYTES),
        )
        count = c_int()
        layouts = (given.a, given.b, given.d, given.d)
        self._cuda.call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self._lt, given.operation, *layouts, preference),
            *(1, byref(given.heuristic), byref(count)),
        )
        self._cuda.quietly("cublasLtMatmulPreferenceDestroy", preference)
        if count.value < 1 or given.heuristic.state != 0:
            raise Refused("the library knows no algorithm")

    def _set(self, function: str, of: c_void_p, attribute: int, value: Any) -> None:
        self._cuda.call(function, of, attribute, byref(value), ctypes.sizeof(value))

    def _load(self, product: Product, kind: Kind) -> None:
        a = self._random(product.m * product.k * kind.operand_bytes, kind)
        b = self._random(product.n * product.k * kind.operand_bytes, kind)
        d = self._allocated(product.m * product.n * kind.result_bytes)
        given = self._descriptors
        assert given is not None
        self._arguments = (
            *(self._lt, given.operation, byref(self._one)),
            *(a, given.a, b, given.b, byref(self._zero)),
            *(d, given.d, d, given.d),
            *(byref(given.heuristic), self._workspace, WORKSPACE_BYTES, self._stream),
        )

    def _random(self, size: int, kind: Kind) -> c_void_p:
        """Random values: a GPU draws less power, and runs faster, on zeros."""
        buffer = self._allocated(size)
        if kind not in self._patterns:
            self._patterns[kind] = pattern(kind, PATTERN_BYTES)
        data = self._patterns[kind]
        assert buffer.value is not None
        for offset in range(0, size, len(data)):
            length = min(len(data), size - offset)
            self._cuda.call("cudaMemcpy", buffer.value + offset, data, length, HOST_TO_DEVICE)
        return buffer

    def _allocated(self, size: int) -> c_void_p:
        buffer = self._cuda.handle("cudaMalloc", size)
        self._buffers.append(buffer)
        return buffer

    def _once(self) -> None:
        if status := self._multiply(*self._arguments):
            raise Refused(f"cublasLtMatmul: status {status}")

    def _captured(self, count: int) -> c_void_p | None:
        """A CUDA graph of so many products; ``None`` where that fails: then they are launched singly."""
        cuda, graph = self._cuda, c_void_p()
        if cuda.quietly("cudaStreamBeginCapture", self._stream, CAPTURE_THREAD_LOCAL) != 0:
            return None
        statuses = [self._multiply(*self._arguments) for _ in range(count)]
        ended = cuda.quietly("cudaStreamEndCapture", self._stream, byref(graph))
        executable = c_void_p()
        failed = any(statuses) or ended != 0
        if not failed:
            failed = cuda.quietly("cudaGraphInstantiate", byref(executable), graph, 0) != 0
        if graph.value:
            cuda.quietly("cudaGraphDestroy", graph)
        if failed:
            cuda.quietly("cudaGetLastError")  # and forgets it
        return None if failed else executable

    def _forget(self) -> None:
        cuda, given = self._cuda, self._descriptors
        if self._graph is not None:
            cuda.quietly("cudaGraphExecDestroy", self._graph)
        for event in self._events:
            cuda.quietly("cudaEventDestroy", event)
        for buffer in self._buffers:
            cuda.quietly("cudaFree", buffer)
        if given is not None:
            cuda.quietly("cublasLtMatmulDescDestroy", given.operation)
            for layout in (given.a, given.b, given.d):
                cuda.quietly("cublasLtMatrixLayoutDestroy", layout)
        self._graph, self._descriptors, self._arguments = None, None, ()
        self._buffers.clear()
        self._events.clear()


def pattern(kind: Kind, size: int) -> bytes:
    """Random numbers of one kind, each from ±[0.5, 1)."""
    times = -(-size // kind.operand_bytes)
    keep, add = (int.from_bytes(mask * times, "little") for mask in (kind.keep, kind.add))
    length = times * kind.operand_bytes
    drawn = int.from_bytes(os.urandom(length), "little")
    return (drawn & keep | add).to_bytes(length, "little")[:size]


def open_backend() -> CublasGemm:
    """Raises Refused where the libraries or a GPU are missing."""
    return CublasGemm(open_libraries())
