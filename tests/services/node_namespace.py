"""The private view of the file system that one node of the test cluster has.

As a program (standard library only, inside `unshare --mount --uts`) it makes the mounts that a JSON file
describes, says so in a file and then holds the namespace; slurmd and its hooks and jobs enter it.
Nothing is created on the host: a missing mount point is made in an overlay that only this namespace sees.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

NULL_DEVICE = (1, 3)
STANDARD_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "ptmx": (5, 2),
}
STANDARD_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
HOST_FOLDERS = ("pts", "shm")


@dataclass(frozen=True)
class Mount:
    """One mount in a node: `source` bound over `target`, or an empty tmpfs when there is no source."""

    target: str
    source: str | None = None
    size: str = ""
    mode: str = "755"
    read_only: bool = False

    @classmethod
    def bind(cls, source: Path | str, target: Path | str, *, read_only: bool = False) -> Mount:
        """Show the file or folder `source` at `target`."""
        return cls(str(target), str(source), read_only=read_only)

    @classmethod
    def tmpfs(cls, target: Path | str, *, size: str = "", mode: str = "755") -> Mount:
        """Show an empty folder at `target`, limited to `size` (as mount takes it: 64k, 10m)."""
        return cls(str(target), None, size, mode)


@dataclass(frozen=True)
class View:
    """All that makes up one node's namespace."""

    name: str
    scratch: str
    ready: str
    log_socket: str
    gpus: int
    mounts: tuple[Mount, ...]

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> View:
        values = json.loads(file.read_text())
        values["mounts"] = tuple(Mount(**m) for m in values["mounts"])
        return cls(**values)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def bind(source: Path | str, target: Path | str) -> None:
    mount("--rbind", str(source), str(target))


def device(file: Path, numbers: tuple[int, int]) -> None:
    os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(*numbers))
    file.chmod(0o666)


def mount_points_below(folder: Path) -> list[Path]:
    """Mount points inside a folder, outermost only."""
    found: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = Path(line.split()[4].encode().decode("unicode_escape"))
        if folder in point.parents and not any(f == point or f in point.parents for f in found):
            found.append(point)
    return found


class Namespace:
    """Makes the mounts of a view, in order."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.scratch = Path(view.scratch)
        self.private: list[Path] = []

    def build(self) -> None:
        socket.sethostname(self.view.name)
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(self.scratch))
        self.build_dev()
        for wanted in self.view.mounts:
            self.add(wanted)

    def build_dev(self) -> None:
        """A /dev of the node's own: standard devices, its GPUs and its syslog socket."""
        dev = self.scratch / "dev"
        dev.mkdir()
        gpus = {f"nvidia{i}": NULL_DEVICE for i in range(self.view.gpus)}
        control = {"nvidiactl": NULL_DEVICE} if self.view.gpus else {}
        for name, numbers in {**STANDARD_DEVICES, **gpus, **control}.items():
            device(dev / name, numbers)
        for name, to in STANDARD_LINKS.items():
            (dev / name).symlink_to(to)
        for name in HOST_FOLDERS:
            if Path("/dev", name).is_dir():
                (dev / name).mkdir()
                bind(Path("/dev", name), dev / name)
        (dev / "log").touch()
        bind(self.view.log_socket, dev / "log")
        bind(dev, "/dev")
        self.private.append(Path("/dev"))

    def add(self, wanted: Mount) -> None:
        target = Path(wanted.target)
        self.provide(target, folder=wanted.source is None or Path(wanted.source).is_dir())
        if wanted.source is None:
            size = f",size={wanted.size}" if wanted.size else ""
            mount("-t", "tmpfs", "-o", f"mode={wanted.mode}{size}", "tmpfs", str(target))
        else:
            bind(wanted.source, target)
        if wanted.read_only:
            mount("-o", "remount,bind,ro", str(target))
        self.private.append(target)

    def provide(self, target: Path, *, folder: bool) -> None:
        """Make a missing mount point, without a trace on the host."""
        if target.exists():
            return
        parent = next(p for p in target.parents if p.is_dir())
        if not any(p == parent or p in parent.parents for p in self.private):
            self.overlay(parent)
        (target if folder else target.parent).mkdir(parents=True, exist_ok=True)
        if not folder:
            target.touch()

    def overlay(self, folder: Path) -> None:
        """Lay a private writable layer over a host folder, keeping what is mounted below it."""
        if folder == Path("/"):
            raise SystemExit("a mount point directly in / has to exist on the host")
        layer = self.scratch / f"layer{len(self.private)}"
        for name in ("below", "upper", "work"):
            (layer / name).mkdir(parents=True)
        inner = mount_points_below(folder)
        bind(folder, layer / "below")
        mount(
            "-t",
            "overlay",
            "overlay",
            "-o",
            f"lowerdir={folder},upperdir={layer}/upper,workdir={layer}/work",
            str(folder),
        )
        for point in inner:
            bind(layer / "below" / point.relative_to(folder), point)
        self.private.append(folder)


def main(file: Path) -> None:
    view = View.load(file)
    Namespace(view).build()
    Path(view.ready).touch()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
