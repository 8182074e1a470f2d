"""This Python, as far as hooks and readers depend on it."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from slurm_ofu.store.filesystems import closed_directory
from slurm_ofu.wiring.findings import Finding, bad, note, ok


def check_python() -> Iterator[Finding]:
    """The packages that the sampler needs, its byte-code, and who else can run this installation."""
    with contextlib.suppress(PackageNotFoundError):
        yield bad(
            "pynvml",
            f"the deprecated package pynvml {version('pynvml')} is installed and slows every start of"
            " Python: pip uninstall pynvml, then reinstall nvidia-ml-py",
        )
    try:
        yield ok("nvidia-ml-py", version("nvidia-ml-py"))
    except PackageNotFoundError:
        yield bad("nvidia-ml-py", "not installed: pip install nvidia-ml-py")
    spec = importlib.util.find_spec("pynvml")
    origin = Path(spec.origin) if spec and spec.origin else None
    if origin and Path(importlib.util.cache_from_source(str(origin))).exists():
        yield ok("byte-code", "in place")
    else:
        yield note("byte-code", "missing: every sampler starts slowly; run ofu-node install")
    yield from readers_python((sys.executable, os.__file__, __file__))


def readers_python(files: tuple[str, ...]) -> Iterator[Finding]:
    """A note where users could not run ofu-report from here: interpreter, its library or this package."""
    for file in files:
        if closed := closed_directory(file):
            text = f"{file}: other users cannot enter {closed}, hence cannot run this ofu-report"
            yield note("readers", text)
            return
