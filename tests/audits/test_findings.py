"""What is said of a run, and what never is."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.audits.findings import findings
from slurm_ofu.figures import pool_gpus
from slurm_ofu.values import FindingKind, FindingRules, Goals, GpuRow, GpuTotals, JobPage, Reason
from tests.audits.cases import CASES, RULES, Case, brief, document, found
from tests.audits.pages import job, job_on, unseen, unused, worked
from tests.figures.examples import measured
from tests.reports.examples import job_row

DOCUMENT = Path(__file__).parents[2] / "docs/findings.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_what_is_said(case: Case) -> None:
    """Every case of the table has its findings and no others, in their order."""
    assert case.expected == tuple(map(brief, found(case.page)))


def test_the_document_is_what_is_said() -> None:
    """docs/findings.md is what ``python -m tests.audits.cases`` prints."""
    assert document() == DOCUMENT.read_text(encoding="utf-8")


def test_every_kind_has_a_case() -> None:
    """The closed list of findings is covered by the table."""
    assert set(get_args(FindingKind)) == {finding.kind for case in CASES for finding in found(case.page)}


def test_a_finding_names_its_gpus() -> None:
    """Findings about some of the GPUs name them by node and position, those about a node the node."""
    slow = {"clock": 0.5, "tensor": 0.95, "power": 0.9}
    nodes = {**{f"n{at}": [worked()] * 4 for at in (1, 2, 3)}, "n4": [worked(**slow)] * 4}
    (node,) = found(job_on(nodes))
    assert ("n4",) == node.where
    (gpus,) = found(job_on({"n1": [worked()] * 2, "n2": [worked(), unused()]}))
    assert ("n2:1",) == gpus.where
    (everywhere,) = found(job(*[worked(idle=0.5, tail=0.5)] * 2))
    assert () == everywhere.where


def test_evidence_is_what_was_measured() -> None:
    """The evidence of a finding holds the figures of the GPUs that it is about, over the time at work."""
    (idle_tail,) = found(job(worked(idle=0.5, tail=0.5), worked(idle=0.75, tail=0.75)))
    assert {"idle_tail_seconds": 7200.0, "idle_tail_gpu_hours": 5.0, "judged_gpu_count": 2.0} == dict(
        idle_tail.evidence
    )
    (starved,) = found(job(worked(idle=0.5, sm=0.2, tensor=0.1, memory=0.1)))
    assert {
        "busy_sm_ratio": 0.2,
        "busy_tensor_ratio": 0.1,
        "busy_memory_ratio": 0.1,
        "idle_ratio": 0.5,
        "spoken_for_ratio": 1.0,
    } == pytest.approx(dict(starved.evidence))
    (slow,) = found(job(*[worked()] * 7, worked(clock=0.6, tensor=0.79, heat=0.8)))
    assert {
        "active_clock_ratio": 0.6,
        "siblings_active_clock_ratio": 0.95,
        "throttled_power_ratio": 0.0,
        "throttled_thermal_ratio": 0.8,
    } == pytest.approx(dict(slow.evidence))


def test_an_idle_run_is_idle_since_when_its_last_gpu_is() -> None:
    """How long an idle run had been idle is said where all of its GPUs had been."""
    (idle,) = found(job(unused(), worked(idle=0.95, tail=0.5)))
    assert 7200.0 == idle.evidence["idle_tail_seconds"]
    (idle,) = found(job(unused(), worked(idle=0.95, tail=0.0)))
    assert "idle_tail_seconds" not in idle.evidence


def test_a_suspended_run_is_not_idle() -> None:
    """Slurm has stopped it: nothing is said of GPUs that do nothing till it goes on."""
    for gpus in ([worked(idle=0.5, tail=0.5)], [worked(idle=0.95, tail=0.9)]):
        assert () == found(job(*gpus, running=True, state="SUSPENDED"))
        assert 1 == len(found(job(*gpus, running=True, state="RUNNING")))


def test_siblings_are_the_others() -> None:
    """What a GPU is held against is the median of the others, itself left out."""
    slow, low = found(job(*[worked(clock=clock) for clock in (0.5, 0.6, 0.7, 0.95)]))
    assert ("low_clock", ("n1:1", "n1:2")) == (low.kind, low.where)
    assert ("n1:0",) == slow.where
    assert pytest.approx(0.7) == slow.evidence["siblings_active_clock_ratio"]


def test_little_to_do_is_no_slow_clock() -> None:
    """A GPU that has less to do may clock down: then its work is what is said, unless it was slowed down."""
    (less,) = found(job(*[worked()] * 7, worked(tensor=0.1, clock=0.6)))
    assert "ofu_ratio" in less.evidence
    assert "active_clock_ratio" not in less.evidence
    (slow,) = found(job(*[worked()] * 7, worked(tensor=0.1, clock=0.6, heat=0.5)))
    assert "active_clock_ratio" in slow.evidence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_order_of_gpus_does_not_matter(case: Case) -> None:
    """The same findings, evidence and places come out whatever the order of a page's rows."""
    backwards = replace(case.page, gpus=case.page.gpus[::-1])
    assert found(case.page) == found(backwards)


