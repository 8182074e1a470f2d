"""A Selection as the WHERE clause of a query over table run, with its parameters. Pure."""

from collections.abc import Sequence
from typing import Final

from slurm_ofu.values import Selection, StoredGroup
from slurm_ofu.values.states import PASSING_STATES, UNKNOWN_STATE

#: What a group is, by the columns of run …
GROUPS: Final[dict[StoredGroup, str]] = {
    "job": "run_id",
    "user": "user_name",
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "job-name": "job_name",
}
#: … or by those of its parts: its GPUs of one model on one node.
PART_GROUPS: Final[dict[StoredGroup, str]] = {"node": "node_name", "gpu-model": "gpu_model"}

RUNNING: Final = "RUNNING"
#: When a run began; one whose start nobody knows, at its end.
BEGIN: Final = "COALESCE(start_epoch_s, end_epoch_s)"
Parameters = list[str | int | float]
Clause = tuple[str, Parameters]


def where(selection: Selection) -> Clause:
    """Conditions joined by AND, and their parameters; a run counts when any part of it is inside."""
    clauses: list[str] = []
    parameters: list[str | int | float] = []
    if _is_empty(selection):
        clauses.append("0")
    if selection.end_epoch_s is not None:
        clauses.append(f"{BEGIN} < ?")
        parameters.append(selection.end_epoch_s)
    if selection.start_epoch_s is not None:  # the first condition is for the index
        clauses.append(f"end_epoch_s >= ? AND (end_epoch_s > ? OR {BEGIN} >= ?)")
        parameters += [selection.start_epoch_s] * 3
    lists: tuple[tuple[str, tuple[str | int, ...]], ...] = (
        ("user_name", selection.users),
        ("partition", selection.partitions),
        ("account", selection.accounts),
        ("cluster", selection.clusters),
        ("qos", selection.qos),
        ("job_name", selection.job_names),
    )
    for column, values in lists:
        if values:
            clauses.append(f"{column} IN ({_marks(values)})")
            parameters += values
    if selection.node_names:
        names = _marks(selection.node_names)
        clauses.append(f"run_id IN (SELECT run_id FROM run_node WHERE node_name IN ({names}))")
        parameters += selection.node_names
    for more, its in (_states(selection), _jobs(selection)):
        clauses += more
        parameters += its
    return " AND ".join(clauses) or "1", parameters


def whole(selection: Selection) -> Clause:
    """The selected runs that lie inside the window."""
    clause, parameters = where(selection)
    if selection.start_epoch_s is not None:
        clause += f" AND {BEGIN} >= ?"
        parameters.append(selection.start_epoch_s)
    if selection.end_epoch_s is not None:
        clause += " AND end_epoch_s <= ?"
        parameters.append(selection.end_epoch_s)
    return clause, parameters


def cut(selection: Selection) -> Clause | None:
    """Those that the window cuts; ``None``: it has no ends."""
    clause, parameters = where(selection)
    ends = []
    if selection.start_epoch_s is not None:
        ends.append(f"{BEGIN} < ?")
        parameters.append(selection.start_epoch_s)
    if selection.end_epoch_s is not None:
        ends.append("end_epoch_s > ?")
        parameters.append(selection.end_epoch_s)
    return (f"{clause} AND ({' OR '.join(ends)})", parameters) if ends else None


def _is_empty(selection: Selection) -> bool:
    """Whether no instant lies in the window."""
    start, end = selection.start_epoch_s, selection.end_epoch_s
    return start is not None and end is not None and start >= end


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _states(selection: Selection) -> tuple[list[str], list[str | int | float]]:
    """Slurm says "CANCELLED by 1000". A run that goes on is in no state but that."""
    if not selection.states:
        return [], []
    over = f"running = 0 AND substr(state, 1, instr(state || ' ', ' ') - 1) IN ({_marks(selection.states)})"
    parameters: list[str | int | float] = [*selection.states]
    either = [f"({over})"]
    if RUNNING in selection.states:
        either.append("running = 1")
    if UNKNOWN_STATE in selection.states:
        either.append(f"(running = 0 AND (state IS NULL OR state IN ({_marks(PASSING_STATES)})))")
        parameters += PASSING_STATES
    return [f"({' OR '.join(either)})"], parameters


def _jobs(selection: Selection) -> tuple[list[str], list[str | int | float]]:
    """Any of the jobs asked for: by raw id or that of a whole, by task, by component."""
    clauses: list[str] = []
    parameters: list[str | int | float] = []
    for column in ("job_id", "array_job_id", "het_job_id") if selection.job_ids else ():
        clauses.append(f"{column} IN ({_marks(selection.job_ids)})")
        parameters += selection.job_ids
    for whole, part, pairs in (
        ("array_job_id", "array_task_id", selection.array_tasks),
        ("het_job_id", "het_offset", selection.het_components),
    ):
        if pairs:  # the first condition is for the index
            listed = ", ".join(["(?, ?)"] * len(pairs))
            clauses.append(f"{whole} IN ({_marks(pairs)}) AND ({whole}, {part}) IN (VALUES {listed})")
            parameters += [first for first, _ in pairs]
            parameters += [number for pair in pairs for number in pair]
    return [f"({' OR '.join(clauses)})"] if clauses else [], parameters
