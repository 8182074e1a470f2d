"""What is said where no job matches."""

from dataclasses import replace

from slurm_ofu.reports.question import nothing_found, states_unknown
from tests.reports.examples import question


def test_whose_jobs_were_asked_for() -> None:
    """Who named no user saw only his own jobs, and hears how to ask for others'."""
    asked = question(users=("nobody",))
    assert "-a asks for everybody's jobs, -u NAME for another's" in nothing_found(replace(asked, own=True))
    assert "-a" not in nothing_found(asked)


def test_when_a_running_job_appears() -> None:
    """With its first record, which the setting that is named says."""
    running = question(states=("RUNNING",))
    assert "with its nodes' first record ([sampler] interim_seconds)" in nothing_found(running)
    assert "interim" not in nothing_found(question(states=("FAILED",)))


def test_how_many_are_of_no_state_yet() -> None:
    """One is told as one."""
    assert states_unknown(1).startswith("1 run of unknown state was left out: ")
    assert states_unknown(3).startswith("3 runs of unknown state were left out: ")
