"""A file system whose server has stopped answering, as a network file system whose server is gone.

As a program (standard library only, Linux on 64 bits) it enters a process's mount namespace, mounts itself
over a directory there and says so on standard output. It answers what mounting needs and ``stat`` of the
directory; whoever looks for a name in it waits until this program ends, and after SIGKILL even in
uninterruptible sleep (state D), because the kernel waits for a request that the server has read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS = 0x00020000
LOOKUP, FORGET, GETATTR, INIT, INTERRUPT = 1, 2, 3, 26, 36
PROTOCOL = (7, 31)
REQUEST = struct.Struct("=IIQQIIII")  # length, operation, request id, node id, uid, gid, pid, padding
REPLY = struct.Struct("=IiQ")  # length, error, request id
LONGEST_REQUEST = 1 << 17
FOR_EVER_SECONDS = 1 << 30


def enter(pid: int) -> None:
    """See the mounts of a process, below its root (which differs from the namespace's in a chroot)."""
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    with Path(f"/proc/{pid}/ns/mnt").open("rb") as namespace:
        _check(ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNS), "setns")
    os.fchdir(root)
    os.chroot(".")
    os.close(root)


def mount(device: int, directory: str) -> None:
    """Mount a file system over ``directory`` that an open /dev/fuse serves."""
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    call = ctypes.CDLL(None, use_errno=True).mount
    _check(call(b"ofu-hung", directory.encode(), b"fuse", 0, options.encode()), f"mount {directory}")


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def serve(device: int) -> None:
    """Say what the root directory is, read every look-up in it and leave it at that."""
    while True:
        request = os.read(device, LONGEST_REQUEST)
        _, operation, number, _, _, _, _, _ = REQUEST.unpack_from(request)
        if operation == INIT:
            _answer(device, number, struct.pack("=IIIIHHIIHHI7I", *PROTOCOL, 0, 0, 0, 0, 4096, 1, *[0] * 10))
        elif operation == GETATTR:
            _answer(device, number, struct.pack("=QII", FOR_EVER_SECONDS, 0, 0) + _root())
        elif operation not in (LOOKUP, FORGET, INTERRUPT):
            _answer(device, number, b"", error=-errno.ENOSYS)


def _answer(device: int, number: int, body: bytes, *, error: int = 0) -> None:
    os.write(device, REPLY.pack(REPLY.size + len(body), error, number) + body)


def _root() -> bytes:
    """The attributes of a directory of root's."""
    return struct.pack("=6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 0)


@contextmanager
def hung(pid: int, directory: Path) -> Iterator[None]:
    """Let ``directory`` hang in the mount namespace of process ``pid``; then everything fails in it."""
    command = [sys.executable, "-IS", __file__, str(pid), str(directory)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert b"mounted\n" == server.stdout.readline(), "the hung file system could not be mounted"
        yield
    finally:
        server.kill()
        server.communicate()


def main(pid: str, directory: str) -> None:
    """The program."""
    device = os.open("/dev/fuse", os.O_RDWR)
    enter(int(pid))
    mount(device, directory)
    print("mounted", flush=True)
    serve(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
