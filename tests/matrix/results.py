"""What a run of the tests showed, promise by promise, as pytest hooks that write it down and a value to read.

A test that depends on Slurm's version carries the promise it proves in words:
``@pytest.mark.slurm_versions("a requeued job is two runs")``. With ``since="24.11"`` older versions cannot
keep it: there it is skipped, also where skips are forbidden, and the table says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from .versions import Versions, ordered, versions_here

MARK = "slurm_versions"
#: The file to write; not set: nothing is written.
VARIABLE = "OFU_TEST_RESULT"
#: From the least to the most telling, when a test has several phases.
OUTCOMES = ("skipped", "passed", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test's outcome: one of ``OUTCOMES``."""

    test: str
    promise: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run on one Slurm."""

    versions: Versions
    tests: tuple[Outcome, ...]

    def by_promise(self) -> dict[str, str]:
        """Each promise's outcome: failed if any test of it failed, skipped if all were."""
        found: dict[str, str] = {}
        for test in self.tests:
            found[test.promise] = max(found.get(test.promise, "skipped"), test.outcome, key=OUTCOMES.index)
        return found

    def text(self) -> str:
        """JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read(text: str) -> Result:
    """The value that was written with `Result.text`."""
    told = json.loads(text)
    return Result(
        versions=Versions(**told["versions"]), tests=tuple(Outcome(**each) for each in told["tests"])
    )


# ------------------------------------------------------------------------------ pytest hooks, for a conftest


def pytest_configure(config: pytest.Config) -> None:
    """Note outcomes where all reports arrive: with pytest-xdist in no process that runs tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Have each test's reports carry its promise, and skip what this Slurm is too old for."""
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker(MARK))]
    here = versions_here().slurm if marked else None
    for item, mark in marked:
        item.user_properties.append((MARK, promise(item, mark)))
        since: str | None = mark.kwargs.get("since")
        if since is not None and is_too_old(here, since):
            item.add_marker(pytest.mark.skip(reason=f"Slurm {here} cannot: it takes {since}"))


def is_too_old(here: str | None, since: str) -> bool:
    """Whether the Slurm that is here is known to be older than a version."""
    return here is not None and ordered(here) < ordered(since)


def promise(item: pytest.Item, mark: pytest.Mark) -> str:
    """The promise in a marker, or an error that names the test without."""
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or set(mark.kwargs) - {"since"}:
        raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.{MARK}("promise in words", since="24.11")')
    text: str = mark.args[0]
    return text


class Recorder:
    """What the reports of a run's tests say, as they arrive."""

    def __init__(self) -> None:
        self.promises: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.on_slurm = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of one phase of a test."""
        self.on_slurm = self.on_slurm or "slurm" in report.keywords
        told: dict[str, object] = dict(report.user_properties)
        if MARK not in told:
            return
        outcome = "skipped" if report.skipped else "failed" if report.failed else "passed"
        if report.when == "call" or outcome != "passed":
            before = self.outcomes.get(report.nodeid, "skipped")
            self.outcomes[report.nodeid] = max(before, outcome, key=OUTCOMES.index)
            self.promises[report.nodeid] = str(told[MARK])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which Slurm the tests ran on, if any of them needed one."""
        if self.on_slurm or self.outcomes:
            terminalreporter.write_line(versions_here().line())

    def pytest_sessionfinish(self) -> None:
        """Write the result where it is wanted."""
        wanted = os.environ.get(VARIABLE)
        if not wanted or not self.outcomes:
            return
        path = Path(wanted)
        path.parent.mkdir(parents=True, exist_ok=True)
        tests = tuple(
            Outcome(test=name, promise=self.promises[name], outcome=outcome)
            for name, outcome in sorted(self.outcomes.items())
        )
        path.write_text(Result(versions=versions_here(), tests=tests).text())
