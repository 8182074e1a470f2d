"""Debian's suites with their Slurm, and what a chroot of each is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

#: Raised when the way a chroot is made changes; it is part of every chroot's key.
RECIPE = 2

PACKAGES = (
    "slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge", "mariadb-server", "gcc", "libc6-dev",
    "util-linux", "netbase", "procps", "iproute2", "openssl", "fuse3", "strace", "faketime",
    "python3", "python3-venv",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One suite; ``pyslurm`` is the release that can be built against its Slurm, though not made for it."""

    name: str
    packages: tuple[str, ...] = PACKAGES
    pyslurm: str | None = None

    def key(self, architecture: str) -> str:
        """Name of its chroot in the cache: another recipe is another chroot."""
        made_of = json.dumps([RECIPE, self.name, sorted(self.packages), architecture])
        return f"{self.name}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"


#: Debian's oldest, stable and testing: 22.05, 24.11 and 26.05. By code name, since the other names move on.
SUITES = (
    Suite(name="bookworm"),
    Suite(name="trixie"),
    Suite(name="forky", packages=(*PACKAGES, "libslurm-dev", "python3-dev"), pyslurm="25.11.2"),
)


class UnknownSuite(Exception):
    """A suite was asked for that the matrix does not have."""


def chosen(asked: Sequence[str], host: str | None) -> tuple[Suite, ...]:
    """The suites asked for; without any, all but the one that this machine itself is."""
    known = {suite.name: suite for suite in SUITES}
    if unknown := [name for name in asked if name not in known]:
        raise UnknownSuite(f"no suite {', '.join(unknown)} in the matrix: it has {', '.join(known)}")
    return tuple(known[name] for name in asked) or tuple(s for s in SUITES if s.name != host)
