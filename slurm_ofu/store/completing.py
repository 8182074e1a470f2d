"""What table run says of a run: its nodes' words, completed by Slurm's own. Pure.

Always made anew from both, so that a late record undoes nothing, and a link that turns out otherwise
leaves nothing behind.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from slurm_ofu.store.facts import FACT_NAMES, Facts, claim_columns
from slurm_ofu.store.lives import Life, StoredRow

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFacts:
    """Everything that the nodes told of one run."""

    start_epoch_s: float | None
    end_epoch_s: float
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumns:
    """The columns of run that follow from what is known, by their names."""

    end_epoch_s: float
    start_epoch_s: float | None = None
    sluid: str | None = None
    user_name: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    node_list: str | None = None
    node_count: int | None = None
    comment: str | None = None
    exit_code: str | None = None
    claim_kind: str | None = None
    claim_value: float | None = None
    claim_text: str | None = None
    claim_peak_tflops: float | None = None
    claim_source: str | None = None
    job_name: str | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    state: str | None = None
    qos: str | None = None
    submit_epoch_s: float | None = None
    elapsed_seconds: float | None = None
    suspended_seconds: float | None = None
    alloc_tres: str | None = None
    slurm_gpu_count: int | None = None
    accounted: int = 0
    running: int = 0


COLUMN_NAMES: Final = tuple(item.name for item in fields(RunColumns))


def as_row(columns: RunColumns) -> tuple[str | int | float | None, ...]:
    """The columns as a row, in the order of their fields."""
    return tuple(getattr(columns, name) for name in COLUMN_NAMES)


def told_columns(told: ToldFacts) -> RunColumns:
    """A run of which Slurm's accounting says nothing (yet)."""
    known: dict[str, Any] = {name: getattr(told.facts, name) for name in FACT_NAMES}
    return RunColumns(
        start_epoch_s=told.start_epoch_s,
        end_epoch_s=told.end_epoch_s,
        claim_source=None if told.facts.claim_kind is None else "epilog",
        **known,
    )


def running_columns(told: ToldFacts, life: Life | None) -> RunColumns:
    """A run whose nodes say that it goes on; ``life`` is what Slurm's accounting says of it, if anything.

    Its times are the nodes'. How it ends and what it claims is said at its end.
    """
    columns = replace(told_columns(told), state="RUNNING", running=1)
    if life is None:
        return columns
    return replace(
        _with_words(columns, life),
        comment=columns.comment,
        exit_code=columns.exit_code,
        submit_epoch_s=float(life.first.submit_epoch_s),
        suspended_seconds=float(life.suspended_seconds),
        alloc_tres=life.first.alloc_tres,
        state=life.last.state,
    )


def completed_columns(told: ToldFacts | None, life: Life) -> RunColumns:
    """A run that is over in Slurm's accounting; ``told`` is None where that alone knows it.

    Slurm's word goes before the nodes', but for what its prologs saw, which is the node list, and a claim.
    An absent word takes none away.
    """
    assert life.end_epoch_s is not None
    columns = RunColumns(end_epoch_s=life.end_epoch_s) if told is None else told_columns(told)
    columns = _with_words(columns, life)
    if columns.node_list is None:
        columns = replace(columns, node_list=life.first.node_list, node_count=life.first.node_count)
    if columns.claim_kind is None:
        columns = _with_claim(columns, life)
    return replace(
        columns,
        start_epoch_s=float(life.start_epoch_s),
        end_epoch_s=float(life.end_epoch_s),
        submit_epoch_s=float(life.first.submit_epoch_s),
        elapsed_seconds=float(life.elapsed_seconds),
        suspended_seconds=float(life.suspended_seconds),
        alloc_tres=life.first.alloc_tres,
        slurm_gpu_count=life.gpu_count,
        state=life.last.state,
        accounted=1,
    )


def _with_words(columns: RunColumns, life: Life) -> RunColumns:
    def its(word: Callable[[StoredRow], _Value | None], told: _Value | None = None) -> _Value | None:
        return next((said for one in reversed(life.segments) if (said := word(one)) is not None), told)

    return replace(
        columns,
        sluid=columns.sluid if columns.sluid in life.sluids else life.first.sluid or columns.sluid,
        user_name=its(lambda one: one.row.user, columns.user_name),
        uid=its(lambda one: one.row.uid, columns.uid),
        account=its(lambda one: one.row.account, columns.account),
        partition=its(lambda one: one.row.partition, columns.partition),
        comment=its(lambda one: one.row.comment, columns.comment),
        exit_code=its(lambda one: one.row.exit_code, columns.exit_code),
        job_name=its(lambda one: one.row.job_name),
        array_job_id=its(lambda one: one.row.array_job_id),
        array_task_id=its(lambda one: one.row.array_task_id),
        het_job_id=its(lambda one: one.row.het_job_id),
        het_offset=its(lambda one: one.row.het_offset),
        qos=its(lambda one: one.row.qos),
    )


def _with_claim(columns: RunColumns, life: Life) -> RunColumns:
    claim = next((one.claim for one in reversed(life.segments) if one.claim is not None), None)
    kind, value, text, peak = claim_columns(claim)
    return replace(
        columns,
        claim_kind=kind,
        claim_value=value,
        claim_text=text,
        claim_peak_tflops=peak,
        claim_source=None if claim is None else "accounting",
    )
