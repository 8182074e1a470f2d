"""What is out of the ordinary: what a sampler says of itself, and where Slurm's accounting says otherwise."""

from collections.abc import Iterator
from itertools import islice

from slurm_ofu.reports.wording import count, duration, name
from slurm_ofu.values import GpuRow, JobPage, NodeRow

_MISSED_TICKS_WORTH_SAYING = 0.01  # of the ticks
_MOST = 10  # lines: a run may have thousands of GPUs


def anomalies(page: JobPage) -> list[str]:
    """One text per anomaly, the first ten."""
    found = _all(page)
    shown = list(islice(found, _MOST))
    more = sum(1 for _ in found)
    return [*shown, f"and {more} more of this kind"] if more else shown


def _all(page: JobPage) -> Iterator[str]:
    yield from _of_accounting(page)
    for node in page.nodes:
        yield from _of_node(node)
    for gpu in page.gpus:
        yield from _of_gpu(gpu)


def _of_accounting(page: JobPage) -> Iterator[str]:
    """The GPU count of record is the prologs', or that of what was backfilled; Slurm's is held against it."""
    run, gpu_count = page.row.run, page.row.sums.gpu_count
    if run is None or not (run.heard or page.gpus) or run.slurm_gpu_count in (None, gpu_count):
        return
    by = "by the prologs" if run.heard else "by the stored samples"
    assumed = sum(node.gpu_count or 0.0 for node in page.nodes if node.gpu_count_assumed)
    some = f" ({count(assumed)} of them assumed)" if assumed else ""
    yield f"GPUs: {count(gpu_count)} {by}{some}, Slurm accounted {run.slurm_gpu_count}"


def _of_node(node: NodeRow) -> Iterator[str]:
    health = node.health
    if health.missed_ticks > _MISSED_TICKS_WORTH_SAYING * health.tick_count:
        late = duration(health.late_max_seconds)
        yield f"{name(node.node_name)}: {health.missed_ticks} ticks missed, the latest {late} late"
    if health.wall_step_seconds != 0:
        step = duration(abs(health.wall_step_seconds))
        yield f"{name(node.node_name)}: its wall clock stepped by {step}; durations are not affected"


def _of_gpu(gpu: GpuRow) -> Iterator[str]:
    if gpu.totals.disagreement_ratio is not None:
        points = 100 * gpu.totals.disagreement_ratio
        yield (
            f"{name(gpu.node_name)} GPU {gpu.totals.position}: OFU by cycle counters minus by sampling is"
            f" {points:+.1f} points; the sampled figure is shown"
        )
