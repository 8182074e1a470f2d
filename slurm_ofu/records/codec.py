"""A record ↔ bytes: compact JSON under zlib, with a format number.

What equals its default is left out; the time-line and the quarter hours are columns of whole numbers
(1/10,000 and milliseconds; quarter hours by their distance), because columns compress. Decoding checks
every type: records cross machines, and a malformed one must be refused before it reaches a database.
"""

import json
import math
import types
import zlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slurm_ofu.errors import RecordError, RecordTooNew
from slurm_ofu.values import NodeRecord, QuarterSums, Timeline

FORMAT = 1
#: Of a run that goes on: a version that knows no such records must not take it for a finished run.
INTERIM_FORMAT = 2
SIZE_LIMIT = 4 * 1024 * 1024  # bytes of JSON: more is no record
_RATIO_UNIT = 10_000  # a time-line's OFU in 1/10,000
_MILLI = 1000


def encode(record: NodeRecord) -> bytes:
    """The bytes that travel."""
    table = {"format": _format(record), "record": _plain(record)}
    text = json.dumps(table, separators=(",", ":"), allow_nan=False)
    return zlib.compress(text.encode(), 9)


def decode(data: bytes) -> NodeRecord:
    """The record in some bytes. Raises RecordError for anything that :func:`encode` did not make."""
    try:
        table = json.loads(_unpacked(data))
        if not isinstance(table, dict) or type(table.get("format")) is not int:
            raise RecordError("not a record: no format number")
        if table["format"] not in (FORMAT, INTERIM_FORMAT):
            kind = RecordTooNew if table["format"] > INTERIM_FORMAT else RecordError
            raise kind(
                f"record format {table['format']} is not known here (this version reads {INTERIM_FORMAT})"
            )
        record = _value(NodeRecord, table.get("record"), "record")
        if table["format"] != _format(record):
            raise RecordError(f"record: format {table['format']} and interim = {record.interim} do not agree")
    except (zlib.error, ValueError, RecursionError, OverflowError) as error:
        raise RecordError(f"not a record: {error}") from error
    assert isinstance(record, NodeRecord)
    return record


def _format(record: NodeRecord) -> int:
    return INTERIM_FORMAT if record.interim else FORMAT


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, SIZE_LIMIT)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise RecordError("not a record: truncated, or larger than any record")
    if unpacker.unused_data:
        raise RecordError("not a record: something follows it")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Timeline):
        return _plain_timeline(value)
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != field.default
        }
    if isinstance(value, tuple):
        if value and isinstance(value[0], QuarterSums):
            return _plain_quarters(value)
        return [_plain(item) for item in value]
    return _rounded(value) if isinstance(value, float) else value


def _rounded(value: float) -> float:
    """To the microsecond, from 1,000 on to the millisecond."""
    return round(value, 6 if abs(value) < 1000 else 3)


def _plain_timeline(line: Timeline) -> dict[str, Any]:
    known = any(reference is not None for reference, _ in line.buckets)
    return {
        "start_epoch_s": round(line.start_epoch_s, 3),
        "bucket_seconds": line.bucket_seconds,
        "ofu": [_in_units(reference, seconds) for reference, seconds in line.buckets] if known else None,
        "covered_ms": [round(seconds * _MILLI) for _, seconds in line.buckets],
    }


def _in_units(reference: float | None, seconds: float) -> int:
    return 0 if reference is None or seconds <= 0 else round(reference / seconds * _RATIO_UNIT)


