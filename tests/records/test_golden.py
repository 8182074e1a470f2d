"""Records of earlier versions are still read: their bytes lie here as those versions wrote them."""

import json
import zlib
from pathlib import Path

from slurm_ofu.records.codec import decode

#: Two GPUs over a day, as 0.1.0 wrote it in November 2026.
FORMAT_1 = Path(__file__).with_name("format1.record")


def test_format_1_is_read() -> None:
    """A record of format 1 says what it said when it was written."""
    data = FORMAT_1.read_bytes()
    assert 1 == json.loads(zlib.decompress(data))["format"]
    record = decode(data)
    key = record.job.key
    assert ("alpha", 4711, 2, "n1") == (key.cluster, key.job_id, key.restart_count, record.node_name)
    assert ("wilma", "n[1-2]", 2, "mfu=0.41") == (
        record.job.user,
        record.job.node_list,
        record.job.node_count,
        record.job.comment,
    )
    assert (1764424800.123, 1764511200.456) == (record.start_epoch_s, record.end_epoch_s)
    assert [(0, "ok"), (1, "sampler_died")] == [(gpu.position, gpu.reason) for gpu in record.gpus]
    assert (86399.737, 41044.846) == (record.gpus[0].covered_seconds, record.gpus[0].tensor_ref_seconds)
    assert (97, 174600.0) == (len(record.quarters), sum(row.allocated_seconds for row in record.quarters))
    timeline = record.gpus[0].timeline
    assert timeline is not None
    assert 68 == len(timeline.buckets)
