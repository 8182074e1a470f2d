"""docs/slurm-versions.md, made from the results of a run on every version.

Compared with the repository's are the promises and Slurm's major versions only: that Debian updates a package
makes the document of nobody wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .results import Result, read
from .versions import major, ordered

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/slurm-versions.md"
RESULTS = ROOT / "build/slurm-versions"

INTRODUCTION = """\
# Slurm versions

Each line is a promise that tests keep or break on a real cluster of that version: munge, MariaDB, slurmdbd,
slurmctld and several slurmd, real jobs, real hooks. `make test-matrix` runs them all and writes this file.
"no": that Slurm has nothing to keep the promise with.
"""
#: What the tests of a folder are about; a promise stands under the first folder that has a test of it.
HEADINGS = {
    "tests/e2e/": "From jobs to reports",
    "tests/slurm/": "Asking and writing Slurm's accounting",
    "": "Slurm as the tests run it",
}
SEEN_ON = "\n## Seen on\n\n"
WORDS = {"passed": "yes", "skipped": "no", "failed": "**fails**"}
NOTE = """
pyslurm is made for one Slurm release and there is none for these: its tests run on pyslurm 25.11 built
against 26.05, an unofficial pairing that is good for a test and not advised to anybody.
"""


def in_order(results: Sequence[Result]) -> list[Result]:
    """By Slurm's version."""
    return sorted(results, key=lambda result: ordered(result.versions.slurm or ""))


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def grouped(results: Sequence[Result]) -> dict[str, list[str]]:
    """Every promise, sorted, under its heading."""
    left = {test.promise for result in results for test in result.tests}
    groups: dict[str, list[str]] = {}
    for folder, heading in HEADINGS.items():
        here = {test.promise for result in results for test in result.tests if test.test.startswith(folder)}
        groups[heading] = sorted(left & here, key=str.casefold)
        left -= here
    return {heading: promises for heading, promises in groups.items() if promises}


def promised(results: Sequence[Result]) -> str:
    """The tables of promises."""
    columns = [result.by_promise() for result in in_order(results)]
    names = [f"Slurm {major(result.versions.slurm or 'none')}" for result in in_order(results)]
    text = ""
    for heading, promises in grouped(results).items():
        text += f"\n## {heading}\n\n{row(['', *names])}{row(['---'] * (len(names) + 1))}"
        for promise in promises:
            text += row([promise, *(WORDS[column.get(promise, "skipped")] for column in columns)])
    return text


def seen_on(results: Sequence[Result]) -> str:
    """The table of what the versions were, for people."""
    text = row(["Slurm", "Debian", "Python", "MariaDB"]) + row(["---"] * 4)
    for result in in_order(results):
        here = result.versions
        text += row([str(here.slurm), here.system, here.python, str(here.mariadb)])
    return text


def document(results: Sequence[Result]) -> str:
    """The whole file."""
    note = NOTE if any("pyslurm" in test.promise for result in results for test in result.tests) else ""
    return f"{INTRODUCTION}{promised(results)}{note}{SEEN_ON}{seen_on(results)}"


def same_promises(one: str, other: str) -> bool:
    """Whether two documents say the same, whatever minor versions they were made on."""
    return one.partition(SEEN_ON)[0] == other.partition(SEEN_ON)[0]


def results_in(folder: Path) -> list[Result]:
    """Every result of a folder."""
    return [read(path.read_text()) for path in sorted(folder.glob("*.json"))]


def main(arguments: Sequence[str]) -> int:
    """Write the document if it says something else; with --check say so and fail."""
    options = argparse.ArgumentParser(prog="python -m tests.matrix.table", description=main.__doc__)
    options.add_argument(
        "--check", action="store_true", default=os.environ.get("OFU_TEST_REQUIRE_ALL") == "1"
    )
    check: bool = options.parse_args(arguments).check
    new = document(results_in(RESULTS))
    old = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    name = DOCUMENT.relative_to(ROOT)
    if same_promises(old, new):
        return 0
    if check:
        print(f"{name} is not what the run showed: run make test-matrix and commit {name}", file=sys.stderr)
        return 1
    DOCUMENT.write_text(new)
    print(f"written anew: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
