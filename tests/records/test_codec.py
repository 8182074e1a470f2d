"""A record ↔ bytes."""

import json
import zlib
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import RecordError
from slurm_ofu.records.codec import FORMAT, INTERIM_FORMAT, SIZE_LIMIT, decode, encode
from slurm_ofu.values import NodeRecord, QuarterSums, Timeline
from tests.records.generated import GPUS, QUARTERS, RECORDS, noisy_record

QUICK = settings(deadline=None, max_examples=60)
RECORD = noisy_record(1)


def packed(table: object) -> bytes:
    """Bytes as a record's are made."""
    return zlib.compress(json.dumps(table).encode())


def table_of(record: NodeRecord) -> dict[str, Any]:
    """What is inside a record's bytes."""
    table: dict[str, Any] = json.loads(zlib.decompress(encode(record)))
    return table


def differences(one: Any, other: Any, where: str = "record") -> list[str]:
    """Where two records differ by more than the rounding that the codec states."""
    if isinstance(one, Timeline) and isinstance(other, Timeline):
        return _line_differences(one, other, where)
    if is_dataclass(one) and type(one) is type(other):
        unit = 1e-3 if isinstance(one, QuarterSums) else None
        return [
            found
            for field in fields(one)
            for found in _field(
                getattr(one, field.name), getattr(other, field.name), unit, f"{where}.{field.name}"
            )
        ]
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return [
            found
            for place, parts in enumerate(zip(one, other, strict=True))
            for found in differences(*parts, where=f"{where}[{place}]")
        ]
    return _field(one, other, None, where)


def _field(one: Any, other: Any, unit: float | None, where: str) -> list[str]:
    if is_dataclass(one) or isinstance(one, tuple):
        return differences(one, other, where)
    if isinstance(one, float) and isinstance(other, float):
        rounding = unit or (1e-6 if abs(one) < 1000 else 1e-3)
        same = abs(one - other) <= rounding / 2 * (1 + 1e-6) + abs(one) * 1e-15
        return [] if same else [f"{where}: {one!r} became {other!r}"]
    return [] if one == other else [f"{where}: {one!r} became {other!r}"]


def _line_differences(one: Timeline, other: Timeline, where: str) -> list[str]:
    good = (
        abs(one.start_epoch_s - other.start_epoch_s) <= 0.0006
        and one.bucket_seconds == other.bucket_seconds
        and len(one.buckets) == len(other.buckets)
        and all(_same_bucket(*pair) for pair in zip(one.buckets, other.buckets, strict=True))
    )
    return [] if good else [f"{where}: {one!r} became {other!r}"]


def _same_bucket(one: tuple[float | None, float], other: tuple[float | None, float]) -> bool:
    """Covered seconds to the millisecond, OFU to 1/10,000."""
    if abs(one[1] - other[1]) > 0.0005001:
        return False
    if one[0] is None or other[0] is None:
        return one[0] is other[0]
    return abs(one[0] - other[0]) <= 0.5e-4 * one[1] + 1.3 * 0.0005 + 1e-9


# --------------------------------------------------------------- there and back


@pytest.mark.property
@QUICK
@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: NodeRecord) -> None:
    """Decoding what was encoded gives the same record, within the stated rounding."""
    assert [] == differences(record, decode(encode(record)))


@pytest.mark.property
@QUICK
@given(RECORDS)
def test_rounding_happens_once(record: NodeRecord) -> None:
    """A record that was read and is written again stays the same."""
    once = decode(encode(record))
    assert once == decode(encode(once))


def test_rounding_is_the_stated_one() -> None:
    """Figures to the microsecond, from 1,000 on to the millisecond."""
    (gpu,) = RECORD.gpus
    odd = replace(gpu, tensor_ref_seconds=999.123456789, sm_active_seconds=123456.7891234)
    (back,) = decode(encode(replace(RECORD, gpus=(odd,)))).gpus
    assert (999.123457, 123456.789) == (back.tensor_ref_seconds, back.sm_active_seconds)


def test_none_and_zero_stay_apart() -> None:
    """A value that was not measured is absent, never 0, and a true 0 is a value."""
    (gpu,) = RECORD.gpus
    gpus = (
        replace(gpu, tensor_ref_seconds=0.0, energy_joules=0.0, memory_max_bytes=0),
        replace(gpu, tensor_ref_seconds=None, energy_joules=None, memory_max_bytes=None),
    )
    back = decode(encode(replace(RECORD, gpus=gpus))).gpus
    assert [(0.0, 0.0, 0), (None, None, None)] == [
        (one.tensor_ref_seconds, one.energy_joules, one.memory_max_bytes) for one in back
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tensor_ref_seconds", float("nan")),
        ("tensor_ref_seconds", float("inf")),
        ("power_joules", -float("inf")),
    ],
)
def test_no_record_is_made_of_what_is_no_number(field: str, value: float) -> None:
    """What is no finite number never becomes a record."""
    changes: dict[str, Any] = {field: value}
    broken = replace(RECORD, gpus=(replace(RECORD.gpus[0], **changes),))
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(broken)


