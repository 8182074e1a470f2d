"""Tables."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.figures.reasons import SEVERITY
from slurm_ofu.reports.as_table import as_table
from slurm_ofu.reports.free_text import cell_width
from slurm_ofu.values import UsageRow
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import HOSTILE, MORNING, accounted, job_row, question

IDLE = measured(
    tensor_ref_seconds=0.0, tensor_active_seconds=0.0, tensor_ref_variance=0.0, sm_active_seconds=0.0
)
ABOVE_ONE = measured(tensor_ref_seconds=1.05 * 16 * HOUR, tensor_active_seconds=16 * HOUR)
JOBS = [job_row(1001), job_row(1002, unmeasured()), job_row(1003, IDLE), job_row(1004, ABOVE_ONE)]

BY_JOB = """\
OFU by job, user wilma, 2026-11-05 00:00:00 to 2026-11-06 00:00:00 CET (UTC+01:00)

JobID  User   Account  Partition  GPUs  GPU-h   Tensor    Clock  Coverage  OFU
1001   wilma  physics  gpu           8   16.0   50.0 %   80.0 %   100.0 %   40.0 % ±0.2
1002   wilma  physics  gpu           8   16.0      n/a      n/a     0.0 %  n/a (no_source)
1003   wilma  physics  gpu           8   16.0    0.0 %      n/a   100.0 %    0.0 % ±0.0 (idle)
1004   wilma  physics  gpu           8   16.0  100.0 %  105.0 %   100.0 %  105.0 % ±0.2
---------------------------------------------------------------------------------------------------
TOTAL                               32   64.0   50.0 %   96.7 %    75.0 %   48.3 % ±0.1 (no_source)

Notes
  no_source: no counter source on this GPU: NVML GPM (Hopper or later), DCGM or a dcgm-exporter
  OFU above 100 %: the SM clock was above the GPU model's reference clock; shown as measured
  ± is for the measured part only: where Coverage is below 95 % the rest may differ
"""

BY_PARTITION = """\
OFU by partition, user wilma, 2026-11-05 00:00:00 to 2026-11-06 00:00:00 CET (UTC+01:00)

Partition  Runs  GPUs  GPU-h  Unmeasured  Tensor   Clock  Coverage  OFU
gpu           1     8   16.0         0.0  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
unknown       1     8   16.0        16.0     n/a     n/a     0.0 %  n/a (no_source)
--------------------------------------------------------------------------------------------
TOTAL         2    16   32.0        16.0  50.0 %  80.0 %    50.0 %   40.0 % ±0.2 (no_source)

Notes
  no_source: no counter source on this GPU: NVML GPM (Hopper or later), DCGM or a dcgm-exporter
  ± is for the measured part only: where Coverage is below 95 % the rest may differ
