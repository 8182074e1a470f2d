"""What travels between a node and the collector ↔ bytes, before they are signed.

A message is a line that says what it is, a line of JSON, and the records one after the other::

    slurm-ofu message 1
    {"cluster": "alpha", "node": "n1", "id": "…", "lengths": [1889, 1902]}
    …

The first line is in what is signed: whatever else a node's root signs for others is no message. The
answer names the message that it answers, so an earlier answer, or a stranger's, is none.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from slurm_ofu.errors import MessageRefused

FORMAT = 1
_MESSAGE, _ANSWER = b"slurm-ofu message ", b"slurm-ofu answer "
#: Bytes of a message. Under munge's own limit: its credential is a third larger, and at most 1 MiB.
LIMIT_BYTES = 700 * 1024
#: Bytes after which a sender begins another message.
BATCH_BYTES = 512 * 1024
#: Bytes of the two lines before the records: beyond, they are none of ours.
HEAD_BYTES = 32 * 1024
MOST_RECORDS = 2000
_NAME_LIMIT = 256
_TEXT_LIMIT = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Records of one cluster on their way. ``message_id``: the sender's, to know the answer by."""

    cluster: str
    node: str
    message_id: str
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a message. ``code``: ``taken``, or why not; ``record``: the one that is at fault."""

    message_id: str
    code: str
    text: str = ""
    record: int | None = None


def pack(message: Message) -> bytes:
    """The bytes to be signed. Raises MessageRefused where :func:`unpack` would."""
    head = {
        "cluster": message.cluster,
        "node": message.node,
        "id": message.message_id,
        "lengths": [len(data) for data in message.records],
    }
    for key in ("cluster", "node", "id"):
        _name(head, key)
    _check_lengths(head["lengths"])
    return b"".join((_first_line(_MESSAGE), _line(head), *message.records))


def unpack(data: bytes) -> Message:
    """The message in what was signed. Raises MessageRefused for anything that :func:`pack` did not make."""
    head, rest = _opened(data, _MESSAGE, {"cluster", "node", "id", "lengths"})
    lengths = _check_lengths(head["lengths"])
    if sum(lengths) != len(rest):
        raise _malformed("its lengths do not add up to the bytes that follow")
    ends = accumulate(lengths, initial=0)
    return Message(
        cluster=_name(head, "cluster"),
        node=_name(head, "node"),
        message_id=_name(head, "id"),
        records=tuple(rest[begin:end] for begin, end in pairwise(ends)),
    )


def pack_answer(answer: Answer) -> bytes:
    """The bytes to be signed."""
    body: dict[str, object] = {
        "id": answer.message_id,
        "code": answer.code,
        "text": answer.text[:_TEXT_LIMIT],
    }
    if answer.record is not None:
        body["record"] = answer.record
    return _first_line(_ANSWER) + _line(body)


def unpack_answer(data: bytes) -> Answer:
    """The answer in what was signed. Raises MessageRefused."""
    body, rest = _opened(data, _ANSWER, {"id", "code", "text"}, optional={"record"})
    record = body.get("record")
    if rest or not isinstance(body["text"], str) or type(record) not in (int, type(None)):
        raise _malformed("it is no answer")
    return Answer(
        message_id=_name(body, "id"), code=_name(body, "code"), text=printable(body["text"]), record=record
    )


def batched(records: Iterable[tuple[str, bytes]], limit: int = BATCH_BYTES) -> list[tuple[str, list[bytes]]]:
    """Records, each with its cluster, as they go into messages: in their order, a cluster in each."""
    made: list[tuple[str, list[bytes]]] = []
    size = 0
    for cluster, data in records:
        fits = size + len(data) <= limit and len(made[-1][1]) < MOST_RECORDS if made else False
        if made and fits and made[-1][0] == cluster:
            made[-1][1].append(data)
            size += len(data)
        else:
            made.append((cluster, [data]))
            size = len(data)
    return made


def printable(text: str) -> str:
    """Text of another host, for a log or a terminal: one line, no controls, not too long."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_TEXT_LIMIT])


def _first_line(kind: bytes) -> bytes:
    return kind + b"%d\n" % FORMAT


def _line(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _opened(
    data: bytes, kind: bytes, names: set[str], optional: Sequence[str] | set[str] = ()
) -> tuple[dict[str, Any], bytes]:
    """The JSON line and what follows it."""
    if not data.startswith(kind):
        raise _malformed("it does not begin as one of ours")
    number, _, rest = data[len(kind) : HEAD_BYTES].partition(b"\n")
    if not number.isdigit() or len(number) > 9:
        raise _malformed("it has no format number")
    if int(number) != FORMAT:
        raise MessageRefused(
            f"message format {int(number)} is not known here (this version reads {FORMAT}): use the same"
            " slurm-ofu on both sides, the collector's upgraded first",
            code="unknown_version",
        )
    line, end, _ = rest.partition(b"\n")
    try:
        body = json.loads(line.decode("utf-8")) if end else None
    except (ValueError, RecursionError) as error:
        raise _malformed("its second line is not JSON") from error
    if not isinstance(body, dict) or not names <= set(body) <= names | set(optional):
        raise _malformed("its second line does not say what it must")
    return body, data[len(kind) + len(number) + 1 + len(line) + 1 :]


def _name(body: Mapping[str, Any], key: str) -> str:
    value = body[key]
    good = isinstance(value, str) and 0 < len(value) <= _NAME_LIMIT and value.isprintable()
    if not good:
        raise _malformed(f"its {key} is no name")
    assert isinstance(value, str)
    return value


def _check_lengths(lengths: object) -> list[int]:
    if not isinstance(lengths, list) or not all(type(length) is int and length > 0 for length in lengths):
        raise _malformed("its lengths are not whole numbers greater than 0")
    if len(lengths) > MOST_RECORDS:
        raise _malformed(f"it has {len(lengths)} records, and no more than {MOST_RECORDS} may be in one")
    return lengths


def _malformed(why: str) -> MessageRefused:
    return MessageRefused(f"malformed: {why}", code="malformed")
