"""The page of a run."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.free_text import cell_width
from slurm_ofu.values import Claim, GpuRow, JobPage, SamplerHealth, UsageSums
from tests.figures.examples import HOUR, gpu, measured, silent_gpu, unmeasured
from tests.reports.examples import CET, HOSTILE, job_row, node, page, timeline

PAGE = """\
Job 1001 on cluster alpha, restart 1
  User      wilma, account physics, partition gpu
  State     unknown: Slurm's accounting not read yet, exit code 0:0
  Run       2nd run of this job (requeued)
  Nodes     2: n[1-2]
  GPUs      8: NVIDIA H100 80GB HBM3 (reference clock 1830 MHz)
  Time      2026-11-05 10:00:00 to 2026-11-05 12:00:00 CET (UTC+01:00), 2.0 h
  Comment   tuned batch size

  OFU       40.0 % ±0.2 percentage points (95 %)
            = tensor activity 50.0 % × clock 80.0 % of reference
  Coverage  37.5 % of 16.0 GPU-hours (6.0 measured, 10.0 not measured)
  Reason    not_delivered: the node was never heard from; its GPUs count as
            allocated; also no_source
  Timeline  ▁▂▃▅█··▅
            10:00 to 12:00, 15.0 min each; 0.0 % to 80.0 %, █ = 80.0 %; · not
            measured
  Estimator cycles (the hardware counted the tensor cycles)
  SM active 90.0 % (share of time with any work on an SM, mean of the SMs)
  Idle      1.5 of 6.0 GPU-hours (25.0 %)
            3 of 8 GPUs (5 not known) for the last 30.0 min or longer
  No tensor 1.5 of 6.0 GPU-hours (25.0 %): busy without tensor cores, as plain
            FP32 and FP64 codes are: OFU does not measure that
  Peak      70.0 % OFU over each GPU's busiest 5 minutes
  Throttled 0.8 GPU-hours by the power limit, 0.0 by heat, of 6.0 GPU-hours
  Energy    10 kWh (36 MJ), measured part

Node       GPUs  GPU-h  Tensor   Clock  Coverage  OFU
n1            4    8.0  50.0 %  80.0 %    75.0 %   40.0 % ±0.2 (no_source)
n2    4 assumed    8.0     n/a     n/a     0.0 %  n/a (not_delivered)

Node  GPU      SM  Tensor   Clock  Slowed  Coverage  OFU
n1      0  90.0 %  50.0 %  80.0 %  12.5 %   100.0 %   40.0 % ±0.2
n1      1  90.0 %  50.0 %  80.0 %  12.5 %   100.0 %   40.0 % ±0.2
n1      2  90.0 %  50.0 %  80.0 %  12.5 %   100.0 %   40.0 % ±0.2
n1      3     n/a     n/a     n/a     n/a     0.0 %  n/a (no_source)

Notes
  no_source: no counter source on this GPU: NVML GPM (Hopper or later), DCGM
    or a dcgm-exporter
  ± is for the measured part only: where Coverage is below 95 % the rest may
    differ