"""


def test_jobs() -> None:
    """A line per run, zero and unmeasured told apart, OFU above 1 not clipped, a pooled total, notes."""
    assert BY_JOB == as_table(JOBS, question(), width=100, colour=False)


def test_groups() -> None:
    """A line per group with its number of runs; runs without one are "unknown"."""
    rows = [UsageRow(group="gpu", sums=measured()), UsageRow(group=None, sums=unmeasured())]
    assert BY_PARTITION == as_table(rows, question("partition"), width=100, colour=False)


def test_one_row_needs_no_total() -> None:
    """A single line is its own total, and where all is well there are no notes."""
    lines = as_table([job_row()], question(), width=100, colour=False).splitlines()
    assert 4 == len(lines)
    assert lines[-1].startswith("1001 ")


def test_without_header() -> None:
    """Without a header the lines stand alone: no headline, no titles, no notes."""
    shown = as_table(JOBS, question(), width=100, colour=False, header=False)
    assert BY_JOB.splitlines()[3:9] == shown.splitlines()


def test_no_rows() -> None:
    """An empty answer is an empty table."""
    assert "" == as_table([], question(), width=100, colour=False)


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (100, "JobID User Account Partition GPUs GPU-h Tensor Clock Coverage OFU"),
        (95, "JobID User Partition GPUs GPU-h Tensor Clock Coverage OFU"),
        (80, "JobID User GPUs GPU-h Tensor Clock Coverage OFU"),
        (72, "JobID User GPUs GPU-h Coverage OFU"),
    ],
)
def test_columns_give_way(width: int, titles: str) -> None:
    """Where space is short, account, partition and the factors are left out in this order; the rest stays."""
    shown = as_table(JOBS, question(), width=width, colour=False)
    assert titles.split() == next(line for line in shown.splitlines() if line.startswith("JobID")).split()
    assert max(map(cell_width, shown.splitlines())) <= width


JUDGED = [
    job_row(1001, measured(idle_seconds=1.5 * HOUR, idle_covered_seconds=16 * HOUR)),
    job_row(1002, unmeasured()),
    job_row(1003, measured(idle_seconds=0.0, idle_covered_seconds=16 * HOUR)),
]
BY_MINUTES = """\
JobID  User   Partition  GPUs  GPU-h  Idle  Tensor   Clock  Coverage  OFU
1001   wilma  gpu           8   16.0   1.5  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
1002   wilma  gpu           8   16.0   n/a     n/a     n/a     0.0 %  n/a (no_source)
1003   wilma  gpu           8   16.0   0.0  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
----------------------------------------------------------------------------------------------
TOTAL                      24   48.0   1.5  50.0 %  80.0 %    66.7 %   40.0 % ±0.1 (no_source)
"""


def test_idle_hours_of_what_was_judged_are_a_lower_bound() -> None:
    """A row of which a tenth was judged does not say 0, whatever the other rows are."""
    rows = [
        job_row(1001, measured(idle_seconds=0.0, idle_covered_seconds=1.6 * HOUR)),
        *(job_row(1002 + at, measured(idle_seconds=0.0, idle_covered_seconds=16 * HOUR)) for at in range(40)),
    ]
    lines = as_table(rows, question(), width=140, colour=False).splitlines()
    assert ["≥0.0", "0.0"] == [next(word for word in line.split() if "0.0" in word) for line in lines[3:5]]
    assert any("Idle: some of the measured time" in line for line in lines)


def test_idle_hours_where_any_are_known() -> None:
    """GPU-hours of idle minutes have a column where there is room and any are known; unknown is not 0."""
    shown = as_table(JUDGED, question(), width=99, colour=False)
    assert BY_MINUTES.splitlines() == shown.splitlines()[2:8]
    assert "Account" not in shown.splitlines()[2]
    assert "  no room for Account: a wider terminal shows them, or --format" in shown.splitlines()
    assert "Account" in as_table(JUDGED, question(), width=110, colour=False)
    assert "no room" not in as_table(JUDGED, question(), width=110, colour=False)
    assert "Idle" not in as_table(JUDGED, question(), width=90, colour=False).splitlines()[2]
    assert "Idle" not in as_table(JOBS, question(), width=140, colour=False)


def test_restarts_and_clusters_where_they_tell_runs_apart() -> None:
    """A requeued job shows its restarts, and jobs of several clusters theirs."""
    rows = [job_row(1001), job_row(1001, restart_count=1), job_row(1001, cluster="beta")]
    lines = as_table(rows, question(), width=120, colour=False).splitlines()
    assert ["JobID", "Restarts", "Cluster", "User"] == lines[2].split()[:4]
    assert [["1001", "0", "alpha"], ["1001", "1", "alpha"], ["1001", "0", "beta"]] == [
        line.split()[:3] for line in lines[3:6]
    ]


ENDED = [
    job_row(1001, **accounted()),
    job_row(1004, **accounted(array_job_id=1002, array_task_id=7, state="TIMEOUT", job_name="x" * 40)),
    job_row(1005),
]
ACCOUNTED = """\
JobID   Name                  User   Account  Partition  State      GPUs  GPU-h  Tensor   Clock  Coverage  OFU
1001    train                 wilma  physics  gpu        COMPLETED     8   16.0  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
1002_7  xxxxxxxxxxxxxxxxxxx…  wilma  physics  gpu        TIMEOUT       8   16.0  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
1005    unknown               wilma  physics  gpu        unknown       8   16.0  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
"""  # noqa: E501


def test_what_accounting_adds() -> None:
    """Where there is room a line has the job's name, cut at twenty cells, and its state; its id is as Slurm
    shows it."""
    lines = as_table(ENDED, question(), width=120, colour=False).splitlines()
    assert ACCOUNTED.splitlines() == lines[2:6]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (112, "JobID User Account Partition State GPUs GPU-h Tensor Clock Coverage OFU"),
        (95, "JobID User Account Partition GPUs GPU-h Tensor Clock Coverage OFU"),
        (80, "JobID User Partition GPUs GPU-h Tensor Clock Coverage OFU"),
    ],
)
def test_name_and_state_give_way_first(width: int, titles: str) -> None:
    """What accounting adds never takes the room of what was there without it."""
    shown = as_table(ENDED, question(), width=width, colour=False)
    assert titles.split() == next(line for line in shown.splitlines() if line.startswith("JobID")).split()
    assert max(map(cell_width, shown.splitlines())) <= width


@pytest.mark.parametrize("state", ["RESIZING", "RUNNING"])
def test_a_state_on_the_way_is_not_shown_as_the_last(state: str) -> None:
    """A state that a job passes through is none to show: without another there is no such column."""
    rows = [job_row(1001, **accounted(state=state))]
    assert "State" not in as_table(rows, question(), width=140, colour=False)
    shown = as_table([*rows, *ENDED], question(), width=140, colour=False)
    assert state not in shown
    assert "unknown" == shown.splitlines()[3].split()[5]


def test_a_run_that_no_node_spoke_of() -> None:
    """A run known from accounting alone is n/a and explained, in the total too."""
    silent = job_row(1002, unmeasured(reasons=()), heard=False)
    shown = as_table([job_row(), silent], question(), width=100, colour=False)
    assert "n/a (not_delivered)" in shown.splitlines()[4]
    assert "(not_delivered)" in shown.splitlines()[6]
    assert "not_delivered: the node was never heard from" in shown


def test_unknown_is_said() -> None:
    """What the hooks did not know is "unknown", neither empty nor zero."""
    row = job_row(
        sums=unmeasured(allocated_seconds=None, reasons=("not_started",)),
        user=None,
        account=None,
        partition=None,
    )
    line = as_table([row], question(), width=110, colour=False).splitlines()[3]
    assert "1001 unknown unknown unknown 8 unknown n/a n/a unknown n/a (not_started)" == " ".join(
        line.split()
    )


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_names_stay_harmless(colour: bool) -> None:
    """Control characters in names reach the terminal in no form, with colours or without."""
    rows = [job_row(user=HOSTILE, account=HOSTILE, partition=HOSTILE), job_row(cluster=HOSTILE)]
    asked = question(users=(HOSTILE,))
    shown = as_table(rows, asked, width=200, colour=colour)
    for forbidden in ("\x1b[31m", "\x1b]", "\x07", "\r", "\t", "\x9b", "\u202e", "\udcff", "\x00", "\u2028"):
        assert forbidden not in shown
    assert colour or "\x1b" not in shown
    assert 6 == len([line for line in shown.splitlines() if line.strip()])


def test_markup_in_names_is_text() -> None:
    """Names that look like rich's markup are shown as they are."""
    assert "[red]wilma[/red]" in as_table(
        [job_row(user="[red]wilma[/red]")], question(), width=120, colour=True
    )