RULE_CASES = [
    ("idle_ratio", job(worked(idle=0.8)), (0.85, 0.75), "idle"),
    ("unused_ratio", job(worked(), worked(idle=0.8)), (0.85, 0.75), "unused_gpus"),
    ("idle_tail_seconds", job(worked(idle=0.5, tail=0.5)), (7201.0, 7200.0), "idle_tail"),
    ("idle_tail_ratio", job(worked(idle=0.5, tail=0.5)), (0.51, 0.5), "idle_tail"),
    ("slow_ratio", job(*[worked()] * 7, worked(tensor=0.4)), (0.75, 0.85), "slow_gpu"),
    ("memory_bound_ratio", job(worked(memory=0.5, tensor=0.1)), (0.55, 0.45), "memory_bound"),
    ("memory_bound_tensor_ratio", job(worked(memory=0.7, tensor=0.3)), (0.25, 0.35), "memory_bound"),
    ("non_tensor_ratio", job(worked(tensor=0.1, non_tensor=0.6)), (0.65, 0.55), "non_tensor"),
    ("starved_ratio", job(worked(sm=0.4, tensor=0.2)), (0.35, 0.45), "starved"),
    ("throttled_ratio", job(worked(power=0.2)), (0.25, 0.15), "throttled_power"),
    ("low_clock_ratio", job(worked(clock=0.9)), (0.88, 0.92), "low_clock"),
    ("goal_share_ratio", job(worked(sm=0.4, tensor=0.2, clock=1.0)), (0.45, 0.55), "starved"),
    ("short_seconds", job(unused(hours=0.25), hours=0.25), (900.0, 901.0), "short"),
    ("judged_ratio", job(unused(judged=0.4)), (0.45, 0.35), "idle"),
]


@pytest.mark.parametrize(("rule", "page", "values", "kind"), RULE_CASES)
def test_thresholds_are_the_sites(rule: str, page: JobPage, values: tuple[float, float], kind: str) -> None:
    """Each key of [findings] decides from where on its finding is made."""
    without, with_it = (
        [finding.kind for finding in found(page, replace(RULES, **{rule: value}))] for value in values
    )
    assert kind not in without
    assert kind in with_it


def test_every_threshold_is_tried() -> None:
    """No key of [findings] is without effect."""
    assert set(FindingRules.__dataclass_fields__) == {rule for rule, *_ in RULE_CASES}


def test_what_is_explained_is_not_unexplained() -> None:
    """Only where nothing else is said of a run below its goal is it said that no cause is known; and never
    of one that reaches the goal, that may have done other work, or that Slurm has stopped."""
    kinds = [[finding.kind for finding in found(case.page)] for case in CASES]
    assert [["unexplained"]] * 2 == [its for its in kinds if "unexplained" in its]
    below = {"sm": 0.96, "tensor": 0.21}
    assert ["unexplained"] == [finding.kind for finding in found(job(worked(**below)))]
    assert () == found(job(worked(**below)), RULES, Goals(default_ratio=0.1))
    unknown = worked(**below, non_tensor_seconds=None, non_tensor_covered_seconds=0.0)
    assert () == found(job(unknown))
    assert () == found(job(worked(**below), running=True, state="SUSPENDED"))


def test_the_goal_is_that_of_the_partition() -> None:
    """Where OFU reaches its partition's goal nothing is said of why it is not higher; the rest is."""
    page = job(*[worked(sm=0.4, tensor=0.2)] * 3, unused(), partition="inference")
    assert ["unused_gpus", "starved"] == [finding.kind for finding in found(page)]
    modest = Goals(by_partition={"inference": 0.1})
    assert ["unused_gpus"] == [finding.kind for finding in found(page, RULES, modest)]


