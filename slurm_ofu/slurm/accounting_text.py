"""What `sacct -P` prints, as accounting rows. Pure: text in, rows out.

A job's name and comments may hold anything: newlines, pipes, every control character. So the caller puts a
delimiter between the columns that nobody can guess, free text comes last, and after it the raw job id is
printed a second time: no newline is in it, so the first newline after it ends the row.
"""

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.values import AccountingRow

#: A row, and when it became eligible to run: it is in no window before that.
Dated = tuple[AccountingRow, int | None]

FIRM_COLUMNS = (
    "JobID", "JobIDRaw", "Cluster", "State", "ExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "Suspended", "TimelimitRaw", "NNodes", "NodeList", "AllocTRES", "User", "UID", "Account", "Partition",
    "QOS", "Restarts", "SLUID",
)  # fmt: skip
FREE_COLUMNS = ("JobName", "Comment", "SystemComment", "AdminComment")
COLUMNS = FIRM_COLUMNS + FREE_COLUMNS
MARK = "JobIDRaw"
#: Columns that a version of Slurm may lack: what they say is then not known.
OPTIONAL = frozenset({"UID", "QOS", "Restarts", "SLUID", "Comment", "SystemComment", "AdminComment"})
NO_TIME = frozenset({"Unknown", "None", "N/A", ""})
NO_NODES = frozenset({"", "None assigned", "(null)", "(unknown)", "None", "Unknown"})
LONGEST_ROW = 8 << 20  # characters; five texts of 64 KiB at most are in one
_DAYS = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which of our columns this sacct has."""

    columns: tuple[str, ...]  # in the order of COLUMNS
    absent: tuple[int, ...]  # places in COLUMNS

    @property
    def argument(self) -> str:
        """For `sacct -o`."""
        return ",".join((*self.columns, MARK))


def layout_of(helpformat: str) -> Layout:
    """What `sacct --helpformat` prints → the columns to ask for."""
    there = {name.lower() for name in helpformat.split()}
    missing = [name for name in COLUMNS if name.lower() not in there]
    if needed := [name for name in missing if name not in OPTIONAL]:
        raise AccountingUnusable(
            f"sacct --helpformat names no {', '.join(needed)}: this Slurm is too old, or that is not sacct"
        )
    return Layout(
        columns=tuple(name for name in COLUMNS if name not in missing),
        absent=tuple(COLUMNS.index(name) for name in missing),
    )


def parse(chunks: Iterable[bytes], layout: Layout, delimiter: str) -> Iterator[Dated]:
    """What sacct prints → rows, as `parse_batches` does."""
    return itertools.chain.from_iterable(parse_batches(chunks, layout, delimiter))


def parse_batches(chunks: Iterable[bytes], layout: Layout, delimiter: str) -> Iterator[list[Dated]]:
    """What sacct prints, chunk by chunk → the rows that ended in each. Invalid UTF-8 becomes U+FFFD.

    REVOKED rows (a federation's other copies of a job), and rows without a submission, are left out.

    Raises AccountingError, naming the place, for output that is not what was asked for.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for chunk in chunks:
        rest += decoder.decode(chunk)
        if delimiter in rest:
            pieces = rest.split(delimiter)
            rows, rest = _whole_rows(pieces, len(layout.columns), delimiter)
            yield _dated(rows, layout)
        if len(rest) > LONGEST_ROW:
            raise _unreadable("a row does not end", rest)
    if rest + decoder.decode(b"", final=True):
        raise _unreadable("it ends inside a row", rest)


def _whole_rows(pieces: list[str], columns: int, delimiter: str) -> tuple[list[list[str]], str]:
    """Cut into rows what stood between delimiters; what follows the last whole row comes back as text.

    The piece between two rows holds the mark that ends one, a newline, and the first column of the next.
    """
    rows = []
    first, at = pieces[0], 0
    while at + columns < len(pieces):
        mark, newline, following = pieces[at + columns].partition("\n")
        if not newline:
            break
        row = [first, *pieces[at + 1 : at + columns]]
        if mark != row[1]:
            raise _unreadable(f"a row begins with job {row[1]!r:.40} and ends with {mark!r:.40}", first)
        rows.append(row)
        first, at = following, at + columns
    return rows, delimiter.join([first, *pieces[at + 1 :]])


def _dated(rows: Iterable[list[str]], layout: Layout) -> list[Dated]:
    found = []
    for row in rows:
        for place in layout.absent:
            row.insert(place, "")
        try:
            dated = _row(row)
        except ValueError as error:
            raise _unreadable(f"{error} in the row of job {row[1]!r:.40}", row[0]) from None
        if dated is not None:
            found.append(dated)
    return found


def _row(fields: list[str]) -> Dated | None:
    """The columns of COLUMNS → a row; None: it is of no use. ValueError for one that sacct cannot print."""
    (
        display, raw, cluster, state, exit_code, submit, eligible, start, end, elapsed,
        suspended, time_limit, nodes, node_list, alloc_tres, user, uid, account, partition,
        qos, restarts, sluid, job_name, comment, system_comment, admin_comment,
    ) = fields  # fmt: skip
    submitted, word = epoch(submit), state_word(state)
    if submitted is None or word == "REVOKED":  # without a submission it has no key
        return None
    if not cluster:
        raise ValueError("no cluster")
    job_id, started, ended = number(raw), epoch(start), epoch(end)
    array, task, leader, offset = (None,) * 4 if display == raw else job_forms(display)
    allocated = node_list not in NO_NODES
    if not allocated and not alloc_tres and started == ended:
        started = None  # 22.05 gives a job that never started its end as its start
    row = AccountingRow(
        cluster=cluster,
        job_id=job_id,
        submit_epoch_s=submitted,
        start_epoch_s=started,
        end_epoch_s=ended,
        elapsed_seconds=number(elapsed),
        suspended_seconds=duration(suspended),
        state=word,
        exit_code=exit_code or None,
        user=user or None,
        uid=number(uid) if uid else None,
        account=account or None,
        partition=partition or None,
        qos=qos or None,
        job_name=job_name or None,
        array_job_id=array,
        array_task_id=task,
        het_job_id=leader,
        het_offset=offset,
        node_list=node_list if allocated else None,
        node_count=number(nodes) if allocated and nodes else None,
        alloc_tres=alloc_tres or None,
        gpu_count=gpu_count(alloc_tres),
        time_limit_seconds=number(time_limit) * 60 if time_limit.isdecimal() else None,
        restart_count=number(restarts) if restarts else None,
        sluid=sluid or None,
        comment=comment or None,
        system_comment=system_comment or None,
        admin_comment=admin_comment or None,
    )
    return row, epoch(eligible)


@lru_cache(256)
def state_word(state: str) -> str:
    """Its first word, of "CANCELLED by 1000"."""
    word = state.partition(" ")[0]
    if not word.replace("_", "").isalpha():
        raise ValueError(f"state {state!r:.40}")
    return word


def number(text: str) -> int:
    """A whole number that any database holds; ValueError for all else, such as 1_0, which int() takes."""
    if not (text.isdecimal() and len(text) <= 18):
        raise ValueError(f"{text!r:.40} is not a number")
    return int(text)


def epoch(text: str) -> int | None:
    """A time printed with SLURM_TIME_FORMAT=%s; None for each way of saying that there is none."""
    if text.isdecimal() and len(text) <= 18:
        return int(text) or None
    return None if text in NO_TIME else number(text)


@lru_cache(1024)
def duration(text: str) -> int:
    """[DD-]HH:MM:SS in seconds."""
    match = _DAYS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.40} is not a duration")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def job_forms(display: str) -> tuple[int | None, int | None, int | None, int | None]:
    """Array job, array task, leader, offset of a displayed job id: 3_0, 3_[1-5%2] (not yet split), 4+1."""
    array, underscore, task = display.partition("_")
    if underscore and array.isdecimal():
        return number(array), number(task) if task.isdecimal() else None, None, None
    leader, plus, offset = display.partition("+")
    if plus and leader.isdecimal() and offset.isdecimal():
        return None, None, number(leader), number(offset)
    raise ValueError(f"job id {display!r:.40}")


@lru_cache(4096)
def gpu_count(alloc_tres: str) -> int | None:
    """GPUs over all nodes: `gres/gpu`, or where that is absent the sum of its types; never both."""
    typed = None
    for item in alloc_tres.split(","):
        name, _, count = item.partition("=")
        if not count.isdecimal():
            continue
        if name == "gres/gpu":
            return number(count)
        if name.startswith("gres/gpu:"):
            typed = (typed or 0) + number(count)
    return typed


def _unreadable(what: str, near: str) -> AccountingError:
    return AccountingError(f"sacct's output cannot be read: {what}, near {near[:120]!r}")
