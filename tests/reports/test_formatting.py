"""--format: which fields, how wide, and in which words."""

import csv
import io
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import UsageError
from slurm_ofu.reports.as_csv import PARSABLE, Separation, separation_of
from slurm_ofu.reports.as_formatted import Formatting, formatted_csv, formatted_parsable, formatted_table
from slurm_ofu.reports.formatting import default_columns, help_format, parse_format
from slurm_ofu.reports.free_text import cell_width
from slurm_ofu.reports.printed_fields import FIELDS, fields_by
from slurm_ofu.reports.times_shown import checked_time_format
from slurm_ofu.values import Claim, GroupBy, UsageRow
from tests.figures.examples import measured, unmeasured
from tests.reports.examples import CET, HOSTILE, accounted, job_row

NOW = datetime(2026, 11, 6, 12, 0, tzinfo=CET)
ALL_GROUPS: tuple[GroupBy, ...] = (
    *("job", "user", "account", "partition", "qos", "node", "gpu-model", "job-name", "day", "hour"),
)


def chosen(text: str, by: GroupBy = "job", time_format: str | None = None) -> Formatting:
    """The columns that this chooses."""
    return Formatting(columns=parse_format(text, by), time_format=time_format, zone=CET, now=NOW)


def names(text: str, by: GroupBy = "job") -> list[str]:
    """The fields that this chooses."""
    return [column.field.name for column in parse_format(text, by)]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("JobID,OFU", ["JobID", "OFU"]),
        ("jobid, ofu ,", ["JobID", "OFU"]),
        ("OFU,OFU", ["OFU", "OFU"]),
        ("elapsed,ELAPSEDRAW", ["Elapsed", "ElapsedRaw"]),
        ("elap", ["Elapsed"]),
        ("part,acc,nodel,cov", ["Partition", "Account", "NodeList", "Coverage"]),
        ("idle,idlet", ["Idle", "IdleTail"]),
        ("TPA", ["Tensor"]),
        ("AllocNodes", ["NNodes"]),
    ],
)
def test_fields_are_named_as_sacct_takes_them(text: str, fields: list[str]) -> None:
    """Case does not matter, a beginning is enough where it is clear, and the order is that asked for."""
    assert fields == names(text)


def test_plus_adds_to_the_default_fields() -> None:
    """+ before any field keeps the default ones, and what is named comes after them."""
    usual = [column.field.name for column in default_columns("job")]
    assert [*usual, "Energy", "Claim"] == names("+Energy,Claim") == names("Energy,+Claim")
    assert [*(column.field.name for column in default_columns("user")), "Peak"] == names("+peak", "user")


@pytest.mark.parametrize(
    ("text", "width", "alignment"),
    [
        ("JobName", 10, ">"),
        ("JobName%20", 20, ">"),
        ("JobID", 12, "<"),
        ("jobidraw", 12, "<"),
        ("JobID%20", 20, ">"),
        ("JobName%-20", 20, "<"),
        ("JobName%<20", 20, "<"),
        ("JobName%>20", 20, ">"),
        ("JobName%^20", 20, "^"),
        ("JobName%>", 10, ">"),
        ("OFU", 8, ">"),
        ("OFU%-12", 12, "<"),
        ("OFU%0", 0, ">"),
        ("+OFU%9", 9, ">"),
    ],
)
def test_width_and_alignment(text: str, width: int, alignment: str) -> None:
    """%20 is a width, and - < ^ > before it say where in it; without one it is to the right, but for ids of
    no width, as sacct has it."""
    column = parse_format(text, "job")[-1]
    assert (width, alignment) == (column.width, column.alignment)


