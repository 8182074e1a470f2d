"""The sampler of a job that has run for a day already: its folds begin as full as they then are.

Takes the sampler's own arguments. Everything else is the sampler as it is.
"""

import itertools
import sys
import time

from benchmarks.day import DAY_SECONDS, day_fold
from slurm_ofu.hooks import sample
from slurm_ofu.integrals.gpu_fold import GpuFold

_seeds = itertools.count()


class OldFold(GpuFold):
    """Not empty at its start."""

    __slots__ = ()

    @classmethod
    def start(cls, start_ns: int, bucket_seconds: float) -> GpuFold:
        """A day's sums up to now."""
        offset_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return day_fold(start_ns - DAY_SECONDS * 10**9, offset_ns, seed=next(_seeds))


if __name__ == "__main__":
    setattr(sample, "GpuFold", OldFold)  # noqa: B010  a name that the module imports
    sys.exit(sample.main())
