"""CSV and ``-P``."""

import csv
import io

import pytest

from slurm_ofu.reports.as_csv import as_csv, as_parsable
from slurm_ofu.values import Claim, UsageRow
from tests.figures.examples import measured, unmeasured
from tests.reports.examples import HOSTILE, accounted, job_row

RUN = (
    *("cluster", "job_id", "restart_count", "sluid", "user", "account", "partition", "job_name", "state"),
    *("node_list", "node_count", "comment", "exit_code", "start_epoch_s", "end_epoch_s"),
    *("qos", "array_job_id", "array_task_id", "het_job_id", "het_offset", "submit_epoch_s"),
    *("elapsed_seconds", "suspended_seconds", "alloc_tres", "slurm_gpu_count", "accounted", "heard"),
    *("running", "display_job_id"),
)
FIGURES = (
    *("run_count", "gpu_count", "gpu_count_unknown_time"),
    *("gpu_hours", "gpu_hours_measured", "gpu_hours_unmeasured"),
    *("ofu_ratio", "ofu_error_pp", "tpa_mean_ratio", "active_clock_ratio", "coverage_ratio"),
    *("sm_active_ratio", "energy_joules", "estimator", "reason", "reasons", "gpu_model"),
    *("idle_gpu_hours", "idle_judged_gpu_hours", "idle_tail_gpu_hours"),
    *("non_tensor_gpu_hours", "non_tensor_judged_gpu_hours", "peak_ofu_ratio"),
    *("throttled_power_gpu_hours", "throttled_thermal_gpu_hours", "throttle_known_gpu_hours"),
    *("held_suspended_gpu_hours", "lost_gpu_hours", "ranked_gpu_hours", "band_run_counts"),
    *("non_tensor_run_count", "unmeasured_run_count", "running_run_count", "prorated_run_count"),
    "work_kind",
)

CLAIM = (
    *("kind", "value", "text", "peak_tflops", "source"),
    *("stated_ratio", "measured_ratio", "measured_tflops", "difference_pp", "stated_over_measured"),
    *("compared_to", "not_compared"),
)
FLAT_CLAIM = tuple(f"claim_{name}" for name in CLAIM)


def parsed(text: str) -> list[dict[str, str]]:
    """The rows of a CSV text by column."""
    return list(csv.DictReader(io.StringIO(text)))


def test_columns_are_named_as_everywhere() -> None:
    """CSV and -P have the names of the values, those of the claim with its name before them; grouped reports
    the group's name first."""
    rows = [job_row()]
    assert [*RUN, *FIGURES, *FLAT_CLAIM] == as_csv(rows, "job").splitlines()[0].split(",")
    assert [*RUN, *FIGURES, *FLAT_CLAIM] == as_parsable(rows, "job").splitlines()[0].split("|")
    assert ["user", *FIGURES] == as_csv([], "user").splitlines()[0].split(",")


def test_missing_is_empty_and_zero_is_zero() -> None:
    """What was not measured is an empty field beside its reason; a measured zero is 0.0."""
    zero = measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0)
    first, second = parsed(as_csv([job_row(1, unmeasured()), job_row(2, zero)], "job"))
    assert ("", "", "0.0", "no_source") == (
        first["ofu_ratio"],
        first["tpa_mean_ratio"],
        first["coverage_ratio"],
        first["reason"],
    )
    assert ("0.0", "0.0", "", "ok") == (
        second["ofu_ratio"],
        second["tpa_mean_ratio"],
        second["active_clock_ratio"],
        second["reason"],
    )


FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1", "＝1", "－1"]