@pytest.mark.parametrize(
    ("text", "by", "message"),
    [
        ("", "job", "names no field"),
        (" , ", "job", "names no field"),
        ("JobID,Colour", "job", "'Colour' is no field; there are Account, AllocTRES"),
        ("job", "job", "'job' may be any of JobID, JobIDRaw, JobName"),
        ("OFU%", "job", None),
        ("OFU%x", "job", "is no field: write NAME"),
        ("OFU%1001", "job", "at most 1000"),
        ("OFU%99999", "job", "at most 1000"),
        ("OFU%" + "9" * 5000, "job", "at most 1000"),
        ("OFU;JobID", "job", "is no field: write NAME"),
        (HOSTILE, "job", "is no field"),
        ("x" * 99, "job", "x…' is no field"),
        ("NodeList", "user", "with --by user there is no NodeList; there are User, OFU, "),
        ("User", "account", "there is no User"),
        ("Hour", "day", r"there is no Hour \(--by hour has it\)"),
        ("Foo", "node", "is no field; there are .*, Node$"),
        ("Foo", "hour", "is no field; there are .*, Hour$"),
        ("Foo", "month", "is no field; there are .*, Month$"),
        ("Node", "job", None),  # the beginning of NodeList, but a field of its own
    ],
)
def test_what_is_no_field(text: str, by: GroupBy, message: str | None) -> None:
    """What cannot be understood, or has no meaning on such lines, is refused with what there is."""
    if text == "OFU%":
        assert ["OFU"] == names(text)
        return
    with pytest.raises(UsageError, match=message or "there is no Node") as raised:
        parse_format(text, by)
    assert "\x1b" not in str(raised.value)


def test_every_field_is_explained() -> None:
    """--helpformat names each field once with its meaning, and says what programs get instead."""
    text = help_format()
    assert [field.name for field in FIELDS] == [line.split()[0] for line in text.splitlines()[: len(FIELDS)]]
    assert all(field.meaning for field in FIELDS)
    assert "in per cent" in text
    assert "from 0 to 1" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize("by", ALL_GROUPS)
def test_every_kind_of_line_has_fields(by: GroupBy) -> None:
    """Each field that fits a kind of line has a value there, and the default ones are among them."""
    row = job_row(**accounted()) if by == "job" else UsageRow(group="what", sums=measured())
    formatting = chosen(",".join(field.name for field in fields_by(by)), by)
    header, line = formatted_parsable([row], by, formatting, separation=PARSABLE).splitlines()
    assert len(formatting.columns) == len(header.split("|")) == len(line.split("|"))
    assert set(default_columns(by)) <= set(formatting.columns)
    if by not in ("job", "gpu-model"):
        assert "what" in line.split("|")


ROWS = [
    job_row(1001, **accounted(job_name="a-very-long-name")),
    job_row(1002, unmeasured(), **accounted(array_job_id=1000, array_task_id=7, state="TIMEOUT")),
]


TABLE = """\
JobID           JobName      State    Elapsed             OFU OFUError GPUH
------------ ---------- ---------- ---------- --------------- -------- ----
1001         a-very-lo+  COMPLETED   02:00:00          40.0 %      0.2 16.0
1000_7            train    TIMEOUT   02:00:00 n/a (no_source)      n/a 16.0

Notes
  no_source: no counter source on this GPU: NVML GPM (Hopper or later), DCGM
    or a dcgm-exporter
"""


def test_table() -> None:
    """As sacct has it: fixed widths under names and dashes, text cut with a +, figures never; ratios in per
    cent, what was not measured n/a, and notes."""
    shown = formatted_table(
        ROWS, "job", chosen("JobID,JobName,State,Elapsed,OFU,OFUError,GPUHours%3"), width=80
    )
    assert TABLE == shown
    bare = formatted_table(ROWS, "job", chosen("JobID,OFU"), width=80, header=False)
    assert "1001                  40.0 %\n1000_7       n/a (no_source)\n" == bare


def test_every_field_at_once() -> None:
    """ALL is sacct's word for every field that such lines have, and no beginning of AllocTRES."""
    assert [field.name for field in fields_by("user")] == names("all", "user")
    assert ["JobID", *(field.name for field in fields_by("job"))] == names("JobID,ALL")


def test_alignments() -> None:
    """Left, middle, right, and as wide as needed."""
    shown = formatted_table(ROWS[:1], "job", chosen("User%-8,User%^9,User%>8,JobName%0,OFU%0"), width=80)
    assert ["wilma      wilma      wilma a-very-long-name 40.0 %"] == shown.splitlines()[2:]