@pytest.mark.parametrize(
    ("row", "escape"),
    [
        (job_row(), "\x1b[32m"),
        (job_row(sums=unmeasured()), "\x1b[2m"),
        (job_row(sums=IDLE), "\x1b[1;31m"),
        (job_row(sums=ABOVE_ONE), "\x1b[35m"),
        (job_row(sums=measured(tensor_ref_seconds=0.1 * 16 * HOUR)), "\x1b[31m"),
        (job_row(sums=measured(tensor_ref_seconds=0.2 * 16 * HOUR)), "\x1b[33m"),
        (job_row(sums=measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0)), "\x1b[36m"),
        (job_row(sums=measured(reasons=("suspect",))), "\x1b[35m"),
    ],
)
def test_colours(row: UsageRow, escape: str) -> None:
    """Unmeasured: dim; idle: bold red; low to good: red, yellow, green; odd: magenta; no tensor: cyan."""
    assert escape in as_table([row], question(), width=100, colour=True, header=False)


NOBODY_KNOWS = measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0, sm_active_seconds=None)


def test_a_zero_that_may_be_other_work_is_no_alarm() -> None:
    """An A100 whose exporter says no SM activity: FP64 or nothing at all, which a note says and no red."""
    shown = as_table([job_row(sums=NOBODY_KNOWS)], question(), width=100, colour=True)
    assert ("\x1b[2m" in shown, "\x1b[1;31m" in shown) == (True, False)
    assert "OFU next to 0: SM activity is not known" in " ".join(shown.split())
    known = as_table([job_row(sums=IDLE)], question(), width=100, colour=False)
    assert "OFU next to 0" not in " ".join(known.split())


