"""What may be put into a comment field of Slurm's accounting, and of which row."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.records.token import find_token, has_newer_token, with_token
from slurm_ofu.slurm.comments import (
    FIELDS,
    LONGEST_BYTES,
    Composing,
    Step,
    Target,
    address,
    commands,
    hindrance,
    outcome,
    step,
)
from slurm_ofu.values import AccountingRow

TOKEN = "ofu1:ofu=0.4;tpa=0.5;clk=0.8;cov=1;gpuh=16;err=0.2;gpus=8"
OLD, NEW = (22, 5), (24, 11)
COMPOSING = Composing(with_token=with_token, has_newer_token=has_newer_token)
TEXTS = st.text(max_size=60) | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


def target(**changes: Any) -> Target:
    """A plain job."""
    values: dict[str, Any] = {
        "run_id": 1,
        "cluster": "alpha",
        "job_id": 42,
        "submit_epoch_s": 1000,
        "token": TOKEN,
    }
    return Target(**{**values, **changes})


def row(**changes: Any) -> AccountingRow:
    """Its row in accounting: over, nothing in any field."""
    values: dict[str, Any] = dict.fromkeys(AccountingRow.__dataclass_fields__)
    values |= {
        "cluster": "alpha",
        "job_id": 42,
        "submit_epoch_s": 1000,
        "start_epoch_s": 1010,
        "end_epoch_s": 2000,
        "elapsed_seconds": 990,
        "suspended_seconds": 0,
        "state": "COMPLETED",
    }
    return AccountingRow(**{**values, **changes})


def planned(
    *rows: AccountingRow, field: str = "SystemComment", version: tuple[int, int] = NEW, **changes: Any
) -> Step:
    """What is to be done about a target, given these rows."""
    return step(target(**changes), rows, field=field, version=version, composing=COMPOSING)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("42", {}),
        ("7_0", {"array_job_id": 7, "array_task_id": 0}),
        ("7_3", {"job_id": 7, "array_job_id": 7, "array_task_id": 3}),
        ("7+0", {"job_id": 7, "het_job_id": 7, "het_offset": 0}),
    ],
)
def test_addresses(expected: str, changes: dict[str, Any]) -> None:
    """A task by its array, a component by its leader, any other job by its raw id."""
    assert expected == address(target(**changes))


@pytest.mark.parametrize("field", FIELDS)
def test_an_empty_field_gets_the_token(field: str) -> None:
    """In whichever field it is."""
    assert (TOKEN, "write") == ((done := planned(row(), field=field)).text, done.kind)


def test_a_field_that_is_ours_gets_the_new_token() -> None:
    """A token of ours is replaced; one that is right already is left."""
    assert TOKEN == planned(row(system_comment="ofu1:cov=0;gpuh=1;gpus=8;why=not_delivered")).text
    assert "written" == planned(row(system_comment=TOKEN)).kind


def test_others_text_is_kept_in_front() -> None:
    """Their text, one blank, our token."""
    assert f"rt#1 {TOKEN}" == planned(row(system_comment="rt#1")).text


@pytest.mark.parametrize(
    "text",
    ['a "quoted" word', "it's", "C:\\x", "tab\there", "two\nlines", " x", "x ", "größe", "\x1b[0m", "\x7f"],
)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_no_version_carries_over_is_left_alone(text: str, version: tuple[int, int]) -> None:
    """Nothing is written, and it says why."""
    done = planned(row(system_comment=text), version=version)
    if text == "x ":  # it does not stand at an end once the token follows
        assert ("write", f"x  {TOKEN}") == (done.kind, done.text)
        return
    assert "left_alone" == done.kind
    assert done.message


def test_capitals_depend_on_the_version() -> None:
    """Before 23.02 sacctmgr writes them small."""
    assert "left_alone" == planned(row(system_comment="RT#1"), version=OLD).kind
    assert "left_alone" == planned(row(system_comment="RT#1"), version=(22, 99)).kind
    assert "write" == planned(row(system_comment="RT#1"), version=(23, 2)).kind


def test_what_does_not_fit_into_the_column_is_left_alone() -> None:
    """Slurm would cut it without a word."""
    room = LONGEST_BYTES - len(TOKEN) - 1
    assert "write" == planned(row(system_comment="x" * room)).kind
    assert "left_alone" == planned(row(system_comment="x" * (room + 1))).kind


def test_a_newer_version_is_not_overwritten() -> None:
    """An ofu2 token is a newer slurm-ofu's."""
    assert "left_alone" == planned(row(system_comment="ofu2:whatever=1")).kind


