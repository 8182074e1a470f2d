"""What sacct prints, parsed: laws over generated tables, and each spelling that Slurm has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.slurm import accounting_text as text
from slurm_ofu.values import AccountingRow
from tests.slurm.fake_slurm import printed

#: Machines are slow and shared.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DELIMITER = "\x1fTv3x_k-Q"
WHOLE = text.layout_of(" ".join(text.COLUMNS))
FINISHED = {
    "JobID": "53",
    "JobIDRaw": "53",
    "Cluster": "c1",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "1700000000",
    "Eligible": "1700000001",
    "Start": "1700000002",
    "End": "1700000102",
    "ElapsedRaw": "90",
    "Suspended": "00:00:10",
    "TimelimitRaw": "60",
    "NNodes": "2",
    "NodeList": "n[1-2]",
    "AllocTRES": "billing=2,cpu=2,gres/gpu:h100=8,gres/gpu=8,mem=200M,node=2",
    "User": "alice",
    "UID": "1000",
    "Account": "astro",
    "Partition": "gpu",
    "QOS": "normal",
    "Restarts": "0",
    "SLUID": "s1",
    "JobName": "train",
    "Comment": "",
    "SystemComment": "",
    "AdminComment": "",
}


def parse(data: bytes, sizes: Sequence[int] = ()) -> list[text.Dated]:
    """Parse output that comes in pieces of these sizes, and the rest at once."""
    return list(text.parse(pieces(data, sizes), WHOLE, DELIMITER))


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The bytes, cut."""
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


def row(**changed: str) -> AccountingRow:
    """The row of a finished job with some columns changed."""
    [dated] = parse(printed({**FINISHED, **changed}, DELIMITER))
    return dated[0]


def test_finished_job() -> None:
    """Every column of a finished job is where it belongs, in our units."""
    expected = AccountingRow(
        cluster="c1",
        job_id=53,
        submit_epoch_s=1700000000,
        start_epoch_s=1700000002,
        end_epoch_s=1700000102,
        elapsed_seconds=90,
        suspended_seconds=10,
        state="COMPLETED",
        exit_code="0:0",
        user="alice",
        uid=1000,
        account="astro",
        partition="gpu",
        qos="normal",
        job_name="train",
        array_job_id=None,
        array_task_id=None,
        het_job_id=None,
        het_offset=None,
        node_list="n[1-2]",
        node_count=2,
        alloc_tres="billing=2,cpu=2,gres/gpu:h100=8,gres/gpu=8,mem=200M,node=2",
        gpu_count=8,
        time_limit_seconds=3600,
        restart_count=0,
        sluid="s1",
    )
    assert [(expected, 1700000001)] == parse(printed(FINISHED, DELIMITER))


@pytest.mark.parametrize(
    ("display", "expected"),
    [
        ("3_0", (3, 0, None, None)),
        ("3_[1-5]", (3, None, None, None)),
        ("3_[1,3-5%2]", (3, None, None, None)),
        ("4+0", (None, None, 4, 0)),
        ("4+1", (None, None, 4, 1)),
    ],
)
def test_job_id_forms(display: str, expected: tuple[int | None, ...]) -> None:
    """A displayed id names the array and task, or the leader and offset."""
    found = row(JobID=display)
    assert expected == (found.array_job_id, found.array_task_id, found.het_job_id, found.het_offset)
    assert 53 == found.job_id


@pytest.mark.parametrize("spelling", ["Unknown", "None", "0", ""])
def test_no_time(spelling: str) -> None:
    """Each way to say that there is no time is None."""
    found = row(Start=spelling, End=spelling)
    assert (None, None) == (found.start_epoch_s, found.end_epoch_s)


def test_never_started() -> None:
    """22.05 gives a job that never started its end as its start; it has no nodes, and none are counted."""
    found = row(Start="1700000102", NodeList="None assigned", AllocTRES="", ElapsedRaw="0", NNodes="1")
    assert (None, 1700000102) == (found.start_epoch_s, found.end_epoch_s)
    assert (None, None, None, None) == (found.node_list, found.node_count, found.alloc_tres, found.gpu_count)


