"""What a page says of idle time, other work, peaks and slow clocks."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slurm_ofu.reports.as_json import pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.html_job import course_table
from slurm_ofu.reports.page_minutes import least_tail_seconds
from slurm_ofu.values import GpuRow, JobPage
from tests.figures.examples import BY_MINUTES, HOUR, gpu, measured, silent_gpu
from tests.reports.examples import CET, MORNING, job_row, node, question, timeline


def of(*gpus: dict[str, Any], **sums: Any) -> JobPage:
    """A page of a run of these GPUs on one node, of two hours."""
    rows = tuple(GpuRow(node_name="n1", totals=gpu(number, **its)) for number, its in enumerate(gpus))
    return JobPage(
        row=job_row(sums=measured(gpu_count=float(len(rows)), **sums)), nodes=(node("n1"),), gpus=rows
    )


def words(page: JobPage) -> str:
    """The page with single blanks, so that line ends do not matter."""
    return " ".join(as_page(page, CET, width=80, colour=False).split())


def tail(seconds: float | None, **changes: Any) -> dict[str, Any]:
    """A GPU that was idle for so long at the end."""
    return {**BY_MINUTES, "idle_seconds": 1.5 * HOUR, "idle_tail_seconds": seconds, **changes}


IDLE = {"idle_seconds": 1.5 * HOUR, "idle_covered_seconds": 2 * HOUR}


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ([tail(4000.0)], "(75.0 %) the GPU for the last 1.1 h"),
        ([tail(4000.0), tail(1800.0)], "(75.0 %) all GPUs for the last 30.0 min or longer"),
        ([tail(0.0), tail(1800.0)], "(75.0 %) 1 of 2 GPUs for the last 30.0 min"),
        ([tail(None), tail(1800.0)], "(75.0 %) 1 of 2 GPUs (1 not known) for the last 30.0 min"),
        ([tail(299.0), tail(0.0)], None),
        ([tail(None)], None),
        ([tail(1800.0, reason="suspect")], None),
    ],
)
def test_who_was_idle_at_the_end(gpus: list[dict[str, Any]], said: str | None) -> None:
    """An idle stretch of five minutes and more up to the end is said, of how many GPUs, and where it is not
    known of the others that too."""
    shown = words(of(*gpus, **IDLE))
    assert "Idle 1.5 of 2.0 GPU-hours (75.0 %)" in shown
    assert ("for the last" in shown) == (said is not None)
    assert said is None or said in shown


def test_a_part_of_a_gpu_was_idle_for_the_whole_time() -> None:
    """Rows hold a run's part of a shared GPU or of a MIG slice; its tail is shown as time on the clock."""
    quarter = tail(450.0, allocated_seconds=0.5 * HOUR, sm_share_ratio=0.25)
    page = of(quarter, **IDLE)
    assert "the GPU for the last 30.0 min" in words(page)
    assert 1800.0 == least_tail_seconds(page)


@pytest.mark.parametrize(
    ("tails", "least"),
    [
        ((600.0, 1200.0), 600.0),
        ((600.0, 0.0), 0.0),
        ((600.0, None), None),
        ((0.0, None), 0.0),
        ((None,), None),
    ],
)
def test_the_tail_of_a_run_is_the_least_of_its_gpus(
    tails: tuple[float | None, ...], least: float | None
) -> None:
    """A run is idle when all of its GPUs are: one that was not makes it 0, one unknown makes it unknown."""
    assert least == least_tail_seconds(of(*(tail(seconds) for seconds in tails)))


def test_a_node_that_was_never_heard_from_is_not_idle() -> None:
    """What the GPUs of a silent node did at the end is not known, hence not how long the run was idle."""
    page = of(tail(1800.0))
    rows = (*page.gpus, GpuRow(node_name="n1", totals=silent_gpu(1)))
    assert None is least_tail_seconds(
        JobPage(row=job_row(sums=measured(gpu_count=2.0)), nodes=page.nodes, gpus=rows)
    )


def test_other_work_is_no_waste() -> None:
    """FP64 and FP32 work is said to be work, and not to be in OFU; of a few seconds of it nothing is said."""
    nothing = {"tensor_active_seconds": 0.0, "tensor_ref_seconds": 0.0, "tensor_ref_variance": 0.0}
    by_minutes = {"idle_seconds": 0.0, "idle_covered_seconds": 16 * HOUR}
    by_minutes |= {"non_tensor_seconds": 15.5 * HOUR, "non_tensor_covered_seconds": 16 * HOUR}
    shown = words(of({}, **nothing, **by_minutes))
    assert "No tensor 15.5 of 16.0 GPU-hours (96.9 %): busy without tensor cores" in shown
    assert "as plain FP32 and FP64 codes are: OFU does not measure that" in shown
    assert "OFU 0.0 % ±0.0 percentage points (95 %), no tensor work" in shown
    assert "Idle 0.0 of 16.0 GPU-hours (0.0 %)" in shown
    few = {"non_tensor_seconds": 60.0, "non_tensor_covered_seconds": 16 * HOUR}
    assert "No tensor" not in words(of({}, **few))