def _plain_quarters(rows: tuple[QuarterSums, ...]) -> dict[str, list[Any]]:
    columns = {name: [_milli(getattr(row, name)) for row in rows] for name in _QUARTER_SECONDS}
    judged = [[_milli(getattr(row, name)) for row in rows] for name in _JUDGED_SECONDS]
    known = any(value is not None for column in judged for value in column)
    return {
        "gpu_model": [row.gpu_model for row in rows],
        "quarter": _steps([row.start_epoch_s // 900 for row in rows]),
        **columns,
        # What earlier versions neither wrote nor read.
        **({"judged": [_short(column, columns["covered_seconds"]) for column in judged]} if known else {}),
    }


def _short(column: list[Any], covered: list[Any]) -> Any:
    """One number for a column that holds no other, ``True`` for one as ``covered``: most are."""
    if column == covered:
        return True
    return column[0] if column == column[:1] * len(column) else column


def _long(column: Any, covered: Any, length: int) -> Any:
    """The reverse of :func:`_short`; what it did not make stays as it is."""
    if column is True:
        return covered
    return [column] * length if column is None or type(column) is int else column


def _steps(numbers: list[int]) -> list[int]:
    """The first number, and from each to the next: mostly ones, which take no room."""
    return [number - before for before, number in zip([0, *numbers], numbers, strict=False)]


def _milli(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _MILLI)


_QUARTER_SECONDS = (
    "allocated_seconds",
    "covered_seconds",
    "tensor_active_seconds",
    "tensor_ref_seconds",
    "tensor_ref_error_seconds",
)
_JUDGED_SECONDS = ("idle_seconds", "idle_covered_seconds", "non_tensor_seconds", "non_tensor_covered_seconds")


# --------------------------------------------------------------- back again, checked


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, value: Any, where: str) -> Any:
    """``value`` as ``kind``, or RecordError with the place where it is not."""
    origin = get_origin(kind)
    if kind is Timeline:
        return _timeline(value, where)
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(_without_none(kind), value, where)
    if origin is Literal:
        return _checked(value, isinstance(value, str) and value in get_args(kind), where)
    if origin is tuple:
        return _tuple(get_args(kind)[0], value, where)
    if kind is float:
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return float(_checked(value, good, where))
    good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _checked(value, good and _storable(value), where)


def _storable(value: Any) -> bool:
    """Databases hold whole numbers of 64 bits, and text that has an encoding."""
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _checked(value: Any, good: bool, where: str) -> Any:
    if not good:
        raise RecordError(f"{where}: {str(value)[:60]!r} is not what belongs there")
    return value


def _without_none(kind: Any) -> Any:
    return next(part for part in get_args(kind) if part is not type(None))


def _tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if kind is QuarterSums and isinstance(value, dict):
        return _quarters(value, where)
    _checked(value, isinstance(value, list), where)
    return tuple(_value(kind, item, f"{where}[{place}]") for place, item in enumerate(value))


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    _checked(value, isinstance(value, dict), where)
    hints = _hints(kind)
    for field in fields(kind):
        if field.name not in value and field.default is MISSING and field.default_factory is MISSING:
            # What equals None by nature was not left out: it had no default to equal.
            raise RecordError(f"{where}: {field.name} is missing")
    # Names that this version does not know come from a newer one of the same format: they are skipped.
    known = {
        name: _value(hints[name], item, f"{where}.{name}") for name, item in value.items() if name in hints
    }
    return kind(**known)


def _numbers(value: Any, where: str, length: int | None = None) -> list[Any]:
    good = isinstance(value, list) and all(
        item is None or (isinstance(item, (int, float)) and not isinstance(item, bool)) for item in value
    )
    _checked(value, good and (length is None or len(value) == length), where)
    return list(value)


def _timeline(value: Any, where: str) -> Timeline:
    _checked(value, isinstance(value, dict), where)
    covered = [_value(float, item, where) / _MILLI for item in _numbers(value.get("covered_ms"), where)]
    _checked(covered, all(seconds >= 0 for seconds in covered), where)
    ofu = value.get("ofu")
    parts: list[float | None] = [None] * len(covered)
    if ofu is not None:
        ratios = [_value(float, item, where) / _RATIO_UNIT for item in _numbers(ofu, where, len(covered))]
        parts = [ratio * seconds for ratio, seconds in zip(ratios, covered, strict=True)]
    return Timeline(
        start_epoch_s=_value(float, value.get("start_epoch_s"), where),
        bucket_seconds=_value(float, value.get("bucket_seconds"), where),
        buckets=tuple(zip(parts, covered, strict=True)),
    )


def _quarters(value: dict[str, Any], where: str) -> tuple[QuarterSums, ...]:
    steps = [_value(int, item, where) for item in _numbers(value.get("quarter"), where)]
    quarters = list(accumulate(steps))
    covered, length = value.get("covered_seconds"), len(quarters)
    given = {name: value.get(name) for name in _QUARTER_SECONDS}
    judged = value.get("judged", [None] * len(_JUDGED_SECONDS))
    _checked(judged, isinstance(judged, list) and len(judged) == len(_JUDGED_SECONDS), where)
    given |= {
        name: _long(column, covered, length) for name, column in zip(_JUDGED_SECONDS, judged, strict=True)
    }
    columns = {name: _numbers(column, where, length) for name, column in given.items()}
    models = _checked(value.get("gpu_model"), isinstance(value.get("gpu_model"), list), where)
    _checked(models, len(models) == len(quarters), where)
    return tuple(
        _dataclass(
            QuarterSums,
            {
                "gpu_model": models[row],
                "start_epoch_s": quarters[row] * 900,
                **{
                    name: None if column[row] is None else column[row] / _MILLI
                    for name, column in columns.items()
                },
            },
            where,
        )
        for row in range(len(quarters))
    )
