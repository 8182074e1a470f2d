"""What the records of a run tell of its job, joined into one. Pure.

Joining is commutative, associative and idempotent, so that the order in which nodes are heard leaves
no trace: of two that differ, the greater one stays; of node lists, the longer one; of claims, all of one.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, cast

from slurm_ofu.store.rows import clean_text
from slurm_ofu.values import Claim, ClaimKind, ClaimSource, NodeRecord

#: kind, value, text and peak, as columns; all None: there is no claim
ClaimColumns = tuple[str | None, float | None, str | None, float | None]
NO_CLAIM: Final[ClaimColumns] = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class Facts:
    """The columns of run_told that come with each record, by their names."""

    sluid: str | None
    user_name: str | None
    uid: int | None
    account: str | None
    partition: str | None
    node_list: str | None
    node_count: int | None
    comment: str | None
    exit_code: str | None
    claim_kind: str | None
    claim_value: float | None
    claim_text: str | None
    claim_peak_tflops: float | None

    @property
    def claim(self) -> ClaimColumns:
        """Its last four."""
        return self.claim_kind, self.claim_value, self.claim_text, self.claim_peak_tflops


FACT_NAMES: Final = tuple(item.name for item in fields(Facts))


def facts_of(record: NodeRecord) -> Facts:
    """What one record tells. Of a comment the last word counts, which no interim record knows: what it says
    of it could not be taken back."""
    job = record.job
    return Facts(
        _clean(job.key.sluid),
        _clean(job.user),
        job.uid,
        _clean(job.account),
        _clean(job.partition),
        _clean(job.node_list),
        job.node_count,
        None if record.interim else _clean(job.comment),
        _clean(record.exit_code),
        *claim_columns(None if record.interim else job.claim),
    )


def joined(one: Facts, other: Facts, node_names: Callable[[str], tuple[str, ...]]) -> Facts:
    """Both facts in one. ``node_names`` expands a host list."""
    if one == other:
        return one
    return Facts(
        _greater_text(one.sluid, other.sluid),
        _greater_text(one.user_name, other.user_name),
        _greater_count(one.uid, other.uid),
        _greater_text(one.account, other.account),
        _greater_text(one.partition, other.partition),
        _longer_list(one.node_list, other.node_list, node_names),
        _greater_count(one.node_count, other.node_count),
        _greater_text(one.comment, other.comment),
        _greater_text(one.exit_code, other.exit_code),
        *_greater_claim(one.claim, other.claim),
    )


def as_row(facts: Facts) -> tuple[str | int | float | None, ...]:
    """The facts as a row, in the order of their fields."""
    return tuple(getattr(facts, name) for name in FACT_NAMES)


def claim_columns(claim: Claim | None) -> ClaimColumns:
    """A claim as columns."""
    if claim is None:
        return NO_CLAIM
    return claim.kind, float(claim.value), clean_text(claim.text), claim.peak_tflops


def claim_from(columns: ClaimColumns, source: ClaimSource) -> Claim | None:
    """The reverse of :func:`claim_columns`."""
    kind, value, text, peak = columns
    if kind is None or value is None:
        return None
    return Claim(kind=cast(ClaimKind, kind), value=value, text=text or "", peak_tflops=peak, source=source)


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _greater_text(one: str | None, other: str | None) -> str | None:
    return max((text for text in (one, other) if text is not None), default=None)


def _greater_count(one: int | None, other: int | None) -> int | None:
    return max((count for count in (one, other) if count is not None), default=None)


def _greater_claim(one: ClaimColumns, other: ClaimColumns) -> ClaimColumns:
    """A claim beats none, one with a peak the same without."""

    def rank(claim: ClaimColumns) -> tuple[bool, str, float, str, float]:
        kind, value, text, peak = claim
        unknown = -1.0
        return (
            *(kind is not None, kind or "", unknown if value is None else value),
            *(text or "", unknown if peak is None else peak),
        )

    return max(one, other, key=rank)


def _longer_list(
    one: str | None, other: str | None, node_names: Callable[[str], tuple[str, ...]]
) -> str | None:
    present = [text for text in (one, other) if text is not None]
    return max(present, key=lambda text: (len(node_names(text)), text), default=None)
