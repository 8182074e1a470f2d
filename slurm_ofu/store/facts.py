"""What the records of a run say of its job, joined into one. Pure.

Joining is commutative, associative and idempotent, so that the order in which nodes are heard leaves
no trace: of two that differ, the greater one stays; of node lists, the longer one.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass

from slurm_ofu.store.rows import clean_text
from slurm_ofu.values import NodeRecord


@dataclass(frozen=True, slots=True)
class Facts:
    """The columns of a run that come with each record, in the order of ``store.runs``'s statements."""

    sluid: str | None
    user_name: str | None
    uid: int | None
    account: str | None
    partition: str | None
    node_list: str | None
    node_count: int | None
    comment: str | None
    exit_code: str | None


def facts_of(record: NodeRecord) -> Facts:
    """What one record says."""
    job = record.job
    return Facts(
        sluid=_clean(job.key.sluid),
        user_name=_clean(job.user),
        uid=job.uid,
        account=_clean(job.account),
        partition=_clean(job.partition),
        node_list=_clean(job.node_list),
        node_count=job.node_count,
        comment=_clean(job.comment),
        exit_code=_clean(record.exit_code),
    )


def joined(one: Facts, other: Facts, node_names: Callable[[str], tuple[str, ...]]) -> Facts:
    """Both facts in one. ``node_names`` expands a host list."""
    if one == other:
        return one
    return Facts(
        sluid=_greater_text(one.sluid, other.sluid),
        user_name=_greater_text(one.user_name, other.user_name),
        uid=_greater_count(one.uid, other.uid),
        account=_greater_text(one.account, other.account),
        partition=_greater_text(one.partition, other.partition),
        node_list=_longer_list(one.node_list, other.node_list, node_names),
        node_count=_greater_count(one.node_count, other.node_count),
        comment=_greater_text(one.comment, other.comment),
        exit_code=_greater_text(one.exit_code, other.exit_code),
    )


def as_row(facts: Facts) -> tuple[str | int | None, ...]:
    """The facts as a row, in the order of their fields."""
    return astuple(facts)


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _greater_text(one: str | None, other: str | None) -> str | None:
    return max((text for text in (one, other) if text is not None), default=None)


def _greater_count(one: int | None, other: int | None) -> int | None:
    return max((count for count in (one, other) if count is not None), default=None)


def _longer_list(
    one: str | None, other: str | None, node_names: Callable[[str], tuple[str, ...]]
) -> str | None:
    present = [text for text in (one, other) if text is not None]
    return max(present, key=lambda text: (len(node_names(text)), text), default=None)
