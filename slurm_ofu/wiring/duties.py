"""What the collector does from time to time, besides taking records in."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_ofu.errors import OfuError
from slurm_ofu.values import Config
from slurm_ofu.wiring.completing import Completer
from slurm_ofu.wiring.writing_back import write_back_due

WRITE_BACK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Something to be done every so often. ``run`` says what an operator should know of it, if anything;
    an OfuError or OSError of it is told, and it is done again at its next time."""

    name: str
    every_seconds: float
    run: Callable[[], str | None]


def duties(config: Config) -> Sequence[Duty]:
    """The duties that a configuration asks for, in the order in which they are done."""
    found = []
    if config.accounting.source != "none":
        found.append(
            Duty(
                name="accounting",
                every_seconds=config.accounting.every_seconds,
                run=Completion(config),
            )
        )
    if config.write_back.enabled:
        found.append(
            Duty(
                name="write-back",
                every_seconds=min(WRITE_BACK_SECONDS, config.accounting.every_seconds),
                run=ToldOnce(lambda: write_back_due(config, time.time())),
            )
        )
    return found


class ToldOnce:
    """A duty's work. A trouble of it is told once, not each time, and so is its end."""

    def __init__(self, run: Callable[[], str | None]) -> None:
        self._run = run
        self._trouble: str | None = None

    def __call__(self) -> str | None:
        """Do it; what an operator should know of it."""
        try:
            said = self._run()
        except (OfuError, OSError) as error:
            if str(error) == self._trouble:
                return None
            self._trouble = str(error)
            raise
        had_trouble, self._trouble = self._trouble is not None, None
        lines = ["answers again"] if had_trouble else []
        return "; ".join(lines if said is None else [*lines, said]) or None


class Completion:
    """Slurm's accounting read again and again."""

    def __init__(self, config: Config, completer: Completer | None = None) -> None:
        self._config = config
        self._completer = completer
        self._told_once = ToldOnce(self._look)

    def __call__(self) -> str | None:
        """One look; what an operator should know of it."""
        return self._told_once()

    def _look(self) -> str | None:
        if self._completer is None:
            self._completer = Completer(self._config)
        done = self._completer.look(time.time())
        return f"{done.refused} rows are not such as the database can hold" if done.refused else None


def run_duty(duty: Duty, say: Callable[[str], None]) -> bool:
    """Do it once. False: it failed, which was told."""
    try:
        line = duty.run()
    except (OfuError, OSError) as error:
        say(f"{duty.name}: {error}")
        return False
    if line is not None:
        say(f"{duty.name}: {line}")
    return True


class DutyThread:
    """Does duties, one after the other, beside the collector's own work: Slurm's accounting may take its
    time, and records are taken in meanwhile."""

    def __init__(self, given: Sequence[Duty], say: Callable[[str], None]) -> None:
        self._given, self._say = given, say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duties", daemon=True)

    def start(self) -> None:
        """Begin with each of them."""
        if self._given:
            self._thread.start()

    def has_failed(self) -> bool:
        """Whether an error that nobody foresaw has ended it; Python has told which."""
        return bool(self._given) and not self._stop.is_set() and not self._thread.is_alive()

    def stop(self, within_seconds: float) -> None:
        """Begin no further one, and give the one at work some time to end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(within_seconds)

    def _run(self) -> None:
        due = dict.fromkeys(range(len(self._given)), 0.0)
        while not self._stop.is_set():
            number = min(due, key=lambda each: (due[each], each))
            if self._stop.wait(max(0.0, due[number] - time.monotonic())):
                return
            run_duty(self._given[number], self._say)
            due[number] = time.monotonic() + self._given[number].every_seconds
