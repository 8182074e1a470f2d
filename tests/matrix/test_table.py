"""The table of promises, from results to the document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .results import Outcome, Result, is_too_old, read
from .runs import covers
from .table import document, grouped, promised, same_promises, seen_on
from .versions import Versions, system_name


def result(slurm: str, **promises: str) -> Result:
    """A result with one test to each promise and outcome, as in ``a="passed failed"``."""
    versions = Versions(slurm=slurm, python="3.11.2", mariadb="10.11.14", system="Debian 12 bookworm")
    tests = tuple(
        Outcome(test=f"test_{promise}[{number}]", promise=promise, outcome=outcome)
        for promise, outcomes in promises.items()
        for number, outcome in enumerate(outcomes.split())
    )
    return Result(versions=versions, tests=tests)


NEW, OLD = (
    result("26.05.5", b="passed", a="passed skipped"),
    result("22.05.8", a="skipped", b="passed failed"),
)


def test_a_promise_is_a_row_and_a_version_a_column() -> None:
    """One failure breaks a promise, one test that ran keeps it, and versions come in their order."""
    assert (
        "\n## Slurm as the tests run it\n\n"
        "|  | Slurm 22.05 | Slurm 26.05 |\n| --- | --- | --- |\n| a | no | yes |\n| b | **fails** | yes |\n"
    ) == promised([NEW, OLD])


def test_promises_stand_under_what_they_are_about() -> None:
    """The folder of a promise's tests says what it is about; where it has several, the first one does."""
    tests = [
        ("tests/slurm/test_a.py::test_b", "b"),
        ("tests/e2e/test_a.py::test_b", "b"),
        ("tests/x.py::t", "c"),
    ]
    outcomes = tuple(Outcome(test=test, promise=promise, outcome="passed") for test, promise in tests)
    expected = {"From jobs to reports": ["b"], "Slurm as the tests run it": ["c"]}
    assert expected == grouped([replace(NEW, tests=outcomes)])


def test_a_promise_without_a_test_on_a_version_is_not_kept_there() -> None:
    """No test, no yes."""
    assert "| c | no | yes |\n" in promised([OLD, result("26.05.5", c="passed")])


@pytest.mark.parametrize(("other", "same"), [("26.05.6", True), ("26.11.0", False)])
def test_only_major_versions_count(other: str, same: bool) -> None:
    """A point release of Slurm leaves the document true; another major version does not."""
    assert same == same_promises(document([NEW]), document([result(other, b="passed", a="passed")]))


def test_a_broken_promise_changes_the_document() -> None:
    """Another outcome is another document."""
    assert not same_promises(document([NEW]), document([result("26.05.5", b="passed", a="failed")]))


def test_full_versions_are_there_for_people() -> None:
    """What was run on is in the document, to the last digit."""
    assert "| 22.05.8 | Debian 12 bookworm | 3.11.2 | 10.11.14 |\n" in seen_on([OLD])


def test_a_result_comes_back_as_it_was_written() -> None:
    """JSON and back."""
    assert NEW == read(NEW.text())


def test_this_machine_s_result_has_to_have_every_test() -> None:
    """A run of some tests only, or none, is not taken for the whole."""
    assert covers(OLD, [result("24.11.5", b="failed")])
    assert not covers(result("22.05.8", b="passed"), [NEW])
    assert not covers(None, [NEW])


@pytest.mark.parametrize(
    ("here", "expected"), [("22.05.8", True), ("24.11.5", False), ("26.05", False), (None, False)]
)
def test_since_is_a_version_and_no_text(here: str | None, expected: bool) -> None:
    """24.11 is later than 22.05, and a Slurm that is not here is not too old."""
    assert expected == is_too_old(here, "24.11")


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ({"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"}, "Debian 12 bookworm"),
        ({"ID": "debian", "VERSION_CODENAME": "forky"}, "Debian forky"),
        ({"ID": "rocky", "NAME": "Rocky Linux", "VERSION_ID": "9.4"}, "Rocky Linux 9.4"),
        ({}, "unknown system"),
    ],
)
def test_a_system_has_a_name(release: dict[str, str], name: str) -> None:
    """Testing has no number yet, other systems no code name."""
    assert name == system_name(release)
