"""What travels, before it is signed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.delivery.message import (
    BATCH_BYTES,
    HEAD_BYTES,
    LIMIT_BYTES,
    MOST_RECORDS,
    Answer,
    Message,
    batched,
    pack,
    pack_answer,
    printable,
    unpack,
    unpack_answer,
)
from slurm_ofu.errors import MessageRefused

NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=256)
MESSAGES = st.builds(
    Message,
    cluster=NAMES,
    node=NAMES,
    message_id=NAMES,
    records=st.lists(st.binary(min_size=1, max_size=300), max_size=20).map(tuple),
)
ONE = Message(cluster="alpha", node="n1", message_id="5f", records=(b"abc", b"\n\0de"))
GOOD = pack(ONE)
FIRST, HEAD, RECORDS = GOOD.split(b"\n", 2)


def code_of(data: bytes) -> str:
    """Why some bytes are no message."""
    with pytest.raises(MessageRefused) as refused:
        unpack(data)
    return refused.value.code


def with_head(**changes: Any) -> bytes:
    """The message with another second line."""
    head = {**json.loads(HEAD), **changes}
    return b"\n".join((FIRST, json.dumps(head).encode(), RECORDS))


@pytest.mark.property
@given(MESSAGES)
def test_a_message_comes_back(message: Message) -> None:
    """What was packed is unpacked as it was: names of any script, records of any bytes."""
    assert message == unpack(pack(message))


@pytest.mark.property
@given(MESSAGES, st.data())
def test_a_part_of_a_message_is_none(message: Message, data: st.DataObject) -> None:
    """A message that was cut anywhere, or that something follows, is refused."""
    packed = pack(message)
    end = data.draw(st.integers(0, len(packed) - 1))
    assert "malformed" == code_of(packed[:end])
    assert "malformed" == code_of(packed + b"x")


@pytest.mark.property
@given(st.binary(max_size=2000) | st.binary(max_size=300).map(lambda rest: FIRST + b"\n" + rest))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    """Whatever bytes come, they are refused by MessageRefused and nothing else."""
    assert "malformed" == code_of(data)


@pytest.mark.property
@given(NAMES, NAMES, st.text(max_size=200), st.none() | st.integers(0, 10**6))
def test_an_answer_comes_back(message_id: str, code: str, text: str, record: int | None) -> None:
    """An answer comes back with its text made safe to print."""
    answer = Answer(message_id=message_id, code=code, text=text, record=record)
    assert unpack_answer(pack_answer(answer)) == Answer(
        message_id=message_id, code=code, text=printable(text), record=record
    )


LENGTHS: list[Any] = [
    [3, 5], [8], [3, 4, 0], [-3, 10], [10**30, -(10**30) + 7], [3.0, 4], [True, 6], ["3", 4], None, 7, {},
    [[3], 4], [1] * (MOST_RECORDS + 1),
]  # fmt: skip


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda value: repr(value)[:30])
def test_lengths_must_fit(lengths: Any) -> None:
    """Lengths that are huge, negative, no whole numbers, or do not add up are refused."""
    assert "malformed" == code_of(with_head(lengths=lengths))


NAMES_BAD: list[Any] = ["", None, 7, ["alpha"], "a\nb", "a\x1b[31m", "\ud800", "x" * 257]


@pytest.mark.parametrize("key", ["cluster", "node", "id"])
@pytest.mark.parametrize("value", NAMES_BAD, ids=lambda value: repr(value)[:30])
def test_names_must_be_names(key: str, value: Any) -> None:
    """Cluster, node and id are short printable texts; a sender cannot even pack others."""
    assert "malformed" == code_of(with_head(**{key: value}))


@pytest.mark.parametrize("cluster", ["", "a\nb", "\ud800", "x" * 257])
def test_what_would_be_refused_is_not_packed(cluster: str) -> None:
    """A sender is told at once where its own message would be refused."""
    with pytest.raises(MessageRefused, match="cluster is no name"):
        pack(Message(cluster=cluster, node="n1", message_id="1", records=(b"a",)))
    with pytest.raises(MessageRefused, match="lengths"):
        pack(Message(cluster="a", node="n1", message_id="1", records=(b"",)))


HEADS = [
    b"", b"{}", b"[]", b"null", b"7", b'"x"', b"{", b"\xff\xfe", b"[" * 5000, b"NaN", b"1" * 6000,
    HEAD[:-1] + b',"more":1}', HEAD.replace(b'"node"', b'"nodes"'), b" " * (HEAD_BYTES + 1) + HEAD,
]  # fmt: skip


@pytest.mark.parametrize("head", HEADS, ids=lambda value: repr(value)[:30])
def test_a_second_line_that_is_none(head: bytes) -> None:
    """A second line that is no JSON, lacks a key, has one too many or is too long is refused."""
    assert "malformed" == code_of(b"\n".join((FIRST, head, RECORDS)))


@pytest.mark.parametrize("number", [b"2", b"0", b"999999999"])
def test_another_format_says_so(number: bytes) -> None:
    """A message of another format is told apart from what is none, with both numbers."""
    assert "unknown_version" == code_of(b"slurm-ofu message " + number + b"\n{}\n")
    with pytest.raises(MessageRefused, match=rf"format {int(number)} .*reads 1"):
        unpack(b"slurm-ofu message " + number + b"\n{}\n")


OTHERS = [
    b"", b"slurm-ofu answer 1", b"slurm-ofu message ", b"slurm-ofu message x", b"slurm-ofu message 1 ",
    b"slurm-ofu message 0x1", b" slurm-ofu message 1", b"slurm-ofu message 1111111111", b"\x00\x22",
    b"another's purpose 1",
]  # fmt: skip


@pytest.mark.parametrize("first", OTHERS)
def test_what_root_signs_for_others_is_no_message(first: bytes) -> None:
    """Only what begins as a message is one: a root's credentials for other purposes, answers among them,
    are not."""
    assert "malformed" == code_of(first + b"\n" + HEAD + b"\n" + RECORDS)
    with pytest.raises(MessageRefused):
        unpack_answer(GOOD)


def test_records_are_put_into_messages() -> None:
    """A cluster in each message, in the records' order, and never more bytes than asked unless one record
    has more."""
    given = [("a", b"12345"), ("a", b"678"), ("a", b"9"), ("b", b"1"), ("a", b"x" * 20), ("a", b"2")]
    expected = [("a", [b"12345", b"678"]), ("a", [b"9"]), ("b", [b"1"]), ("a", [b"x" * 20]), ("a", [b"2"])]
    assert expected == batched(given, limit=8)
    assert [] == batched([])
    many = batched([("a", b"1")] * (MOST_RECORDS + 1))
    assert [MOST_RECORDS, 1] == [len(records) for _, records in many]


def test_the_largest_message_fits_into_a_credential() -> None:
    """munge's credential has a third more bytes than what it signs, and at most 1 MiB."""
    assert LIMIT_BYTES * 4 / 3 + 2000 < 1_000_000 < 2**20
    assert BATCH_BYTES + HEAD_BYTES < LIMIT_BYTES


def test_text_of_others_is_safe_to_print() -> None:
    """Text of another host has no controls, and is not endless."""
    assert "a?b?[31m?" == printable("a\nb\x1b[31m\ud800")
    assert 600 == len(printable("x" * 10_000))