def test_programs_get_ratios() -> None:
    """With -P and --csv ratios lie between 0 and 1, and what was not measured is empty; times and lengths of
    time are as sacct has them."""
    formatting = chosen("JobID,OFU,Coverage,Reason,Start,End,Elapsed,ElapsedRaw,GPUs,Bands")
    first, second = formatted_parsable(ROWS, "job", formatting, separation=PARSABLE).splitlines()[1:]
    times = "2026-11-05T10:00:00|2026-11-05T12:00:00|02:00:00|7200|8.0|0/0/0/0/0"
    assert f"1001|0.4|1.0|ok|{times}" == first
    assert f"1000_7||0.0|no_source|{times}" == second
    rows = list(csv.DictReader(io.StringIO(formatted_csv(ROWS, "job", formatting))))
    assert [("0.4", "1.0"), ("", "0.0")] == [(row["OFU"], row["Coverage"]) for row in rows]


def test_separators() -> None:
    """-p ends each line with the separator; any separator is in no text, and what figures hold is refused."""
    rows = [job_row(account="a|b; c||d")]
    formatting = chosen("JobID,Account")

    def line(separation: Separation) -> str:
        return formatted_parsable(rows, "job", formatting, separation=separation, header=False)

    assert "1001|a_b; c__d|\n" == line(separation_of(None, trailing=True))
    assert "1001;a|b_ c||d\n" == line(separation_of(";", trailing=False))
    assert "1001\ta|b; c||d\n" == line(separation_of("\t", trailing=False))
    assert "1001_a|b; c||d\n" == line(separation_of("_", trailing=False))
    long = separation_of("||", trailing=False)
    ends = formatted_parsable(
        [job_row(account="a|")], "job", chosen("Account,User"), separation=long, header=False
    )
    assert ["a_", "wilma"] == ends.strip().split("||")
    for refused in ("", ".", "1", "e-", "\n", "\x1b[31m"):
        with pytest.raises(UsageError, match="--delimiter"):
            separation_of(refused, trailing=False)


def test_running_and_unknown() -> None:
    """A run that goes on has no end yet and is RUNNING; what accounting has not said is unknown, and empty
    for programs, times Unknown as sacct has them."""
    row = job_row(running=True, submit_epoch_s=None)
    formatting = chosen("State,End,Submit,Elapsed,JobName")
    assert "RUNNING|Unknown|Unknown|02:00:00|\n" == formatted_parsable(
        [row], "job", formatting, separation=PARSABLE, header=False
    )
    shown = formatted_table([row], "job", formatting, width=80, header=False)
    assert ["RUNNING", "Unknown", "Unknown", "02:00:00", "unknown"] == shown.split()


def test_elapsed_before_slurm_has_said_it() -> None:
    """Till accounting was read, a run has taken the time from its start to its end; Slurm's word goes before,
    and without a start nothing is known."""
    rows = [job_row(), job_row(elapsed_seconds=60.0), job_row(start_epoch_s=None)]
    lines = formatted_parsable(
        rows, "job", chosen("Elapsed,ElapsedRaw"), separation=PARSABLE, header=False
    ).splitlines()
    assert ["02:00:00|7200", "00:01:00|60", "|"] == lines


def test_what_a_zero_is() -> None:
    """An OFU of 0 is told apart for programs by its kind, and for people by what stands behind it; the error
    is a ratio for programs, as the OFU beside it."""
    hour = 3600.0
    seconds: dict[str, Any] = {
        **dict.fromkeys(("tensor_ref_seconds", "tensor_active_seconds", "tensor_ref_variance"), 0.0),
        **dict.fromkeys(("non_tensor_covered_seconds", "idle_covered_seconds"), 16 * hour),
    }
    idle = measured(**seconds, idle_seconds=16 * hour, non_tensor_seconds=0.0)
    fp64 = measured(**seconds, idle_seconds=0.0, non_tensor_seconds=15 * hour)
    rows = [job_row(1, idle), job_row(2, fp64), job_row(3, unmeasured())]
    lines = formatted_parsable(rows, "job", chosen("OFU,Kind"), separation=PARSABLE, header=False)
    assert ["0.0|idle", "0.0|non_tensor", "|unmeasured"] == lines.splitlines()
    shown = formatted_table(rows, "job", chosen("JobID%1,OFU"), width=80, header=False).splitlines()
    assert ["1", "0.0 % (idle)"] == shown[0].split(maxsplit=1)
    assert ["2", "0.0 % (no tensor work)"] == shown[1].split(maxsplit=1)
    ofu, error = formatted_csv(ROWS[:1], "job", chosen("OFU,OFUError"), header=False).strip().split(",")
    assert 0.002 == pytest.approx(float(error), rel=0.5)
    assert 0.4 == float(ofu)


