"""What a run is called, how it ended and how long it ran, in Slurm's own words."""

from dataclasses import replace
from typing import Final

from slurm_ofu.values import ReconciledRun, RunRow, UsageRow, UsageSums
from slurm_ofu.values.states import PASSING_STATES

_STOPPED: Final = ("SUSPENDED", "STOPPED")
_ORDINAL_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


def display_job_id(run: RunRow | ReconciledRun) -> str:
    """The job's id as Slurm shows it: 123_4 for an array's task, 123+1 for a component, else the raw one.

    Only accounting knows of arrays; until it was read this is the raw id.
    """
    if run.array_job_id is not None and run.array_task_id is not None:
        return f"{run.array_job_id}_{run.array_task_id}"
    if run.het_job_id is not None and run.het_offset is not None:
        return f"{run.het_job_id}+{run.het_offset}"
    return str(run.job_id)


def final_state(run: RunRow) -> str | None:
    """The state in which it ended; ``None`` while that is not known, though Slurm has some state for it."""
    return None if run.state is None or is_passing(run.state) else run.state


def shown_state(run: RunRow) -> str | None:
    """The state to show: the one in which it ended, that it runs, or that Slurm has stopped it."""
    if run.running:
        return run.state if run.state in _STOPPED else "RUNNING"
    return final_state(run)


def is_passing(state: str) -> bool:
    """Whether a job in this state has not ended."""
    return state in PASSING_STATES


def sums_of(row: UsageRow) -> UsageSums:
    """A row's sums. A run that only Slurm knows of has no node that could say why nothing was measured."""
    silent = row.run is not None and not row.run.heard
    return replace(row.sums, reasons=("not_delivered",)) if silent and not row.sums.reasons else row.sums


def elapsed(seconds: float) -> str:
    """A length of time as Slurm writes it, [D-]HH:MM:SS."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02}:{minute:02}:{second:02}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else _ORDINAL_ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"
