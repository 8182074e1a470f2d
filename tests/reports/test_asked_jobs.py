"""Which jobs were asked for, and which of them were found."""

import pytest

from slurm_ofu.reports.asked_jobs import AskedJob, in_order_asked, not_found
from slurm_ofu.reports.question import Question, nothing_found
from slurm_ofu.values import RunRow, Selection
from tests.reports.examples import CET, run

PLAIN = run(7)
# Their records came in the other way round.
TASKS = [run(100 + task, run_id=100 - task, array_job_id=100, array_task_id=task) for task in (3, 4, 12)]
LEADER, COMPONENT = (run(200 + n, run_id=200 - n, het_job_id=200, het_offset=n) for n in (0, 1))
RUNS = [COMPONENT, *reversed(TASKS), PLAIN, LEADER]


def asked(text: str, *tasks: int) -> AskedJob:
    """Tasks of array 100."""
    return AskedJob(text=text, array_tasks=tuple((100, task) for task in tasks))


@pytest.mark.parametrize(
    ("job", "found"),
    [
        (AskedJob(text="7", job_id=7), [PLAIN]),
        (AskedJob(text="104", job_id=104), [TASKS[1]]),
        (AskedJob(text="100", job_id=100), TASKS),
        (AskedJob(text="200", job_id=200), [LEADER, COMPONENT]),
        (AskedJob(text="200+1", het_component=(200, 1)), [COMPONENT]),
        (asked("100_4", 4), [TASKS[1]]),
        (asked("100_[3,12]", 3, 12), [TASKS[0], TASKS[2]]),
        (AskedJob(text="8", job_id=8), []),
    ],
)
def test_what_an_id_covers(job: AskedJob, found: list[RunRow]) -> None:
    """An id covers its job, or all of an array or heterogeneous job; a task or component is one of them."""
    assert found == in_order_asked([job], RUNS)


def test_the_order_is_that_of_the_question() -> None:
    """Runs come in the order in which their jobs were asked for, tasks by their number, each run once."""
    jobs = [AskedJob(text="200", job_id=200), asked("100_12", 12), AskedJob(text="100", job_id=100)]
    assert [LEADER, COMPONENT, TASKS[2], *TASKS[:2]] == in_order_asked(jobs, RUNS)


def test_lives_of_one_job_follow_each_other() -> None:
    """A requeued job's runs come oldest first, cluster by cluster."""
    lives = [run(7, run_id=n, cluster=cluster) for n, cluster in ((3, "b"), (1, "b"), (2, "a"))]
    assert [2, 1, 3] == [its.run_id for its in in_order_asked([AskedJob(text="7", job_id=7)], lives)]


@pytest.mark.parametrize(
    ("job", "missing"),
    [
        (AskedJob(text="8", job_id=8), "8"),
        (AskedJob(text="100", job_id=100), None),
        (AskedJob(text="200+2", het_component=(200, 2)), "200+2"),
        (AskedJob(text="200+1", het_component=(200, 1)), None),
        (asked("100_[3-4]", 3, 4), None),
        (asked("100_[3-9]", 3, 4, 5, 6, 7, 8, 9), "100_[5-9]"),
        (asked("100_[12,3,9,1,2]", 12, 3, 9, 1, 2), "100_[1-2,9]"),
        (asked("100_[4-5]", 4, 5), "100_5"),
        (asked("100_[1-2,5]", 1, 2, 5), "100_[1-2,5]"),
    ],
)
def test_what_is_missing_is_named_as_it_was_asked_for(job: AskedJob, missing: str | None) -> None:
    """A job of which nothing was found keeps its name; of tasks found in part the others are named."""
    assert ([] if missing is None else [missing]) == [job.text for job in not_found([job], RUNS)]


def test_nothing_found_names_the_ids_as_asked() -> None:
    """Where nothing matches, the ids stand as they were asked for, and of tasks when they are known."""
    question = Question(selection=Selection(), by="job", zone=CET, jobs=(AskedJob(text="7", job_id=7),))
    ended = "a job appears here with its first record, at the latest when it has ended"
    assert f"no jobs match: job 7 (all times); {ended}" == nothing_found(question)
    of_tasks = Question(selection=Selection(), by="job", zone=CET, jobs=(asked("100_[1-2]", 1, 2),))
    assert nothing_found(of_tasks).startswith(
        f"no jobs match: job 100_[1-2] (all times); {ended}, under such"
    )
