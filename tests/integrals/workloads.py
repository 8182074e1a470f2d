"""Workloads whose truth is known, a family of each kind of trouble; every draw is another program.

``pace_s`` is the time between two looks at the clock, ``whole_s`` how long the run is: what an adversary
needs to know to be in step.
"""

from collections.abc import Callable
from random import Random

from slurm_ofu.counters.pattern import Pattern, Segment

Workload = Callable[[Random, float, float], Pattern]


def segment(seconds: float, tensor: float, mhz: float) -> Segment:
    """A stretch; clocks are multiples of 15 MHz, as the hardware's are."""
    return Segment(seconds=seconds, tensor_active_ratio=tensor, sm_clock_mhz=15 * round(mhz / 15))


def steady(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """one activity; the clock wanders by a step or two around its mean"""
    tensor, mhz = random.random(), random.uniform(1200, 1980)
    return Pattern([segment(random.uniform(0.3, 2), tensor, random.gauss(mhz, 20)) for _ in range(20)])


def bursty(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """bursts and idle stretches of random length; the idle clock falls to 345 MHz or stays up"""
    idle_mhz, mean_s = random.choice((345.0, 1980.0)), random.choice((0.1, 0.5, 3.0))
    parts = []
    for _ in range(12):
        busy_s, free_s = (random.expovariate(1 / mean_s) + 0.01 for _ in range(2))
        parts.append(segment(busy_s, random.uniform(0.3, 1), random.uniform(1400, 1900)))
        parts.append(segment(free_s, 0.0, idle_mhz))
    return Pattern(parts)


def slow_drift(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """a GPU that gets warm: the clock falls from step to step over the whole run"""
    start, end = random.uniform(1800, 1980), random.uniform(1300, 1700)
    tensor = random.uniform(0.2, 0.9)
    return Pattern([segment(whole_s / 25, tensor, start + (end - start) * step / 25) for step in range(25)])


def clock_coupled(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """the more tensor work, the lower the clock that power allows"""
    parts, longest_s = [], random.choice((0.3, 1.0, 5.0))
    for _ in range(15):
        tensor = random.random()
        mhz = 1980 - 700 * tensor * random.uniform(0.8, 1)
        parts.append(segment(random.uniform(0.05, longest_s), tensor, mhz))
    return Pattern(parts)


def square_wave(random: Random, period_s: float) -> Pattern:
    """Busy and free in turn, shifted at random."""
    duty = random.uniform(0.2, 0.8)
    shift = random.random() * duty
    busy, free = (random.uniform(0.6, 1), random.uniform(1200, 1755)), (0.1, random.uniform(1800, 1980))
    return Pattern(
        [
            segment(period_s * (duty - shift), *busy),
            segment(period_s * (1 - duty), *free),
            segment(period_s * shift, *busy),
        ]
    )


def in_step(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """adversarial: a square wave, a whole number of periods for each look at the clock"""
    return square_wave(random, pace_s / random.choice((1, 2, 4)))


def in_step_with_intervals(random: Random, pace_s: float, whole_s: float) -> Pattern:
    """adversarial: a square wave in step with every tenth look, as with the sampler's own intervals"""
    return square_wave(random, 10 * pace_s / random.choice((1, 3)))


FAMILIES: tuple[Workload, ...] = (
    steady,
    bursty,
    slow_drift,
    clock_coupled,
    in_step,
    in_step_with_intervals,
)
ADVERSARIAL = (in_step, in_step_with_intervals)
