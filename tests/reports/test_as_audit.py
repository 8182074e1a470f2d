"""Entries of audits in words."""

from dataclasses import replace
from datetime import timezone
from typing import Any

import pytest

from slurm_ofu.reports.as_audit import as_audit
from slurm_ofu.reports.audit_entries import entry_words
from slurm_ofu.reports.audit_figures import figure_words, label
from slurm_ofu.reports.question import Question
from slurm_ofu.values import AUDIT_NAMES, AuditConfig, AuditEntry, AuditResult, Goals, Selection
from tests.audits.rows import START, gpu, run

RUNS = tuple(
    row.run
    for row in (
        run(3, gpu(), start_epoch_s=START + 86_400),
        run(1, gpu(), start_epoch_s=START),
        run(2, gpu(), start_epoch_s=START + 3600),
    )
    if row.run is not None
)
QUESTION = Question(selection=Selection(), by="job", zone=timezone.utc)


def entry(audit: Any, kind: str, figures: dict[str, Any], **changes: Any) -> AuditEntry:
    """An entry of ten GPU-hours."""
    values: dict[str, Any] = {
        "subject": "train",
        "weight_gpu_hours": 10.0,
        "user": "wilma",
        "partition": "gpu",
        "gpu_model": "mixed" if audit == "idle" else "H100",
        "runs": RUNS,
    }
    return AuditEntry(audit=audit, kind=kind, figures=figures, **{**values, **changes})


DROP = {
    "factor": 2.5,
    "changed_epoch_s": START + 86_400,
    "before_ofu_ratio": 0.4,
    "before_ofu_error_pp": 0.1,
    "before_coverage_ratio": 0.99,
    "after_ofu_ratio": 0.16,
    "after_ofu_error_pp": None,
    "before_run_count": 2,
    "after_run_count": 1,
    "moved": "clock",
    "chance_ratio": 1e-9,
    "gpu_count": 8.0,
}
RECOVERY = {
    **DROP,
    "recovered_epoch_s": START + 172_800,
    "recovered_ofu_ratio": 0.39,
    "recovered_ofu_error_pp": 0.2,
    "recovered_run_count": 4,
}
CLAIM = {
    "stated_ratio": 0.6,
    "measured_ofu_ratio": 0.3,
    "ofu_error_pp": 0.1,
    "coverage_ratio": 0.97,
    "stated_over_measured": 2.0,
    "likely_causes": "sparse_peak, other_gpus_peak",
    "other_gpu_models": "NVIDIA A100",
    "claim": "mfu=0.6",
}
IDLE = {
    "idle_gpu_hours": 9.0,
    "idle_judged_gpu_hours": 10.0,
    "idle_ratio": 0.9,
    "gpu_count": 2.0,
    "ofu_ratio": 0.04,
    "ofu_error_pp": 0.3,
    "coverage_ratio": 0.85,
    "runtime_seconds": 18_000.0,
}
UNUSED = {
    "unused_gpu_count": 1,
    "gpu_count": 2.0,
    "unknown_gpu_count": 0.0,
    "unused_gpus": "n1:1",
    "runtime_seconds": 18_000.0,
}
TASKS = tuple(replace(run, array_job_id=7, array_task_id=task) for task, run in enumerate(RUNS[:2], start=1))
LAG = {
    "lag_ratio": 0.2,
    "lagging_job_count": 9,
    "job_count": 10,
    "user_count": 3,
    "chance_ratio": 0.0004,
    "uuid": "GPU-1",
}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            entry("regressions", "drop", DROP),
            (
                "train, wilma, partition gpu, 8 × H100: OFU down by a factor of 2.5 (median run)"
                " since 2025-06-16 15:15:00 UTC, 10.0 GPU-hours lost",
                "OFU 40.0 % ±0.1 (coverage 99 %) in 2 runs, then OFU 16.0 % in 1 run; a lower clock (by"
                " chance: less than once in 1,000,000)",
                "jobs after: 3",
                "jobs before: 1, 2",
            ),
        ),
        (
            entry("regressions", "recovery", RECOVERY),
            (
                "train, wilma, partition gpu, 8 × H100: OFU up again since 2025-06-17 15:15:00 UTC; down by"
                " a factor of 2.5 (median run) from 2025-06-16 15:15:00 UTC until then, 10.0 GPU-hours lost",
                "OFU 40.0 % ±0.1 (coverage 99 %) in 2 runs, then OFU 16.0 % in 1 run; a lower clock (by"
                " chance: less than once in 1,000,000)",
                "since it is up again OFU 39.0 % ±0.2 in 4 runs",
                "jobs after: 3",
                "jobs before: 1, 2",
            ),
        ),
        (
            entry("claims", "stated_above", CLAIM, runs=RUNS[:1]),
            (
                "job 3, wilma, partition gpu, train: states 60.0 %, 2.00 times the measured 30.0 % ±0.1"
                " (coverage 97 %)",
                "as stated: mfu=0.6; 10.0 GPU-hours measured",
                "it may be against the sparse peak, twice the dense one",
                "it may be against the peak of another GPU: NVIDIA A100",
            ),
        ),
        (
            entry("claims", "stated_above", {**CLAIM, "run_count": 9}, subject="7", runs=TASKS),
            (
                "9 tasks of array 7, wilma, partition gpu, train: states 60.0 %, 2.00 times the measured"
                " 30.0 % ±0.1 (coverage 97 %)",
                "as stated by 7_1, the farthest off: mfu=0.6; 10.0 GPU-hours measured in all",
                "it may be against the sparse peak, twice the dense one",
                "it may be against the peak of another GPU: NVIDIA A100",
            ),
        ),
        (
            entry("hardware", "gpu_clock", LAG, subject="n1:3"),
            (
                "n1:3 (H100): its clock is 20.0 % below that of the others of its jobs (median);"
                " 10.0 GPU-hours lost, if they wait for it",
                "in 9 of 10 jobs of 3 users (by chance: once in 2,500); GPU-1",
                "most in jobs: 3, 1, 2",
            ),
        ),
        (
            entry("hardware", "gpu_thermal", LAG, subject="n1:3"),
            (
                "n1:3 (H100): heat slowed it down for 20.0 % more of the time than the others of its jobs"
                " (median); 10.0 GPU-hours lost, if they wait for it",
                "in 9 of 10 jobs of 3 users (by chance: once in 2,500); GPU-1",
                "most in jobs: 3, 1, 2",
            ),
        ),
        (
            entry("idle", "ended", IDLE, runs=RUNS[:1]),
            (
                "job 3, wilma, partition gpu, train: 9.0 of 10.0 GPU-hours idle (90 %)",
                "2 GPUs held for 5.0 h, OFU 4.0 % ±0.3 (mixed, coverage 85 %)",
            ),
        ),
        (
            entry("idle", "ended", {**IDLE, "run_count": 3}, subject="7", runs=TASKS),
            (
                "3 tasks of array 7, wilma, partition gpu, train: 9.0 of 10.0 GPU-hours idle (90 %)",
                "2 GPUs in all, most at stake in 7_1, 7_2, OFU 4.0 % ±0.3 (mixed, coverage 85 %)",
            ),
        ),
        (
            entry("unused", "run", UNUSED, runs=(replace(RUNS[0], running=True, restart_count=2),)),
            (
                "job 3 (restart 2), wilma, partition gpu, train: has so far not used 1 of 2 GPUs,"
                " 10.0 GPU-hours",
                "2 GPUs held for 5.0 h; not used: n1:1",
            ),
        ),
        (
            entry(
                "unused",
                "run",
                {**UNUSED, "unused_gpus": ",".join(f"n1:{position}" for position in range(10))},
                runs=RUNS[:1],
            ),
            (
                "job 3, wilma, partition gpu, train: did not use 1 of 2 GPUs, 10.0 GPU-hours",
                "2 GPUs held for 5.0 h; not used: n1:0, n1:1, n1:2, n1:3, n1:4, n1:5, n1:6, n1:7 and 2 more",
            ),
        ),
        (
            entry("waste", "another", {"lost_gpu_hours": 3.0, "idle_ratio": None}),
            ("train (wilma, gpu): another", "lost 3.0 GPU-hours, idle unknown", "jobs: 3, 1, 2"),
        ),
    ],
)
def test_what_an_entry_says(one: AuditEntry, expected: tuple[str, ...]) -> None:
    """A line that says what it is, then its evidence; a kind without words of its own shows its figures."""
    assert expected == entry_words(one, timezone.utc)


