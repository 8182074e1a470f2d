"""The virtual environment of a chroot's tests: this project, editable, with what the tests need."""

from __future__ import annotations

import functools
import hashlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .cache import Entry
from .room import INPUT, OUTPUT, REPOSITORY, VENV, Room
from .wheels import download, in_room, python_version

ROOT = Path(__file__).resolve().parents[2]
INSTALL = (
    f"{VENV}/bin/python -m pip --disable-pip-version-check install --quiet --no-index --find-links={INPUT}"
)


def requirements(pyproject: str) -> tuple[list[str], list[str]]:
    """What the project and its tests need, and what building it needs (with hatchling: editables)."""
    told = tomllib.loads(pyproject)
    project = told["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return needed, [*told["build-system"]["requires"], "editables"]


def script(to_build: Sequence[str], wheels: Sequence[str]) -> str:
    """What a chroot runs to fill its virtual environment; ``wheels`` are installed besides."""
    lines = [
        f"python3 -m venv {VENV}",
        f"{INSTALL} {' '.join(repr(each) for each in to_build)}",
        f"{INSTALL} --no-build-isolation --editable '{REPOSITORY}[test]'",
        *(f"{INSTALL} --no-deps {OUTPUT}/{wheel}" for wheel in wheels),
    ]
    return "\n".join(lines)


def make(root: Path, pyslurm: Path | None, say: Callable[[str], None], folder: Path) -> None:
    """Fill ``folder``, which is bound to its place in the chroot."""
    say("fetching wheels and making the virtual environment")
    needed, to_build = requirements((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory(prefix="slurm-ofu-wheels-") as wheels:
        download([*needed, *to_build], python_version(root), Path(wheels))
        binds, extra = {VENV: str(folder), INPUT: wheels}, []
        if pyslurm is not None:
            binds[OUTPUT], extra = str(pyslurm), [wheel.name for wheel in pyslurm.glob("*.whl")]
        room = Room(root=str(root), binds=binds, writable=(VENV,), repository=str(ROOT))
        in_room(room, script(to_build, extra), "the virtual environment")


def entry(held_root: Path, pyslurm: Path | None, say: Callable[[str], None]) -> Entry:
    """The environment, kept beside its chroot; what pyproject.toml says makes it another one."""
    text = (ROOT / "pyproject.toml").read_text() + ("" if pyslurm is None else pyslurm.name)
    return Entry(
        folder=held_root / f"venv-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        make=functools.partial(make, held_root / "root", pyslurm, say),
        is_whole=lambda folder: (folder / "bin/pytest").exists(),
        say=say,
    )
