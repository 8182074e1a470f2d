"""ofu-report as a process of its own: what only a real process shows."""

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import configuration
from tests.store.databases import make_store

COMMAND = (sys.executable, "-c", "from slurm_ofu.cli.report import main; main()")
NOBODY = 65534


def environment(config: Path, **more: str) -> dict[str, str]:
    """Just what a login shell would have."""
    return {"OFU_CONFIG": str(config), "PATH": os.environ["PATH"], "TZ": "Europe/Berlin", **more}


def test_whole_command(config: Path) -> None:
    """The installed entry point answers from a real database, plain text within 100 columns."""
    done = subprocess.run(
        [*COMMAND, "-a", "-S", "2025-06-01"],
        env=environment(config),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("OFU by job, all users, 2025-06-01 00:00:00 CEST (UTC+02:00) to ")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_closed_pipe_is_silent(config: Path) -> None:
    """A reader that closes the pipe early causes no message and no error."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "-j", ",".join(map(str, range(1001, 1006))), "--json"],
        env=environment(config),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (0, b"") == (done.returncode, done.stderr)


def test_full_disk_is_told() -> None:
    """Output that cannot be written is an error with a message, not a traceback."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (1, b"ofu-report: cannot write: No space left on device\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(("options", "code"), [("-a -S 2025-06-01", 0), ("-a -S now", 2), ("--help", 0)])
def test_closed_stdout_is_no_traceback(config: Path, options: str, code: int) -> None:
    """Who closes stdout wants nothing of it: the exit code still says what was found."""
    script = f"exec {COMMAND[0]} -c '{COMMAND[2]}' {options} >&-"
    done = subprocess.run(["sh", "-c", script], env=environment(config), stderr=subprocess.PIPE, check=False)
    assert (code, False) == (done.returncode, b"Traceback" in done.stderr)


def test_any_output_encoding(config: Path) -> None:
    """A terminal that cannot show a character gets a replacement, not a traceback."""
    done = subprocess.run(
        [*COMMAND, "-j", "1001"],
        env=environment(config, PYTHONIOENCODING="latin-1"),
        capture_output=True,
        check=False,
    )
    assert (0, b"") == (done.returncode, done.stderr)
    assert b"Timeline  ??" in done.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_terminal(config: Path, no_color: str, coloured: bool) -> None:
    """On a terminal the table is coloured, unless NO_COLOR is set."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "-a", "-S", "2025-06-01"],
        env=environment(config, TERM="xterm", NO_COLOR=no_color, COLUMNS="100"),
        stdout=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    assert 0 == process.wait(timeout=60)
    assert coloured == (b"\x1b[" in shown)
    assert b"\x1b[31mistry" not in shown


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def as_nobody(program: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one of our programs, by a user who owns nothing."""
    module, function = {"ofu-report": ("report", "report"), "ofu-admin": ("admin", "main")}[program]
    script = (  # difflib: loaded by click as needed, and Python itself may lie where only root reads
        f"import difflib, os; from slurm_ofu.cli.{module} import {function}; os.setgroups([]);"
        f" os.setgid({NOBODY}); os.setuid({NOBODY});"
        f" {function}.main({list(arguments)!r}, prog_name={program!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    "command", [("ofu-report", "-a"), ("ofu-admin", "audit", "all"), ("ofu-admin", "mail", "--send")]
)
def test_permission_denied_names_the_group(open_directory: Path, command: tuple[str, ...]) -> None:
    """Who may not read the database is told which group may, and of the way through slurmdbd: exit code 5."""
    open_directory.chmod(0o755)
    database = open_directory / "ofu.db"
    database.write_bytes(b"")
    database.chmod(0o640)
    config = configuration(open_directory, database)
    code, said, errors = as_nobody(*command, "--config", str(config))
    assert (5, "") == (code, said)
    assert f"{database}: permission denied. Members of the group 'slurm-ofu' may read it" in errors
    assert "ofu-report --from-slurm" in errors


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_whoever_only_reads_sends_no_mail(open_directory: Path) -> None:
    """Nobody sends who could not note it: exit code 5, and whose task it is."""
    open_directory.chmod(0o755)
    make_store(open_directory / "ofu.db").path.chmod(0o644)
    config = configuration(open_directory, open_directory / "ofu.db")
    code, said, errors = as_nobody("ofu-admin", "mail", "--send", "--config", str(config))
    assert (5, "") == (code, said)
    assert "may not write to it" in errors
    assert "as its owner, or as root" in errors


def test_plain_reports_do_not_load_rich(config: Path) -> None:
    """A report without colours does not pay for rich."""
    script = (
        "import sys; from slurm_ofu.cli.report import report\n"
        "try: report.main(['-a', '-S', '2025-06-01'], prog_name='ofu-report')\n"
        "finally: print('rich' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(config), capture_output=True, text=True, check=False
    )
    assert "False\n" == done.stderr
