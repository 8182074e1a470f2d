"""Running a client command: bounded in time, in what is kept, and ended with all that it started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.slurm import client_command
from slurm_ofu.values import AccountingConfig
from tests.services.processes import poll


def command(folder: Path, script: str) -> AccountingConfig:
    """A folder with a command `do` in it."""
    path = folder / "do"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return AccountingConfig(bin_dir=str(folder))


def gone(file: Path) -> bool:
    """Whether the process that wrote its id there has ended."""
    return not Path(f"/proc/{int(file.read_text())}").exists()


def test_answer(tmp_path: Path) -> None:
    """Exit code, output and complaints come back as they are, whatever the code; input is passed on."""
    config = command(tmp_path, 'cat; echo "$@" >&2; exit 3')
    finished = client_command.run(
        ["do", "a b", "c"], config=config, stdin=b"\xff\n" * 99_999, timeout_seconds=60
    )
    assert (3, b"\xff\n" * 99_999, "a b c\n") == (finished.returncode, finished.stdout, finished.stderr)


def test_no_input(tmp_path: Path) -> None:
    """Without input a command reads its end at once."""
    assert b"" == client_command.run(["do"], config=command(tmp_path, "cat"), timeout_seconds=60).stdout


def test_time(tmp_path: Path) -> None:
    """The whole run is bounded, also while output comes; the command's children end with it."""
    config = command(tmp_path, f"sleep 1000 & echo $! >{tmp_path}/pid; while :; do echo x; sleep 0.1; done")
    with pytest.raises(AccountingError, match=r"do gave no answer within 1 s: ended"):
        client_command.run(["do"], config=config, timeout_seconds=1)
    poll(lambda: gone(tmp_path / "pid"), 30, "the child to be gone")


def test_stream_counts_silence_only(tmp_path: Path) -> None:
    """A stream may take long as a whole; only silence is bounded."""
    config = command(tmp_path, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done")
    begin = time.monotonic()
    chunks = list(client_command.stream(["do"], config=config, silence_seconds=1.4))
    assert b"1\n2\n3\n4\n5\n6\n" == b"".join(chunks)
    assert time.monotonic() - begin > 1.4


def test_stream_reads_nothing_ahead(tmp_path: Path) -> None:
    """A consumer that stops reading holds the command up, and closing ends it."""
    config = command(
        tmp_path, f"echo $$ >{tmp_path}/pid; exec dd if=/dev/zero bs=64k count=100000 2>/dev/null"
    )
    stream = client_command.stream(["do"], config=config, silence_seconds=60)
    next(stream)
    time.sleep(0.3)
    io = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/io").read_text()
    written = next(int(line.split()[1]) for line in io.splitlines() if line.startswith("wchar"))
    assert written < 1 << 20
    stream.close()
    poll(lambda: gone(tmp_path / "pid"), 30, "the command to be gone")


def test_complaints_are_bounded(tmp_path: Path) -> None:
    """Of stderr the beginning is kept; the rest neither blocks the command nor fills memory."""
    config = command(tmp_path, "echo first >&2; head -c 3000000 /dev/zero >&2; echo done")
    finished = client_command.run(["do"], config=config, timeout_seconds=60)
    assert (b"done\n", 8192) == (finished.stdout, len(finished.stderr))
    assert finished.stderr.startswith("first\n")


def test_output_is_bounded(tmp_path: Path) -> None:
    """A whole answer may not be larger than what anybody would hold in memory."""
    with pytest.raises(AccountingError, match="printed more than 64 MiB: ended"):
        client_command.run(["do"], config=command(tmp_path, "exec cat /dev/zero"), timeout_seconds=60)


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("sacct: error: x: Connection refused\n", True),
        ("sacctmgr: error: Sending PersistInit msg: Unable to connect to database\n", True),
        ('sacct: error: Invalid field requested: "nonono"\n', False),
        ("", False),
    ],
)
def test_unreachable(stderr: str, expected: bool) -> None:
    """A slurmdbd or a database that is away is told from other faults by what the command says."""
    finished = client_command.Finished(returncode=1, stdout=b"", stderr=stderr)
    assert expected is client_command.is_unreachable(stderr)
    assert expected is ("does not answer" in str(client_command.failure("sacct", finished)))


def test_without_slurm_conf() -> None:
    """Where a command finds no configuration, the setting that names it comes before Slurm's words."""
    stderr = (
        "sacct: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file or directory\n"
        "sacct: error: ClusterName needs to be specified\n"
        "sacct: fatal: Unable to process configuration file\n"
    )
    finished = client_command.Finished(returncode=1, stdout=b"", stderr=stderr)
    said = str(client_command.failure("sacct", finished))
    assert said.startswith("sacct finds no slurm.conf that it can use: name it in [accounting] slurm_conf")
    assert "cannot stat file /x/slurm.conf" in said


@pytest.mark.parametrize(("mode", "said"), [(None, "No such file"), (0o644, "Permission denied")])
def test_cannot_be_started(tmp_path: Path, mode: int | None, said: str) -> None:
    """A command that is not there or may not be run is unusable, and the message names the setting."""
    if mode is not None:
        (tmp_path / "do").write_text("#!/bin/sh\n")
        (tmp_path / "do").chmod(mode)
    with pytest.raises(AccountingUnusable, match=rf"{tmp_path}/do cannot be run: {said}.*bin_dir"):
        client_command.run(["do"], config=AccountingConfig(bin_dir=str(tmp_path)), timeout_seconds=1)


def test_environment() -> None:
    """The configured slurm.conf wins over the caller's; without either there is none; PATH always is."""
    theirs = {
        "SLURM_CONF": "/theirs",
        "SLURM_JWT": "j",
        "SLURM_JOB_ID": "7",
        "LC_CTYPE": "x",
        "HOME": "/root",
    }
    fixed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "64"}
    bare = {"PATH": "/usr/bin:/bin", **fixed}
    configured, default = AccountingConfig(slurm_conf="/ours"), AccountingConfig()
    kept = {"SLURM_JWT": "j", "HOME": "/root"}
    assert {**bare, **kept, "SLURM_CONF": "/ours"} == client_command.environment(configured, theirs)
    assert {**bare, **kept, "SLURM_CONF": "/theirs"} == client_command.environment(default, theirs)
    assert bare == client_command.environment(default, {})
