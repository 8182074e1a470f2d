"""Chroots of Debian's suites, made by mmdebstrap from Debian's own packages."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.services.slurm_daemons import PATH

from .cache import CacheError, Entry, prune
from .room import FOLDERS, UNSHARE
from .suites import Suite

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
NEEDED = ("mmdebstrap", "unshare", "setpriv", "pivot_root", "chroot", "dpkg")

APT = ('Acquire::Check-Valid-Until "false"', 'Acquire::Check-Date "false"', 'APT::Install-Recommends "false"')
DPKG = (
    *(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "info", "locale")),
    "force-unsafe-io",
)
#: No service may start in a chroot; what the packages' scripts put into MariaDB's folder is of no use here.
AFTERWARDS = (
    r"""printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d" """,
    'rm -rf "$1/var/lib/mysql"',
    'mkdir -p "$1/root" ' + " ".join(f'"$1{folder}"' for folder in FOLDERS),
)


def missing_requirements() -> str | None:
    """Why no chroot can be made here, in one line; None when one can."""
    if os.geteuid() != 0:
        return "chroots of other Debian suites need root"
    if absent := [name for name in NEEDED if not shutil.which(name, path=PATH)]:
        return f"chroots of other Debian suites need {', '.join(absent)}"
    if not Path(KEYRING).exists():
        return f"chroots of other Debian suites need {KEYRING} (package debian-archive-keyring)"
    probe = subprocess.run(
        [*UNSHARE, "true"],
        env={"PATH": PATH},
        text=True,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return f"chroots need namespaces: {probe.stderr.strip()}" if probe.returncode else None


def said_by(*command: str) -> str:
    """What a command prints; nothing when there is no such command here, or it fails."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def mirror(environment: Mapping[str, str]) -> str:
    """OFU_TEST_MIRROR, else where this machine has its Debian from, else Debian's own."""
    if asked := environment.get("OFU_TEST_MIRROR"):
        return asked
    form = "$(REPO_URI) $(ORIGIN) $(LABEL) $(COMPONENT)"
    for line in said_by("apt-get", "indextargets", "--format", form, "Created-By: Packages").splitlines():
        address, *names = line.split(" ")
        if names == ["Debian", "Debian", "main"] and address.startswith(("http://", "https://")):
            return address
    return MIRROR


def proxies() -> list[str]:
    """The proxies that this machine's apt is told to use: mmdebstrap does not read its configuration."""
    lines = said_by("apt-config", "dump", "Acquire").splitlines()
    return [
        line for line in lines if line.lower().startswith(("acquire::http::proxy", "acquire::https::proxy"))
    ]


def command(suite: Suite, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """mmdebstrap's command line."""
    return [
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--keyring={KEYRING}",
        f"--include={','.join(suite.packages)}",
        *(f"--aptopt={option}" for option in (*APT, *proxies())),
        *(f"--dpkgopt={option}" for option in DPKG),
        *(f"--customize-hook={hook}" for hook in AFTERWARDS),
        suite.name, str(folder), mirror(environment),
    ]  # fmt: skip


def make(suite: Suite, environment: Mapping[str, str], say: Callable[[str], None], folder: Path) -> None:
    """Fill ``folder/root``."""
    say("making the chroot")
    argv = command(suite, folder / "root", environment)
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CacheError(f"mmdebstrap made no chroot of {suite.name}:\n{done.stderr[-4000:]}")


def works(folder: Path) -> bool:
    """Whether a chroot's Slurm and Python start."""
    return all(
        subprocess.run(
            ["chroot", str(folder / "root"), *argv], env={"PATH": PATH}, capture_output=True, check=False
        ).returncode
        == 0
        for argv in (
            ("slurmd", "-V"),
            ("python3", "-c", "import venv, ensurepip"),
            ("test", "-d", FOLDERS[0]),
        )
    )


def entry(suite: Suite, cache: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> Entry:
    """The chroot of a suite in the cache."""
    architecture = said_by("dpkg", "--print-architecture").strip()
    key = suite.key(architecture)
    cache.mkdir(parents=True, exist_ok=True)
    prune(cache, f"{suite.name}-", key)
    return Entry(
        folder=cache / key,
        make=functools.partial(make, suite, environment, say),
        is_whole=works,
        say=say,
    )
