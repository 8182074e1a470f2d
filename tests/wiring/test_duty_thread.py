"""Duties beside the collector's own work."""

import threading
from collections.abc import Callable

import pytest

from slurm_ofu.errors import AccountingError, ConfigError
from slurm_ofu.values import Config
from slurm_ofu.wiring.completing import Completed, Completer
from slurm_ofu.wiring.duties import Completion, Duty, DutyThread, ToldOnce, run_duty
from tests.services.processes import poll


def duty(name: str, run: Callable[[], str | None], every_seconds: float = 0.01) -> Duty:
    return Duty(name=name, every_seconds=every_seconds, run=run)


def raising(error: Exception) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def test_what_a_duty_says_is_told_with_its_name() -> None:
    """A line is told with the duty's name, nothing is not told, and neither is a failure."""
    said: list[str] = []
    assert run_duty(duty("one", lambda: "two jobs"), said.append)
    assert run_duty(duty("one", lambda: None), said.append)
    assert ["one: two jobs"] == said


@pytest.mark.parametrize("error", [AccountingError("slurmdbd is away"), OSError("away"), ConfigError("x")])
def test_a_duty_that_fails_is_told(error: Exception) -> None:
    """An error that was to be expected is told, and no more comes of it."""
    said: list[str] = []
    assert not run_duty(duty("one", raising(error)), said.append)
    assert [f"one: {error}"] == said


class Looks(Completer):
    """Says, look by look, what it was given."""

    def __init__(self, *answers: Completed | AccountingError) -> None:
        self._answers = list(answers)

    def look(self, now_epoch_s: float) -> Completed:
        answer = self._answers.pop(0)
        if isinstance(answer, AccountingError):
            raise answer
        return answer


def test_a_trouble_is_over_when_it_answers_with_refused_rows_too() -> None:
    """It is told once, that it is over is told, and so is the same trouble when it comes back."""
    away, refused = AccountingError("slurmdbd is away"), Completed(rows=1, refused=1)
    completion = Completion(
        Config(path="/x", database="sqlite:///x", database_group=None),
        Looks(away, away, refused, Completed(), away),
    )
    with pytest.raises(AccountingError):
        completion()
    assert None is completion()
    assert "answers again; 1 rows are not such as the database can hold" == completion()
    assert None is completion()
    with pytest.raises(AccountingError):
        completion()


def test_duties_are_done_in_order_again_and_again() -> None:
    """Each is done at once, in the order given, and then at its own pace, whatever becomes of the others."""
    done: list[str] = []
    thread = DutyThread(
        [
            duty("slow", lambda: done.append("slow"), 3600.0),
            duty("bad", raising(AccountingError("away"))),
            duty("fast", lambda: done.append("fast")),
        ],
        lambda line: None,
    )
    thread.start()
    poll(lambda: done.count("fast") > 5, 30, "the fast one to be done again and again")
    thread.stop(30)
    assert (["slow", "fast"], 1) == (done[:2], done.count("slow"))
    assert not thread.has_failed()
    count = len(done)
    thread.stop(30)
    assert count == len(done)


def test_no_duties_are_no_trouble() -> None:
    """Without duties there is no thread to start, to fail or to stop."""
    thread = DutyThread([], print)
    thread.start()
    thread.stop(1)
    assert not thread.has_failed()


def test_a_duty_at_work_is_not_waited_for_for_ever() -> None:
    """A duty that takes longer than the end may take is left behind."""
    begun, release = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        release.wait(60)

    thread = DutyThread([duty("long", run)], print)
    thread.start()
    assert begun.wait(30)
    thread.stop(0.05)
    release.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_nobody_foresaw_is_noticed() -> None:
    """A duty's mistake of another kind ends the thread, which the collector can see."""
    thread = DutyThread([duty("wrong", raising(KeyError("x")))], print)
    thread.start()
    poll(thread.has_failed, 30, "the failure to be seen")


def test_a_duty_in_trouble_every_minute_is_told_once() -> None:
    """The same trouble again is not told again; another one is, and so is its end, with what was done."""
    away, denied = AccountingError("slurmdbd is away"), AccountingError("not allowed")
    answers: list[AccountingError | str | None] = [away, away, denied, denied, None, None, away, "2 written"]

    def work() -> str | None:
        answer = answers.pop(0)
        if isinstance(answer, AccountingError):
            raise answer
        return answer

    said: list[str] = []
    one = duty("one", ToldOnce(work))
    while answers:
        run_duty(one, said.append)
    assert [
        "one: slurmdbd is away",
        "one: not allowed",
        "one: answers again",
        "one: slurmdbd is away",
        "one: answers again; 2 written",
    ] == said