@pytest.mark.parametrize("formula", ["=1+1", " +1", "-2", "@SUM(1)", "＝1"])
def test_no_formula_is_run_where_semicolons_part_cells(formula: str) -> None:
    """With a comma for the decimal point, spreadsheets take ; for the end of a cell, also within ours."""
    (row,) = parsed(as_csv([job_row(comment=f"x;{formula};y;z")], "job"))
    assert f"x;'{formula};y;z" == row["comment"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_formula_is_run(formula: str) -> None:
    """Text that a spreadsheet would take for a formula gets an apostrophe."""
    assert "'" + formula == parsed(as_csv([job_row(comment=formula)], "job"))[0]["comment"]


@pytest.mark.parametrize("prefix", ["\t", "\r", "\n", "\x00"])
def test_control_characters_do_not_hide_a_formula(prefix: str) -> None:
    """A tab or line end before a formula is replaced by a visible character, so that it starts no formula."""
    assert "�=1" == parsed(as_csv([job_row(comment=prefix + "=1")], "job"))[0]["comment"]


@pytest.mark.parametrize("text", ['a,b"c', "a;b", "line1\nline2", "trailing ", "", "日本", HOSTILE])
def test_any_text_is_one_field_in_one_line(text: str) -> None:
    """Commas, quotes and line ends in a comment shift no column."""
    shown = as_csv([job_row(comment=text, account="after")], "job")
    assert 2 == len(shown.splitlines())
    assert ("after", "ok") == (parsed(shown)[0]["account"], parsed(shown)[0]["reason"])


@pytest.mark.parametrize("text", ["a|b", "x^|^y", "|", "line1\nline2|", HOSTILE])
def test_a_separator_in_a_name_shifts_no_column(text: str) -> None:
    """With -P a | within text becomes _, so that splitting at | is always right."""
    header, line = as_parsable([job_row(comment=text)], "job").splitlines()
    fields = dict(zip(header.split("|"), line.split("|"), strict=True))
    assert ("0:0", "ok") == (fields["exit_code"], fields["reason"])


def test_header_can_be_left_out() -> None:
    """Without a header the first line is the first row."""
    rows = [UsageRow(group="wilma", sums=measured())]
    assert as_csv(rows, "user").splitlines()[1:] == as_csv(rows, "user", header=False).splitlines()
    assert "wilma|1|8.0|0.0|16.0|" == as_parsable(rows, "user", header=False)[:21]


def test_no_dust_of_binary_fractions() -> None:
    """Numbers are written with twelve significant digits."""
    sums = measured(tensor_ref_seconds=(0.1 + 0.2) * 16 * 3600)
    assert "0.3" == parsed(as_csv([job_row(sums=sums)], "job"))[0]["ofu_ratio"]


def test_reasons_are_one_field() -> None:
    """All reasons stand in one field with blanks between them, the most telling first."""
    sums = measured(reasons=("ok", "no_source", "suspect"))
    assert "suspect no_source ok" == parsed(as_csv([job_row(sums=sums)], "job"))[0]["reasons"]
    assert "|suspect no_source ok|" in as_parsable([job_row(sums=sums)], "job")


def test_what_accounting_adds() -> None:
    """Every field of accounting is a column, raw ids and the id as Slurm shows it side by side; yes and no
    are true and false, and what Slurm does not say is empty."""
    told = accounted(array_job_id=1000, array_task_id=4, suspended_seconds=720.0)
    first, second = parsed(as_csv([job_row(**told), job_row(1002, heard=False)], "job"))
    assert ("1001", "1000_4", "1000", "4", "") == tuple(
        first[name] for name in ("job_id", "display_job_id", "array_job_id", "array_task_id", "het_offset")
    )
    assert ("train", "COMPLETED", "normal", "7200.0", "720.0", "8", "true", "true") == tuple(
        first[name]
        for name in (
            *("job_name", "state", "qos", "elapsed_seconds", "suspended_seconds"),
            *("slurm_gpu_count", "accounted", "heard"),
        )
    )
    assert ("1002", "1002", "", "", "false", "false") == tuple(
        second[name]
        for name in ("job_id", "display_job_id", "state", "slurm_gpu_count", "accounted", "heard")
    )


def test_a_state_that_is_not_the_last_is_not_known() -> None:
    """RESIZING and the like are no state at the end: the field is empty until there is one."""
    rows = [job_row(state=state, accounted=True) for state in ("RESIZING", "RUNNING", "TIMEOUT")]
    assert ["", "", "TIMEOUT"] == [row["state"] for row in parsed(as_csv(rows, "job"))]


def test_a_claim_is_flat() -> None:
    """A claim and its comparison are columns; without one they are empty."""
    claim = Claim(kind="tflops", value=494.7, text="tflops=494.7", peak_tflops=989.4)
    first, second = parsed(as_csv([job_row(claim=claim), job_row(2)], "job"))
    peak = "OFU × 989.4 TFLOP/s, the dense 16-bit peak of NVIDIA H100 80GB HBM3"
    assert (
        "tflops",
        "494.7",
        "tflops=494.7",
        "989.4",
        "epilog",
        "0.5",
        "0.4",
        "395.76",
        "10.0",
        "1.25",
    ) == tuple(first[name] for name in FLAT_CLAIM[:10])
    assert (peak, "") == (first["claim_compared_to"], first["claim_not_compared"])
    assert [""] * len(CLAIM) == [second[name] for name in FLAT_CLAIM]