def test_the_last_row_must_be_our_run() -> None:
    """Another life, or another job by that id, supersedes it; one that runs is not written."""
    assert "superseded" == planned(row(), row(submit_epoch_s=5000, state="PENDING", end_epoch_s=None)).kind
    assert "superseded" == planned(row(submit_epoch_s=999)).kind
    assert "failed" == planned(row(end_epoch_s=None, state="RUNNING")).kind
    assert "failed" == planned().kind
    assert "failed" == planned(row(cluster="beta")).kind
    assert "write" == planned(row(submit_epoch_s=10, state="REQUEUED"), row()).kind


def test_an_address_that_reaches_other_jobs_is_left_alone() -> None:
    """The id of an old array, or of the leader of an old heterogeneous job."""
    task = row(job_id=43, submit_epoch_s=1, array_job_id=42, array_task_id=0)
    component = row(job_id=43, submit_epoch_s=1, het_job_id=42, het_offset=1)
    assert ["left_alone"] * 2 == [planned(row(), other).kind for other in (task, component)]
    assert "write" == planned(row(array_job_id=7, array_task_id=1), array_job_id=7, array_task_id=1).kind
    again = row(job_id=50, submit_epoch_s=1, array_job_id=7, array_task_id=1)
    mine = row(array_job_id=7, array_task_id=1)
    assert "left_alone" == planned(mine, again, array_job_id=7, array_task_id=1).kind


def test_segments_of_a_resized_job_are_one_run() -> None:
    """sacctmgr writes into all of them, so they must hold the same text."""
    first, last = row(submit_epoch_s=10, state="RESIZING"), row()
    assert "write" == planned(first, last).kind
    assert "left_alone" == planned(replace(first, system_comment="rt#1"), last).kind


def test_an_odd_cluster_name_is_never_put_on_a_command_line() -> None:
    """It would not be one word for sacctmgr."""
    odd = "alpha set x"
    assert "left_alone" == planned(row(cluster=odd), cluster=odd).kind


def test_what_accounting_holds_afterwards_decides() -> None:
    """Written means read back byte for byte; else it failed, and the message says what stands there."""
    wanted = planned(row())
    after = outcome(wanted, [row(system_comment=TOKEN)], field="SystemComment", said="")
    assert "written" == after.kind
    other = outcome(wanted, [row(system_comment=TOKEN.upper())], field="SystemComment", said="denied")
    assert "failed" == other.kind
    assert TOKEN.upper() in (other.message or "")
    assert "denied" in (other.message or "")
    newer = row(submit_epoch_s=9999, end_epoch_s=None, state="PENDING")
    assert "superseded" == outcome(wanted, [row(), newer], field="SystemComment", said="").kind


@pytest.mark.property
@given(TEXTS, st.sampled_from([OLD, NEW]))
def test_what_is_written_is_one_quoted_word_of_one_line(text: str, version: tuple[int, int]) -> None:
    """Whatever stands in a field: to sacctmgr it can be nothing but a value, and both texts are in it."""
    done = planned(row(system_comment=text or None), version=version)
    if done.kind != "write":
        assert done.kind == "left_alone"
        return
    line = commands([done], "SystemComment")
    match = re.fullmatch(
        r'modify job where cluster=alpha jobid=42 set SystemComment="([ -~]+)"\n', line, re.ASCII
    )
    assert match is not None
    assert (text if find_token(text) is None else text[:0]) in match[1]
    assert not set(match[1]) & set("\"'\\")
    assert version == NEW or match[1] == match[1].lower()
    assert hindrance(match[1], version) is None


@pytest.mark.property
@given(TEXTS)
def test_writing_twice_changes_nothing(text: str) -> None:
    """What was written is found written, and a new token takes only the old one's place."""
    done = planned(row(system_comment=text or None))
    if done.kind == "write":
        assert "written" == planned(row(system_comment=done.text)).kind
        other = TOKEN.replace("0.4", "0.3")
        again = planned(row(system_comment=done.text), token=other)
        assert done.text.replace(TOKEN, other) == again.text
