"""How often is the truth within the bar? Each estimator on a thousand programs of each family.

``python -m tests.integrals.coverage > docs/error-bars.md``. Every run has its own program and its own
random instants, and goes the whole way: clock instants of ``samples.ticks``, truths of
``counters.pattern``, fold and totals of ``integrals``. Fixed seeds: the figures are the same every time.
"""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from random import Random

from slurm_ofu.counters.pattern import Pattern
from slurm_ofu.figures.student import t_quantile
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.samples.ticks import Schedule
from slurm_ofu.values import Reading, Sample
from tests.integrals.examples import SECOND, totals
from tests.integrals.workloads import FAMILIES, Workload

RUNS, INTERVALS, READINGS = 1000, 10, 10
WIDTH_S = 10.0
REFRESH_S = 0.1
SCRAPE_S, SCRAPES = 30.0, 40
REFERENCE_MHZ = 1830.0
SCHEDULE = Schedule(start_ns=0, width_ns=round(WIDTH_S * SECOND), readings=READINGS)
Instants = Callable[[int, Random], Iterable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far one run's figure was from the truth, and the half-width of its bar, in points of OFU."""

    error_pp: float
    half_width_pp: float


def drawn(interval: int, random: Random) -> Iterable[int]:
    """The instants of the product."""
    return (instant for instant, _ in SCHEDULE.clock_instants(interval, (0,), random))


def fixed_rate(interval: int, random: Random) -> Iterable[int]:
    """A fixed rate, as a naive sampler has it."""
    width = SCHEDULE.width_ns // READINGS
    return (interval * SCHEDULE.width_ns + width * number + width // 2 for number in range(READINGS))


def sampled(workload: Workload, random: Random, instants: Instants = drawn) -> Outcome:
    """Ten intervals of 10 s with ten clock readings each."""
    whole_s = INTERVALS * WIDTH_S
    pattern = workload(random, WIDTH_S / READINGS, whole_s)
    fold = GpuFold.start(0, WIDTH_S)
    before: float | None = None
    for interval in range(INTERVALS):
        clocks = tuple(pattern.at(instant / SECOND).sm_clock_mhz for instant in instants(interval, random))
        reading = Reading(
            since_ns=interval * SCHEDULE.width_ns,
            taken_ns=SCHEDULE.deadline_ns(interval),
            tensor_active_ratio=activity(pattern, interval * WIDTH_S, (interval + 1) * WIDTH_S),
        )
        fold.clock_after(clocks[0])
        fold.add(Sample(reading=reading, clocks_mhz=clocks, clock_before_mhz=before), 0)
        before = clocks[-1]
    return outcome(fold, pattern, 0.0, whole_s)


def scraped(workload: Workload, random: Random) -> Outcome:
    """Forty collections of an exporter, 30 s apart: activity over each, and one clock at its end."""
    pattern = workload(random, SCRAPE_S, SCRAPES * SCRAPE_S)
    start_s = random.random() * SCRAPE_S
    fold = GpuFold.start(0, SCRAPE_S)
    for number in range(SCRAPES + 1):
        end_s = start_s + number * SCRAPE_S
        reading = Reading(
            since_ns=round((end_s - SCRAPE_S) * SECOND) if number else None,
            taken_ns=round(end_s * SECOND),
            tensor_active_ratio=activity(pattern, end_s - SCRAPE_S, end_s) if number else None,
            published_clock_mhz=pattern.at(end_s).sm_clock_mhz,
        )
        fold.add(Sample(reading=reading, clocks_mhz=(), clock_before_mhz=None), 0)
    return outcome(fold, pattern, start_s, start_s + SCRAPES * SCRAPE_S)


def cycles(workload: Workload, random: Random) -> Outcome:
    """Ten intervals of 10 s of counters that the driver refreshes every 100 ms."""
    whole_s = INTERVALS * WIDTH_S
    pattern = workload(random, REFRESH_S, whole_s)
    phase_s = random.random() * REFRESH_S
    fold = GpuFold.start(0, WIDTH_S)
    for number in range(INTERVALS + 1):
        at_s = 1.0 + number * WIDTH_S
        counted = pattern.until(math.floor((at_s - phase_s) / REFRESH_S) * REFRESH_S + phase_s)
        reading = Reading(
            since_ns=round((at_s - WIDTH_S) * SECOND) if number else None,
            taken_ns=round(at_s * SECOND),
            tensor_active_ratio=activity(pattern, at_s - WIDTH_S, at_s) if number else None,
            sm_cycles=counted.sm_megacycles * 1e6,
            mma_cycles=counted.tensor_megacycles * 1e6,
        )
        # They only tell the counters' scale.
        clocks = tuple(pattern.at(1.0 + at / SECOND).sm_clock_mhz for at in drawn(number - 1, random))
        fold.add(Sample(reading=reading, clocks_mhz=clocks, clock_before_mhz=None), 0)
    return outcome(fold, pattern, 1.0, 1.0 + whole_s)


def activity(pattern: Pattern, start_s: float, end_s: float) -> float:
    """Tensor activity as the hardware averages it: by cycles."""
    during = pattern.until(end_s).minus(pattern.until(start_s))
    return min(1.0, max(0.0, during.tensor_megacycles / during.sm_megacycles))


def outcome(fold: GpuFold, pattern: Pattern, start_s: float, end_s: float) -> Outcome:
    """The fold's figure against the truth."""
    fold.clock_after(None)
    its = totals(fold)
    assert its.tensor_ref_seconds is not None
    assert its.tensor_ref_error_seconds is not None
    half_width = t_quantile(its.error_degrees or math.inf) * its.tensor_ref_error_seconds
    truth = pattern.ofu_ratio(start_s, end_s, REFERENCE_MHZ)
    return Outcome(
        error_pp=100 * abs(its.tensor_ref_seconds / its.covered_seconds - truth),
        half_width_pp=100 * half_width / its.covered_seconds,
    )


ESTIMATORS: dict[str, Callable[[Workload, Random], Outcome]] = {
    "cycles": cycles,
    "sampled": sampled,
    "scraped": scraped,
}


@cache
def outcomes(estimator: str, workload: Workload, runs: int = RUNS) -> tuple[Outcome, ...]:
    """So many runs of a family, each its own program."""
    return tuple(ESTIMATORS[estimator](workload, Random(f"{workload.__name__} {run}")) for run in range(runs))


def covered(found: Iterable[Outcome]) -> int:
    """How many of them have the truth within their bar."""
    return sum(one.error_pp <= one.half_width_pp for one in found)


def middle(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def row(estimator: str, workload: Workload) -> str:
    """One line of the table."""
    found = outcomes(estimator, workload)
    bar, error = middle(one.half_width_pp for one in found), middle(one.error_pp for one in found)
    name = workload.__name__.replace("_", " ")
    return f"| `{estimator}` | {name} | {covered(found)} | {bar:.2f} | {error:.2f} |\n"


def document() -> str:
    """docs/error-bars.md."""
    kinds = "".join(f"* **{its.__name__.replace('_', ' ')}**: {its.__doc__}\n" for its in FAMILIES)
    rows = "".join(row(estimator, workload) for estimator in ESTIMATORS for workload in FAMILIES)
    return HEAD + kinds + TABLE + rows + FOOT


HEAD = """\
# Does the error bar hold?

Generated by `python -m tests.integrals.coverage`; do not edit.

A bar of 95 % should hold the truth in 950 of 1,000 cases. Here each estimator measures 1,000 programs of each
of these families, whose truth is known exactly:

"""
TABLE = """
`cycles` and `sampled` measure for 100 s with the default settings (a counter refreshed every 100 ms; ten
clock readings at random instants of each 10 s), `scraped` for 20 minutes of an exporter that collects every
30 s. Bar and error are medians, in percentage points of OFU.

| estimator | family | truth within the bar, of 1,000 | half-width of the bar | error |
|---|---|---|---|---|
"""
FOOT = """
**What this says.** The bars of `cycles` and `sampled` hold, also for programs that are in step with the
sampler: that is why the clock is read at random instants. The bar of `scraped` holds for programs that know
nothing of the exporter's collections. In step with them, each reading of the clock finds the same phase of
the program, and the spread of the readings does not show it: nothing in the samples could. Such a figure is
as far off as the last column says, with a bar that is too small. It takes a period that divides the
collection interval exactly, for the whole of the run; still, where it matters, take one of the other two.

Not in any bar: see 4.4 and 4.5 of [metric.md](metric.md).
"""

if __name__ == "__main__":
    sys.stdout.write(document())
