"""The ``cycles`` estimator: cumulative hardware counters, no sampled clock (metric.md 3.1).

A GPU whose clock stands still has no elapsed cycles, and no active ones: 0 of 0 is an activity of 0.

The counters' scale (per SM, or summed over the SMs) is not documented, so it is found from what they
say: elapsed SM cycles against the clock. Whatever does not fit is not used.
"""

from dataclasses import dataclass

from slurm_ofu.values import Interval, Reading

#: The two counters are not read at the very same instant.
SKEW = 0.01


@dataclass(slots=True)
class CycleCounter:
    """Turns cumulative counters into intervals. A decrease is a reset, and so are more active cycles than
    elapsed ones (counters that passed their old values meanwhile): that interval is dropped."""

    taken_ns: int | None = None
    sm_cycles: float = 0.0
    mma_cycles: float = 0.0
    sm_megacycles: float = 0.0  # elapsed during the latest interval
    reset_count: int = 0

    def advance(self, reading: Reading) -> Interval | None:
        """The interval since the last reading that had counters; ``None`` where there is none.

        ``tensor_megacycles`` is still in the counters' own scale; divide by :func:`counter_scale`.
        """
        if reading.sm_cycles is None or reading.mma_cycles is None:
            return None
        start_ns, sm_before, mma_before = self.taken_ns, self.sm_cycles, self.mma_cycles
        self.taken_ns, self.sm_cycles, self.mma_cycles = (
            reading.taken_ns,
            reading.sm_cycles,
            reading.mma_cycles,
        )
        if start_ns is None or reading.taken_ns <= start_ns:
            return None
        sm_delta, mma_delta = self.sm_cycles - sm_before, self.mma_cycles - mma_before
        if sm_delta < 0 or not 0 <= mma_delta <= sm_delta * (1 + SKEW):
            self.reset_count += 1
            return None
        self.sm_megacycles = sm_delta / 1e6
        return Interval(
            start_ns=start_ns,
            end_ns=reading.taken_ns,
            tensor_active_ratio=min(1.0, mma_delta / sm_delta) if sm_delta > 0 else 0.0,
            tensor_megacycles=mma_delta / 1e6,
        )


def counter_scale(sm_megacycles: float, clock_megacycles: float, sm_count: int | None) -> float | None:
    """1 for counters per SM, the number of SMs for summed ones, ``None`` where neither fits.

    ``clock_megacycles`` is the sampled clock integrated over the same time. It is the noisier of the
    two, so only a factor of two or more decides.
    """
    if clock_megacycles <= 0:
        return None
    seen = sm_megacycles / clock_megacycles
    scales = (1.0,) if sm_count is None else (1.0, float(sm_count))
    return next((scale for scale in scales if 0.5 <= seen / scale <= 2.0), None)
