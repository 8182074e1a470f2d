"""How chroots, wheels and virtual environments are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pyslurm_wheel import version_number
from .roots import MIRROR, command, mirror
from .suites import SUITES
from .venvs import requirements, script

PYPROJECT = """
[build-system]
requires = ["hatchling>=1.24"]
[project]
dependencies = ["click>=8"]
[project.optional-dependencies]
test = ["pytest>=8"]
lint = ["ruff"]
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt that says what is written into this folder, which is alone on PATH."""
    for name in ("apt-get", "apt-config"):
        (tmp_path / name).write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/{name}.says\n")
        (tmp_path / name).chmod(0o755)
        (tmp_path / f"{name}.says").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_debian_comes_from_where_this_machine_has_it(apt: Path) -> None:
    """Its own mirror of the main archive, neither that of security updates nor somebody else's."""
    (apt / "apt-get.says").write_text(
        "https://other.example/debian/ Other Other main\n"
        "http://security.example/ Debian Debian-Security main\n"
        "cdrom:[x] Debian Debian main\n"
        "http://near.example/debian/ Debian Debian main\n"
    )
    assert "http://near.example/debian/" == mirror({})
    assert "http://mine.example/" == mirror({"OFU_TEST_MIRROR": "http://mine.example/"})


def test_without_one_debian_s_own(apt: Path) -> None:
    """Where apt knows no mirror, or is not here, there is deb.debian.org."""
    assert MIRROR == mirror({})
    (apt / "apt-get").unlink()
    assert MIRROR == mirror({})


def test_this_machine_s_proxy_is_used(apt: Path, tmp_path: Path) -> None:
    """mmdebstrap does not read apt's configuration: it is told."""
    (apt / "apt-config.says").write_text('Acquire::http::Proxy "http://p:1";\nAcquire::Retries "3";\n')
    argv = command(SUITES[1], tmp_path / "root", {})
    assert '--aptopt=Acquire::http::Proxy "http://p:1";' in argv
    assert not any("Retries" in word for word in argv)
    assert ["trixie", f"{tmp_path}/root", MIRROR] == argv[-3:]


def test_what_is_installed_is_what_the_project_says() -> None:
    """Dependencies and the test extra; what builds the project comes first, editables with it."""
    needed, to_build = requirements(PYPROJECT)
    assert ["click>=8", "pytest>=8"] == needed
    assert ["hatchling>=1.24", "editables"] == to_build
    lines = script(to_build, ["pyslurm-1.whl"]).splitlines()
    assert "'hatchling>=1.24' 'editables'" in lines[1]
    assert lines[2].endswith("--no-build-isolation --editable '/repository[test]'")
    assert lines[3].endswith("--no-deps /output/pyslurm-1.whl")


def test_a_release_has_slurm_s_number() -> None:
    """Two hexadecimal digits each, as in slurm_version.h."""
    assert "0x190b02" == version_number("25.11.2")
