"""Runs of the tests on one version each: in rooms of Debian's suites, and on this machine itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.services.slurm_daemons import PATH

from . import pyslurm_wheel, roots, venvs
from .cache import CacheError
from .results import MARK, VARIABLE, Result, read
from .room import OUTPUT, REPOSITORY, VENV, Room
from .suites import SUITES, Suite
from .versions import os_release

ROOT = Path(__file__).resolve().parents[2]
HOST = "host"
PYTEST = ("python", "-m", "pytest", "-m", MARK)
#: Clusters at the same time on one version, when all of its tests run.
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
PASSED_ON = ("OFU_TEST_REQUIRE_ALL", "OFU_TEST_KEEP", "TERM")
PRINTING = threading.Lock()


def say(name: str, text: str) -> None:
    """Lines about one version, told apart from those about the others that run at the same time."""
    with PRINTING:
        for line in text.splitlines():
            print(f"{name:<8} | {line}", flush=True)


def all_required() -> bool:
    """Whether nothing may be skipped."""
    return os.environ.get("OFU_TEST_REQUIRE_ALL") == "1"


def host_suite() -> str | None:
    """The suite that this machine is, if its Slurm is installed."""
    release = os_release()
    name = release.get("VERSION_CODENAME")
    known = release.get("ID") == "debian" and name in [suite.name for suite in SUITES]
    return name if known and shutil.which("slurmd", path=PATH) else None


@contextmanager
def room_of(suite: Suite, cache: Path, results: Path) -> Iterator[Room]:
    """A room of a suite with this project in it; all but the project comes from the cache if it is there."""

    def tell(text: str) -> None:
        say(suite.name, text)

    results.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        held = stack.enter_context(roots.entry(suite, cache, os.environ, tell).held())
        pyslurm = held_pyslurm(suite, held, tell, stack)
        venv = stack.enter_context(venvs.entry(held, pyslurm, tell).held())
        binds = {VENV: str(venv), OUTPUT: str(results)}
        yield Room(root=str(held / "root"), binds=binds, writable=(OUTPUT,), repository=str(ROOT))


def held_pyslurm(suite: Suite, held: Path, tell: Callable[[str], None], stack: ExitStack) -> Path | None:
    """The folder with pyslurm's wheel; where nothing may be skipped, one that cannot be built is an error."""
    if suite.pyslurm is None:
        return None
    try:
        return stack.enter_context(pyslurm_wheel.entry(suite.pyslurm, held, tell).held())
    except CacheError as error:
        if all_required():
            raise
        tell(f"{error}\nNO PYSLURM: the tests of our reader of it are skipped")
        return None


def run_in_room(
    suite: Suite, cache: Path, results: Path, pytest_arguments: Sequence[str], later_s: float
) -> bool:
    """Run the tests on one suite's Slurm; whether all passed. Results are those of all tests only."""
    try:
        with room_of(suite, cache, results) as room:
            variables = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
            if not pytest_arguments:
                variables[VARIABLE] = f"{OUTPUT}/{suite.name}.json"
            argv = [*PYTEST, "-p", "no:cacheprovider", *(pytest_arguments or SIDE_BY_SIDE)]
            time.sleep(later_s)
            return narrated(suite.name, room.command(argv, variables, REPOSITORY))
    except CacheError as error:
        say(suite.name, str(error))
        return False


def prepare(suite: Suite, cache: Path, results: Path) -> bool:
    """Have everything in the cache that a run on a suite takes; whether that worked."""
    try:
        with room_of(suite, cache, results):
            say(suite.name, "ready")
            return True
    except CacheError as error:
        say(suite.name, str(error))
        return False


def run_on_host(results: Path) -> bool:
    """Run the same tests on this machine's own Slurm; whether all passed."""
    variables = {**os.environ, VARIABLE: str(results / f"{HOST}.json")}
    argv = [sys.executable, *PYTEST[1:]]
    return subprocess.run(argv, cwd=ROOT, env=variables, check=False).returncode == 0


def narrated(name: str, argv: Sequence[str]) -> bool:
    """Run a command and pass on what it says, line by line; whether it succeeded."""
    began = time.monotonic()
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(name, line)
    say(name, f"exit {process.returncode} after {time.monotonic() - began:.0f} s")
    return process.returncode == 0


def result_of(results: Path, name: str) -> Result | None:
    """What a run wrote, if it did."""
    path = results / f"{name}.json"
    return read(path.read_text()) if path.exists() else None


def covers(host: Result | None, others: Sequence[Result]) -> bool:
    """Whether this machine's result, which ``make test`` left, has every test of the others."""
    wanted = {test.test for other in others for test in other.tests}
    return host is not None and wanted <= {test.test for test in host.tests}
