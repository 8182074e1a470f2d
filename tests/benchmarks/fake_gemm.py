"""Somebody who multiplies nothing: he waits as long as a GPU with known tensor activity would take.

OFU_FAKE_GEMM says, as JSON, which: ``ofu`` (what the stand-in driver plays), ``sm_count``, ``rates`` (per
precision: dense FLOP per clock and SM), ``reference_clock_mhz``, ``kernel`` (its name; the time includes
what pads a product to its tiles), ``crashes_on`` (a product's name).
"""

import json
import os
import time
from typing import Any

from benchmarks.gpu.gemm import Product
from benchmarks.gpu.worker import Refused
from slurm_ofu.figures.tile_names import parse_kernel
from slurm_ofu.figures.tiles import Gemm, useful_ratio


class FakeGemm:
    """A Backend whose GPU never rests between launches, however late this process is with them: only so
    is its rate the known one on a machine that is busy with other things."""

    name = "fake"

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._seconds = 0.0
        self._busy_until = time.monotonic()

    def describe(self) -> dict[str, Any]:
        """Nothing real."""
        return {"sm_count": self._given["sm_count"]}

    def prepare(self, product: Product) -> int:
        """FP8 takes multiples of 16, as libraries do."""
        if product.precision == "fp8" and (product.m % 16 or product.k % 16):
            raise Refused("fake: sides are multiples of 16")
        if product.name == self._given.get("crashes_on"):
            os.abort()
        gemm = Gemm(m=product.m, n=product.n, k=product.k)
        useful = useful_ratio(gemm, parse_kernel(self._given["kernel"]).tile)
        rate = self._given["rates"][product.precision]
        peak = rate * self._given["sm_count"] * self._given["reference_clock_mhz"] * 1e6
        self._seconds = product.per_launch * product.flop / (peak * self._given["ofu"] * useful)
        self._busy_until = time.monotonic()
        return product.per_launch

    def launch(self) -> None:
        """The GPU takes up the next product the moment it is done with the last."""
        self._busy_until += self._seconds

    def mark(self) -> float:
        """The instant itself."""
        return self._busy_until

    def wait(self, mark: float) -> None:
        """Sleep until then."""
        time.sleep(max(0.0, mark - time.monotonic()))

    def seconds_between(self, first: float, second: float) -> float:
        """By the same clock."""
        return second - first

    def kernel(self, product: Product) -> str | None:
        """The one that was given."""
        self.prepare(product)
        name: str = self._given["kernel"]
        return name


def open_backend() -> FakeGemm:
    """Raises Refused where nothing is given."""
    given = os.environ.get("OFU_FAKE_GEMM")
    if not given:
        raise Refused("OFU_FAKE_GEMM is not set")
    return FakeGemm(json.loads(given))
