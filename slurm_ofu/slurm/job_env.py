"""What the hook scripts wrote down → who the job is.

A facts file is written by the shell alone: one line ``OFU1 <boot id> <uptime>``, then ``NAME=value``
entries that each end in a NUL byte (a comment may hold newlines), the last of them ``OFU_END=1``.
Without it the file is incomplete: a full disk or a crash.
"""

import re
from collections.abc import Mapping

from slurm_ofu.errors import StateError
from slurm_ofu.slurm.claim import COMMENT_LIMIT, claim_of
from slurm_ofu.slurm.gpu_order import parse_positions
from slurm_ofu.values import HookFacts, Job, RunKey

_HEAD = re.compile(rb"OFU1 ([0-9a-f-]{36}) ([0-9]+)\.([0-9]{2})\n")


def parse_facts(data: bytes, *, epoch_s: float) -> HookFacts:
    """A facts file → HookFacts; ``epoch_s`` is when it was written. Raises StateError."""
    head = _HEAD.match(data)
    if head is None:
        raise StateError(f"not a facts file: begins with {data[:40]!r}")
    entries = [entry.decode("utf-8", "replace") for entry in data[head.end() :].split(b"\0")]
    environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    if environment.pop("OFU_END", None) != "1":
        raise StateError("the facts file is incomplete (was the spool full?)")
    return HookFacts(
        boot_id=head[1].decode(),
        uptime_ns=int(head[2]) * 10**9 + int(head[3]) * 10**7,
        epoch_s=epoch_s,
        environment=environment,
    )


def job_of(prolog: HookFacts | None, epilog: HookFacts | None, cluster_name: str | None = None) -> Job:
    """Who the run is. The prolog's word goes before the epilog's: after a requeue the epilog's restart
    count is one too high, and after a shrink its node list is only what was released.

    Raises StateError when neither says a job id.
    """
    first = prolog or epilog
    if first is None or not first.environment.get("SLURM_JOB_ID", "").isdecimal():
        raise StateError("no hook said a job id")
    said = first.environment
    comment = (epilog or first).environment.get("SLURM_JOB_COMMENT") or said.get("SLURM_JOB_COMMENT")
    kept = comment[:COMMENT_LIMIT] if comment else None
    return Job(
        key=RunKey(
            cluster=cluster_name or said.get("SLURM_CLUSTER_NAME") or "unknown",
            job_id=int(said["SLURM_JOB_ID"]),
            restart_count=_number(said, "SLURM_JOB_RESTART_COUNT") or 0,
            sluid=said.get("SLURM_JOB_SLUID") or None,
        ),
        restart_certain=prolog is not None,
        user=said.get("SLURM_JOB_USER") or None,
        uid=_number(said, "SLURM_JOB_UID"),
        account=said.get("SLURM_JOB_ACCOUNT") or None,
        partition=said.get("SLURM_JOB_PARTITION") or None,
        node_list=(said.get("SLURM_JOB_NODELIST") or said.get("SLURM_NODELIST") or None) if prolog else None,
        node_count=_number(said, "SLURM_JOB_NUM_NODES") if prolog else None,
        comment=kept,
        gpu_positions=parse_positions(said.get("SLURM_JOB_GPUS", "")) or (),
        claim=claim_of(kept),
    )


def node_name(facts: HookFacts) -> str:
    """The node as Slurm calls it."""
    return facts.environment.get("SLURMD_NODENAME") or "unknown"


def exit_code(epilog: HookFacts | None) -> str | None:
    """``code:signal`` as sacct prints it, where the epilog was told."""
    return (epilog.environment.get("SLURM_JOB_EXIT_CODE2") or None) if epilog else None


def _number(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name, "")
    return int(text) if text.isdecimal() else None
