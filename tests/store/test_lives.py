"""Slurm's rows as lives, as they were seen on real clusters."""

import pytest

from slurm_ofu.store.lives import StoredRow, lives_of, node_shares
from slurm_ofu.values import AccountingRow
from tests.store.accounting_rows import START_S, make_row, resized
from tests.store.records import expand

DAY = 86400


def _lives(*rows: AccountingRow) -> list[tuple[int, int, int, bool]]:
    lives = lives_of([StoredRow(row=row) for row in rows])
    return [(len(life.segments), life.job, life.number, life.final) for life in lives]


@pytest.mark.parametrize("versions_start", [None, START_S + 2])
def test_a_resized_job_is_one_life_of_exact_seconds(versions_start: int | None) -> None:
    """6 GPUs for 2 s and 2 GPUs for 3 s are 18 GPU-seconds, wherever a version counts the second row from."""
    (life,) = lives_of([StoredRow(row=row) for row in resized(versions_start=versions_start)])
    shares = node_shares(life, expand)
    assert {"n1": 5.0, "n2": 2.0, "n3": 2.0} == {name: share.seconds for name, share in shares.items()}
    assert 18.0 == sum(share.seconds * (share.gpu_count or 0.0) for share in shares.values())
    assert (5, 0, 6) == (life.elapsed_seconds, life.suspended_seconds, life.gpu_count)


def test_each_segment_has_its_own_suspended_time() -> None:
    """Seen on 22.05 and 24.11: 3 s suspended before the resize, 4 s after; the second row says 4."""
    first = make_row(end=START_S + 10, suspended=3, state="RESIZING", node_list="n[1-3]", gpu_count=6)
    second = make_row(submit=START_S + 10, end=START_S + 19, elapsed=15, suspended=4, gpu_count=2)
    (life,) = lives_of([StoredRow(row=row) for row in (first, second)])
    shares = node_shares(life, expand)
    assert [("n1", 12.0, 7.0), ("n2", 7.0, 3.0), ("n3", 7.0, 3.0)] == [
        (name, share.seconds, share.suspended_seconds) for name, share in shares.items()
    ]
    assert (12, 7) == (life.elapsed_seconds, life.suspended_seconds)


def test_a_job_that_was_resized_last_goes_on() -> None:
    """The row after the resize was not read yet: nothing is over."""
    assert [(1, 0, 0, False)] == _lives(resized()[0])


def test_the_next_segment_comes_at_once() -> None:
    """C57: the row of a job that had the same id years later is none, nor is another user's."""
    later = make_row(start=START_S + 400 * DAY, end=START_S + 401 * DAY)
    assert [(1, 0, 0, False), (1, 1, 0, True)] == _lives(resized()[0], later)
    other = make_row(start=START_S + 50, end=START_S + 60, uid=2000)
    assert [(1, 0, 0, False), (1, 1, 0, True)] == _lives(resized()[0], other)


def test_lives_are_counted_within_their_job() -> None:
    """Requeued lives count on; the id of another user, or of another year, begins anew."""
    lives = _lives(
        make_row(state="NODE_FAIL", end=START_S + 50),
        make_row(start=START_S + 200, end=START_S + 300, state="REQUEUED"),
        make_row(start=START_S + 500, end=START_S + 600, uid=2000, user="eve"),
        make_row(start=START_S + 400 * DAY, end=START_S + 401 * DAY),
    )
    assert [(1, 0, 0, True), (1, 0, 1, True), (1, 1, 0, True), (1, 2, 0, True)] == lives


def test_a_restart_count_that_does_not_grow_begins_anew() -> None:
    """A controller that lost its state gives the same id to the same user again within the hour."""
    rows = [
        make_row(end=START_S + 50, restart_count=0),
        make_row(start=START_S + 200, end=START_S + 300, restart_count=0),
    ]
    assert [(1, 0, 0, True), (1, 1, 0, True)] == _lives(*rows)


@pytest.mark.parametrize(
    "row",
    [
        make_row(start=None, end=START_S, state="CANCELLED"),
        make_row(start=None, end=None, state="PENDING"),
        make_row(state="REVOKED"),
    ],
    ids=["cancelled", "pending", "revoked"],
)
def test_what_never_ran_here_is_no_life(row: AccountingRow) -> None:
    """C54: never started, pending, or run by another cluster of the federation."""
    assert [] == _lives(row)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_life_that_goes_on_is_not_final(state: str) -> None:
    """C49: no end, or a state that has more to come."""
    assert [(1, 0, 0, False)] == _lives(make_row(end=None, state=state))


def test_a_final_state_without_an_end_goes_on() -> None:
    """C49: End=Unknown right after the job's end: the row is read again later."""
    assert [(1, 0, 0, False)] == _lives(make_row(end=None, state="COMPLETED"))
