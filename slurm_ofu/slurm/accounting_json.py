"""What `sacct --json` prints with the data parser v0.0.42, as accounting rows. Pure: text in, rows out.

Shapes of it that bite: the state is a list, with REQUEUED and RESIZING behind a base state that says PENDING;
a number may be an object that says whether it is set; "no time" is 0, 4294967294 or absent; what Slurm has no
value for is counted as -2. It has neither the uid nor the SLUID.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ofu.errors import AccountingError
from slurm_ofu.slurm.accounting_text import NO_NODES, Dated, gpu_count
from slurm_ofu.values import AccountingRow

PARSER = "v0.0.42"
LACKS = frozenset({"uid", "sluid"})
NO_VALUE = 0xFFFF_FFFE  # and what lies just around it; as 32 bits
#: Of the flags beside a base state, those that text shows in its stead.
_SHOWN_FLAGS = ("REVOKED", "RESIZING", "REQUEUED")
_MEGABYTES = frozenset({"mem"})


def parse_json(text: str) -> Iterator[Dated]:
    """The document → rows, REVOKED ones left out. AccountingError for anything else than such a document."""
    try:
        document = json.loads(text)
        if document.get("errors"):
            raise AccountingError(f"sacct --json: {document['errors']!r:.500}")
        jobs = list(document["jobs"])
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise AccountingError(f"sacct --json printed no list of jobs: {error!r:.200}") from error
    for job in jobs:
        try:
            dated = _dated(job)
        except (ValueError, OverflowError, AttributeError, KeyError, TypeError, IndexError) as error:
            raise AccountingError(
                f"sacct --json: a job cannot be read ({error!r:.200}): {job!r:.200}"
            ) from error
        if dated is not None:
            yield dated


def _dated(job: Mapping[str, Any]) -> Dated | None:
    """One job; None: it is of no use."""
    time, comment, cluster = job["time"], job["comment"], _text(job["cluster"])
    state, submitted = _state(job["state"]["current"]), _time(time["submission"])
    if state == "REVOKED" or submitted is None:
        return None
    if cluster is None:
        raise ValueError("it names no cluster")
    nodes = _text(job["nodes"]) or ""
    node_list = None if nodes in NO_NODES else nodes
    started, ended = _time(time["start"]), _time(time["end"])
    tres = _tres(job["tres"]["allocated"])
    if node_list is None and tres is None and started == ended:
        started = None
    array = _number(job["array"]["job_id"]) or None
    leader = _number(job["het"]["job_id"]) or None
    limit = _number(time["limit"])
    row = AccountingRow(
        cluster=cluster,
        job_id=_whole(job["job_id"]),
        submit_epoch_s=submitted,
        start_epoch_s=started,
        end_epoch_s=ended,
        elapsed_seconds=_whole(time["elapsed"]),
        suspended_seconds=_whole(time["suspended"]),
        state=state,
        exit_code=_exit_code(job["exit_code"]),
        user=_text(job["user"]) or _text(job["association"]["user"]),
        uid=None,
        account=_text(job["account"]),
        partition=_text(job["partition"]),
        qos=_text(job["qos"]),
        job_name=_text(job["name"]),
        array_job_id=array,
        array_task_id=_number(job["array"]["task_id"]) if array else None,
        het_job_id=leader,
        het_offset=_number(job["het"]["job_offset"]) if leader else None,
        node_list=node_list,
        node_count=_whole(job["allocation_nodes"]) if node_list else None,
        alloc_tres=tres,
        gpu_count=gpu_count(tres or ""),
        time_limit_seconds=None if limit is None else limit * 60,
        restart_count=_number(job.get("restart_cnt")),
        sluid=None,
        comment=_text(comment["job"]),
        system_comment=_text(comment["system"]),
        admin_comment=_text(comment["administrator"]),
    )
    return row, _time(time["eligible"])


def _state(current: str | Sequence[str]) -> str:
    words = [current] if isinstance(current, str) else list(current)
    shown = [flag for flag in _SHOWN_FLAGS if flag in words]
    state = _text((shown or words)[0])
    if state is None:
        raise ValueError("it has no state")
    return state


def _number(value: Any) -> int | None:
    """A number, plain or as {set, infinite, number}; None where it is not set, infinite or absent."""
    if isinstance(value, Mapping):
        return _whole(value["number"]) if value["set"] and not value["infinite"] else None
    return None if value is None else _whole(value)


def _whole(value: Any) -> int:
    """A whole number that any database holds."""
    if not isinstance(value, int) or abs(value) >= 10**18:
        raise ValueError(f"{value!r:.40} is not a number")
    return value


def _time(value: Any) -> int | None:
    seconds = _number(value)
    return None if not seconds or seconds < 0 or seconds >= NO_VALUE else seconds


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not a text")
    return value or None


def _exit_code(code: Mapping[str, Any]) -> str:
    signal = code.get("signal") or {}
    return f"{_number(code.get('return_code')) or 0}:{_number(signal.get('id')) or 0}"


def _tres(items: Sequence[Mapping[str, Any]]) -> str | None:
    """Allocated TRES as text sacct prints them: by name, without those that have no value."""
    shown = []
    for item in items:
        name, count = "/".join(filter(None, (item["type"], item["name"]))), _whole(item["count"])
        if count >= 0:
            shown.append(f"{name}={count}{'M' if name in _MEGABYTES else ''}")
    return ",".join(sorted(shown)) or None
