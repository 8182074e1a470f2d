"""What a real run of pytest writes down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .results import VARIABLE, read

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest
pytestmark = pytest.mark.slurm_versions("the file's")

def test_passes(): pass

@pytest.mark.slurm_versions("its own")
def test_fails(): assert 0

@pytest.mark.slurm_versions("its own")
def test_skips(): pytest.skip()

@pytest.fixture
def broken():
    yield
    raise OSError

@pytest.mark.slurm_versions("cleaning up")
def test_passes_and_cannot_clean_up(broken): pass

@pytest.mark.slurm_versions("cleaning up")
@pytest.mark.skip
def test_is_not_tried(): pass
"""


def pytest_run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest with our hooks, away from this repository's configuration."""
    (folder / "test_some.py").write_text(tests)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.matrix.results",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(folder / "out/result.json")}
    return subprocess.run(
        [*argv, "."], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


@pytest.mark.parametrize("processes", ["0", "2"])
def test_outcomes_are_written_by_promise(tmp_path: Path, processes: str) -> None:
    """The nearest marker counts; an error in a fixture is a failure; a skip proves nothing."""
    pytest_run(tmp_path, TESTS, "-n", processes)
    found = read((tmp_path / "out/result.json").read_text())
    assert {"the file's": "passed", "its own": "failed", "cleaning up": "failed"} == found.by_promise()
    assert 5 == len(found.tests)


def test_what_is_not_run_is_not_written(tmp_path: Path) -> None:
    """A run of some tests has the outcomes of those, and one of none writes nothing."""
    pytest_run(tmp_path, TESTS, "-k", "nothing_like_it")
    assert not (tmp_path / "out").exists()
    pytest_run(tmp_path, TESTS, "-k", "test_passes")
    assert {"the file's", "cleaning up"} == set(read((tmp_path / "out/result.json").read_text()).by_promise())


def test_a_marker_without_a_promise_is_an_error(tmp_path: Path) -> None:
    """Each test of the matrix says what it proves, in words."""
    done = pytest_run(tmp_path, "import pytest\n@pytest.mark.slurm_versions\ndef test_mute(): pass\n")
    assert 4 == done.returncode
    assert "test_mute: @pytest.mark.slurm_versions(" in done.stderr


def test_the_version_of_slurm_is_said_where_it_matters(tmp_path: Path) -> None:
    """A run of tests that use Slurm says which it is, another one does not."""
    assert "Slurm" in pytest_run(tmp_path, TESTS).stdout
    assert "Slurm" not in pytest_run(tmp_path, "def test_pure(): pass\n").stdout
