"""A Selection as the WHERE clause of a query over table run, with its parameters. Pure."""

from typing import Final

from slurm_ofu.values import GroupBy, Selection

#: What a group is, by the columns of run.
GROUPS: Final[dict[GroupBy, str]] = {
    "job": "run_id",
    "user": "user_name",
    "partition": "partition",
    "account": "account",
}


def where(selection: Selection) -> tuple[str, list[str | int | float]]:
    """Conditions joined by AND, and their parameters; a run counts when any part of it is inside."""
    clauses: list[str] = []
    parameters: list[str | int | float] = []
    if selection.end_epoch_s is not None:
        clauses.append("COALESCE(start_epoch_s, end_epoch_s) < ?")
        parameters.append(selection.end_epoch_s)
    if selection.start_epoch_s is not None:  # the first condition is for the index
        clauses.append("end_epoch_s >= ? AND (end_epoch_s > ? OR COALESCE(start_epoch_s, end_epoch_s) >= ?)")
        parameters += [selection.start_epoch_s] * 3
    lists: tuple[tuple[str, tuple[str | int, ...]], ...] = (
        ("user_name", selection.users),
        ("partition", selection.partitions),
        ("account", selection.accounts),
        ("cluster", selection.clusters),
        ("job_id", selection.job_ids),
    )
    for column, values in lists:
        if values:
            clauses.append(f"{column} IN ({', '.join('?' * len(values))})")
            parameters += values
    return " AND ".join(clauses) or "1", parameters
