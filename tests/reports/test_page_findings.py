"""Findings in words: on a page, and for programs."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slurm_ofu.reports.as_json import pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.free_text import cell_width
from slurm_ofu.reports.page_findings import told
from slurm_ofu.values import Finding, Goals, JobPage
from tests.audits.cases import CASES, found
from tests.audits.pages import job, job_on, unseen, unused, worked
from tests.reports.examples import CET, HOSTILE, question

PAGE = """\
Job 1001 on cluster alpha
  User      wilma, account physics, partition gpu
  State     unknown: Slurm's accounting not read yet
  Nodes     1: n1
  GPUs      4: NVIDIA H100 80GB HBM3 (reference clock 1830 MHz)
  Time      2026-11-05 10:00:00 to 2026-11-05 14:00:00 CET (UTC+01:00), 4.0 h

  OFU       7.1 % ±0.2 percentage points (95 %)
            = tensor activity 7.5 % × clock 95.0 % of reference
  Coverage  100.0 % of 16.0 GPU-hours (16.0 measured, 0.0 not measured)

Findings
  1. 1 of 4 GPUs was not used: n1:3, idle for 100.0 % of its time (4.0
     GPU-hours).
     Try: ask for 3 GPUs (--gpus=3), or start a process for each (torchrun
     --nproc-per-node=4, srun --ntasks-per-gpu=1).
  2. The GPUs waited for work: SM activity 20.0 % while at work, tensor pipes
     10.0 %.
     Try: profile some steps to see for what (nsys profile, torch.profiler);
     most often it is input: more data-loader workers (num_workers), or a larger
     batch.

  Estimator cycles (the hardware counted the tensor cycles)
  SM active 15.0 % (share of time with any work on an SM, mean of the SMs)
  Idle      4.0 of 16.0 GPU-hours (25.0 %)
            1 of 4 GPUs for the last 4.0 h
  Throttled never, of 16.0 GPU-hours
  Energy    8.32 kWh (30 MJ)
  Power     520 W a GPU in the mean
  Memory    at most 61.0 GiB in use on any GPU

