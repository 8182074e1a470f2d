"""Matrix products with a known number of floating-point operations, and who can run them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

#: Precision → the format under which the catalogue of GPU models has its dense peak.
FORMATS: Mapping[str, str] = {"fp16": "fp16", "bf16": "fp16", "tf32": "tf32", "fp8": "fp8"}
PRECISIONS = tuple(FORMATS)
#: So much work goes to the GPU in one launch at least, that launching costs little.
FLOP_PER_LAUNCH = 2e11
MOST_PER_LAUNCH = 64

SQUARES = (8192, 4096, 1024, 2048, 512, 16384, 256)
UNALIGNED = (1000, 4097, 257, 3001)
UNALIGNED_FP8 = (1040, 4112, 272, 3008)  # libraries take multiples of 16 only: these pad all the same
RECTANGLES = (
    (8192, 1024, 4096),
    (1024, 8192, 8192),
    (4096, 14336, 4096),
    (256, 8192, 8192),
    (16384, 4096, 1024),
    (12288, 384, 6144),
)
FURTHER_SQUARES = (768, 1536, 3072, 6144, 12288, 384)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One GEMM: M×K times K×N, column-major as a BLAS counts, so that M is the side that lies in memory."""

    precision: str
    m: int
    n: int
    k: int

    @property
    def flop(self) -> int:
        """Multiplications and additions that the product needs."""
        return 2 * self.m * self.n * self.k

    @property
    def per_launch(self) -> int:
        """How many of them go to the GPU at once."""
        return max(1, min(MOST_PER_LAUNCH, int(FLOP_PER_LAUNCH // self.flop)))

    @property
    def name(self) -> str:
        """For people."""
        sides = f"{self.m}" if self.m == self.n == self.k else f"{self.m}×{self.n}×{self.k}"
        return f"{self.precision} {sides}"

    def plain(self) -> dict[str, Any]:
        """For another process."""
        return {"precision": self.precision, "m": self.m, "n": self.n, "k": self.k}


class Backend(Protocol):
    """A library that multiplies matrices on the first GPU that it sees.

    ``launch`` returns before the work is done; work is done in the order of launches. Everything raises
    Refused where the library does not do it.
    """

    name: str

    def describe(self) -> dict[str, Any]:
        """Versions, the GPU's name and its number of SMs."""

    def prepare(self, product: Product) -> int:
        """Get ready for a product; how many of them one launch is."""

    def launch(self) -> None:
        """Hand so many products to the GPU."""

    def mark(self) -> Any:
        """A mark behind all that was launched."""

    def wait(self, mark: Any) -> None:
        """Wait until the GPU is past a mark."""

    def seconds_between(self, first: Any, second: Any) -> float:
        """By the GPU's clock; both are past."""

    def kernel(self, product: Product) -> str | None:
        """The name of the kernel that does most of the work, where it can be had."""


def sweep() -> tuple[Product, ...]:
    """What is measured, in this order: whatever the time suffices for, all precisions are in it."""
    return tuple(
        chain(
            _each([(n, n, n) for n in SQUARES]),
            _each([(n, n, n) for n in UNALIGNED], [(n, n, n) for n in UNALIGNED_FP8]),
            _each(RECTANGLES),
            _each([(3001, 1000, 4097)], [(3008, 1040, 4112)]),
            _each([(n, n, n) for n in FURTHER_SQUARES]),
        )
    )


def _each(
    sides: "list[tuple[int, int, int]] | tuple[tuple[int, int, int], ...]",
    sides_fp8: list[tuple[int, int, int]] | None = None,
) -> list[Product]:
    rows = zip(sides, sides_fp8 or sides, strict=True)
    return [
        Product(precision=precision, m=m, n=n, k=k)
        for usual, fp8 in rows
        for precision in PRECISIONS
        for m, n, k in (fp8 if precision == "fp8" else usual,)
    ]


#: In the order in which they are tried.
BACKENDS: Mapping[str, str] = {
    "torch": "benchmarks.gpu.gemm_torch",
    "cublas": "benchmarks.gpu.gemm_cublas",
}


def open_backend(name: str) -> Backend:
    """One of BACKENDS, or a module with a function ``open_backend``. Raises Refused."""
    backend: Backend = importlib.import_module(BACKENDS.get(name, name)).open_backend()
    return backend
