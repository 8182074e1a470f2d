"""JSON."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slurm_ofu.reports.as_json import as_json, pages_as_json
from slurm_ofu.values import Claim, GroupBy, UsageRow
from tests.figures.examples import measured, unmeasured
from tests.reports.examples import CET, HOSTILE, accounted, job_row, page, question
from tests.reports.test_as_csv import CLAIM, FIGURES, RUN

NOW = datetime(2026, 11, 6, 12, 0, 0, 123456, tzinfo=CET)


def document(*rows: UsageRow) -> Any:
    """The parsed report of these rows."""
    return json.loads(as_json(rows, question(), generated_at=NOW))


def test_frame() -> None:
    """The document says its schema version, when it was made, and what was asked."""
    shown = document(job_row())
    assert ["schema_version", "generated_at", "query", "units", "rows", "total"] == list(shown)
    assert (2, "2026-11-06T12:00:00+01:00") == (shown["schema_version"], shown["generated_at"])
    assert {
        "by": "job",
        "start": "2026-11-05T00:00:00+01:00",
        "end": "2026-11-06T00:00:00+01:00",
        "users": ["wilma"],
        "partitions": [],
        "accounts": [],
        "clusters": [],
        "qos": [],
        "job_names": [],
        "node_names": [],
        "states": [],
        "job_ids": [],
        "array_tasks": [],
        "het_components": [],
    } == shown["query"]


def test_rows_have_the_fields_of_the_csv() -> None:
    """A row has the names of the values in their order, and the claim as one of them; a group's row starts
    with the group."""
    assert [*RUN, *FIGURES, "claim"] == list(document(job_row())["rows"][0])
    by_user = json.loads(
        as_json([UsageRow(group="wilma", sums=measured())], question("user"), generated_at=NOW)
    )
    assert ["user", *FIGURES] == list(by_user["rows"][0])


def test_missing_is_null_and_zero_is_zero() -> None:
    """What was not measured is null beside its reason; a measured zero is 0."""
    zero = measured(tensor_ref_seconds=0.0, tensor_active_seconds=0.0, tensor_ref_variance=0.0)
    first, second = document(job_row(1, unmeasured()), job_row(2, zero))["rows"]
    assert (None, None, 0.0, "no_source") == (
        first["ofu_ratio"],
        first["ofu_error_pp"],
        first["coverage_ratio"],
        first["reason"],
    )
    assert (0.0, 0.0, None) == (second["ofu_ratio"], second["ofu_error_pp"], second["active_clock_ratio"])


def test_total_is_pooled() -> None:
    """The total is pooled over the rows by GPU time."""
    total = document(job_row(1), job_row(2, unmeasured()))["total"]
    assert (0.4, 0.5, 32.0, 16.0, 2) == (
        total["ofu_ratio"],
        total["coverage_ratio"],
        total["gpu_hours"],
        total["gpu_hours_unmeasured"],
        total["run_count"],
    )


@pytest.mark.parametrize("rows", [[], [job_row()], [job_row(1, user="a\nb"), job_row(2, unmeasured())]])
def test_the_layout_is_that_of_any_json(rows: list[UsageRow]) -> None:
    """Rows are written one by one, and stand there as if the whole had been written at once."""
    text = as_json(rows, question(), generated_at=NOW, worst=rows)
    assert json.dumps(json.loads(text), indent=2) + "\n" == text


def test_empty_answer() -> None:
    """No rows are an empty list in the same frame, and no total."""
    shown = document()
    assert ([], None, {}) == (shown["rows"], shown["total"], shown["units"])


def test_every_number_has_a_unit() -> None:
    """Each key that holds a number anywhere in the document has a unit, also on a page, whatever accounting
    adds, and in a claim."""
    claim = Claim(kind="tflops", value=494.7, text="tflops=494.7", peak_tflops=989.4)
    told = accounted(array_job_id=1000, array_task_id=4, het_job_id=2, het_offset=3, claim=claim)
    full = replace(page(), row=job_row(**told))
    shown = json.loads(pages_as_json([page(), full], question(), generated_at=NOW))
    assert set(CLAIM) == set(shown["rows"][1]["claim"])

    def numbers(value: Any, name: str = "") -> set[str]:
        if isinstance(value, dict):
            return {found for key, inner in value.items() for found in numbers(inner, key)}
        if isinstance(value, list):
            return {found for inner in value for found in numbers(inner, name)}
        return {name} if isinstance(value, int | float) and not isinstance(value, bool) else set()

    assert set() == numbers(shown["rows"]) - set(shown["units"])


OF_A_PAGE = ("claim", "percentile", "findings", "idle_tail_seconds", "nodes", "gpus", "timeline")


def test_page() -> None:
    """A page's row holds its nodes, its GPUs with sums and figures, and the timeline with nulls for gaps."""
    (row,) = json.loads(pages_as_json([page()], question(), generated_at=NOW))["rows"]
    assert [*RUN, *FIGURES, *OF_A_PAGE] == list(row)
    assert [("n1", "ok", False), ("n2", "not_delivered", True)] == [
        (node["node_name"], node["reason"], node["gpu_count_assumed"]) for node in row["nodes"]
    ]
    assert [0.4, 0.4, 0.4, None] == [gpu["ofu_ratio"] for gpu in row["gpus"]]
    assert [2880.0, None] == [row["gpus"][number]["tensor_ref_seconds"] for number in (0, 3)]
    assert [0.0, 0.1, 0.2, 0.4, 0.8, None, None, 0.4] == row["timeline"]["ofu_ratios"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_never_nan(number: float) -> None:
    """A number that is not finite is null: no NaN, no Infinity in the text."""
    row = job_row(sums=measured(energy_joules=number, sm_active_seconds=number))
    text = as_json([row], question(), generated_at=NOW)
    assert None is json.loads(text)["rows"][0]["energy_joules"]
    assert None is json.loads(text)["rows"][0]["sm_active_ratio"]


def test_control_characters_do_not_even_come_escaped() -> None:
    """Text is cleaned in JSON too, since what reads it may print it raw."""
    row = replace(page(), row=job_row(user=HOSTILE, comment=HOSTILE))
    text = pages_as_json([row], question(users=(HOSTILE,)), generated_at=NOW)
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert "\\u202e" not in text


def test_all_reasons_are_listed() -> None:
    """A row has one reason and the list of all, the most telling first."""
    row = document(job_row(sums=measured(reasons=("ok", "short", "suspect"))))["rows"][0]
    assert ("suspect", ["suspect", "short", "ok"]) == (row["reason"], row["reasons"])


def test_gpus_of_unknown_time_have_a_key() -> None:
    """How many GPUs the hours and the coverage leave out stands in each row and in the total."""
    unknown = unmeasured(allocated_seconds=None, gpu_count_unknown_time=8.0)
    shown = document(job_row(1), job_row(2, unknown))
    assert [0.0, 8.0, 8.0] == [row["gpu_count_unknown_time"] for row in (*shown["rows"], shown["total"])]


def test_what_was_asked_for_is_repeated() -> None:
    """Raw ids, tasks and components that were asked for stand in the query, as Slurm writes them."""
    asked = question(job_ids=(7,), array_tasks=((123, 4),), het_components=((200, 1),))
    query = json.loads(as_json([], asked, generated_at=NOW))["query"]
    assert ([7], ["123_4"], ["200+1"]) == (query["job_ids"], query["array_tasks"], query["het_components"])


def test_what_accounting_adds() -> None:
    """job_id stays raw beside the id as Slurm shows it; whether accounting was read, and whether any node
    spoke, are true or false."""
    row = document(job_row(**accounted(het_job_id=1000, het_offset=1)))["rows"][0]
    assert (1001, "1000+1", 1000, 1, True, True, 8) == tuple(
        row[name]
        for name in (
            *("job_id", "display_job_id", "het_job_id", "het_offset"),
            *("accounted", "heard", "slurm_gpu_count"),
        )
    )


def test_a_state_that_is_not_the_last_is_not_known() -> None:
    """RESIZING and the like are no state at the end: the field is null until there is one."""
    rows = document(*(job_row(state=state) for state in ("RESIZING", "RUNNING", "FAILED")))["rows"]
    assert [None, None, "FAILED"] == [row["state"] for row in rows]


def test_a_claim_is_an_object() -> None:
    """A claim stands with its text and what it is compared to, or why it is not; without one it is null."""
    claim = Claim(kind="mfu", value=0.5, text="mfu=0.5", source="accounting")
    first, second, third = document(job_row(claim=claim), job_row(2, unmeasured(), claim=claim), job_row(3))[
        "rows"
    ]
    assert {
        "kind": "mfu",
        "value": 0.5,
        "text": "mfu=0.5",
        "peak_tflops": None,
        "source": "accounting",
        "stated_ratio": 0.5,
        "measured_ratio": 0.4,
        "measured_tflops": None,
        "difference_pp": 10.0,
        "stated_over_measured": 1.25,
        "compared_to": "OFU",
        "not_compared": None,
    } == first["claim"]
    assert (0.5, None, "no_ofu") == tuple(
        second["claim"][name] for name in ("stated_ratio", "measured_ratio", "not_compared")
    )
    assert None is third["claim"]


def test_a_run_that_no_node_spoke_of_says_so() -> None:
    """A run known from accounting alone is not measured because nothing was delivered, in the total too."""
    shown = document(job_row(sums=unmeasured(reasons=()), heard=False))
    assert [(None, "not_delivered", False)] == [
        (row["ofu_ratio"], row["reason"], row["heard"]) for row in shown["rows"]
    ]
    assert ["not_delivered"] == shown["total"]["reasons"]


def test_what_shares_runs_is_not_added_up() -> None:
    """The total of groups that share runs is the one that was asked for by itself."""
    rows = [UsageRow(group=node, sums=measured()) for node in ("n1", "n2")]
    text = as_json(rows, question("node"), generated_at=NOW, total=measured(run_count=1))
    assert (16.0, 1) == (json.loads(text)["total"]["gpu_hours"], json.loads(text)["total"]["run_count"])


def test_the_worst_runs() -> None:
    """Runs that are listed besides have the fields of a report by job, and their units are there too."""
    rows = [UsageRow(group="wilma", sums=measured())]
    shown = json.loads(as_json(rows, question("user"), generated_at=NOW, worst=[job_row(1004)]))
    assert [1004] == [row["job_id"] for row in shown["worst"]]
    assert "job_id" in shown["units"]
    assert "worst" not in document(job_row())


@pytest.mark.parametrize(
    ("by", "field"), [("gpu-model", "gpu_model"), ("job-name", "job_name"), ("day", "day")]
)
def test_the_group_comes_first(by: GroupBy, field: str) -> None:
    """Its field is named as fields are, also where a figure has the same name."""
    text = as_json([UsageRow(group="what", sums=measured())], question(by), generated_at=NOW)
    row = json.loads(text)["rows"][0]
    assert (field, "what") == next(iter(row.items()))
    assert set(FIGURES) <= set(row)


def test_a_run_that_goes_on() -> None:
    """Its state is RUNNING, and it says that it runs."""
    row = document(job_row(sums=measured(running_run_count=1), running=True))["rows"][0]
    assert ("RUNNING", True, 1) == (row["state"], row["running"], row["running_run_count"])