def test_colours_change_nothing_else() -> None:
    """With the colours taken out it is the very same text."""
    shown = as_table(JOBS, question(), width=100, colour=True)
    assert BY_JOB == re.sub(r"\x1b\[[0-9;]*m", "", shown)


@pytest.mark.property
@settings(max_examples=50)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.integers(min_value=72, max_value=140))
def test_any_names_in_any_width(names: list[str], width: int) -> None:
    """Whatever the names, no line is wider than asked for, and each row takes one line."""
    rows = [job_row(number, user=name, account=name) for number, name in enumerate(names, start=1)]
    shown = as_table(rows, question(), width=width, colour=False, header=False).splitlines()
    assert all(cell_width(line) <= width for line in shown)
    assert len(rows) + (2 if len(rows) > 1 else 0) == len(shown)


def test_every_reason_is_explained() -> None:
    """A line shows one reason and how many others there are; the notes explain them all, each once."""
    reasons = ("ok", "short", "no_source", "sampler_died", "not_delivered")
    rows = [job_row(1, measured(reasons=reasons)), job_row(2, unmeasured(reasons=("shared", "no_source")))]
    shown = as_table(rows, question(), width=120, colour=False)
    assert "40.0 % ±0.2 (sampler_died +2)" in shown
    assert "n/a (shared +1)" in shown
    assert "(shared +3)" in shown  # the total
    notes = [line.strip() for line in shown.partition("\nNotes\n")[2].splitlines()]
    assert ["shared", "sampler_died", "not_delivered", "no_source"] == [
        line.split(":")[0] for line in notes if line.split(":")[0] in SEVERITY
    ]
    assert "GPU-hours are divided between the jobs" in " ".join(notes)


def test_the_error_is_that_of_the_measured_part() -> None:
    """Where an OFU with an error bar stands beside a low coverage, a note says once what ± is about."""
    low = measured(allocated_seconds=17 * HOUR)
    assert 1 == as_table([job_row(1, low), job_row(2, low)], question(), width=99, colour=False).count(
        "± is for the measured part only"
    )
    for sums in (measured(allocated_seconds=16.8 * HOUR), unmeasured()):
        assert "measured part" not in as_table([job_row(sums=sums)], question(), width=99, colour=False)


@pytest.mark.parametrize(
    ("gpu_count", "note"),
    [
        (8.0, "8 GPUs of unknown time are not in GPU-h and Coverage"),
        (1.0, "1 GPU of unknown time is not in GPU-h and Coverage"),
    ],
)
def test_gpus_of_unknown_time_do_not_vanish(gpu_count: float, note: str) -> None:
    """A total that leaves GPUs out, since nobody knows how long they were held, says how many."""
    unknown = unmeasured(allocated_seconds=None, gpu_count_unknown_time=gpu_count, reasons=("not_started",))
    for rows in ([job_row(1), job_row(2, unknown)], [job_row(2, unknown)]):
        assert note in as_table(rows, question(), width=100, colour=False)
    assert "unknown time" not in BY_JOB