def test_without_single_gpus_the_sums_speak() -> None:
    """Of a run read from Slurm's accounting the whole is judged, and nobody is named."""
    sums = measured(
        idle_seconds=15.5 * 3600,
        idle_covered_seconds=16 * 3600.0,
        throttled_power_seconds=8 * 3600.0,
        throttled_thermal_seconds=0.0,
        throttle_covered_seconds=16 * 3600.0,
    )
    page = JobPage(row=job_row(sums=sums), nodes=(), gpus=())
    assert ["idle 8/8"] == list(map(brief, found(page)))
    busy = replace(page, row=replace(page.row, sums=replace(sums, idle_seconds=0.0)))
    assert ["throttled_power 8/8"] == list(map(brief, found(busy)))
    doubted = replace(sums, reasons=("suspect",))
    assert ["suspect"] == [brief(its) for its in found(replace(page, row=replace(page.row, sums=doubted)))][
        :1
    ]


def _ratio() -> st.SearchStrategy[float]:
    return st.one_of(st.sampled_from([0.0, 0.05, 0.5, 0.9, 1.0]), st.floats(0, 1))


@st.composite
def _totals(draw: st.DrawFn) -> GpuTotals:
    if draw(st.integers(0, 5)) == 0:
        return unseen(
            draw(st.sampled_from(["no_source", "not_delivered", "opted_out"])), hours=draw(_hours())
        )
    absent: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                name: st.none()
                for name in (
                    *("allocated_seconds", "tensor_ref_seconds", "sm_active_seconds", "dram_active_seconds"),
                    *("idle_seconds", "idle_tail_seconds", "non_tensor_seconds", "throttled_power_seconds"),
                    *("tensor_ref_error_seconds", "gpu_model", "throttled_thermal_seconds"),
                )
            },
        )
    )
    ratios = draw(st.fixed_dictionaries({}, optional={name: _ratio() for name in _SHARES}))
    reason = draw(st.sampled_from(get_args(Reason)))
    return worked(**{**ratios, "hours": draw(_hours()), "reason": reason, **absent})


_SHARES = ("tensor", "clock", "sm", "memory", "idle", "tail", "non_tensor", "power", "heat", "judged")


def _hours() -> st.SearchStrategy[float]:
    return st.sampled_from([0.0, 0.01, 0.5, 4.0, 100.0])


@st.composite
def _pages(draw: st.DrawFn) -> JobPage:
    nodes = draw(st.lists(st.lists(_totals(), max_size=4), max_size=4))
    return job_on(
        {f"n{at}": gpus for at, gpus in enumerate(nodes)},
        hours=draw(_hours()),
        running=draw(st.booleans()),
        start_epoch_s=draw(st.sampled_from([None, 0.0])),
    )


def _shuffled(page: JobPage, seed: int) -> JobPage:
    rows = list(page.gpus)
    random.Random(seed).shuffle(rows)
    return replace(page, gpus=tuple(rows), row=replace(page.row, sums=pool_gpus(gpu.totals for gpu in rows)))


def _has_figures(gpu: GpuRow) -> bool:
    return gpu.totals.covered_seconds > 0 or gpu.totals.reason == "suspect"


@pytest.mark.property
@given(page=_pages(), seed=st.integers(0, 100))
def test_laws(page: JobPage, seed: int) -> None:
    """Whatever is known of a run: nothing fails, no GPU without figures is spoken of, findings do not
    contradict each other, and the order of the GPUs does not matter."""
    its = findings(page, FindingRules(), Goals())
    assert its == findings(_shuffled(page, seed), FindingRules(), Goals())
    kinds = [finding.kind for finding in its]
    seen = {f"{gpu.node_name}:{gpu.totals.position}" for gpu in page.gpus if _has_figures(gpu)}
    seen |= {gpu.node_name for gpu in page.gpus if _has_figures(gpu)}
    assert seen >= {place for finding in its for place in finding.where}
    if {"idle", "short"} & set(kinds):
        assert {"suspect", "idle", "short"} >= set(kinds)
    assert 1 >= len({"starved", "memory_bound", "non_tensor"} & set(kinds))
    places = [set(finding.where) for finding in its if finding.kind in ("unused_gpus", "slow_gpu", "suspect")]
    assert len(set().union(*places)) == sum(map(len, places))
    assert all(0 <= value < math.inf for finding in its for value in finding.evidence.values())