def test_unknown_is_said_where_it_could_be_taken_for_idle() -> None:
    """Without SM activity a job without tensor work may have done other work: that is said."""
    nothing = {"tensor_active_seconds": 0.0, "tensor_ref_seconds": 0.0, "tensor_ref_variance": 0.0}
    shown = words(of({}, **nothing, sm_active_seconds=None, sm_active_covered_seconds=0.0))
    assert "No tensor n/a: SM activity is not known, so that other work cannot be told from none" in shown
    assert "Idle n/a: it could not be judged" in shown
    assert "No tensor" not in words(of({}))


def test_the_peak_is_said_where_it_is_another_figure() -> None:
    """A steady run, or one no longer than its peak, has no other."""
    assert "Peak 70.0 % OFU over each GPU's busiest 5 minutes" in words(
        of({}, peak_tensor_ref_seconds=210.0, peak_covered_seconds=300.0)
    )
    assert "Peak" not in words(of({}, peak_tensor_ref_seconds=120.1, peak_covered_seconds=300.0))


@pytest.mark.parametrize(
    ("power", "heat", "said"),
    [
        (0.0, 0.0, "Throttled never, of 16.0 GPU-hours"),
        (0.5 * HOUR, 0.0, "Throttled 0.5 GPU-hours by the power limit, 0.0 by heat, of 16.0 GPU-hours"),
    ],
)
def test_slow_clocks_are_said(power: float, heat: float, said: str) -> None:
    """How long the power limit and heat slowed the GPUs down, and over which time that is known."""
    sums = {"throttled_power_seconds": power, "throttled_thermal_seconds": heat}
    assert said in words(of({}, **sums, throttle_covered_seconds=16 * HOUR))
    assert "Throttled" not in words(of({}))


def test_what_was_held_while_suspended_stands_beside() -> None:
    """held_suspended_gpu_hours stands beside the hours that they are not in."""
    assert "Suspended 8.0 GPU-hours held meanwhile, not counted above" in words(
        of({}, held_suspended_seconds=8 * HOUR)
    )
    assert "Suspended" not in words(of({}, held_suspended_seconds=0.0))


def test_idle_hours_say_what_they_leave_out() -> None:
    """Where a good part of what was measured could not be judged there may be more idle time: a note."""
    part = {"idle_seconds": HOUR, "idle_covered_seconds": 8 * HOUR}
    assert "Idle: some of the measured time could not be judged" in words(of({}, **part))
    assert "could not be judged" not in words(of({}, **{**part, "idle_covered_seconds": 16 * HOUR}))


def test_a_course_is_drawn_to_the_end_of_its_run() -> None:
    """What nobody measured at the end of a run is as much a gap as what is missing in the middle; text and
    HTML say the same."""
    its = of({"timeline": timeline(0.2, 0.4)})
    assert its.row.run is not None
    whole = replace(its.row.run, end_epoch_s=MORNING + 4 * HOUR)
    its = replace(its, row=replace(its.row, run=whole))
    said = words(its)
    assert "Timeline ▅█··" in said
    assert "20.0 % to 40.0 %, █ = 40.0 %; · not measured" in said
    course = course_table(its, CET)
    assert course is not None
    assert [0.2, 0.4, None, None] == [row[1].order for row in course.rows]


def test_a_suspect_gpus_course_is_not_shown() -> None:
    """What a wedged profiling module said is in no timeline: a run of such GPUs has none."""
    line = timeline(0.4, 0.4)
    good, odd = {"timeline": line}, {"timeline": timeline(0.0, 0.0), "reason": "suspect"}
    assert "all 0 %" not in words(of(good, odd))
    assert "all 40.0 %, █ = 40.0 %" in words(of(good, odd))
    assert "Timeline" not in words(of(odd))
    (row,) = json.loads(pages_as_json([of(good, odd)], question(), generated_at=datetime.now(CET)))["rows"]
    assert [0.4, 0.4] == row["timeline"]["ofu_ratios"]


def test_sm_activity_that_is_shown_is_not_called_unknown() -> None:
    """Rows of before 0.3 were not judged by the minute, though their SM activity is known."""
    before = words(of({}, tensor_ref_seconds=0.0, tensor_active_seconds=0.0))
    assert "SM active 90.0 %" in before
    assert "No tensor n/a: it could not be judged" in before
    unknown = words(of({}, tensor_ref_seconds=0.0, tensor_active_seconds=0.0, sm_active_seconds=None))
    assert "No tensor n/a: SM activity is not known" in unknown
