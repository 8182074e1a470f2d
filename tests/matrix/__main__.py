"""``make test-matrix``: the tests that depend on Slurm's version, on every version that Debian has.

Without --versions and --pytest docs/slurm-versions.md is made from the results, or compared with them where
nothing may be skipped.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import runs, table
from .cache import cache_directory
from .room import REPOSITORY
from .roots import missing_requirements
from .suites import Suite, UnknownSuite, chosen

RESULTS = table.RESULTS
#: Runs of the same tests begin apart, so that what is hardest on the machine does not fall together.
APART_S = 10.0


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--versions", default="", help="suites, as in trixie,forky; default: all but this machine's"
    )
    parser.add_argument("--pytest", default="", help='arguments for pytest, as in "-k resize"')
    parser.add_argument(
        "--prepare", action="store_true", help="make what is missing in the cache, run nothing"
    )
    parser.add_argument(
        "--enter", metavar="SUITE", help="run a command (default: a shell) where the tests run"
    )
    parser.add_argument("command", nargs="*")
    return parser.parse_args(arguments)


def enter(suite: Suite, cache: Path, command: Sequence[str]) -> int:
    """Run a command in a room."""
    with runs.room_of(suite, cache, RESULTS) as room:
        told = {"TERM": os.environ.get("TERM", "dumb")}
        return subprocess.run(room.command(command or ["bash"], told, REPOSITORY), check=False).returncode


def run_all(suites: Sequence[Suite], cache: Path, pytest_arguments: Sequence[str]) -> bool:
    """Run the suites at the same time; whether all passed."""

    def run(number: int) -> bool:
        return runs.run_in_room(suites[number], cache, RESULTS, pytest_arguments, number * APART_S)

    with ThreadPoolExecutor(max_workers=len(suites)) as pool:
        return all(list(pool.map(run, range(len(suites)))))


def prepare_all(suites: Sequence[Suite], cache: Path) -> bool:
    """Make every suite's chroot and environment; whether that worked."""
    with ThreadPoolExecutor(max_workers=len(suites)) as pool:
        return all(list(pool.map(lambda suite: runs.prepare(suite, cache, RESULTS), suites)))


def with_host_and_table(suites: Sequence[Suite]) -> int:
    """Complete the results with this machine's own, and see to the table."""
    others = [result for suite in suites if (result := runs.result_of(RESULTS, suite.name))]
    if runs.host_suite() and not runs.covers(runs.result_of(RESULTS, runs.HOST), others):
        print("This machine's own Slurm, whose result `make test` did not leave:", flush=True)
        if not runs.run_on_host(RESULTS):
            return 1
    return table.main([])


def clear() -> None:
    """Remove results of earlier runs, but not this machine's."""
    for path in RESULTS.glob("*.json"):
        if path.stem != runs.HOST:
            path.unlink()


def main(arguments: Sequence[str]) -> int:
    told = parsed(arguments)
    if reason := missing_requirements():
        print(f"test-matrix: {reason}", file=sys.stderr)
        return 1 if runs.all_required() else 0
    try:
        asked = [name for name in told.versions.replace(",", " ").split() if name]
        suites = chosen([told.enter] if told.enter else asked, runs.host_suite())
    except UnknownSuite as error:
        print(f"test-matrix: {error}", file=sys.stderr)
        return 2
    cache, pytest_arguments = cache_directory(os.environ), shlex.split(told.pytest)
    if told.enter:
        return enter(suites[0], cache, told.command)
    if told.prepare:
        return 0 if prepare_all(suites, cache) else 1
    everything = not asked and not pytest_arguments
    if everything:
        clear()
    if not run_all(suites, cache, pytest_arguments):
        return 1
    return with_host_and_table(suites) if everything else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
