"""What was seen of each GPU of a run, and of which of them something may be said."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_ofu.figures.gpu_use import GpuUse, tail_on_the_clock, tail_ratio, use_of_gpus, use_of_sums
from slurm_ofu.values import FindingRules, GpuTotals, JobPage

#: Tensor activity below which there is no tensor work whose clock or amount could be spoken of.
NO_TENSOR_RATIO = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """One GPU whose counters are believed and of whose time enough was judged."""

    node_name: str
    totals: GpuTotals
    use: GpuUse
    unused: bool
    tail_seconds: float | None  # on the clock
    tail_ratio: float | None

    @property
    def place(self) -> str:
        """Where it is, as in ``node01:3``."""
        return place(self.node_name, self.totals)

    @property
    def shared(self) -> bool:
        """Whether what it did may have been another job's work."""
        return self.totals.reason == "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run through the eyes of its counters. ``gpus`` are in the order of their places."""

    page: JobPage
    gpus: tuple[SeenGpu, ...]
    gpu_count: int  # of the run, those included of which nothing is known
    allocated_seconds: float | None  # of all of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """GPUs of a run together, and how much of its time they speak for."""

    use: GpuUse
    gpu_count: int
    spoken_for_ratio: float


def seen(page: JobPage, rules: FindingRules) -> Seen:
    """The GPUs that something may be said of. Nothing is known of the others, which is not nothing done."""
    held = {node.node_name: node.allocated_seconds for node in page.nodes}
    ordered = sorted(page.gpus, key=lambda gpu: (gpu.node_name, gpu.totals.position))
    found = (_seen_gpu(gpu.node_name, gpu.totals, held.get(gpu.node_name), rules) for gpu in ordered)
    return Seen(
        page=page,
        gpus=tuple(gpu for gpu in found if gpu is not None),
        gpu_count=max(len(page.gpus), round(page.row.sums.gpu_count)),
        allocated_seconds=_allocated_seconds(page),
    )


def place(node_name: str, totals: GpuTotals) -> str:
    """Where a GPU is, as in ``node01:3``."""
    return f"{node_name}:{totals.position}"


def working(run: Seen) -> Part | None:
    """The GPUs that were used and were the run's alone; of a run whose GPUs are not known, all of them."""
    if not run.page.gpus:
        sums = run.page.row.sums
        if {"suspect", "shared"} & set(sums.reasons):
            return None
        return _part(run, use_of_sums(sums), run.gpu_count, 0.0)
    used = [gpu for gpu in run.gpus if not gpu.unused and not gpu.shared]
    unused_seconds = math.fsum(gpu.totals.allocated_seconds or 0.0 for gpu in run.gpus if gpu.unused)
    return _part(run, together(used), len(used), unused_seconds) if used else None


def everything(run: Seen) -> Part | None:
    """All GPUs of which something may be said."""
    if not run.page.gpus:
        return _part(run, use_of_sums(run.page.row.sums), run.gpu_count, 0.0)
    return _part(run, together(run.gpus), len(run.gpus), 0.0) if run.gpus else None


def together(gpus: Sequence[SeenGpu]) -> GpuUse:
    """The use of several GPUs as one."""
    return use_of_gpus([gpu.totals for gpu in gpus])


def _seen_gpu(
    node_name: str, totals: GpuTotals, held_seconds: float | None, rules: FindingRules
) -> SeenGpu | None:
    use = use_of_gpus([totals])
    if use.idle_ratio is None or use.judged_ratio is None or use.judged_ratio < rules.judged_ratio:
        return None
    return SeenGpu(
        node_name=node_name,
        totals=replace(totals, timeline=None),
        use=use,
        unused=use.idle_ratio >= rules.unused_ratio,
        tail_seconds=tail_on_the_clock(totals, held_seconds),
        tail_ratio=tail_ratio(totals),
    )


def _part(run: Seen, use: GpuUse, gpu_count: int, unused_seconds: float) -> Part:
    seconds = None if run.allocated_seconds is None else run.allocated_seconds - unused_seconds
    spoken_for = 0.0 if seconds is None or seconds <= 0 else min(1.0, use.judged_seconds / seconds)
    return Part(use=use, gpu_count=gpu_count, spoken_for_ratio=spoken_for)


def _allocated_seconds(page: JobPage) -> float | None:
    if page.row.sums.allocated_seconds is not None:
        return page.row.sums.allocated_seconds
    known = [gpu.totals.allocated_seconds for gpu in page.gpus if gpu.totals.allocated_seconds is not None]
    return math.fsum(known) if known else None
