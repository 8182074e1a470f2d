"""What a run is called, in Slurm's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.reports.run_words import display_job_id, elapsed, final_state, ordinal, sums_of
from tests.figures.examples import measured, unmeasured
from tests.reports.examples import job_row, run


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({}, "1001"),
        ({"array_job_id": 1000, "array_task_id": 0}, "1000_0"),
        ({"array_job_id": 1001, "array_task_id": 3}, "1001_3"),  # the last task has the array's own id
        ({"het_job_id": 1001, "het_offset": 0}, "1001+0"),
        ({"het_job_id": 1000, "het_offset": 1}, "1000+1"),
        ({"array_job_id": 1000}, "1001"),
        ({"het_offset": 1}, "1001"),
    ],
)
def test_job_ids_are_shown_as_slurm_shows_them(told: dict[str, Any], shown: str) -> None:
    """An array's task is 123_4 and a component 123+1 once accounting has told; till then the id is raw."""
    assert shown == display_job_id(run(**told))


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (None, None),
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED by 1000", "CANCELLED by 1000"),
        ("RESIZING", None),
        ("RUNNING", None),
    ],
)
def test_a_state_that_is_passed_through_is_none(state: str | None, final: str | None) -> None:
    """RESIZING, RUNNING and the like are not the state in which a job ended."""
    assert final == final_state(run(state=state))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (59.9, "00:00:59"), (720, "00:12:00"), (86399, "23:59:59"), (93784, "1-02:03:04")],
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    """A length of time is written as sacct writes it."""
    assert text == elapsed(seconds)


@pytest.mark.property
@given(st.integers(0, 10**8))
def test_lengths_of_time_lose_nothing(seconds: int) -> None:
    """What is written adds up to the seconds it was made of."""
    days, _, clock = elapsed(seconds).rpartition("-")
    hours, minutes, rest = map(int, clock.split(":"))
    assert seconds == int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def test_ordinals() -> None:
    """English has it 2nd, 3rd, 4th, but 11th, 12th and 13th."""
    assert ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"] == [
        ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)
    ]


def test_a_silent_run_has_its_reason() -> None:
    """A run that no node spoke of has nobody to say why: not_delivered. Any other reason stays."""
    assert ("not_delivered",) == sums_of(job_row(sums=unmeasured(reasons=()), heard=False)).reasons
    assert ("opted_out",) == sums_of(job_row(sums=unmeasured(reasons=("opted_out",)), heard=False)).reasons
    assert () == sums_of(job_row(sums=measured(reasons=()))).reasons