Node  GPU      SM  Tensor   Clock   GiB  Watt  Coverage  OFU
n1     0   20.0 %  10.0 %  95.0 %  61.0   520   100.0 %    9.5 % ±0.2
n1     1   20.0 %  10.0 %  95.0 %  61.0   520   100.0 %    9.5 % ±0.2
n1     2   20.0 %  10.0 %  95.0 %  61.0   520   100.0 %    9.5 % ±0.2
n1     3*   0.0 %   0.0 %     n/a   0.0   520   100.0 %    0.0 % ±0.2 (idle)
* a finding is about it
"""
STARVED = {"sm": 0.2, "tensor": 0.1, "memory": 0.1}


def shown(page: JobPage, **changes: Any) -> str:
    """The page with its findings."""
    return as_page(page, CET, **{"width": 80, "colour": False, "findings": found(page), **changes})


def test_page() -> None:
    """Findings stand between the figure and its details; what they are about is marked below, in words and
    signs that need no colour."""
    assert PAGE == shown(job(*[worked(**STARVED)] * 3, unused()))


def test_no_findings_no_heading() -> None:
    """Where there is nothing to say, the page says nothing."""
    text = shown(job(*[worked()] * 4))
    assert "Findings" not in text
    assert "*" not in text


ADVICE = [
    (job(*[worked()] * 2, *[unused()] * 2), "ask for 2 GPUs (--gpus=2)"),
    (job(worked(), unused(), unseen()), "ask for fewer GPUs"),
    (job_on({"n1": [worked()] * 2, "n2": [unused()] * 2}), "srun, torchrun --nnodes=2), or ask for 1 node"),
    (job_on({f"n{at}": [worked(), unused()] for at in (1, 2)}), "torchrun --nproc-per-node=2"),
    (job(unused()), "whether the program finds its GPU"),
    (job(worked(idle=0.95, tail=0.9)), "end the job when its work is done"),
    (job(worked(idle=0.95, tail=0.9), running=True), "scancel 1001"),
    (job(worked(), worked(), worked(idle=0.5, tail=0.5)), "give the GPUs equal amounts of work"),
    (job(*[worked()] * 7, worked(clock=0.5, tensor=0.9)), "leave the node out (--exclude=n1)"),
    (
        job_on({f"n{at}": [*[worked()] * 7, worked(clock=0.5, tensor=0.9)] for at in (1, 2)}),
        "ask the operators to look at n1, n2",
    ),
    (job(worked(heat=0.5)), "cooling of n1"),
    (job(worked(power=0.5)), "power limit of n1"),
    (job(worked(reason="suspect")), "tell the operators of n1"),
    (job(worked(tensor=0.0, non_tensor=1.0)), "if it trains a network"),
    (job(worked(memory=0.8, tensor=0.1)), "fused kernels"),
]


@pytest.mark.parametrize(("page", "advice"), ADVICE)
def test_one_thing_to_try(page: JobPage, advice: str) -> None:
    """Each finding comes with one thing to try that fits what was seen."""
    (finding,) = found(page)
    assert advice in (told(finding, page, CET)[1] or "")


def test_a_low_clock_says_what_the_driver_said() -> None:
    """That the driver named no reason, that it named one for a moment, and that it was not asked are told
    apart."""
    for changes, words in (
        ({}, "was 69.7 % of reference; the driver named no reason"),
        ({"power": 0.01}, "; the driver named a reason for 1.0 % of the time only"),
        ({"throttled_thermal_seconds": None}, "; whether the driver slowed it down is not known"),
    ):
        page = job(worked(clock=0.697, **changes))
        (finding,) = found(page)
        said, advice = told(finding, page, CET)
        assert said.startswith("the clock of its GPU while computing was 69.7 % of reference")
        assert words in said
        assert "limit of clock or power is set on n1" in (advice or "")


def test_the_goal_and_what_was_lost_against_it() -> None:
    """A run whose loss is counted says its partition's goal and the loss, which is that of single GPUs; one
    that did other work, or was not measured, has no such line."""
    goals = Goals(by_partition={"gpu": 0.45})
    for page, line in (
        (job(worked(tensor=0.225, clock=1.0)), "Goal      45 % (partition gpu): 2.0 GPU-hours below it"),
        (job(worked(tensor=0.9)), "Goal      45 % (partition gpu): reached"),
        (
            job(worked(tensor=0.9, clock=1.0), worked(tensor=0.225, clock=1.0)),
            "Goal      45 % (partition gpu): reached; 2.0 GPU-hours of single GPUs below it",
        ),
        (job(unused()), "Goal      45 % (partition gpu): 4.0 GPU-hours below it"),
    ):
        assert f"  {line}\n" in shown(page, goals=goals)
    for page in (job(worked(tensor=0.0, non_tensor=1.0)), job(unseen())):
        assert "Goal" not in shown(page, goals=goals)
    assert "Goal" not in shown(job(worked()))


def test_short_runs_have_nothing_to_try() -> None:
    """Of what cannot be judged nothing is asked."""
    page = job(worked(hours=0.02), hours=0.02)
    text = shown(page)
    assert "1. Too short to judge (1.2 min).\n" in text
    assert "Try" not in text


def test_what_goes_on_is_said_so_far() -> None:
    """Of a running job nothing is said for good: figures are those so far, and idle is said since when."""
    so_far = job(worked(**STARVED), running=True)
    (starved,) = found(so_far)
    assert "tensor pipes 10.0 % so far" in told(starved, so_far, CET)[0]
    tail = job(worked(idle=0.5, tail=0.5), running=True)
    (idle,) = found(tail)
    assert (
        "its GPU has been idle since 2026-11-05 12:00:00 CET (UTC+01:00), as of its last record,"
        " 2026-11-05 14:00:00 CET (UTC+01:00) (2.0 GPU-hours)" == (told(idle, tail, CET)[0])
    )
    words = " ".join(shown(so_far).split())
    assert "State RUNNING" in words
    assert "Time since 2026-11-05 10:00:00 CET (UTC+01:00); figures of its first 4.0 h" in words
    assert "figures of its first 4.0 h as of 2026-11-05 14:00:00 CET (UTC+01:00)" in words
    assert "percentage points (95 %), so far" in words


def test_it_is_said_what_a_finding_speaks_for() -> None:
    """Where a finding rests on a part of the GPU time that is said, and of how many GPUs nothing is known."""
    part = job(unused(judged=0.6, tail=None))
    (idle,) = found(part)
    assert "this speaks for 60.0 % of the GPU time" in told(idle, part, CET)[0]
    some = job(worked(), unused(), unseen(), unseen())
    (unused_gpu,) = found(some)
    assert told(unused_gpu, some, CET)[0].endswith("; of 2 it is not known")


def test_many_places_are_named_in_few_words() -> None:
    """Positions are ranges, and of many nodes the first are named."""
    page = job_on({f"n{at}": [worked(), *[unused()] * 2, worked(), unused()] for at in range(1, 10)})
    (finding,) = found(page)
    said = told(finding, page, CET)[0]
    assert "27 of 45 GPUs were not used: n1:1-2+4, n2:1-2+4," in said
    assert "n6:1-2+4 and 3 more, idle for" in said


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("width", [60, 80])
def test_hostile_names_stay_harmless_and_in_width(width: int, colour: bool) -> None:
    """Names reach the terminal without control characters and within the page's width."""
    page = job_on({HOSTILE: [worked(), unused()], "x" * 100: [worked()] * 2})
    text = shown(page, width=width, colour=colour)
    for forbidden in ("\x1b[31m", "\x1b]", "\x07", "\r", "\t", "\x9b", "\u202e", "\udcff", "\x00"):
        assert forbidden not in text
    if not colour:
        assert max(map(cell_width, text.splitlines())) <= 80


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_every_case_fits_the_page(case: Any) -> None:
    """No line of any page is wider than 80 cells, and every finding is a sentence or two."""
    text = shown(case.page)
    assert max(map(cell_width, text.splitlines())) <= 80
    for finding in found(case.page):
        said, advice = told(finding, case.page, CET)
        assert "None" not in said + (advice or "")
        assert "unknown" not in said
        assert not said.endswith(".")


def test_a_finding_that_says_little() -> None:
    """A finding of somebody else's, without evidence or places, has words too."""
    page = replace(job(worked()), gpus=(), nodes=())
    for kind in ("idle", "suspect", "throttled_power", "starved", "idle_tail", "slow_gpu", "unused_gpus"):
        said, _ = told(Finding(kind=kind, evidence={}), page, CET)
        assert "None" not in said


def test_json() -> None:
    """A page's JSON has the findings with their evidence and words, and every number has a unit."""
    page = job(*[worked(**STARVED)] * 3, unused())
    text = pages_as_json([page], question(), generated_at=datetime.now(CET), findings=[found(page)])
    document = json.loads(text)
    first, second = document["rows"][0]["findings"]
    assert ("unused_gpus", ["n1:3"], 1, 4) == (
        first["kind"],
        first["where"],
        first["gpu_count"],
        first["of_gpu_count"],
    )
    assert {"idle_ratio": 1.0, "idle_gpu_hours": 4.0, "judged_gpu_count": 4.0} == first["evidence"]
    assert first["text"].startswith("1 of 4 GPUs was not used")
    assert second["try"].startswith("profile some steps")
    assert set(second["evidence"]) <= set(document["units"])
