"""A claim on its way in a record."""

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.errors import RecordError
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import Claim, NodeRecord
from tests.records.generated import noisy_record

RECORD = noisy_record(1)
MFU = Claim(kind="mfu", value=0.41, text="MFU=0.41", peak_tflops=989.4)


def with_claim(claim: Claim | None) -> NodeRecord:
    """A record of a job with that claim."""
    return replace(RECORD, job=replace(RECORD.job, claim=claim))


def table_of(record: NodeRecord) -> dict[str, Any]:
    """What is inside a record's bytes."""
    table: dict[str, Any] = json.loads(zlib.decompress(encode(record)))
    return table


@pytest.mark.parametrize(
    "claim",
    [None, MFU, Claim(kind="tflops", value=1979.123, text="tflops=1979.123", source="accounting")],
)
def test_a_claim_comes_back_as_it_was(claim: Claim | None) -> None:
    """Kind, value, text, peak and source of a claim travel; that there is none travels too."""
    assert claim == decode(encode(with_claim(claim))).job.claim


def test_a_claim_is_an_optional_field_of_the_same_format() -> None:
    """A record without a claim does not mention one, as none did before there were claims, so that older
    records are read and older readers find nothing new; the format number stays."""
    without, with_one = table_of(with_claim(None)), table_of(with_claim(MFU))
    assert (1, 1) == (without["format"], with_one["format"])
    assert {"claim"} == set(with_one["record"]["job"]) ^ set(without["record"]["job"])


@pytest.mark.parametrize(
    "claim",
    [
        "mfu=0.41",
        {"kind": "mfu", "text": "mfu=0.41"},
        {"kind": "mfu", "value": "0.41", "text": "mfu=0.41"},
        {"kind": "flops", "value": 0.41, "text": "mfu=0.41"},
        {"kind": "mfu", "value": 0.41, "text": "mfu=0.41", "source": "hearsay"},
    ],
)
def test_a_malformed_claim_is_a_record_error(claim: Any) -> None:
    """A claim of another shape makes no record."""
    table = table_of(RECORD)
    table["record"]["job"]["claim"] = claim
    with pytest.raises(RecordError):
        decode(zlib.compress(json.dumps(table).encode()))