"""


def shown(of: JobPage, *, width: int = 80, colour: bool = False) -> str:
    """The page as text."""
    return as_page(of, CET, width=width, colour=colour)


def test_page() -> None:
    """The page shows figure, error, factors, coverage, estimator, reason, timeline, nodes and GPUs."""
    assert PAGE == shown(page())


def test_nothing_measured() -> None:
    """A run without any measurement says why, draws no timeline, and shows no zero in place of a figure."""
    text = shown(JobPage(row=job_row(sums=unmeasured()), nodes=(), gpus=()))
    assert "OFU       n/a (no_source)" in text
    assert "Coverage  0.0 % of 16.0 GPU-hours (0.0 measured, 16.0 not measured)" in text
    assert "Estimator none" in text
    assert "Timeline" not in text
    assert "tensor activity" not in text


def test_unknown_gpu_model_shows_its_tensor_activity() -> None:
    """Without a reference clock there is no OFU, but tensor activity is shown."""
    sums = measured(tensor_ref_seconds=None, ofu_covered_seconds=0.0, reasons=("unknown_model",))
    text = shown(JobPage(row=job_row(sums=sums), nodes=(), gpus=()))
    assert "OFU       n/a (unknown_model)" in text
    assert "Tensor    50.0 % activity" in text
    assert "Coverage  100.0 % of 16.0 GPU-hours (measured, but not as an OFU)" in text


def test_zero_has_no_clock() -> None:
    """A busy job without tensor work shows its zero as such, and no clock."""
    sums = measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0, tensor_ref_variance=0.0)
    text = shown(JobPage(row=job_row(sums=sums), nodes=(), gpus=()))
    assert "0.0 % ±0.0 percentage points (95 %), no tensor work" in text
    assert "= tensor activity 0.0 %, hence no clock to weigh with it" in text


def test_above_one_is_shown_and_explained() -> None:
    """OFU above 100 % stands as measured, with a note."""
    totals = gpu(tensor=1.0, clock=1.083)
    text = shown(JobPage(row=job_row(), nodes=(), gpus=(GpuRow(node_name="n1", totals=totals),)))
    assert "108.3 % ±0.2" in text
    assert "OFU above 100 %" in text


def test_a_node_that_no_prolog_ran_on_has_assumed_hours() -> None:
    """Where the GPUs' own time is unknown, the node's stands for it; where that is too, hours are unknown."""
    silent = replace(gpu(), allocated_seconds=None, covered_seconds=0.0, tensor_ref_seconds=None)
    of = JobPage(
        row=job_row(),
        nodes=(node("n1", gpu_count=1.0), node("n2", gpu_count=None, allocated_seconds=None)),
        gpus=(GpuRow(node_name="n1", totals=silent),),
    )
    lines = shown(of).splitlines()
    assert ["n1", "1", "2.0"] == next(line for line in lines if line.startswith("n1")).split()[:3]
    assert ["n2", "unknown", "unknown"] == next(line for line in lines if line.startswith("n2")).split()[:3]


def test_anomalies_are_noted() -> None:
    """Missed ticks beyond 1 %, stepped clocks and disagreeing estimators are noted, ten at most."""
    health = SamplerHealth(tick_count=100, missed_ticks=2, late_max_seconds=12.0, wall_step_seconds=-3.0)
    calm = SamplerHealth(tick_count=1000, missed_ticks=1)
    of = JobPage(
        row=job_row(),
        nodes=(node("n1", health=health), node("n2", health=calm)),
        gpus=tuple(GpuRow(node_name="n1", totals=gpu(n, disagreement_ratio=0.05)) for n in range(12)),
    )
    notes = shown(of).partition("\nNotes\n")[2]
    assert "n1: 2 ticks missed, the latest 12.0 s late" in notes
    assert "n1: its wall clock stepped by 3.0 s" in notes
    assert "n1 GPU 0: OFU by cycle counters minus by sampling is +5.0 points" in " ".join(notes.split())
    assert "and 4 more of this kind" in notes
    assert "n2" not in notes


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_stays_harmless(colour: bool) -> None:
    """Control characters in any text of a page reach the terminal in no form."""
    totals = gpu(gpu_model=HOSTILE)
    of = JobPage(
        row=job_row(
            user=HOSTILE,
            account=HOSTILE,
            job_name=HOSTILE,
            state=HOSTILE,
            node_list=HOSTILE,
            comment=HOSTILE * 50,
            exit_code=HOSTILE,
            cluster=HOSTILE,
            qos=HOSTILE,
            claim=Claim(kind="tflops", value=4.0, text=HOSTILE, peak_tflops=8.0),
        ),
        nodes=(node(HOSTILE),),
        gpus=(GpuRow(node_name=HOSTILE, totals=totals),),
    )
    text = shown(of, colour=colour)
    for forbidden in ("\x1b[31m", "\x1b]", "\x07", "\r", "\t", "\x9b", "\u202e", "\udcff", "\x00", "\u2028"):
        assert forbidden not in text
    if not colour:
        assert max(map(cell_width, text.splitlines())) <= 80


def test_colour_marks_the_figures() -> None:
    """With colours the same page marks good figures green and absent ones dim."""
    text = shown(page(), colour=True)
    assert "\x1b[32m" in text
    assert "\x1b[2m" in text


def words(sums: UsageSums | None = None, gpus: tuple[GpuRow, ...] = (), **run: Any) -> str:
    """A page as words with single blanks, so that line ends do not matter."""
    return " ".join(shown(JobPage(row=job_row(sums=sums, **run), nodes=(), gpus=gpus)).split())


def test_hours_add_up_to_the_coverage() -> None:
    """A GPU measured for a part of its time is not said to be measured in full."""
    sums = measured(
        gpu_count=1.0,
        allocated_seconds=14.4,
        ofu_covered_seconds=4.1,
        tensor_active_seconds=2.0,
        tensor_ref_seconds=1.6,
    )
    assert "Coverage 28.5 % of 0.00400 GPU-hours (0.00114 measured, 0.00286 not measured)" in words(sums)


@pytest.mark.parametrize(
    ("ratios", "scale"),
    [
        ((None, None), "1.0 h each; without OFU\n"),
        ((0.0, 0.0), "1.0 h each; all 0 %\n"),
        ((0.0, None), "1.0 h each; all 0 %; · not measured\n"),
    ],
)
def test_a_timeline_says_zero_only_of_what_was_measured(ratios: tuple[float | None, ...], scale: str) -> None:
    """A timeline without any measured bucket is not said to be at zero."""
    of = JobPage(
        row=job_row(), nodes=(), gpus=(GpuRow(node_name="n1", totals=gpu(timeline=timeline(*ratios))),)
    )
    assert scale in shown(of)


def test_several_gpu_models() -> None:
    """Where models are mixed the page says so, in its notes too, and shows the model of each GPU."""
    gpus = (
        GpuRow(node_name="n1", totals=gpu(0)),
        GpuRow(node_name="n1", totals=gpu(1, gpu_model="NVIDIA H200")),
    )
    of = JobPage(row=job_row(sums=measured(gpu_models=("a", "b"))), nodes=(), gpus=gpus)
    text = shown(of)
    assert "(95 %), mixed" in text
    assert "mixed: several GPU models are pooled here" in text
    assert ["n1", "1", "H200", "90.0", "%"] == next(
        line for line in text.splitlines() if line.startswith("n1      1")
    ).split()[:5]
    assert "Model" not in shown(page())


def test_energy_says_what_it_is_of() -> None:
    """Energy is that of the measured part, which is said where that is not nearly all."""
    assert "Energy 10 kWh (36 MJ), measured part" in words(measured(allocated_seconds=32 * HOUR))
    assert "measured part" not in words(measured(allocated_seconds=16.5 * HOUR))


def test_unknown_time_is_said() -> None:
    """Where nobody knows how long GPUs were held, the page says so instead of counting them as nothing."""
    silent = GpuRow(node_name="n1", totals=silent_gpu(0, "not_started", allocated_seconds=None))
    text = words(unmeasured(gpu_count_unknown_time=8.0, allocated_seconds=None), (silent,))
    assert "Coverage unknown, since nobody knows how long the GPUs were held" in text
    assert "8 GPUs of unknown time are not in GPU-h and Coverage" in text