@pytest.mark.parametrize(
    ("state", "word"),
    [("CANCELLED by 1300204", "CANCELLED"), ("NODE_FAIL", "NODE_FAIL"), ("RESIZING", "RESIZING")],
)
def test_states(state: str, word: str) -> None:
    """A state is its first word."""
    assert word == row(State=state).state


def test_revoked() -> None:
    """A federation's revoked sibling is no row; the rows around it are."""
    data = b"".join(
        printed({**FINISHED, "JobID": i, "JobIDRaw": i, "State": state}, DELIMITER)
        for i, state in (("1", "COMPLETED"), ("2", "REVOKED"), ("3", "FAILED"))
    )
    assert [1, 3] == [dated[0].job_id for dated in parse(data)]


@pytest.mark.parametrize(
    ("tres", "count"),
    [
        ("billing=1,cpu=1,gres/gpu:h100=2,gres/gpu=2,mem=100M,node=1", 2),
        ("gres/gpu=2,gres/gpu:a100=1,gres/gpu:h100=1", 2),
        ("gres/gpu:a100=1,gres/gpu:h100=3", 4),
        ("cpu=4,gres/gpumem=80G,gres/gpuutil=100", None),
        ("cpu=1,energy=18446744073709551614,mem=1G", None),
        ("gres/gpu=0", 0),
        ("", None),
    ],
)
def test_gpu_count(tres: str, count: int | None) -> None:
    """gres/gpu is the count; only where it is absent are the types summed; without either none is known."""
    assert count == row(AllocTRES=tres).gpu_count


@pytest.mark.parametrize(
    ("printed_as", "seconds"),
    [("00:00:00", 0), ("00:01:05", 65), ("1-02:03:04", 93784), ("100-00:00:01", 8640001)],
)
def test_suspended(printed_as: str, seconds: int) -> None:
    """Suspended time is printed as [DD-]HH:MM:SS."""
    assert seconds == row(Suspended=printed_as).suspended_seconds


@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", "INVALID", ""])
def test_no_time_limit(limit: str) -> None:
    """A limit that is no number of minutes is none."""
    assert row(TimelimitRaw=limit).time_limit_seconds is None


def test_absent_columns() -> None:
    """Columns that a version lacks are not asked for, and not known; the others stay where they are."""
    layout = text.layout_of(" ".join(name for name in text.COLUMNS if name not in ("Restarts", "SLUID")))
    assert "Restarts" not in layout.argument
    names = [*layout.columns, text.MARK]
    assert names == layout.argument.split(",")
    data = (DELIMITER.join({**FINISHED, "JobName": "x"}[name] for name in names) + "\n").encode()
    [(found, _)] = text.parse([data], layout, DELIMITER)
    assert (None, None, "x", "normal") == (found.restart_count, found.sluid, found.job_name, found.qos)


def test_needed_columns() -> None:
    """Without a column that no row can do without, sacct cannot be used; the message names it."""
    with pytest.raises(AccountingUnusable, match="no ElapsedRaw, AllocTRES"):
        text.layout_of(" ".join(name for name in text.COLUMNS if name not in ("ElapsedRaw", "AllocTRES")))


def test_invalid_utf_8() -> None:
    """Bytes that are not UTF-8 become U+FFFD each, also where they stand before a delimiter."""
    broken = b"caf\xc3".decode("utf-8", "surrogateescape")
    found = row(JobName=broken, Comment=b"\xff\xe9".decode("utf-8", "surrogateescape"))
    assert ("caf\ufffd", "\ufffd\ufffd") == (found.job_name, found.comment)


@pytest.mark.parametrize(
    "column_and_value",
    [
        ("Submit", "1_0"),
        ("Start", "2026-03-29T02:30:00"),
        ("ElapsedRaw", ""),
        ("ElapsedRaw", "-5"),
        ("State", ""),
        ("Cluster", ""),
        ("State", "7"),
        ("JobIDRaw", "53.batch"),
        ("JobID", "fifty"),
        ("Suspended", "INVALID"),
        ("UID", "alice"),
        ("End", "9" * 5000),
    ],
)
def test_what_sacct_cannot_print(column_and_value: tuple[str, str]) -> None:
    """A value that its column cannot have is an error that shows it: columns must have got out of step."""
    with pytest.raises(AccountingError, match="sacct's output cannot be read") as raised:
        row(**dict([column_and_value]))
    assert len(str(raised.value)) < 400