# --------------------------------------------------------------- size


@pytest.mark.parametrize(("gpu_count", "limit"), [(1, 2048), (8, 2048)])
def test_a_day_takes_at_most_2048_bytes_per_gpu(gpu_count: int, limit: int) -> None:
    """A record of a day has at most 2,048 bytes per GPU, also when its figures are pure noise."""
    for seed in (1, 2, 3):
        assert limit * gpu_count >= len(encode(noisy_record(gpu_count, seed)))


# --------------------------------------------------------------- what is no record


@pytest.mark.property
@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300))
def test_other_bytes_are_a_record_error(data: bytes) -> None:
    """Bytes that are no record raise RecordError and nothing else."""
    with pytest.raises(RecordError):
        decode(data)
    with pytest.raises(RecordError):
        decode(zlib.compress(data))


GOOD = encode(RECORD)


@pytest.mark.property
@QUICK
@given(st.integers(0, len(GOOD) - 1))
def test_half_a_record_is_a_record_error(length: int) -> None:
    """A record that was cut off anywhere raises RecordError."""
    with pytest.raises(RecordError):
        decode(GOOD[:length])


@pytest.mark.property
@settings(deadline=None, max_examples=150)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_damage_is_never_taken_for_figures(place: int, flip: int) -> None:
    """A damaged record raises RecordError, unless the damage lies in a bit that says nothing."""
    try:
        found = decode(GOOD[:place] + bytes([GOOD[place] ^ flip]) + GOOD[place + 1 :])
    except RecordError:
        return
    assert decode(GOOD) == found


def test_more_than_a_record_is_a_record_error() -> None:
    """What follows a record belongs to none."""
    with pytest.raises(RecordError):
        decode(GOOD + b"more")


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from(
            [2**63, -(2**64), 10**400, 1.5, float("nan"), float("inf"), "", "ok", "\ud800", "x" * 99]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "job", "quarter"]), inner, max_size=2),
    ),
    max_leaves=5,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path to everything in a table."""
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    if isinstance(value, list):
        parts = list(enumerate(value[:2]))
    return [path, *(found for name, part in parts for found in places(part, (*path, name)))]


def changed(table: dict[str, Any], path: tuple[str | int, ...], junk: Any) -> Any:
    """The table with something else at a place."""
    if not path:
        return junk
    copy: Any = json.loads(json.dumps(table))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = junk
    return copy


TABLE = table_of(RECORD)


@pytest.mark.property
@settings(deadline=None, max_examples=300)
@given(st.sampled_from(places(TABLE)), JUNK)
@example(("record", "gpus", 0, "timeline", "covered_ms", 0), -2)
def test_wrong_types_anywhere_are_a_record_error(path: tuple[str | int, ...], junk: Any) -> None:
    """Whatever stands at whatever place: it is refused, or it is a record that can be stored and sent on."""
    try:
        record = decode(packed(changed(TABLE, path, junk)))
    except RecordError:
        return
    assert [] == differences(record, decode(encode(record)))


def broken(**gpu: Any) -> bytes:
    """A record whose first GPU has something else in a field."""
    table = table_of(RECORD)
    table["record"]["gpus"][0].update(gpu)
    return packed(table)


@pytest.mark.parametrize(
    "data",
    [
        broken(tensor_ref_seconds=float("nan")),
        broken(tensor_ref_seconds=float("inf")),
        broken(tensor_ref_seconds=10**400),
        broken(tensor_ref_seconds="700"),
        broken(tensor_ref_seconds=True),
        broken(interval_count=1.5),
        broken(interval_count=2**63),
        broken(memory_max_bytes=10**400),
        broken(reason="fine"),
        broken(reason=None),
        broken(uuid="\ud800"),
        broken(timeline={"start_epoch_s": 0.0, "bucket_seconds": 1.0, "ofu": [1], "covered_ms": [1, 2]}),
        broken(timeline={"start_epoch_s": 0.0, "bucket_seconds": 1.0, "ofu": [10**400], "covered_ms": [1]}),
        broken(timeline={"start_epoch_s": 0.0, "bucket_seconds": 1.0, "ofu": None, "covered_ms": [None]}),
        broken(timeline=[]),
        packed({"format": FORMAT}),
        packed({"format": FORMAT, "record": {}}),
        packed({"format": "1", "record": TABLE["record"]}),
        packed({"format": True, "record": TABLE["record"]}),
        packed([]),
        zlib.compress(b"[" * 200_000),
        zlib.compress(b"\xff\xfe{}"),
    ],
)
def test_malformed_records_are_refused(data: bytes) -> None:
    """A malformed record must be refused before it reaches a database."""
    with pytest.raises(RecordError):
        decode(data)


@pytest.mark.parametrize("depth", range(900, 1000, 3))
def test_nesting_near_the_limit_is_refused(depth: int) -> None:
    """JSON that is just about readable, and no record, raises RecordError."""
    inner = b"[" * depth + b"]" * depth
    with pytest.raises(RecordError):
        decode(zlib.compress(b'{"format":1,"record":' + inner + b"}"))


@pytest.mark.parametrize("column", ["quarter", "gpu_model", "covered_seconds", "tensor_ref_seconds"])
@pytest.mark.parametrize("value", [[], [1], "x", None, [10**400] * 97, ["x"] * 97, [[]] * 97])
def test_quarters_are_checked(column: str, value: Any) -> None:
    """Columns of quarter hours have numbers, one for each row."""
    table = table_of(RECORD)
    table["record"]["quarters"][column] = value
    if column == "gpu_model" and value == ["x"] * 97:
        assert {"x"} == {row.gpu_model for row in decode(packed(table)).quarters}
        return
    with pytest.raises(RecordError):
        decode(packed(table))


def test_a_newer_format_is_refused_by_its_number() -> None:
    """A record of a newer format says so, with both numbers."""
    with pytest.raises(RecordError, match=rf"format {INTERIM_FORMAT + 1} .*reads {INTERIM_FORMAT}"):
        decode(packed({**TABLE, "format": INTERIM_FORMAT + 1}))


def test_an_interim_record_has_a_format_of_its_own() -> None:
    """A version that knows nothing of interim records must not read one as a finished run's."""
    interim = replace(RECORD, interim=True)
    assert [FORMAT, INTERIM_FORMAT] == [table_of(record)["format"] for record in (RECORD, interim)]
    assert [False, True] == [decode(encode(record)).interim for record in (RECORD, interim)]


