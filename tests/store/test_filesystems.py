"""Which file systems count as network file systems."""

from pathlib import Path

import pytest

from slurm_ofu.store.filesystems import filesystem_of, network_filesystem

MOUNTINFO = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:45 / /home rw - nfs4 server:/export rw,vers=4.2
31 22 0:46 / /scratch rw master:3 - lustre mds@tcp:/fs rw
32 30 0:47 / /home/local\\040disk rw - xfs /dev/sdb rw
33 22 0:48 / /var/lib rw - xfs /dev/sdc rw
34 22 0:49 / /var/lib rw - fuse.glusterfs srv:/v rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/spool", "ext4"),
        ("/home/ada/ofu.db", "nfs4"),
        ("/homework/ofu.db", "ext4"),
        ("/scratch", "lustre"),
        ("/home/local disk/ofu.db", "xfs"),
        ("/var/lib/slurm-ofu/ofu.db", "fuse.glusterfs"),
    ],
)
def test_the_deepest_and_latest_mount_holds_a_path(path: str, kind: str) -> None:
    """Of nested mounts the deepest counts, of mounts on one point the latest."""
    assert kind == filesystem_of(path, MOUNTINFO)


def test_a_local_path_is_none(tmp_path: Path) -> None:
    """A local file system, and a path that does not exist yet, is no network file system."""
    assert network_filesystem(tmp_path / "not" / "yet") is None


def test_no_mounts_no_answer() -> None:
    """Where the kernel tells nothing, nothing is claimed."""
    assert filesystem_of("/x", "") is None
