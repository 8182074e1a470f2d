"""OFU over a run's life as one line of a page."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from slurm_ofu.figures import OfuTimeline, pooled_timeline
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.sparkline import GAP, LEVELS, sparkline
from slurm_ofu.reports.wording import duration, percent
from slurm_ofu.values import GpuRow, Timeline

_SHORT_SECONDS = 600.0  # up to here minutes alone would not tell start from end


def timeline_facts(
    gpus: Sequence[GpuRow], zone: tzinfo, *, columns: int, until_epoch_s: float | None = None
) -> list[Fact]:
    """The sparkline over all GPUs with its scale; nothing where no GPU kept a timeline. ``until_epoch_s``:
    when the run was over, however early its timelines end."""
    line = pooled_timeline(believed_timelines(gpus), bucket_count=columns, until_epoch_s=until_epoch_s)
    if line is None:
        return []
    measured = [ratio for ratio in line.ofu_ratios if ratio is not None]
    top = max(measured, default=0.0)
    return [("Timeline", sparkline(line.ofu_ratios, top=top)), ("", _scale(line, top, zone))]


def believed_timelines(gpus: Sequence[GpuRow]) -> list[Timeline]:
    """Those of all GPUs but the suspect ones, of which nothing was measured."""
    seen = (gpu.totals.timeline for gpu in gpus if gpu.totals.reason != "suspect")
    return [line for line in seen if line is not None]


def _scale(line: OfuTimeline, top: float, zone: tzinfo) -> str:
    start = datetime.fromtimestamp(line.start_epoch_s // 1, zone)
    end = datetime.fromtimestamp(line.end_epoch_s // 1, zone)
    shown = "%H:%M:%S" if line.end_epoch_s - line.start_epoch_s < _SHORT_SECONDS else "%H:%M"
    return f"{start:{shown}} to {end:{shown}}, {duration(line.bucket_seconds)} each; {_heights(line, top)}"


def _heights(line: OfuTimeline, top: float) -> str:
    """What the levels mean; zero is said only of what was measured."""
    if all(ratio is None for ratio in line.ofu_ratios):
        return "without OFU"
    gaps = f"; {GAP} not measured" if None in line.ofu_ratios else ""
    low, high = percent(min(ratio for ratio in line.ofu_ratios if ratio is not None)), percent(top)
    if top <= 0:
        return f"all 0 %{gaps}"
    ranged = f"all {high}" if low == high else f"{low} to {high}"
    return f"{ranged}, {LEVELS[-1]} = {high}{gaps}"