KNOWN = measured(
    idle_seconds=HOUR,
    idle_covered_seconds=16 * HOUR,
    non_tensor_seconds=2 * HOUR,
    non_tensor_covered_seconds=16 * HOUR,
    lost_seconds=3 * HOUR,
    ranked_seconds=16 * HOUR,
    band_run_counts=(0, 0, 0, 0, 1),
)
NON_TENSOR = measured(
    tensor_ref_seconds=0.0,
    tensor_active_seconds=0.0,
    idle_seconds=0.0,
    idle_covered_seconds=16 * HOUR,
    non_tensor_seconds=16 * HOUR,
    non_tensor_covered_seconds=16 * HOUR,
    non_tensor_run_count=1,
)
BY_USER = """\
User   Runs  GPUs  GPU-h  Unmeasured  Idle  Non-tensor  Lost      Bands  Tensor   Clock  Coverage  OFU
fred      1     8   16.0         0.0   0.0        16.0   n/a  0/0/0/0/0   0.0 %     n/a   100.0 %    0.0 % ±0.2 (no tensor work)
wilma     1     8   16.0         0.0   1.0         2.0   3.0  0/0/0/0/1  50.0 %  80.0 %   100.0 %   40.0 % ±0.2
---------------------------------------------------------------------------------------------------------------------
TOTAL     2    16   32.0         0.0   1.0        18.0   3.0  0/0/0/0/1  25.0 %  80.0 %   100.0 %   20.0 % ±0.1
"""  # noqa: E501


def test_groups_in_full() -> None:
    """Where there is room: measured and unmeasured, idle, non-tensor and lost GPU-hours, runs in bands, and
    a legend that names the runs in none. Who did no tensor work has lost nothing."""
    rows = [UsageRow(group="fred", sums=NON_TENSOR), UsageRow(group="wilma", sums=KNOWN)]
    shown = as_table(rows, question("user"), width=140, colour=False)
    lines = shown.splitlines()[2:7]
    assert BY_USER.splitlines()[:3] == lines[:3]
    assert BY_USER.splitlines()[4] == lines[4]
    flat = " ".join(shown.split())
    assert (
        "Bands: runs with an OFU of <2 / 2-10 / 10-20 / 20-40 / >=40 %; in none: 1 busy without tensor"
        in flat
    )
    assert "Lost: GPU-hours below the partition's goal" in flat
    unknown = replace(KNOWN, run_count=3, unmeasured_run_count=2)
    also = as_table([UsageRow(group="wilma", sums=unknown)], question("user"), width=140, colour=False)
    assert "in none: 2 without an OFU" in also
    narrow = as_table(rows, question("user"), width=80, colour=False)
    assert max(map(cell_width, narrow.splitlines())) <= 80
    titles = "User Runs GPUs GPU-h Idle Lost Bands Coverage OFU"
    wide_enough = as_table(rows[1:], question("user"), width=80, colour=False)
    assert titles.split() == next(line for line in wide_enough.splitlines() if "Runs" in line).split()


def test_several_gpu_models_are_marked() -> None:
    """An OFU over several GPU models says so in its line, and what that means in a note."""
    rows = [UsageRow(group="wilma", sums=measured(gpu_models=("A", "B")))]
    shown = as_table(rows, question("user"), width=100, colour=False)
    assert "40.0 % ±0.2 (mixed)" in shown
    assert "several GPU models are pooled here" in shown


def test_the_worst_runs_stand_below() -> None:
    """Under groups: which runs lost most; nothing where none did."""
    rows = [UsageRow(group="wilma", sums=KNOWN)]
    worst = [job_row(1004, KNOWN, **accounted()), job_row(1001, KNOWN, **accounted())]
    shown = as_table(rows, question("user"), width=100, colour=False, worst=worst)
    text = shown.partition("\nMost lost GPU-hours\n")[2]
    assert "JobID Name User Partition Lost GPU-h Coverage OFU" == " ".join(text.splitlines()[0].split())
    assert ["1004", "1001"] == [line.split()[0] for line in text.splitlines()[1:3]]
    assert "Most lost" not in as_table(rows, question("user"), width=100, colour=False)


