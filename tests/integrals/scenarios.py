"""What is to be expected of a run: a table of scenarios, each with its reason and figures.

``python -m tests.integrals.scenarios > docs/scenarios.md``. The document shows what is measured;
test_scenarios.py holds that against what is expected here, for every estimator and several intervals.
"""

import sys
from dataclasses import dataclass

from slurm_ofu.figures import gpu_figures
from slurm_ofu.reports.wording import NOT_MEASURED, percent
from slurm_ofu.values import Figures, GpuModel, GpuTotals, Reason
from tests.integrals.simulated import MINUTE, Course, idling, measured, stretch

L4 = GpuModel(name="L4", sm_count=58, reference_clock_mhz=2040.0, max_clock_mhz=2040.0)
EVERY = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
PER_REFERENCE = 1755.0 / 1830.0  # of the clock that stretches have


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """In minutes of GPU time, and ratios; ``None``: not known."""

    reason: Reason
    ofu: float | None
    coverage: float
    idle: float | None
    tail: float | None
    non_tensor: float | None
    peak: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A course, in words, and what comes out. ``intervals``: in seconds, all of which must give the same."""

    words: str
    course: Course
    expected: Expected
    intervals: tuple[float, ...] = (10.0, 15.0, 60.0)


def _expect(
    reason: Reason,
    ofu: float | None,
    *,
    coverage: float = 1.0,
    idle: float | None = 0.0,
    tail: float | None = 0.0,
    non_tensor: float | None = 0.0,
    peak: float | None = None,
) -> Expected:
    return Expected(
        reason=reason,
        ofu=ofu,
        coverage=coverage,
        idle=idle,
        tail=tail,
        non_tensor=non_tensor,
        peak=ofu if peak is None else peak,
    )


def _unknown(reason: Reason, *, coverage: float = 0.0) -> Expected:
    return _expect(reason, None, coverage=coverage, idle=None, tail=None, non_tensor=None)


TRAINING = stretch(60, 0.5)
WORK = 0.5 * PER_REFERENCE
FP64 = stretch(60, 0.0, sm=0.93)
NOTHING = idling(60)
WAITING = stretch(0.2, 0.0, sm=0.0, utilisation=0.0, watts=150)

SCENARIOS = (
    Scenario(
        words="steady training for an hour",
        course=Course(segments=(TRAINING,)),
        expected=_expect("ok", WORK),
        intervals=EVERY,
    ),
    Scenario(
        words="an hour held without any process",
        course=Course(segments=(NOTHING,)),
        expected=_expect("ok", 0.0, idle=60, tail=60),
    ),
    Scenario(
        words="5 min of work, then 23 h of nothing",
        course=Course(segments=(stretch(5, 0.5), idling(23 * 60))),
        expected=_expect("ok", WORK * 5 / 1385, idle=1380, tail=1380, peak=WORK),
        intervals=(10.0, 60.0),
    ),
    Scenario(
        words="30 min of reading data, then 30 min of training",
        course=Course(segments=(idling(30), stretch(30, 0.5))),
        expected=_expect("ok", WORK / 2, idle=30, peak=WORK),
    ),
    Scenario(
        words="by turns 2 min of training and 2 min of nothing",
        course=Course(segments=(stretch(2, 0.5), idling(2)), repeats=15),
        expected=_expect("ok", WORK / 2, idle=30, tail=2, peak=WORK * 0.6),
        intervals=EVERY,
    ),
    Scenario(
        words="starved: 3 s of training in every 15 s",
        course=Course(segments=(stretch(0.05, 0.5), WAITING), repeats=240),
        expected=_expect("ok", WORK / 5),
        intervals=(15.0, 60.0),
    ),
    Scenario(
        words="an hour of FP64 without the tensor cores",
        course=Course(segments=(FP64,)),
        expected=_expect("ok", 0.0, non_tensor=60),
    ),
    Scenario(
        words="the same, SM activity not known",
        course=Course(segments=(FP64,), sm_known=False),
        expected=_expect("ok", 0.0, non_tensor=None),
    ),
    Scenario(
        words="nothing for an hour, SM activity not known",
        course=Course(segments=(NOTHING,), sm_known=False),
        expected=_expect("ok", 0.0, idle=60, tail=60, non_tensor=None),
    ),
    Scenario(
        words="nothing for an hour, neither SM activity nor GPU utilisation known",
        course=Course(segments=(NOTHING,), sm_known=False, utilisation_known=False),
        expected=_expect("ok", 0.0, idle=None, tail=None, non_tensor=None),
    ),
    Scenario(
        words="one kernel on a single SM for an hour",
        course=Course(segments=(stretch(60, 0.0, sm=1 / 132, watts=125),)),
        expected=_expect("ok", 0.0, idle=60, tail=60),
    ),
    Scenario(
        words="every tensor pipe active at the highest clock",
        course=Course(segments=(stretch(60, 1.0, mhz=1980),)),
        expected=_expect("ok", 1980 / 1830),
    ),
    Scenario(
        words="more tensor cycles than the highest clock has",
        course=Course(segments=(stretch(60, 1.0, mhz=2100),)),
        expected=_unknown("suspect"),
    ),
    Scenario(
        words="a wedged profiling module: counters at 0, utilisation 99 %, 640 W",
        course=Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=640),), stuck=(0, 60)),
        expected=_unknown("suspect"),
    ),
    Scenario(
        words="the same from the 40th minute to the end",
        course=Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=640),), stuck=(40, 60)),
        expected=_unknown("suspect"),
        intervals=EVERY,
    ),
    Scenario(
        words="the same for 3 min of an hour",
        course=Course(segments=(stretch(60, 0.5, utilisation=0.99, watts=640),), stuck=(20, 23)),
        expected=_expect("ok", WORK, coverage=57 / 60),
    ),
    Scenario(
        words="the same throughout on a board of 72 W",
        course=Course(
            segments=(stretch(60, 0.5, utilisation=0.99, watts=68),), stuck=(0, 60), model=L4, sm_count=58
        ),
        expected=_unknown("suspect"),
    ),
    Scenario(
        words="a GPU at rest (75 W) whose driver says 99 % utilisation",
        course=Course(segments=(stretch(60, 0.0, mhz=345, sm=0, utilisation=0.99, watts=75),)),
        expected=_expect("ok", 0.0, idle=None, tail=None, non_tensor=None),
    ),
    Scenario(
        words="the counters fail from the 40th minute to the end",
        course=Course(segments=(TRAINING,), failing=(40, 60)),
        expected=_expect("source_lost", WORK, coverage=2 / 3, tail=None),
    ),
    Scenario(
        words="nothing all the while, and the counters fail from the 40th minute on",
        course=Course(segments=(NOTHING,), failing=(40, 60)),
        expected=_expect("source_lost", 0.0, coverage=2 / 3, idle=40, tail=None),
    ),
    Scenario(
        words="nothing all the while, and the counters fail from the 20th to the 40th minute",
        course=Course(segments=(NOTHING,), failing=(20, 39.999)),
        expected=_expect("ok", 0.0, idle=40, tail=20),
        intervals=EVERY,
    ),
    Scenario(
        words="somebody else takes the profiling hardware after 30 min and keeps it",
        course=Course(segments=(TRAINING,), failing=(30, 60), fault="profiling_locked"),
        expected=_expect("profiling_locked", WORK, coverage=0.5, tail=None),
    ),
    Scenario(
        words="no counter source; GPU utilisation 100 %",
        course=Course(segments=(TRAINING,), failing=(-1, 60), fault="no_source"),
        expected=_unknown("no_source"),
    ),
    Scenario(
        words="the sampler dies after 40 min of nothing",
        course=Course(segments=(NOTHING,), died_after=40),
        expected=_expect("sampler_died", 0.0, coverage=2 / 3, idle=40, tail=None),
    ),
    Scenario(
        words="a GPU model without a reference clock",
        course=Course(segments=(stretch(30, 0.5), idling(30)), model=None),
        expected=_expect("unknown_model", None, idle=30, tail=30),
    ),
    Scenario(
        words="over after 8 s",
        course=Course(segments=(stretch(8 / MINUTE, 0.5),)),
        expected=_expect("short", WORK),
        intervals=(10.0, 15.0, 60.0),
    ),
    Scenario(
        words="over after 8 s, and the one reading of it fails",
        course=Course(segments=(stretch(8 / MINUTE, 0.5),), failing=(0, 1)),
        expected=_unknown("source_lost"),
        intervals=(10.0, 60.0),
    ),
    Scenario(
        words="30 min of training and 30 of nothing on a GPU that another job holds too",
        course=Course(segments=(stretch(30, 0.5), idling(30)), sharers=2),
        expected=_expect("shared", WORK / 2, idle=15, tail=15, peak=WORK),
    ),
    Scenario(
        words="the same on a MIG slice of a quarter of the SMs",
        course=Course(segments=(stretch(30, 0.5), idling(30)), sm_share_ratio=0.25),
        expected=_expect("ok", WORK / 2, idle=7.5, tail=7.5, peak=WORK),
    ),
)


def document() -> str:
    """docs/scenarios.md."""
    return HEAD + "".join(map(_line, SCENARIOS)) + FOOT


def _line(scenario: Scenario) -> str:
    its = measured(scenario.course, "cycles", 10.0 if 10.0 in scenario.intervals else scenario.intervals[0])
    shown = gpu_figures(its)
    cells = [
        scenario.words,
        f"`{its.reason}`",
        percent(shown.ofu_ratio, absent=NOT_MEASURED),
        percent(shown.coverage_ratio),
        *_minutes(shown, its),
        percent(shown.peak_ofu_ratio, absent=NOT_MEASURED),
    ]
    return f"| {' | '.join(cells)} |\n"


def _minutes(shown: Figures, its: GpuTotals) -> list[str]:
    hours = (shown.idle_gpu_hours, shown.idle_tail_gpu_hours, shown.non_tensor_gpu_hours)
    return [NOT_MEASURED if part is None else f"{part * MINUTE:.1f}".removesuffix(".0") for part in hours]


HEAD = """\
# What comes out of what

Generated by `python -m tests.integrals.scenarios`; do not edit.

One GPU of one job, with the default settings (readings every 10 s, an H100 where nothing else is said). What
is shown here is held against what must come out by tests/integrals/test_scenarios.py, for each estimator and
for intervals from 1 s to 60 s. The reasons are explained in [metric.md](metric.md), 2.4, the figures in its
section 7. Idle, Tail (idle up to the end) and No tensor (busy without tensor cores) are in minutes of GPU
time; Peak is the OFU of the busiest five minutes.

| what happens | reason | OFU | coverage | idle | tail | no tensor | peak |
|---|---|---|---|---|---|---|---|
"""
FOOT = """
`n/a` is "not known", never 0: such a run is in no sum of what it says nothing about.
"""

if __name__ == "__main__":
    sys.stdout.write(document())
