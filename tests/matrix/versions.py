"""What this machine, or this chroot, has: Slurm, Python, MariaDB, Debian."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.services.slurm_daemons import PATH

OS_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Full versions as text; ``None``: it is not here."""

    slurm: str | None
    python: str
    mariadb: str | None
    system: str

    def line(self) -> str:
        """For the head of a test run."""
        return f"{f'Slurm {self.slurm}' if self.slurm else 'no Slurm'}, Python {self.python}, {self.system}"


def major(version: str) -> str:
    """Slurm's major version as Slurm writes it: 22.05 of 22.05.8."""
    return ".".join(version.split(".")[:2])


def ordered(version: str) -> tuple[int, ...]:
    """A version to compare: 24.11.5 is later than 22.05.8."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def installed(program: str, option: str) -> str | None:
    """The first thing like a version that a program says of itself."""
    found = shutil.which(program, path=PATH)
    if found is None:
        return None
    done = subprocess.run([found, option], env={"PATH": PATH}, text=True, capture_output=True, check=False)
    match = re.search(r"\d+\.\d+(\.\d+)*", done.stdout)
    return match[0] if match else None


def os_release() -> dict[str, str]:
    """/etc/os-release as it is now."""
    if not OS_RELEASE.exists():
        return {}
    pairs = (line.split("=", 1) for line in OS_RELEASE.read_text().splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, value in pairs}


def system_name(release: Mapping[str, str]) -> str:
    """Such as ``Debian 12 bookworm``; testing has no number yet."""
    name = {"debian": "Debian"}.get(release.get("ID", ""), release.get("NAME", "unknown system"))
    return " ".join(filter(None, (name, release.get("VERSION_ID"), release.get("VERSION_CODENAME"))))


def versions_here() -> Versions:
    """Ask the programs."""
    return Versions(
        slurm=installed("slurmd", "-V"),
        python=platform.python_version(),
        mariadb=installed("mariadbd", "--version"),
        system=system_name(os_release()),
    )