def test_lives_of_one_job_are_told_apart() -> None:
    """Two lines of one job id look alike: a note says what tells them apart, unless a column does."""
    rows = [job_row(1, **accounted()), job_row(1, **accounted(restart_count=1)), job_row(2, **accounted())]
    shown = formatted_table(rows, "job", chosen("JobID,OFU"), width=80)
    assert "several lines of job 1: it was requeued; +Restarts, +Start tell them apart" in shown
    assert "requeued" not in formatted_table(rows, "job", chosen("JobID,Restarts,OFU"), width=80)


def test_notes_go_with_what_they_are_about() -> None:
    """Without a field of figures there is nothing to explain."""
    assert "Notes" not in formatted_table(ROWS, "job", chosen("JobID,State"), width=80)
    assert "Notes" in formatted_table(ROWS, "job", chosen("JobID,Reason"), width=80)


def test_a_claim() -> None:
    """What a job states of itself, as it stands in its comment and as a ratio."""
    claim = Claim(kind="mfu", value=0.5, text="mfu=0.5")
    line = formatted_parsable(
        [job_row(claim=claim)], "job", chosen("Claim,Stated,OFU"), separation=PARSABLE, header=False
    )
    assert "mfu=0.5|0.5|0.4\n" == line


@pytest.mark.parametrize(
    ("time_format", "shown"),
    [
        (None, "2026-11-05T10:00:00"),
        ("standard", "2026-11-05T10:00:00"),
        ("relative", "Ystday 10:00"),
        ("%s", "1793869200"),
        ("%%s %s", "%s 1793869200"),
        ("%a %d/%m", "Thu 05/11"),
        ("\x1b[31m%H", "�[31m10"),
    ],
)
def test_times(time_format: str | None, shown: str) -> None:
    """SLURM_TIME_FORMAT is standard, relative or strftime's; no control character of it gets through."""
    formatting = chosen("Start", time_format=time_format)
    text = formatted_parsable([job_row()], "job", formatting, separation=PARSABLE, header=False)
    assert shown + "\n" == text


@pytest.mark.parametrize("text", ["bad", "Standard", "%H" * 999])
def test_time_formats_that_say_no_time(text: str) -> None:
    """What Slurm's commands call an invalid SLURM_TIME_FORMAT is refused: every time would look the same."""
    with pytest.raises(UsageError, match="SLURM_TIME_FORMAT="):
        checked_time_format(text, now=datetime.now(timezone.utc))


@pytest.mark.parametrize("output", ["table", "parsable", "csv"])
def test_hostile_names_stay_harmless(output: str) -> None:
    """Control characters in names reach nobody in any format, and no formula a spreadsheet."""
    row = job_row(user=HOSTILE, account="=1+1", comment=HOSTILE)
    formatting = chosen("User%40,Account,Comment,OFU")
    text = {
        "table": formatted_table([row], "job", formatting, width=80),
        "parsable": formatted_parsable([row], "job", formatting, separation=PARSABLE),
        "csv": formatted_csv([row], "job", formatting),
    }[output]
    for forbidden in ("\x1b", "\x07", "\r", "\t", "\x9b", "\u202e", "\udcff", "\x00", "\u2028"):
        assert forbidden not in text
    assert output != "csv" or ",'=1+1," in text


@pytest.mark.property
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(FIELDS), st.integers(1, 30), st.sampled_from("<^>")), min_size=1, max_size=6
    ),
    st.text(max_size=40),
)
def test_columns_keep_their_places(picked: list[tuple[Any, int, str]], name: str) -> None:
    """Whatever the names, columns of text are as wide as asked for, so that those after them stay in line."""
    columns = [one for one in picked if one[0] in fields_by("job") and one[0].kind == "text"]
    if not columns:
        return
    text = ",".join(f"{field.name}%{sign}{width}" for field, width, sign in columns)
    rows = [job_row(user=name, account=name, job_name=name, comment=name), job_row()]
    lines = formatted_table(rows, "job", chosen(text + ",OFU"), width=200, header=False).splitlines()
    expected = sum(width + 1 for _, width, _ in columns) + len("  40.0 %")
    assert [expected, expected] == list(map(cell_width, lines))
