"""Many GPUs' timelines as one, on a common grid."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_ofu.values import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class OfuTimeline:
    """OFU over time. A bucket's ratio is ``None`` where nothing was measured in it."""

    start_epoch_s: float
    bucket_seconds: float
    ofu_ratios: tuple[float | None, ...]

    @property
    def end_epoch_s(self) -> float:
        """Where the last bucket ends."""
        return self.start_epoch_s + self.bucket_seconds * len(self.ofu_ratios)


def pooled_timeline(
    timelines: Iterable[Timeline], *, bucket_count: int, until_epoch_s: float | None = None
) -> OfuTimeline | None:
    """All timelines pooled into at most ``bucket_count`` equal buckets; ``None`` where there is nothing.

    ``until_epoch_s``: when the run was over, of which no timeline may know: whole buckets of theirs that are
    missing till then are there, unmeasured. A source bucket that straddles an edge of the grid is shared out
    by time.
    """
    sources = [line for line in timelines if line.buckets and line.bucket_seconds > 0]
    if not sources:
        return None
    start = min(line.start_epoch_s for line in sources)
    end = max(line.start_epoch_s + line.bucket_seconds * len(line.buckets) for line in sources)
    finest = min(line.bucket_seconds for line in sources)
    if until_epoch_s is not None and until_epoch_s > end:
        end += finest * math.floor((until_epoch_s - end) / finest)
    count = min(bucket_count, max(round((end - start) / finest), *(len(its.buckets) for its in sources)))
    width = (end - start) / count
    tensor, covered = [0.0] * count, [0.0] * count
    for line in sources:
        for number, (tensor_ref_seconds, covered_seconds) in enumerate(line.buckets):
            if tensor_ref_seconds is None or covered_seconds <= 0:
                continue
            offset = line.start_epoch_s - start + number * line.bucket_seconds
            for bucket, share in _shares(offset / width, line.bucket_seconds / width, count):
                tensor[bucket] += tensor_ref_seconds * share
                covered[bucket] += covered_seconds * share
    return OfuTimeline(start_epoch_s=start, bucket_seconds=width, ofu_ratios=_ratios(tensor, covered))


def _shares(offset: float, length: float, count: int) -> Iterable[tuple[int, float]]:
    """Which buckets of the grid a stretch touches, with the share of it in each; in bucket widths."""
    first, last = math.floor(offset + 1e-9), math.ceil(offset + length - 1e-9)
    for bucket in range(first, last):
        inside = min(offset + length, bucket + 1) - max(offset, bucket)
        yield min(bucket, count - 1), inside / length


def _ratios(tensor: Sequence[float], covered: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(t / c if c > 0 else None for t, c in zip(tensor, covered, strict=True))
