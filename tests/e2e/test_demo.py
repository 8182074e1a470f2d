"""`make demo` keeps its promises: right figures, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_SECONDS = 120
_LINE = re.compile(
    r"(?P<job>\d{4})(?P<again> #2)? .* (?P<true>[\d.]+) % +(?P<measured>[\d.]+) % +(?P<error>[\d.]+)"
    r" +(?P<off>[+-][\d.]+) +(?P<coverage>\d+) % +(?P<reason>\w+) *"
)


def _start(directory: Path, *options: str) -> "subprocess.Popen[str]":
    """The demo, with its temporary files below ``directory``."""
    return subprocess.Popen(
        # A shell's background jobs ignore Ctrl-C, and what the tests run in may be one.
        ["env", "--default-signal=INT", sys.executable, "-m", "demo.working_day", *options],
        cwd=ROOT,
        env={
            **os.environ,
            "TMPDIR": str(directory),
            "COLUMNS": "120",
        },  # columns that do not fit are left out
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _processes_naming(directory: Path) -> list[str]:
    """Command lines of living processes that name a directory, as every hook and sampler does."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo printed, and the directory of its temporary files."""
    directory = tmp_path_factory.mktemp("demo")
    demo = _start(directory)
    try:
        said, complaints = demo.communicate(timeout=_TIMEOUT_SECONDS)
    finally:
        demo.terminate()
        demo.wait(10)
    assert (0, "") == (demo.returncode, complaints), said
    return said, directory


def _lines(said: str) -> dict[str, re.Match[str]]:
    """The table's lines by job; a requeued job's second life is "4709 #2"."""
    matches = (_LINE.fullmatch(line) for line in said.splitlines())
    return {match["job"] + (match["again"] or ""): match for match in matches if match}


def test_the_readme_shows_what_the_demo_shows(played: tuple[str, Path]) -> None:
    """The columns in README are those of today, and so are its users' runs and GPUs."""
    said, _ = played
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = said.partition("--by user")[2].partition("Notes")[0].splitlines()
    shown = [line.split() for line in readme.splitlines()]  # how wide a column is depends on the figures
    [header] = [line.split() for line in table if line.startswith("User ")]
    [in_readme] = [line for line in shown if line[:2] == ["User", "Runs"]]
    # Which of the columns in the middle have room depends on the figures.
    assert in_readme == [column for column in header if column in in_readme]
    assert (header[:4], header[-2:]) == (in_readme[:4], in_readme[-2:])
    whose = [
        line.split()[:3] for line in table if line.startswith(("alice", "bob", "carol", "dave", "TOTAL"))
    ]
    assert 5 == len(whose)
    assert [] == [one for one in whose if one not in [line[:3] for line in shown]]


def test_shows_three_reports(played: tuple[str, Path]) -> None:
    """The demo ends with ofu-report by user, by partition and for one job on two nodes."""
    said, _ = played
    by_user, by_partition, page = said.split("$ ofu-report ")[1:]
    for user in ("alice", "bob", "carol", "dave"):
        assert re.search(rf"^{user} ", by_user, re.MULTILINE)
    for partition in ("gpu", "short"):
        assert re.search(rf"^{partition} ", by_partition, re.MULTILINE)
    assert "Job 4701 on cluster demo" in page
    assert "2: gpu[01-02]" in page
    assert "Claimed   MFU 36.0 % (mfu=0.36 in the job's comment)" in page
    assert "Goal      40 % (partition gpu): " in page
    assert "Too short" not in page
    audit = said.partition("$ ofu-admin audit waste")[2]
    assert "runs of at least 1.0 s" in " ".join(audit.split())


def test_measures_the_truth(played: tuple[str, Path]) -> None:
    """Every run measured for 90 % of its time is within three error bars and half a point of the truth."""
    said, _ = played
    lines = _lines(said)
    judged = [line for line in lines.values() if int(line["coverage"]) >= 91]
    assert judged
    for line in judged:
        assert abs(float(line["measured"]) - float(line["true"])) <= 3 * float(line["error"]) + 0.53, line[0]
    assert "largest difference between truth and measurement: " in said


def test_shows_what_goes_wrong_on_clusters(played: tuple[str, Path]) -> None:
    """A requeue, a killed sampler, a node without prolog, an idle GPU and an FP64 job are all told apart."""
    said, _ = played
    lines = _lines(said)
    assert 16 == len(lines)
    assert {"4709", "4709 #2"} <= set(lines)
    assert ("sampler_died", True) == (lines["4713"]["reason"], 0 < int(lines["4713"]["coverage"]) < 75)
    assert ("not_started", True) == (lines["4710"]["reason"], 0 < int(lines["4710"]["coverage"]) <= 50)
    for without_tensor_work in ("4703", "4704"):
        assert ("0.00", "0.00") == lines[without_tensor_work].group("true", "measured")


def test_leaves_nothing_behind(played: tuple[str, Path]) -> None:
    """After the demo there is no file and no process of it."""
    _, directory = played
    assert [] == list(directory.iterdir())
    assert [] == _processes_naming(directory)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_leaves_nothing_behind(tmp_path: Path, name: signal.Signals) -> None:
    """Ctrl-C or a polite kill in the middle of the day ends every process and removes every file."""
    demo = _start(tmp_path)
    try:
        deadline = time.monotonic() + 30
        while not any("slurm_ofu.hooks.sample" in line for line in _processes_naming(tmp_path)):
            assert time.monotonic() < deadline, "no sampler was ever started"
            assert demo.poll() is None
            time.sleep(0.1)
        demo.send_signal(name)
        _, complaints = demo.communicate(timeout=30)
    finally:
        demo.kill()
        demo.wait(10)
    assert (130, "demo: interrupted; everything it had started was ended\n") == (demo.returncode, complaints)
    assert [] == list(tmp_path.iterdir())
    assert [] == _processes_naming(tmp_path)


def test_refuses_a_directory_with_files(tmp_path: Path) -> None:
    """--keep never plays in a directory that holds something already, and leaves that alone."""
    (tmp_path / "thesis.tex").write_text("42")
    demo = _start(tmp_path, "--keep", str(tmp_path))
    _, complaints = demo.communicate(timeout=30)
    assert 1 == demo.returncode
    assert f"{tmp_path}: not empty; name a new directory" in complaints
    assert ["thesis.tex"] == [path.name for path in tmp_path.iterdir()]
