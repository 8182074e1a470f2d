"""pyslurm for a Slurm that it was not made for: an unofficial pairing, for the tests of our reader only.

pyslurm compares Slurm's version with its own in a copy of the headers that says what it wants to hear. What
26.05 changed against 25.11 its own SLURM_BACKWARD_COMPAT and two definitions cover; nothing is patched.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

from .cache import Entry
from .room import INPUT, OUTPUT, Room
from .wheels import download, download_source, in_room, python_version

TO_BUILD = ("Cython", "setuptools", "wheel", "packaging")
FLAGS = (
    "-O0 -g0 -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf "
    "-DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=2101"
)
BUILD = f"""
mkdir /tmp/include
cp -r /usr/include/slurm /tmp/include
sed -i -E 's/^(#define +SLURM_VERSION_NUMBER +).*/\\1@VERSION_NUMBER@/' /tmp/include/slurm/slurm_version.h
python3 -m venv /tmp/venv
pip='/tmp/venv/bin/python -m pip --disable-pip-version-check'
$pip install --quiet --no-index --find-links={INPUT} {" ".join(TO_BUILD)}
export SLURM_INCLUDE_DIR=/tmp/include SLURM_LIB_DIR="/usr/lib/$(gcc -print-multiarch)" CFLAGS='{FLAGS}'
$pip wheel --no-index --no-build-isolation --no-deps --wheel-dir={OUTPUT} {INPUT}/@SOURCE@
"""


def version_number(release: str) -> str:
    """Slurm's own number for a release: 0x190b02 for 25.11.2."""
    return "0x" + "".join(f"{int(part):02x}" for part in release.split("."))


def make(release: str, root: Path, say: Callable[[str], None], folder: Path) -> None:
    """Build the wheel into ``folder``."""
    say(f"building pyslurm {release}, which was not made for this Slurm: an unofficial pairing")
    with tempfile.TemporaryDirectory(prefix="slurm-ofu-pyslurm-") as sources:
        download(TO_BUILD, python_version(root), Path(sources))
        source = download_source("pyslurm", release, Path(sources))
        room = Room(root=str(root), binds={INPUT: sources, OUTPUT: str(folder)}, writable=(OUTPUT,))
        script = BUILD.replace("@VERSION_NUMBER@", version_number(release)).replace("@SOURCE@", source.name)
        in_room(room, script, f"pyslurm {release}")


def entry(release: str, held_root: Path, say: Callable[[str], None]) -> Entry:
    """The wheel, kept beside the chroot that it was built in."""
    return Entry(
        folder=held_root / f"pyslurm-{release}",
        make=functools.partial(make, release, held_root / "root", say),
        is_whole=lambda folder: any(folder.glob("*.whl")),
        say=say,
    )
