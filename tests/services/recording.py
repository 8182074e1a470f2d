"""Hooks that write down the environment Slurm gives them, and how to read it back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .fixtures import new_prefix
from .slurm_conf import Hooks

SCRIPT = """#!/bin/sh
/usr/bin/env > {folder}/$SLURM_JOB_ID.$SLURM_SCRIPT_CONTEXT.$SLURMD_NODENAME
"""


class Recorder:
    """A Prolog and Epilog in a folder that every node sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        script = folder / "hook"
        script.write_text(SCRIPT.format(folder=folder))
        script.chmod(0o755)
        self.hooks = Hooks(prolog=script, epilog=script)

    def environment(self, job_id: int, context: str, node: str) -> dict[str, str]:
        """What the hook (`prolog` or `epilog`) of a job on a node found in its environment."""
        lines = (self.folder / f"{job_id}.{context}_slurmd.{node}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@contextmanager
def recorder() -> Iterator[Recorder]:
    folder = new_prefix()
    try:
        yield Recorder(folder)
    finally:
        shutil.rmtree(folder)
