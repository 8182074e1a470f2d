"""What nobody should find in an inbox."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_ofu.delivery.expansion import EXPANDED_LIMIT
from slurm_ofu.delivery.inbox import ingest
from slurm_ofu.records.codec import decode
from slurm_ofu.values import NodeRecord
from tests.delivery.examples import packed


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    made = tmp_path / "inbox"
    made.mkdir(mode=0o700)
    return made


def swelling(job_id: int) -> bytes:
    """A small record that is large when unpacked."""
    table = json.loads(zlib.decompress(packed(job_id)))
    table["record"]["later"] = "x" * (EXPANDED_LIMIT // 5)
    return zlib.compress(json.dumps(table).encode(), 9)


def test_large_records_go_into_transactions_of_few(inbox: Path) -> None:
    """Transactions are bounded by what their records come to when unpacked, not by their number alone."""
    for job_id in range(1, 10):
        (inbox / f"{job_id}.record").write_bytes(swelling(job_id))
    sizes: list[int] = []

    def write(records: Sequence[NodeRecord]) -> None:
        sizes.append(len(records))

    assert 9 == ingest(inbox, decode=decode, write=write).stored
    assert [4, 4, 1] == sizes


def test_a_file_larger_than_any_record(inbox: Path) -> None:
    """A file that no record can be is set aside without being read."""
    with (inbox / "1.record").open("wb") as file:
        file.truncate(1 << 40)
    its = ingest(inbox, decode=decode, write=lambda records: None)
    assert 1 == len(its.rejected)
    assert "larger than any record" in its.rejected[0]


def test_what_cannot_be_set_aside_stays(inbox: Path) -> None:
    """Where a file cannot be set aside it is said to stay, so that nobody looks for it elsewhere."""
    (inbox / "1.record").write_bytes(b"no record")
    (inbox / "rejected").write_bytes(b"in the way")
    its = ingest(inbox, decode=decode, write=lambda records: None)
    assert ((), 1) == (its.rejected, len(its.kept))
    assert "cannot be set aside" in its.kept[0]
    assert (inbox / "1.record").exists()
