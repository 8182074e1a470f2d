"""Job ids as Slurm shows them and people write them: 123, 123_4, 123_[1-5,7%2], 123+1, 123.batch."""

import re
from typing import Final

import click

from slurm_ofu.cli.options import MalformedJobId
from slurm_ofu.reports.asked_jobs import AskedJob

_LARGEST: Final = 2**32 - 1
_MOST_TASKS: Final = 1000  # of one array by their numbers
_NUMBER: Final = "[0-9]{1,10}"
# What follows a % is how many tasks run at once; what follows a dot is a step.
_FORM: Final = re.compile(
    rf"({_NUMBER})(?:_({_NUMBER})|_\[([0-9,-]+)(?:%{_NUMBER})?\]|\+({_NUMBER}))?(?:\.[0-9A-Za-z_+]+)?"
)
_RANGE: Final = re.compile(rf"({_NUMBER})(?:-({_NUMBER}))?")
_BARE_RANGE: Final = re.compile(rf"({_NUMBER})_({_NUMBER}-{_NUMBER})")
_BETWEEN: Final = re.compile(r",(?![^\[\]]*\])")  # commas, but not those within [ ]


def asked_jobs(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> tuple[AskedJob, ...]:
    """A click callback: the jobs of a repeatable option with commas, each once, in their order; a comma
    after the last one is no harm, and a step stands for its job. Raises MalformedJobId."""
    texts = [text.strip() for ids in lists for text in _BETWEEN.split(ids.strip().removesuffix(","))]
    return tuple(map(_asked_job, dict.fromkeys(texts)))


def _asked_job(text: str) -> AskedJob:
    match = _FORM.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= _LARGEST:
        raise _malformed(text)
    job_id = int(match[1])
    if match[2] is not None:
        return AskedJob(text=text, array_tasks=((job_id, int(match[2])),))
    if match[3] is not None:
        return AskedJob(text=text, array_tasks=tuple((job_id, task) for task in _tasks(match[3], text)))
    if match[4] is not None:
        return AskedJob(text=text, het_component=(job_id, int(match[4])))
    return AskedJob(text=text, job_id=job_id)


def _tasks(numbers: str, text: str) -> tuple[int, ...]:
    """The tasks in ``1,3-5``, each once. Raises MalformedJobId."""
    tasks: dict[int, None] = {}
    for part in numbers.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise _malformed(text)
        if len(tasks) + last - first >= _MOST_TASKS:
            whole = text.partition("_")[0]
            raise MalformedJobId(f"{text!r} names over {_MOST_TASKS} tasks: ask for the whole array, {whole}")
        tasks.update(dict.fromkeys(range(first, last + 1)))
    return tuple(tasks)


def _malformed(text: str) -> MalformedJobId:
    if tasks := _BARE_RANGE.fullmatch(text):
        return MalformedJobId(f"{text!r} is not a job id: write {tasks[1]}_[{tasks[2]}] for several tasks")
    return MalformedJobId(
        f"{text!r} is not a job id: write 1234 (also of a whole array or heterogeneous job),"
        " 1234_7 or 1234_[1-5] for tasks of an array, 1234+1 for a component"
    )
