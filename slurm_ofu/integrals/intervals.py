"""One sample → one interval: how many cycles had an active tensor pipe, and how sure is that?

metric.md 3.2 and 4. The SM clock is an instantaneous reading, so the interval's mean clock has a
sampling error; the tensor activity is averaged by the hardware and has none.
"""

from collections.abc import Sequence

from slurm_ofu.values import Interval, Sample

CLOCK_STEP_MHZ = 15.0  # the step of the clock's readings
_STEP_VARIANCE = CLOCK_STEP_MHZ**2 / 12  # of a value rounded to that step


def sampled_interval(sample: Sample, clock_after_mhz: float | None) -> Interval | None:
    """The ``sampled`` estimate of one interval; ``None`` where tensor activity or clock is missing.

    ``clock_after_mhz`` is the first clock reading after the interval; together with the last one
    before, it widens the spread that stands for the clock's variance.
    """
    reading = sample.reading
    if reading.tensor_active_ratio is None or reading.since_ns is None or not sample.clocks_mhz:
        return None
    neighbours = [mhz for mhz in (sample.clock_before_mhz, clock_after_mhz) if mhz is not None]
    spread = [*sample.clocks_mhz, *neighbours]
    if len(spread) < 2:
        return None  # a single reading has no spread, and a figure without an error bar is none
    seconds = (reading.taken_ns - reading.since_ns) / 1e9
    active_seconds = reading.tensor_active_ratio * seconds
    count = len(sample.clocks_mhz)
    clock_variance = (_variance(spread) + _STEP_VARIANCE) / count
    return Interval(
        start_ns=reading.since_ns,
        end_ns=reading.taken_ns,
        tensor_active_ratio=reading.tensor_active_ratio,
        tensor_megacycles=active_seconds * (sum(sample.clocks_mhz) / count),
        variance=active_seconds**2 * clock_variance,
        degrees=float(max(1, count - 1)),
    )


def _variance(values: Sequence[float]) -> float:
    """Sample variance of two or more values. (The standard library's costs a sampler 2 MB to import.)"""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
