"""What is to be said of a run: a table of cases, each with its findings.

``python -m tests.audits.cases > docs/findings.md``; test_findings.py holds the cases against what is expected
here, and the document against what is printed.
"""

import sys
from dataclasses import dataclass

from slurm_ofu.audits.findings import findings
from slurm_ofu.reports.page_findings import told
from slurm_ofu.values import Finding, FindingRules, Goals, JobPage
from tests.audits.pages import HOURS, job, job_on, unseen, unused, worked
from tests.figures.examples import HOUR
from tests.reports.examples import CET

RULES, GOALS = FindingRules(), Goals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run, in words, and the findings in brief, in their order."""

    words: str
    page: JobPage
    expected: tuple[str, ...] = ()


FP64 = {"tensor": 0.0, "non_tensor": 1.0}
TRACE = {"non_tensor": 1.0, "tensor_ref_error_seconds": 0.0}

CASES = (
    Case(words="eight GPUs at work", page=job(*[worked()] * 8)),
    Case(words="one GPU that nothing ran on", page=job(unused()), expected=("idle 1/1",)),
    Case(
        words="five minutes of work, then 23 h of nothing",
        page=job(worked(idle=0.9965, tail=0.9965, hours=23.1), hours=23.1),
        expected=("idle 1/1",),
    ),
    Case(
        words="the same, and it goes on",
        page=job(worked(idle=0.9965, tail=0.9965, hours=23.1), hours=23.1, running=True),
        expected=("idle 1/1",),
    ),
    Case(
        words="sixteen GPUs, one at work",
        page=job(worked(), *[unused()] * 15),
        expected=("unused_gpus 15/16",),
    ),
    Case(
        words="five of eight GPUs at work",
        page=job(*[worked()] * 5, *[unused()] * 3),
        expected=("unused_gpus 3/8",),
    ),
    Case(
        words="two nodes, one at work",
        page=job_on({"n1": [worked()] * 4, "n2": [unused()] * 4}),
        expected=("unused_gpus 4/8",),
    ),
    Case(
        words="one GPU was not used, and of another nothing is known",
        page=job(worked(), worked(), unused(), unseen()),
        expected=("unused_gpus 1/4",),
    ),
    Case(
        words="four GPUs, and all that is known of them is that one was not used",
        page=job(unused(), *[unseen()] * 3),
        expected=("unused_gpus 1/4",),
    ),
    Case(words="nothing was measured", page=job(*[unseen()] * 4)),
    Case(words="nothing was judged but the first tenth of an idle run", page=job(unused(judged=0.1))),
    Case(
        words="an idle run of which 60 % was measured",
        page=job(unused(judged=0.6, tail=None)),
        expected=("idle 1/1",),
    ),
    Case(
        words="held for 1.2 h after the work was done",
        page=job(*[worked(idle=0.3, tail=0.3)] * 4),
        expected=("idle_tail 4/4",),
    ),
    Case(
        words="idle for 1.2 h up to now",
        page=job(*[worked(idle=0.3, tail=0.3)] * 4, running=True),
        expected=("idle_tail 4/4",),
    ),
    Case(
        words="two of four GPUs were done early",
        page=job(worked(), worked(), worked(idle=0.5, tail=0.5), worked(idle=0.6, tail=0.6)),
        expected=("idle_tail 2/4",),
    ),
    Case(words="tidying up for ten minutes", page=job(worked(idle=0.042, tail=0.042))),
    Case(
        words="a quarter of an hour at the end of two days",
        page=job(worked(idle=0.006, tail=0.006, hours=48), hours=48),
    ),
    Case(
        words="one of eight GPUs is slow: heat",
        page=job(*[worked()] * 7, worked(clock=0.6, tensor=0.79, heat=0.8)),
        expected=("slow_gpu 1/8",),
    ),
    Case(
        words="one of eight GPUs is slow, and nobody says why",
        page=job(*[worked()] * 7, worked(clock=0.6, tensor=0.79)),
        expected=("slow_gpu 1/8",),
    ),
    Case(
        words="one of eight GPUs does less",
        page=job(*[worked()] * 7, worked(tensor=0.2)),
        expected=("slow_gpu 1/8",),
    ),
    Case(
        words="half of the GPUs do less than the other half",
        page=job(*[worked(tensor=0.6)] * 4, *[worked(tensor=0.4)] * 4),
    ),
    Case(
        words="one of four nodes is slow: the power limit",
        page=job_on(
            {
                **{f"n{number}": [worked()] * 4 for number in (1, 2, 3)},
                "n4": [worked(clock=0.5, tensor=0.95, power=0.9)] * 4,
            }
        ),
        expected=("slow_node 4/16",),
    ),
    Case(
        words="one of two GPUs is slow, and the driver says that of it alone",
        page=job(worked(), worked(clock=0.6, tensor=0.79, heat=0.8)),
        expected=("slow_gpu 1/2",),
    ),
    Case(
        words="one of five nodes of one GPU each is slow",
        page=job_on({**{f"n{number}": [worked()] for number in range(4)}, "n4": [worked(clock=0.5)]}),
        expected=("slow_gpu 1/5",),
    ),
    Case(
        words="one of eight GPUs does less, but for an error bar that is as large",
        page=job(*[worked()] * 7, worked(tensor=0.38, tensor_ref_error_seconds=0.05 * HOURS * HOUR)),
    ),
    Case(
        words="five GPUs of one model, and three of another with a slower clock",
        page=job(*[worked()] * 5, *[worked(clock=0.6, gpu_model="NVIDIA A100-SXM4-80GB")] * 3),
        expected=("low_clock 3/8",),
    ),
    Case(
        words="one of eight GPUs is used by others too",
        page=job(*[worked()] * 7, worked(tensor=0.1, reason="shared")),
    ),
    Case(
        words="one of eight GPUs was done early",
        page=job(*[worked()] * 7, worked(idle=0.5, tail=0.5)),
        expected=("idle_tail 1/8",),
    ),
    Case(
        words="one of eight GPUs was used for the last minutes only",
        page=job(*[worked()] * 7, worked(idle=0.97)),
        expected=("unused_gpus 1/8",),
    ),
    Case(
        words="one of two GPUs is slow, and heat slowed both",
        page=job(worked(heat=0.3), worked(clock=0.6, tensor=0.79, heat=0.8)),
        expected=("throttled_thermal 2/2",),
    ),
    Case(
        words="two GPUs of different clocks",
        page=job(worked(), worked(clock=0.6, tensor=0.79)),
        expected=("low_clock 1/2",),
    ),
    Case(
        words="one GPU with a slow clock, and nobody says why",
        page=job(worked(clock=0.697)),
        expected=("low_clock 1/1",),
    ),
    Case(
        words="the same, and the driver was not asked",
        page=job(worked(clock=0.697, throttled_power_seconds=None, throttled_thermal_seconds=None)),
        expected=("low_clock 1/1",),
    ),
    Case(
        words="a slow clock, but for an error bar that is as large",
        page=job(worked(clock=0.78, tensor=0.6, tensor_ref_error_seconds=0.05 * HOURS * HOUR)),
    ),
    Case(
        words="a slow clock, and SM activity of 30 %: it waits",
        page=job(worked(clock=0.6, sm=0.3, tensor=0.1)),
        expected=("starved 1/1",),
    ),
    Case(
        words="heat slowed two of eight GPUs, a little",
        page=job(*[worked()] * 6, *[worked(clock=0.85, heat=0.1)] * 2),
        expected=("throttled_thermal 2/8",),
    ),
    Case(
        words="the power limit slowed all GPUs of a good run",
        page=job(*[worked(tensor=0.8, clock=0.85, power=0.9)] * 8),
        expected=("throttled_power 8/8",),
    ),
    Case(
        words="the power limit slowed a GPU that was not used",
        page=job(*[worked()] * 7, unused(power=0.9)),
        expected=("unused_gpus 1/8",),
    ),
    Case(
        words="starved: SM activity of 20 %",
        page=job(*[worked(sm=0.2, tensor=0.1, memory=0.1)] * 4),
        expected=("starved 4/4",),
    ),
    Case(
        words="half of the time idle, busy in the other half",
        page=job(worked(idle=0.5, sm=0.8, tensor=0.4)),
        expected=("unexplained 1/1",),
    ),
    Case(
        words="busy, and far below the goal",
        page=job(*[worked(sm=0.96, tensor=0.21, clock=1.0)] * 2),
        expected=("unexplained 2/2",),
    ),
    Case(
        words="below the goal by less than the error",
        page=job(worked(tensor=0.4, clock=0.99, tensor_ref_error_seconds=0.01 * HOURS * HOUR)),
    ),
    Case(
        words="far below the goal, and known for a third of the time only",
        page=job(worked(sm=0.96, tensor=0.21), *[unseen()] * 2),
    ),
    Case(
        words="SM activity of 45 %, and OFU above the goal",
        page=job(worked(sm=0.45, tensor=0.45, clock=1.0)),
    ),
    Case(
        words="starved, and one of four GPUs not used",
        page=job(*[worked(sm=0.2, tensor=0.1, memory=0.1)] * 3, unused()),
        expected=("unused_gpus 1/4", "starved 3/4"),
    ),
    Case(
        words="starved, on the only one of four GPUs of which anything is known",
        page=job(worked(sm=0.2, tensor=0.1, memory=0.1), *[unseen()] * 3),
    ),
    Case(
        words="memory active 85 %, tensor pipes 12 %",
        page=job(worked(memory=0.85, tensor=0.12)),
        expected=("memory_bound 1/1",),
    ),
    Case(
        words="an FP64 code",
        page=job(*[worked(**FP64)] * 4),
        expected=("non_tensor 4/4",),
    ),
    Case(
        words="an FP64 code with a trace of tensor work, unequal on its GPUs",
        page=job(
            *[worked(**TRACE, tensor=0.001)] * 6,
            *[worked(**TRACE, tensor=at, clock=0.5) for at in (0.001, 0.0002)],
        ),
        expected=("non_tensor 8/8",),
    ),
    Case(
        words="an FP64 code that is limited by memory, with SM activity of 30 %",
        page=job(worked(**FP64, memory=0.85, sm=0.3)),
        expected=("non_tensor 1/1",),
    ),
    Case(
        words="SM activity of 30 %, and whether it was tensor work is not known",
        page=job(worked(sm=0.3, tensor=0.05, non_tensor_seconds=None, non_tensor_covered_seconds=0.0)),
    ),
    Case(
        words="two of eight GPUs whose counters contradict each other",
        page=job(*[worked()] * 6, *[unused(reason="suspect")] * 2),
        expected=("suspect 2/8",),
    ),
    Case(
        words="all of them do",
        page=job(*[unused(reason="suspect")] * 2),
        expected=("suspect 2/2",),
    ),
    Case(
        words="starved on a GPU that others use too",
        page=job(worked(sm=0.2, tensor=0.1, reason="shared")),
    ),
    Case(
        words="nothing ran on a GPU that others hold too",
        page=job(unused(reason="shared", allocated_seconds=2.0 * 3600, idle_tail_seconds=2.0 * 3600)),
        expected=("idle 1/1",),
    ),
    Case(
        words="a MIG slice that nothing ran on",
        page=job(unused(share=1 / 7, mig_profile="1g.10gb")),
        expected=("idle 1/1",),
    ),
    Case(words="over after two minutes", page=job(unused(hours=1 / 30), hours=1 / 30), expected=("short",)),
    Case(
        words="over before two looks at the counters",
        page=job(worked(hours=8 / 3600, reason="short"), hours=8 / 3600),
        expected=("short",),
    ),
    Case(
        words="the same, and nothing was measured",
        page=job(unseen("source_lost", hours=8 / 3600), hours=8 / 3600),
    ),
    Case(
        words="two GPUs, of which one was seen for a moment only",
        page=job(worked(), worked(reason="short", judged=0.001)),
    ),
    Case(words="a job that asked not to be profiled", page=job(unseen("opted_out"))),
)


def found(page: JobPage, rules: FindingRules = RULES, goals: Goals = GOALS) -> tuple[Finding, ...]:
    """The findings of a page under the default rules."""
    return findings(page, rules, goals)


def brief(finding: Finding) -> str:
    """A finding as the table has it: its kind, and of how many GPUs."""
    gpus = "" if finding.gpu_count is None else f" {finding.gpu_count}/{finding.of_gpu_count}"
    return finding.kind + gpus


HEAD = """\
# What is said of a run

Generated by `python -m tests.audits.cases`; do not edit.

The findings on a job's page, with the default thresholds (`[findings]` in slurm-ofu.toml) and goals. What is
said here is held against what must be said by tests/audits/test_findings.py. How they are found is in
[metric.md](metric.md).

| the run | findings | in words |
|---|---|---|
"""
ADVICE = """
Each comes with one thing to try:

| finding | try |
|---|---|
"""


def document() -> str:
    """docs/findings.md."""
    said = [
        (case, [(finding, told(finding, case.page, CET)) for finding in found(case.page)]) for case in CASES
    ]
    rows = [
        f"| {case.words} | {', '.join(f'`{finding.kind}`' for finding, _ in its) or 'none'} |"
        f" {'; '.join(text for _, (text, _) in its)} |\n"
        for case, its in said
    ]
    advice = sorted({(finding.kind, tip or "nothing") for _, its in said for finding, (_, tip) in its})
    return HEAD + "".join(rows) + ADVICE + "".join(f"| `{kind}` | {tip} |\n" for kind, tip in advice)


if __name__ == "__main__":
    sys.stdout.write(document())
