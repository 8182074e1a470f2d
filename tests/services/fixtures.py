"""What other tests use: whether a cluster can run here, and a fixture that makes clusters."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from .processes import ClusterError
from .slurm_cluster import SlurmCluster
from .slurm_daemons import PATH
from .unix_users import user_exists

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb",
    "mariadb-install-db",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sbatch",
    "sacct",
    "sacctmgr",
    "unshare",
    "nsenter",
    "setpriv",
    "mount",
    "useradd",
    "userdel",
)
DAEMON_USERS = ("slurm", "munge", "mysql")
NAMESPACE_PROBE = (
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w && mknod /mnt/null c 1 3 && "
    "mount -t overlay overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/l"
)


@functools.cache
def missing_requirements() -> str | None:
    """Why no cluster can run here, in one line; None when one can."""
    if os.geteuid() != 0:
        return "a test cluster needs root"
    if absent := [name for name in PROGRAMS if not shutil.which(name, path=PATH)]:
        return f"a test cluster needs {', '.join(absent)}"
    if absent := [name for name in DAEMON_USERS if not user_exists(name)]:
        return f"a test cluster needs the unix users {', '.join(absent)}"
    private = ["unshare", "--mount", "--propagation", "private", "--"]
    probe = subprocess.run(
        [*private, "sh", "-c", NAMESPACE_PROBE],
        env={"PATH": PATH},
        text=True,
        capture_output=True,
        check=False,
    )
    return f"a test cluster needs mount namespaces: {probe.stderr.strip()}" if probe.returncode else None


def require_cluster() -> None:
    """Skip the test where no cluster can run, or fail it when OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    reason = missing_requirements()
    if reason and os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


class ClusterFactory(Protocol):
    """Makes and starts a cluster; the keywords are those of `SlurmCluster`."""

    def __call__(self, **options: Any) -> SlurmCluster: ...


def new_prefix() -> Path:
    """A folder for a cluster that the daemons' and jobs' users can enter, with a short path."""
    prefix = Path(tempfile.mkdtemp(prefix="slurm-ofu-", dir="/tmp"))
    prefix.chmod(0o755)
    return prefix


@pytest.fixture(scope="module")
def slurm_cluster_factory() -> Iterator[ClusterFactory]:
    """Clusters that stop when the module's tests are over; OFU_TEST_KEEP=1 keeps their folders."""
    require_cluster()
    made: list[SlurmCluster] = []

    def make(**options: Any) -> SlurmCluster:
        cluster = SlurmCluster(new_prefix(), **options)
        made.append(cluster)
        cluster.start()
        return cluster

    try:
        yield make
    finally:
        failures = [failure for cluster in made if (failure := ended(cluster))]
        if failures:
            raise ClusterError("; ".join(failures))


def ended(cluster: SlurmCluster) -> str | None:
    """Stop and remove one cluster; what went wrong, so that the next one is stopped too."""
    try:
        cluster.stop()
        if os.environ.get("OFU_TEST_KEEP") != "1":
            cluster.remove()
    except (ClusterError, OSError, subprocess.SubprocessError) as error:
        return f"{cluster.layout.prefix}: {error}"
    return None
