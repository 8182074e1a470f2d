"""Which rows lie in a window of time, and in which of its slices each is told. Pure.

slurmdbd and sacct hold the whole answer in memory, so a large window is asked slice by slice. A row that lies
in several slices is told in the one in which it ends, or in the last one when it goes on beyond the window.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slurm_ofu.slurm.accounting_text import Dated
from slurm_ofu.values import AccountingRow

Key = tuple[str, int, int]

FIRST_SLICE_SECONDS = 86_400
SHORTEST_SLICE_SECONDS = 900
LONGEST_SLICE_SECONDS = 7 * 86_400
ROWS_PER_SLICE = 50_000
#: sacct takes no epoch of less than seven digits, and Slurm began in 2002.
EARLIEST_EPOCH_S = 1_000_000_000
#: Far enough: the year 2100.
LATEST_EPOCH_S = 4_102_444_800


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Part of a window: from `start` (included) to `end`; `last` when nothing of the window follows."""

    start: int
    end: int
    last: bool


def whole(start_epoch_s: float, end_epoch_s: float) -> Slice:
    """The window, in one piece and in whole seconds."""
    start, end = (min(max(one, EARLIEST_EPOCH_S), LATEST_EPOCH_S) for one in (start_epoch_s, end_epoch_s))
    return Slice(start=math.floor(start), end=max(math.floor(start), math.ceil(end)), last=True)


def following(window: Slice, start: int, seconds: int, now_epoch_s: float) -> Slice:
    """The slice of a window that begins at `start`. Nothing ends in the future: that is one slice."""
    end = start + seconds
    end = window.end if end >= min(window.end, now_epoch_s) else end
    return Slice(start=start, end=end, last=end == window.end)


def next_seconds(seconds: int, ended: int, rows_per_slice: int = ROWS_PER_SLICE) -> int:
    """How long the next slice should be, after one in which so many rows ended."""
    factor = min(8.0, max(0.125, rows_per_slice / max(1, ended)))
    return max(SHORTEST_SLICE_SECONDS, min(LONGEST_SLICE_SECONDS, int(seconds * factor)))


def life(dated: Dated) -> tuple[int, float] | None:
    """From when to when a row counts (to infinity when it goes on); None: it never did.

    A job that started counts from there, a segment of a resized one from the resize, which is its
    submission. One that never started counts from when it could have.
    """
    row, eligible = dated
    end = math.inf if row.end_epoch_s is None else row.end_epoch_s
    if row.start_epoch_s is not None:
        begin = max(row.start_epoch_s, row.submit_epoch_s)
        return begin, max(begin, end)
    return None if eligible is None or eligible > end else (eligible, end)


def is_in(dated: Dated, start_epoch_s: float, end_epoch_s: float) -> bool:
    """Whether a row has any part in start <= t < end; one that lasted no time is where it began."""
    lived = life(dated)
    return lived is not None and start_epoch_s < end_epoch_s and _touches(lived, start_epoch_s, end_epoch_s)


def _touches(lived: tuple[int, float], start_epoch_s: float, end_epoch_s: float) -> bool:
    begin, end = lived
    return begin < end_epoch_s and (end > start_epoch_s or begin >= start_epoch_s)


def _is_told_in(lived: tuple[int, float], part: Slice) -> bool:
    """Whether a row of the window is told in this slice of it."""
    return part.last if lived[1] >= part.end else lived[1] >= part.start


def key_of(row: AccountingRow) -> Key:
    """What a row is known by."""
    return row.cluster, row.job_id, row.submit_epoch_s


def each_once(
    start_epoch_s: float,
    end_epoch_s: float,
    ask: Callable[[Slice], Iterator[Iterable[Dated]]],
    ask_jobs: Callable[[Sequence[int]], Iterator[Iterable[Dated]]],
    *,
    now_epoch_s: float,
    rows_per_slice: int = ROWS_PER_SLICE,
) -> Iterator[AccountingRow]:
    """Every row of a window, once, asked slice by slice.

    `ask` gives at least the rows that have a part in a slice, `ask_jobs` all rows of some jobs; both in
    batches of any size.
    """
    window, seconds = whole(start_epoch_s, end_epoch_s), FIRST_SLICE_SECONDS
    start = window.start
    going_on: set[Key] = set()
    while start < window.end:
        part, ended = following(window, start, seconds, now_epoch_s), 0
        for dated in itertools.chain.from_iterable(ask(part)):
            row, lived = dated[0], life(dated)
            if row.end_epoch_s is None and not part.last:
                going_on.add(key_of(row))
            elif lived is not None and _is_told_in(lived, part):
                ended += 1
                if going_on:
                    going_on.discard(key_of(row))
                if _touches(lived, start_epoch_s, end_epoch_s):
                    yield row
        start, seconds = part.end, next_seconds(seconds, ended, rows_per_slice)
    # What went on when its slice was asked, and whose end slurmdbd only then put there.
    for dated in itertools.chain.from_iterable(ask_jobs(sorted({job_id for _, job_id, _ in going_on}))):
        if key_of(dated[0]) in going_on and is_in(dated, start_epoch_s, end_epoch_s):
            yield dated[0]
