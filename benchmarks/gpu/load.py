"""The process that keeps the GPU busy: ``python -m benchmarks.gpu.load BACKEND``.

While it multiplies it notes how many products were done when, by the GPU's own clock, on CLOCK_BOOTTIME.
"""

import os
import re
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.channel import Channel
from benchmarks.gpu.gemm import Backend, Product, open_backend
from benchmarks.gpu.worker import Refused, own_channel, serve

BATCH_SECONDS = 0.02
IN_FLIGHT = 2
CALIBRATION_SECONDS = 0.01
LOG_FILE_VARIABLE = "CUBLASLT_LOG_FILE"
_TRACED = re.compile(r"tile=MATMUL_TILE_(\d+x\d+)(?: stages=MATMUL_STAGES_(\d+)x\w+)?")


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class Load:
    """Answers the script's questions."""

    backend: Backend
    channel: Channel

    def describe(self) -> dict[str, Any]:
        """The library and its GPU."""
        return {"backend": self.backend.name, **self.backend.describe()}

    def kernel(self, product: dict[str, Any]) -> dict[str, Any]:
        """The kernel's name, and the tile as cuBLASLt traces it, each where it can be had."""
        before = len(trace_from(0).encode())
        name = self.backend.kernel(Product(**product))
        return {"name": name, "traced": traced_tile(trace_from(before))}

    def multiply(self, product: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Multiply until told to stop, or for so long. ``marks``: (products done, when in ns)."""
        per_launch = self.backend.prepare(Product(**product))
        launches, seconds_each = self._calibrate(per_launch)
        self.channel.send({"event": "running"})
        marks = self._run(per_launch, launches, time.monotonic() + seconds)
        return {"marks": marks, "per_launch": per_launch, "seconds_each": seconds_each}

    def alternate(
        self, product: dict[str, Any], busy_seconds: float, idle_seconds: float, seconds: float
    ) -> dict[str, Any]:
        """Multiply and rest by turns until told to stop, or for so long."""
        per_launch = self.backend.prepare(Product(**product))
        launches, _ = self._calibrate(per_launch)
        self.channel.send({"event": "running"})
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._run(per_launch, launches, time.monotonic() + busy_seconds, stoppable=False)
            if self._told_to_stop(idle_seconds):
                break
        return {}

    def _calibrate(self, per_launch: int) -> tuple[int, float]:
        """How many launches make a batch; seconds that a product takes."""
        launches = 1
        while True:
            begin = self.backend.mark()
            for _ in range(launches):
                self.backend.launch()
            end = self.backend.mark()
            self.backend.wait(end)
            seconds = self.backend.seconds_between(begin, end)
            if seconds >= CALIBRATION_SECONDS or launches >= 4096:
                each = seconds / launches
                return max(1, round(BATCH_SECONDS / max(each, 1e-7))), each / per_launch
            launches *= 4

    def _run(
        self, per_launch: int, launches: int, until: float, *, stoppable: bool = True
    ) -> list[tuple[int, int]]:
        first = self.backend.mark()
        self.backend.wait(first)
        seen = [(0, 0.0, boottime_ns())]  # products, the GPU's seconds, when this process knew
        pending: deque[Any] = deque()
        done = 0
        running = True
        while running or pending:
            if running:
                for _ in range(launches):
                    self.backend.launch()
                pending.append(self.backend.mark())
                running = time.monotonic() < until and not (stoppable and self._told_to_stop(0.0))
            if len(pending) > IN_FLIGHT or not running:
                mark = pending.popleft()
                self.backend.wait(mark)
                done += per_launch * launches
                seen.append((done, self.backend.seconds_between(first, mark), boottime_ns()))
        # This process is at times late to see a mark, and never early.
        origin_ns = min(known_ns - int(seconds * 1e9) for _, seconds, known_ns in seen)
        return [(products, origin_ns + int(seconds * 1e9)) for products, seconds, _ in seen]

    def _told_to_stop(self, seconds: float) -> bool:
        return self.channel.receive(seconds) is not None


def traced_tile(trace: str) -> str | None:
    """``128x256x64``: the tile of the last product in cuBLASLt's own trace."""
    found = _TRACED.findall(trace)
    if not found:
        return None
    tile, k = found[-1]
    return f"{tile}x{k}" if k else tile


def trace_from(offset: int) -> str:
    """What cuBLASLt wrote into its trace after so many bytes; nothing where it writes none."""
    path = os.environ.get(LOG_FILE_VARIABLE)
    if path is None or not Path(path).exists():
        return ""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read().decode("utf-8", "replace")


def main(backend_name: str) -> int:
    """Serve. Without a backend every question is refused."""
    channel = own_channel()
    names = ("describe", "kernel", "multiply", "alternate")
    try:
        load = Load(open_backend(backend_name), channel)
    except Refused as refused:
        why = str(refused)

        def refuse(**_: Any) -> Any:
            raise Refused(why)

        serve(channel, dict.fromkeys(names, refuse))
        return 0
    serve(channel, {name: getattr(load, name) for name in names})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