def test_row_cut_short() -> None:
    """Output that ends inside a row is an error, wherever the cut is; between rows it is not."""
    first, second = (
        printed(FINISHED, DELIMITER),
        printed({**FINISHED, "JobID": "54", "JobIDRaw": "54"}, DELIMITER),
    )
    for cut in range(1, len(second) - 1):
        with pytest.raises(AccountingError):
            parse(first + second[:cut])
    assert 2 == len(parse(first + second))


def test_endless_row() -> None:
    """A row that does not end is an error, not a growing memory."""

    def endless() -> Iterator[bytes]:
        yield b"1" + DELIMITER.encode()
        for _ in range(10_000):
            yield b"x" * 65536
        pytest.fail("all of it was read")

    with pytest.raises(AccountingError, match="does not end"):
        list(text.parse(endless(), WHOLE, DELIMITER))


ANYTHING = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
CONTROL = st.text(
    st.sampled_from([chr(code) for code in range(1, 32)] + ["\x7f", "\x85", "\u2028", "|"]), max_size=8
)
FREE = st.one_of(ANYTHING, CONTROL, st.sampled_from(["\n", "1\n2", "\x1f", "\x1fTv3x_k-", "53\n53\x1f53"]))
TIMES = st.one_of(st.sampled_from(["Unknown", "None"]), st.integers(1, 4_000_000_000).map(str))


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, str]]:
    """Rows with any texts, as a database may hold them."""
    rows = []
    for number in range(draw(st.integers(0, 5))):
        job_id = str(draw(st.integers(1, 2**31)))
        rows.append(
            {
                **FINISHED,
                "JobIDRaw": job_id,
                "JobID": draw(st.sampled_from([job_id, f"{job_id}_{number}", f"{job_id}+{number}"])),
                "Start": draw(TIMES),
                "End": draw(TIMES),
                "TimelimitRaw": draw(st.sampled_from(["UNLIMITED", "60"])),
                **{name: draw(FREE) for name in text.FREE_COLUMNS},
            }
        )
    return rows


@pytest.mark.property
@QUICK
@given(table=tables(), sizes=st.lists(st.integers(0, 700), max_size=12))
def test_any_table_comes_back(table: list[dict[str, str]], sizes: list[int]) -> None:
    """Any table, printed as sacct prints it and read in any pieces, comes back exactly."""
    found = parse(b"".join(printed(fields, DELIMITER) for fields in table), sizes)
    assert [seen(fields) for fields in table] == [
        (
            row.job_id,
            row.start_epoch_s,
            row.end_epoch_s,
            row.job_name or "",
            row.comment or "",
            row.system_comment or "",
            row.admin_comment or "",
        )
        for row, _ in found
    ]


def seen(fields: dict[str, str]) -> tuple[Any, ...]:
    """What a row of the table says."""
    times = [int(fields[name]) if fields[name].isdecimal() else None for name in ("Start", "End")]
    return (int(fields["JobIDRaw"]), *times, *(fields[name] for name in text.FREE_COLUMNS))


@pytest.mark.property
@QUICK
@given(data=st.binary(max_size=300), places=st.lists(st.integers(0, 300), max_size=40))
def test_any_bytes(data: bytes, places: list[int]) -> None:
    """Any bytes, with delimiters anywhere, are rows or an AccountingError."""
    for place in places:
        data = data[:place] + DELIMITER.encode() + data[place:]
    with suppress(AccountingError):
        assert isinstance(parse(data), list)


@pytest.mark.property
@QUICK
@given(values=st.lists(FREE, min_size=len(text.COLUMNS), max_size=len(text.COLUMNS)))
def test_any_values(values: list[str]) -> None:
    """A row of as many columns as asked for, with any values, is a row or an AccountingError."""
    fields = dict(zip(text.COLUMNS, values, strict=True))
    with suppress(AccountingError):
        assert len(parse(printed(fields, DELIMITER))) <= 1