@pytest.mark.parametrize("interim", [False, True])
def test_format_and_record_agree(interim: bool) -> None:
    """A record that says otherwise of itself than its format is no record."""
    table = table_of(replace(RECORD, interim=interim))
    table["format"] = FORMAT if interim else INTERIM_FORMAT
    with pytest.raises(RecordError, match="do not agree"):
        decode(packed(table))


def test_fields_of_a_newer_version_are_skipped() -> None:
    """Names that this version does not know, in the same format, come from a newer one: they are skipped."""
    table = table_of(RECORD)
    table["record"]["newer"] = table["record"]["job"]["newer"] = table["record"]["gpus"][0]["newer"] = [1]
    assert decode(GOOD) == decode(packed(table))


def test_a_missing_field_is_named() -> None:
    """A field without a default that is missing is named in the error."""
    table = table_of(RECORD)
    del table["record"]["job"]["key"]["job_id"]
    with pytest.raises(RecordError, match="job_id is missing"):
        decode(packed(table))


def test_a_bomb_is_refused() -> None:
    """More than 4 MiB of JSON is no record, and is not unpacked further."""
    with pytest.raises(RecordError, match="larger than any record"):
        decode(zlib.compress(b" " * (SIZE_LIMIT + 1)))


@pytest.mark.property
@QUICK
@given(GPUS, QUARTERS)
def test_rows_alone_come_back(gpu: Any, quarter: QuarterSums) -> None:
    """One GPU and one quarter hour come back within the stated rounding, whatever stands beside them."""
    record = replace(RECORD, gpus=(gpu,), quarters=(quarter,))
    assert [] == differences(record, decode(encode(record)))


def test_quarter_hours_without_what_was_judged_are_an_earlier_versions() -> None:
    """Their columns are missing, which is not 0."""
    known: dict[str, Any] = {"idle_seconds": 1.0, "idle_covered_seconds": 0.0, "non_tensor_seconds": None}
    quarters = tuple(replace(row, **known) for row in RECORD.quarters)
    table = table_of(replace(RECORD, quarters=quarters))
    columns = table["record"]["quarters"]
    assert [1000, 0, None, None] == columns["judged"]  # one number where there is no other
    del columns["judged"]
    assert {(None, None, None)} == {
        (row.idle_seconds, row.idle_covered_seconds, row.non_tensor_seconds)
        for row in decode(packed(table)).quarters
    }
