"""Small records to be carried."""

from dataclasses import replace

from slurm_ofu.records.codec import encode
from slurm_ofu.values import NodeRecord
from tests.records.generated import noisy_record

_RECORD = noisy_record(1)


def record_of(job_id: int, *, cluster: str = "alpha", node: str = "n1", large: bool = False) -> NodeRecord:
    """A node's record of a job; with a whole day's GPU where it shall be ``large``."""
    key = replace(_RECORD.job.key, job_id=job_id, cluster=cluster)
    job = replace(_RECORD.job, key=key, node_list=None, node_count=None)
    if large:
        return replace(_RECORD, job=job, node_name=node)
    gpu = replace(_RECORD.gpus[0], timeline=None)
    return replace(_RECORD, job=job, node_name=node, gpus=(gpu,), quarters=_RECORD.quarters[:2])


def packed(job_id: int, *, cluster: str = "alpha", node: str = "n1", large: bool = False) -> bytes:
    """The same as it travels."""
    return encode(record_of(job_id, cluster=cluster, node=node, large=large))
