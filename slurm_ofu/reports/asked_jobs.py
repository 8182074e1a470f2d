"""Jobs as somebody asked for them, and which of them were found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_ofu.values import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A job as somebody asked for it: by its id (of an array or a heterogeneous job: all of it), or by
    some tasks of an array, or by one component."""

    text: str  # as it was asked for
    job_id: int | None = None
    array_tasks: tuple[tuple[int, int], ...] = ()  # (array job id, task id)
    het_component: tuple[int, int] | None = None  # (leader's job id, offset)

    def covers(self, run: RunRow) -> bool:
        """Whether the run is one that was asked for."""
        if self.job_id is not None and self.job_id in (run.job_id, run.array_job_id, run.het_job_id):
            return True
        task, component = (run.array_job_id, run.array_task_id), (run.het_job_id, run.het_offset)
        return task in self.array_tasks or component == self.het_component

    def without(self, runs: Sequence[RunRow]) -> "AskedJob | None":
        """What of it is not among the runs; ``None``: all of it is there."""
        if not any(map(self.covers, runs)):
            return self
        found = {(run.array_job_id, run.array_task_id) for run in runs}
        missing = tuple(task for task in self.array_tasks if task not in found)
        return AskedJob(text=_tasks_text(missing), array_tasks=missing) if missing else None


def in_order_asked(asked: Sequence[AskedJob], runs: Iterable[RunRow]) -> list[RunRow]:
    """The runs job by job in the order in which these were asked for; each only once."""

    def place(run: RunRow) -> tuple[int, str, int, int, int]:
        number = next(number for number, job in enumerate(asked) if job.covers(run))
        return number, run.cluster, run.array_task_id or 0, run.het_offset or 0, run.run_id

    return sorted((run for run in runs if any(job.covers(run) for job in asked)), key=place)


def not_found(asked: Sequence[AskedJob], runs: Sequence[RunRow]) -> tuple[AskedJob, ...]:
    """Which of the jobs that were asked for are not among the runs."""
    rest = (job.without(runs) for job in asked)
    return tuple(job for job in rest if job is not None)


def _tasks_text(tasks: Sequence[tuple[int, int]]) -> str:
    """Tasks of one array as Slurm writes them: 123_4, 123_[1,3-5]."""
    numbers = sorted(task for _, task in tasks)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    text = ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return f"{tasks[0][0]}_{text}" if len(numbers) == 1 else f"{tasks[0][0]}_[{text}]"
