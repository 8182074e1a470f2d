"""Which chroots there are, and when another one has to be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .suites import SUITES, Suite, UnknownSuite, chosen


def names(suites: tuple[Suite, ...]) -> list[str]:
    return [suite.name for suite in suites]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("bookworm", ["trixie", "forky"]),
        ("trixie", ["bookworm", "forky"]),
        (None, ["bookworm", "trixie", "forky"]),
    ],
)
def test_chroots_are_for_what_this_machine_lacks(host: str | None, expected: list[str]) -> None:
    """Unless asked for others, all suites but this machine's own are run."""
    assert expected == names(chosen([], host))


def test_a_suite_that_is_asked_for_is_run_whatever_this_machine_is() -> None:
    """Also the machine's own suite can have a chroot, in the order asked for."""
    assert ["forky", "bookworm"] == names(chosen(["forky", "bookworm"], "bookworm"))


def test_an_unknown_suite_is_named_with_those_there_are() -> None:
    """A typing error is no empty run."""
    with pytest.raises(UnknownSuite, match=r"no suite trixy .* bookworm, trixie, forky"):
        chosen(["trixy"], None)


def test_a_key_is_that_of_its_recipe() -> None:
    """Another suite, package or architecture is another chroot; the order of packages is none."""
    one = SUITES[0]
    others = [replace(one, name="trixie"), replace(one, packages=(*one.packages, "jq"))]
    keys = {one.key("amd64"), one.key("arm64"), *(other.key("amd64") for other in others)}
    assert 4 == len(keys)
    assert one.key("amd64") == replace(one, packages=tuple(reversed(one.packages))).key("amd64")
    assert one.key("amd64").startswith("bookworm-")
