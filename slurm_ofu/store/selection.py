"""A Selection as the WHERE clause of a query over table run, with its parameters. Pure."""

from typing import Final

from slurm_ofu.values import Selection, StoredGroup

#: What a group is, by the columns of run.
GROUPS: Final[dict[StoredGroup, str]] = {
    "job": "run_id",
    "user": "user_name",
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "job-name": "job_name",
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
    )
    for column, values in lists:
        if values:
            clauses.append(f"{column} IN ({', '.join('?' * len(values))})")
            parameters += values
    jobs, job_parameters = _jobs(selection)
    return " AND ".join(clauses + jobs) or "1", parameters + job_parameters


def _jobs(selection: Selection) -> tuple[list[str], list[str | int | float]]:
    """Any of the jobs asked for: by raw id or that of a whole, by task, by component."""
    clauses: list[str] = []
    parameters: list[str | int | float] = []
    for column in ("job_id", "array_job_id", "het_job_id") if selection.job_ids else ():
        clauses.append(f"{column} IN ({', '.join('?' * len(selection.job_ids))})")
        parameters += selection.job_ids
    for whole, part, pairs in (
        ("array_job_id", "array_task_id", selection.array_tasks),
        ("het_job_id", "het_offset", selection.het_components),
    ):
        if pairs:  # the first condition is for the index
            listed = ", ".join(["(?, ?)"] * len(pairs))
            clauses.append(
                f"{whole} IN ({', '.join('?' * len(pairs))}) AND ({whole}, {part}) IN (VALUES {listed})"
            )
            parameters += [first for first, _ in pairs]
            parameters += [number for pair in pairs for number in pair]
    return [f"({' OR '.join(clauses)})"] if clauses else [], parameters
