"""Windows and their slices: every row of a window once, whatever slurmdbd holds and whenever it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.slurm import accounting_window as windows
from slurm_ofu.slurm.accounting_text import Dated
from slurm_ofu.values import AccountingRow

#: Machines are slow and shared.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DAY = 86_400
T0 = 1_700_000_000
NOW = T0 + 50 * DAY


def dated(
    job_id: int,
    *,
    start: int | None,
    end: int | None,
    submit: int | None = None,
    eligible: int | None = None,
) -> Dated:
    """A row of which only the times matter."""
    submitted = submit if submit is not None else start if start is not None else eligible or T0
    row = AccountingRow(
        cluster="c1",
        job_id=job_id,
        submit_epoch_s=submitted,
        start_epoch_s=start,
        end_epoch_s=end,
        elapsed_seconds=0,
        suspended_seconds=0,
        state="COMPLETED",
        exit_code=None,
        user=None,
        uid=None,
        account=None,
        partition=None,
        qos=None,
        job_name=None,
        array_job_id=None,
        array_task_id=None,
        het_job_id=None,
        het_offset=None,
        node_list=None,
        node_count=None,
        alloc_tres=None,
        gpu_count=None,
    )
    return row, submitted if eligible is None and start is not None else eligible


class Database:
    """Answers as slurmdbd does: rows eligible before a slice's end and not over before its start."""

    def __init__(self, rows: Sequence[Dated]) -> None:
        self.rows = list(rows)
        self.slices: list[windows.Slice] = []

    def ask(self, part: windows.Slice) -> Iterator[list[Dated]]:
        """The rows of one slice, in two batches."""
        self.slices.append(part)
        found: list[Dated] = [
            (row, eligible)
            for row, eligible in self.rows
            if eligible is not None and eligible < part.end and (row.end_epoch_s or 1 << 40) >= part.start
        ]
        yield from (found[:3], [], found[3:])

    def ask_jobs(self, job_ids: Sequence[int]) -> Iterator[list[Dated]]:
        """The rows of some jobs."""
        yield [one for one in self.rows if one[0].job_id in job_ids]

    def window(self, start: int, end: int) -> list[int]:
        """The jobs of a window, in the order in which they are told."""
        told = windows.each_once(start, end, self.ask, self.ask_jobs, now_epoch_s=NOW)
        return [row.job_id for row in told]


