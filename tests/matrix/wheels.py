"""Wheels for a chroot's Python: a chroot knows no package index, so this machine's pip fetches them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.services.slurm_daemons import PATH

from .cache import CacheError
from .room import Room


def download(requirements: Sequence[str], python: str, folder: Path) -> None:
    """Wheels for a version of Python, with all that they need."""
    pip_download(folder, "--only-binary=:all:", f"--python-version={python}", *requirements)


def download_source(name: str, release: str, folder: Path) -> Path:
    """A release as source."""
    pip_download(folder, f"--no-binary={name}", "--no-deps", f"{name}=={release}")
    [archive] = folder.glob("*.tar.gz")
    return archive


def pip_download(folder: Path, *arguments: str) -> None:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    done = subprocess.run(
        [*argv, f"--dest={folder}", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CacheError(f"pip could not fetch {' '.join(arguments)}:\n{done.stderr[-4000:]}")


def python_version(root: Path) -> str:
    """Major and minor version of a chroot's Python."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    argv = ["chroot", str(root), "python3", "-B", "-c", ask]
    done = subprocess.run(argv, env={"PATH": PATH}, text=True, capture_output=True, check=True)
    return done.stdout.strip()


def in_room(room: Room, script: str, what: str) -> None:
    """Run a shell script in a room that has to succeed, to make what is named."""
    done = subprocess.run(
        room.command(["sh", "-euc", script], {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CacheError(f"{what} could not be made:\n{done.stdout[-4000:]}")