@pytest.mark.parametrize(
    ("figure", "value", "expected"),
    [
        ("lost_gpu_hours", 12.34, ("lost", "12.3 GPU-hours")),
        ("gpu_hours_measured", 12.34, ("measured", "12.3 GPU-hours")),
        ("idle_ratio", 0.05, ("idle", "5.0 %")),
        ("idle_ratio", None, ("idle", "unknown")),
        ("idle_tail_seconds", 7200.0, ("idle tail", "2.0 h")),
        ("changed_epoch_s", START, ("changed", "2025-06-15 15:15:00 UTC")),
        ("difference_pp", 12.34, ("difference", "12.3 points")),
        ("run_count", 3, ("runs", "3")),
        ("family_count", 3, ("families", "3")),
        ("recovery_count", 1, ("recoveries", "1")),
        ("reason", "a\x1bb", ("reason", "a\ufffdb")),
    ],
)
def test_a_figures_unit_is_in_its_name(figure: str, value: Any, expected: tuple[str, str]) -> None:
    """Words and value follow from the name; what is not known is never a zero."""
    assert expected == (label(figure), figure_words(figure, value, timezone.utc))


def shown(audit: Any, *entries: AuditEntry, width: int = 100, most: int | None = None) -> str:
    """A whole answer."""
    result = AuditResult(
        audit=audit, entries=entries, examined_count=7, left_out={"short": 1, "other_why": 2}
    )
    return as_audit(
        result, QUESTION, AuditConfig(), Goals(), width=width, colour=False, most=most, only_check=False
    )


