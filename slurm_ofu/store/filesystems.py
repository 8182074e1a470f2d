"""On which kind of file system does a path lie, and who can get to it?

Locks across a network do not hold what SQLite needs.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
# As the kernel names them; a FUSE file system shows as "fuse.NAME".
_NETWORK: Final = frozenset(
    (
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "cvfs",
            "davfs",
            "fhgfs",
            "gfs",
            "gfs2",
            "glusterfs",
        ),
        *("gpfs", "juicefs", "lustre", "mmfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2"),
        *("quobyte", "s3fs", "smb2", "smb3", "smbfs", "sshfs", "vboxsf", "virtiofs", "wekafs"),
    )
)


def network_filesystem(path: str | Path) -> str | None:
    """The kind of network file system that holds ``path`` ("nfs4", "lustre"…), ``None`` if it is local.

    The path need not exist. Where the kernel does not tell (no /proc), it is taken for local.
    """
    try:
        mountinfo = _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = filesystem_of(os.path.realpath(path), mountinfo)
    return kind if kind is not None and kind.removeprefix("fuse.") in _NETWORK else None


def closed_directory(path: str | Path, group_id: int | None = None) -> Path | None:
    """The first directory on the way to ``path`` that a member of the group (without one: any user)
    cannot enter. Where an access control list decides, it is taken for open."""
    ways = (Path(path).absolute(), Path(os.path.realpath(path)))
    for directory in dict.fromkeys(parent for way in ways for parent in reversed(way.parents)):
        try:
            found = directory.stat()
        except FileNotFoundError:
            continue
        except PermissionError:
            return directory.parent
        bit = stat.S_IXGRP if found.st_gid == group_id else stat.S_IXOTH
        if not found.st_mode & bit and not _has_list(directory):
            return directory
    return None


def _has_list(directory: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(directory)
    except OSError:
        return False


def filesystem_of(path: str, mountinfo: str) -> str | None:
    """The file system type of the mount that an absolute, resolved path lies on."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = _unescaped(fields[4]).rstrip("/")
        holds = path == point or path.startswith(point + "/")
        if holds and (best is None or len(point) >= best[0]):  # of equals the later one lies on top
            best = (len(point), right.split(" ", 1)[0])
    return best[1] if best else None


def _unescaped(text: str) -> str:
    """Mountinfo writes blanks and the like as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
