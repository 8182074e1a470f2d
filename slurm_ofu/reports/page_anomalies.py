"""What the sampler says of itself, where it is out of the ordinary."""

from collections.abc import Iterator
from itertools import islice

from slurm_ofu.reports.wording import duration, name
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
    for node in page.nodes:
        yield from _of_node(node)
    for gpu in page.gpus:
        yield from _of_gpu(gpu)


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