@pytest.mark.parametrize("audit", AUDIT_NAMES)
def test_every_audit_without_entries(audit: str) -> None:
    """Nothing found is said, with who was judged and by which thresholds."""
    text = shown(audit)
    assert "7 " in text.splitlines()[2]
    assert "2 other why, 1 too short" in text
    assert "Nothing to report.\n" in text
    assert "Thresholds ([audits] of the configuration): " in text


def test_no_line_is_wider_than_asked() -> None:
    """Long names and reasons are wrapped, also on narrow terminals."""
    long = entry("regressions", "drop", DROP, subject="x" * 300)
    for width in (60, 80, 100):
        assert width >= max(map(len, shown("regressions", long, width=width).splitlines()))


def test_each_kind_is_cut_by_itself() -> None:
    """The most that are shown are so many of each kind, and what is left out is counted."""
    entries = [
        *(entry("unused", "run", {}, subject=str(at), runs=()) for at in range(5)),
        entry("unused", "user", {}, runs=()),
    ]
    text = shown("unused", *entries, most=2)
    assert "…and 3 more (--top 0 for all)\n" in text
    assert (1, 1) == (text.count("…and "), text.count("train: 10.0 GPU-hours of GPUs never used"))
    assert "…and" not in shown("unused", *entries)


def test_a_hint_is_true() -> None:
    """Pages are pointed to where one of the jobs that are shown was long enough for its page to say more than
    that it was short."""
    its = entry("waste", "user", {"lost_gpu_hours": 3.0}, runs=RUNS[:1])
    result = AuditResult(audit="waste", entries=(its,), examined_count=1)
    seconds = RUNS[0].elapsed_seconds or (RUNS[0].end_epoch_s or 0.0) - (RUNS[0].start_epoch_s or 0.0)

    def told(short_seconds: float) -> str:
        return as_audit(
            result,
            QUESTION,
            AuditConfig(),
            Goals(),
            width=100,
            colour=False,
            most=None,
            short_seconds=short_seconds,
        )

    assert "→ ofu-report -j ID says of each of these jobs why, and what to try" in told(seconds)
    assert "→" not in told(seconds + 1)


def test_who_lost_more_and_is_not_listed() -> None:
    """Under the list of users, or in its place."""
    summary = {"other_user_count": 3, "other_lost_gpu_hours": 0.7}
    for entries, more in (((), ""), ((entry("waste", "user", {"lost_gpu_hours": 3.0}),), "more ")):
        result = AuditResult(audit="waste", entries=entries, examined_count=1, summary=summary)
        text = as_audit(result, QUESTION, AuditConfig(), Goals(), width=100, colour=False, most=None)
        assert f"3 {more}users lost 0.700 GPU-hours at an OFU of 10 % or more\n" in text


def test_hardware_says_which_gpus_were_seen() -> None:
    """GPUs that were in too few jobs with others are not among those judged, nor passed over."""
    for judged, few, words in (
        (0, 12, "12 GPUs compared to others of the same job; none was in enough such jobs to be judged (5)"),
        (1, 3, "4 GPUs compared to others of the same job; 1 was in enough such jobs to be judged (5)"),
        (8, 0, "8 GPUs judged"),
    ):
        result = AuditResult(
            audit="hardware", entries=(), examined_count=judged, summary={"few_jobs_gpu_count": few}
        )
        text = as_audit(result, QUESTION, AuditConfig(), Goals(), width=100, colour=False, most=None)
        assert words == text.splitlines()[2]


def test_a_partition_is_called_one() -> None:
    """A name such as short would read as a word."""
    its = entry(
        "coverage",
        "node",
        {"reason": "gaps", "gpu_hours": 20.0, "measured_ratio": 0.5, "run_count": 2, "node": "n1"},
        subject="n1: gaps",
    )
    first, second, third = entry_words(its, timezone.utc)
    assert "node n1: 10.0 of 20.0 GPU-hours without OFU, gaps" == first
    assert "50 % of the node's GPU time has an OFU; 2 runs, such as 3, 1, 2" == second
    assert "before the sampler's first reading" in third
    partition = replace(its, kind="partition", partition="short", subject="short: gaps")
    assert entry_words(partition, timezone.utc)[0].startswith("partition short: 10.0 of 20.0")


def test_one_user_leaves_room_for_others() -> None:
    """Of a hundred entries of one user the first five stand before those of others; where there are no
    others, more of them; what is left out is counted."""
    loop = [entry("idle", "ended", IDLE, subject=str(at), runs=(), user="loop") for at in range(100)]
    others = [entry("idle", "ended", IDLE, subject=name, runs=(), user=name) for name in ("fred", "gus")]
    text = shown("idle", *loop, *others, most=7)
    assert "6. job fred, fred" in text
    assert "7. job gus, gus" in text
    assert "…and 95 more (--top 0 for all; of one user 5 come first)" in text
    alone = shown("idle", *loop, most=7)
    assert "7. job 6, loop" in alone
    assert "…and 93 more (--top 0 for all)" in alone