#: Round, so that many rows and slices begin and end together.
SPANS = st.integers(0, 200).map(lambda quarters: quarters * DAY // 4)
TIMES = SPANS.map(lambda seconds: T0 + seconds)


@st.composite
def databases(draw: st.DrawFn) -> list[Dated]:
    """Rows of jobs that ended, go on, wait, or were cancelled before or after they could have started."""
    rows = []
    for job_id in range(draw(st.integers(0, 30))):
        begin = draw(TIMES)
        end = begin + draw(st.one_of(st.just(0), SPANS, st.integers(0, 3 * DAY)))
        rows.append(
            draw(
                st.sampled_from(
                    [
                        dated(job_id, start=begin, end=end),
                        dated(job_id, start=begin, end=None),
                        dated(job_id, start=None, end=None, eligible=begin),
                        dated(job_id, start=None, end=end, eligible=begin),
                        dated(job_id, start=None, end=begin, eligible=begin + 10),
                        dated(job_id, start=None, end=end, eligible=None),
                        dated(job_id, start=begin - DAY, end=end, submit=begin, eligible=begin),
                    ]
                )
            )
        )
    return rows


@pytest.mark.property
@QUICK
@given(rows=databases(), start=TIMES, seconds=st.one_of(SPANS, st.just(60 * DAY)))
def test_every_row_once(rows: list[Dated], start: int, seconds: int) -> None:
    """Read in slices, a window holds exactly the rows with a part in it, each once."""
    end = start + seconds
    expected = [one[0].job_id for one in rows if windows.is_in(one, start, end)]
    assert expected == sorted(Database(rows).window(start, end))


@pytest.mark.property
@QUICK
@given(rows=databases(), start=TIMES, first=SPANS, second=SPANS)
def test_adjacent_windows(rows: list[Dated], start: int, first: int, second: int) -> None:
    """Two adjacent windows hold together what one over both holds."""
    database = Database(rows)
    both = database.window(start, start + first) + database.window(start + first, start + first + second)
    assert set(both) == set(database.window(start, start + first + second))


def test_slices_touch() -> None:
    """Slices follow each other without gap or overlap, the last one ends with the window and says so."""
    database = Database([])
    database.window(T0, T0 + 40 * DAY)
    slices = database.slices
    assert (T0, T0 + 40 * DAY) == (slices[0].start, slices[-1].end)
    assert [part.end for part in slices[:-1]] == [part.start for part in slices[1:]]
    assert [*[False] * (len(slices) - 1), True] == [part.last for part in slices]


def test_slices_follow_the_rows() -> None:
    """Slices grow while little ends in them and shrink where much does, within bounds."""
    few, many = (windows.next_seconds(DAY, ended) for ended in (10, 10_000_000))
    assert (7 * DAY, DAY // 8) == (few, many)
    assert windows.SHORTEST_SLICE_SECONDS == windows.next_seconds(900, 10_000_000)


def test_the_future_is_one_slice() -> None:
    """A window that reaches beyond now costs no more calls than one up to now."""
    database = Database([])
    database.window(NOW - DAY // 2, 4_000_000_000)
    assert [(NOW - DAY // 2, 4_000_000_000)] == [(part.start, part.end) for part in database.slices]


def test_ended_while_being_read() -> None:
    """A row whose end comes to be known after its slice was read, and lies in it, is told all the same."""
    database = Database([dated(7, start=T0, end=None), dated(8, start=T0, end=None)])

    def ask(part: windows.Slice) -> Iterator[list[Dated]]:
        yield from database.ask(part)
        database.rows[0] = dated(7, start=T0, end=T0 + 100)

    told = windows.each_once(T0, T0 + 9 * DAY, ask, database.ask_jobs, now_epoch_s=NOW)
    assert [(8, None), (7, T0 + 100)] == [(row.job_id, row.end_epoch_s) for row in told]


@pytest.mark.parametrize(
    ("one", "window", "expected"),
    [
        (dated(1, start=100, end=200), (200, 300), False),
        (dated(1, start=100, end=200), (199, 300), True),
        (dated(1, start=100, end=200), (0, 100), False),
        (dated(1, start=100, end=100), (100, 101), True),
        (dated(1, start=100, end=100), (99, 100), False),
        (dated(1, start=100, end=None), (5000, 5001), True),
        (dated(1, start=100, end=None), (5000, 5000), False),
        (dated(1, start=None, end=150, eligible=100), (120, 130), True),
        (dated(1, start=None, end=90, eligible=100), (0, 1000), False),
        (dated(1, start=None, end=90, eligible=None), (0, 1000), False),
        (dated(1, start=100, end=300, submit=200, eligible=100), (100, 200), False),
    ],
)
def test_parts(one: Dated, window: tuple[float, float], expected: bool) -> None:
    """Ends are open, a row without length is where it began, a resized segment begins with the resize."""
    assert expected is windows.is_in(one, *window)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (1_700_000_000.9, 1_700_000_100.1, (1_700_000_000, 1_700_000_101)),
        (0, 1_700_000_000, (1_000_000_000, 1_700_000_000)),
        (float("-inf"), float("inf"), (1_000_000_000, 4_102_444_800)),
        (1_700_000_000, 1_600_000_000, (1_700_000_000, 1_700_000_000)),
    ],
)
def test_whole_seconds(start: float, end: float, expected: tuple[int, int]) -> None:
    """What is asked covers the window, in seconds that sacct takes."""
    window = windows.whole(start, end)
    assert expected == (window.start, window.end)
