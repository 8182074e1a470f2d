"""Completion in real shells, and the manual pages."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.shell_files import COMMANDS, COMPLETIONS, ROOT, completion_path, shell_files

pytestmark = pytest.mark.filterwarnings("ignore:.*make_default_short_help:DeprecationWarning")  # click-man's
PATIENCE_SECONDS = 120.0  # a shell, and a Python behind each completion, on a busy machine


def require(program: str) -> None:
    """Skip the test where the program is missing, or fail it when OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    if shutil.which(program) is None:
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail(f"{program} is missing: tests/prepare.sh installs it")
        pytest.skip(f"{program} is missing")


def test_they_are_what_the_commands_say() -> None:
    """share/ is what click and click-man make of the commands; `make docs` writes it anew."""
    made = shell_files()
    kept = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in ROOT.glob("share/**/*")
        if path.is_file()
    }
    assert sorted(made) == sorted(kept)
    assert [] == [name for name, text in made.items() if text != kept[name]]


def test_every_command_has_all_of_them() -> None:
    """Each command has its completion in three shells and a manual page."""
    paths = {completion_path(shell, name) for name in COMMANDS for shell in COMPLETIONS}
    pages = {f"share/man/man1/{name}.1" for name in COMMANDS}
    assert paths | pages <= set(shell_files())


def test_manual_pages_are_sound() -> None:
    """groff finds nothing amiss in any page, and shows what stands in it."""
    require("groff")
    pages = [ROOT / name for name in shell_files() if name.startswith("share/man/")]
    command = ["groff", "-ww", "-K", "utf8", "-man", "-T", "utf8", *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    plain = subprocess.run(["col", "-b", "-x"], input=done.stdout, capture_output=True, text=True, check=True)
    for words in ("--helpformat", "  3  a job id is malformed", "ofu-report -j 4711,4712 "):
        assert words in plain.stdout


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Path]:
    """A folder with an ofu-report that completes as the real one does, and else says what it was given."""
    script = tmp_path / "bin" / "ofu-report"
    script.parent.mkdir()
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from slurm_ofu.cli.report import main; main()"
    script.write_text(
        "#!/bin/sh\n"
        f"""[ -z "$_OFU_REPORT_COMPLETE" ] || exec {sys.executable} -c "{program}"\n"""
        'echo "GIVEN:" "$@" ":"\n'
    )
    script.chmod(0o755)
    yield script.parent


STARTS = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), "source {file}"),
    "zsh": (("zsh", "-f", "-i"), "fpath=({file:h} $fpath); autoload -Uz compinit; compinit -u -D"),
    "fish": (("fish", "--no-config", "-i"), "source {file}"),
}


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        self._shown = ""

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until this was shown since it was last waited for."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self._shown:
            assert time.monotonic() < end, self._shown
            if select.select([self._master], [], [], 1.0)[0]:
                self._shown += os.read(self._master, 65536).decode(errors="replace")
        self._shown = self._shown.partition(text)[2]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.fixture(params=sorted(STARTS))
def shell(request: pytest.FixtureRequest, command: Path, tmp_path: Path) -> Iterator[Shell]:
    """A shell in which completion was set up as an installation does it."""
    name: str = request.param
    require(name)
    arguments, setup = STARTS[name]
    file = ROOT / completion_path(name, "ofu-report")
    path = f"{command}:{os.environ['PATH']}"
    opened = Shell(arguments, {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "LC_ALL": "C.UTF-8"})
    opened.type(setup.replace("{file:h}", str(file.parent)).replace("{file}", str(file)) + "\n")
    opened.type("echo rea''dy\n")
    opened.wait_for("ready")
    yield opened
    with suppress(ProcessLookupError):
        opened.close()


COMPLETED = (
    ("--by use\t", "--by user"),
    ("--helpf\t", "--helpformat"),
    ("--allu\t", "--allusers"),
    ("-s PREE\t", "-s PREEMPTED"),
    ("-s FAILED,PREE\t", "-s FAILED,PREEMPTED"),
    ("-o JobID,Cov\t", "-o JobID,Coverage"),
)


def test_completion(shell: Shell) -> None:
    """Tab completes a word of --by, options, a state, and what stands after a comma."""
    for typed, completed in COMPLETED:
        shell.type(f"ofu-report {typed}")
        shell.wait_for(completed)
        shell.type("\n")
        shell.wait_for(f"GIVEN: {completed} :")