def test_what_shares_runs_is_not_added_up() -> None:
    """The total of groups that share runs is what was asked for by itself."""
    rows = [UsageRow(group=node, sums=measured()) for node in ("n1", "n2")]
    shown = as_table(rows, question("node"), width=100, colour=False, total=measured(run_count=1))
    assert "TOTAL 1 8 16.0" in " ".join(shown.split())


def test_hours_and_days() -> None:
    """Only those in which something ran are shown, and how many others there are is said."""
    nothing = unmeasured(run_count=0, gpu_count=0.0, allocated_seconds=None, reasons=())
    days = [UsageRow(group="2026-11-04", sums=nothing), UsageRow(group="2026-11-05", sums=measured())]
    shown = as_table(days, question("day"), width=100, colour=False)
    assert "2026-11-04" not in shown
    assert "  1 day in which nothing ran is left out" in shown.splitlines()
    shown = as_table([days[1], *days[:1] * 3], question("month"), width=100, colour=False)
    assert "  3 months in which nothing ran are left out" in shown.splitlines()
    hours = [
        UsageRow(group="2026-11-05T09:00+01:00", sums=nothing),
        UsageRow(group="2026-11-05T10:00+01:00", sums=measured()),
    ]
    shown = as_table(hours, question("hour"), width=100, colour=False)
    assert "2026-11-05 10:00     1" in shown
    assert "09:00" not in shown
    assert "1 hour in which nothing ran is left out" in shown
    assert "" == as_table(hours[:1], question("hour"), width=100, colour=False)


def test_hours_of_a_column_have_as_many_decimals() -> None:
    """By the most of them: little is never rounded to nothing, and no 0.0 stands beside 0.002."""
    few = [
        job_row(1, measured(allocated_seconds=9.0, idle_seconds=0.0, idle_covered_seconds=9.0)),
        job_row(2, measured(allocated_seconds=1.0, idle_seconds=0.5, idle_covered_seconds=1.0)),
    ]
    cells = [
        line.split()[5:7] for line in as_table(few, question(), width=140, colour=False).splitlines()[3:5]
    ]
    assert [["0.003", "≥0"], ["<0.001", ">0"]] == cells
    many = [job_row(1, measured()), few[1]]
    cells = [
        line.split()[5:7] for line in as_table(many, question(), width=140, colour=False).splitlines()[3:5]
    ]
    assert [["16.0", "n/a"], ["<0.1", ">0"]] == cells


def test_running_runs_are_marked() -> None:
    """A run that goes on has the state RUNNING, and its figures are those so far; a total says so."""
    rows = [job_row(1, measured(running_run_count=1), running=True), job_row(2)]
    shown = as_table(rows, question(), width=120, colour=False)
    assert "RUNNING" in shown.splitlines()[3]
    assert "(so far)" in shown.splitlines()[3]
    assert "so far" not in shown.splitlines()[6]
    assert "so far: not over yet" in shown
    assert "so far: as of 2026-11-05 12:00:00 CET (UTC+01:00)" in shown
    grouped = as_table(
        [UsageRow(group="a", sums=measured(run_count=3, running_run_count=1))],
        question("user"),
        width=100,
        colour=False,
    )
    assert "1 run is not over: its figures are those so far" in grouped


def test_of_running_runs_the_one_not_heard_of_for_longest_is_named() -> None:
    """Where nobody tells that its node died it runs for ever: its figures are of that day."""
    sums = measured(running_run_count=1)
    ghost = job_row(7, sums, running=True, end_epoch_s=MORNING - 86_400.0)
    shown = as_table([job_row(1, sums, running=True), ghost], question(), width=120, colour=False)
    assert "so far: the oldest are those of job 7, as of 2026-11-04 10:00:00 CET (UTC+01:00)" in shown


def test_runs_cut_by_time_alone_are_told() -> None:
    """Where the window cuts runs of which only the time is known, a note says how many."""
    shown = as_table([job_row(1, measured(prorated_run_count=1))], question(), width=100, colour=False)
    assert "1 run is cut by the window where only the time is known" in " ".join(shown.split())
