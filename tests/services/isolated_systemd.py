"""A real systemd that sees, and can change, nothing of this machine.

As a program (standard library only; pid 1 of the namespaces that `unshare` made) it builds a root file
system of its own, moves into it and becomes systemd. That root is an overlay over this machine's, changed
only in memory; /proc/sys and /sys are read-only, /dev, /run, /tmp and /var/tmp its own. Units, generators and
systemd's configuration are only those written here: nothing is cleaned or started but the system bus. Its
cgroups lie below one made for it; the clock, kernel modules and raw devices are out of its reach.

With ``legacy`` cgroups systemd is not told when a unit's last process ends: the kernel tells that to the
first namespace only. Stopping units takes as long as their time limits then.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = (
    "systemctl",
    "systemd-run",
    "busctl",
    "dbus-daemon",
    "unshare",
    "nsenter",
    "setpriv",
    "pivot_root",
)
SYSTEMD_PLACES = (Path("/usr/lib/systemd/systemd"), Path("/lib/systemd/systemd"))
CLONE_NEWCGROUP = 0x02000000
LIMIT_S = 20.0
PREFIX = "ofu-test-"
OLD_S = 60.0

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
OWN_FOLDERS = ("/run", "/tmp", "/var/tmp", "/etc/systemd")
#: What systemd would start, generate or obey, wherever a distribution keeps it: hidden.
SYSTEMD_FOLDERS = tuple(
    f"{above}/systemd/{name}"
    for above in ("/usr/lib", "/lib", "/usr/local/lib")
    for name in ("system", "system-generators", "system-environment-generators", "system.conf.d")
)
READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
FORBIDDEN = (
    "sys_time", "wake_alarm", "sys_module", "sys_rawio", "sys_boot", "syslog", "mknod", "audit_control",
    "audit_read", "audit_write", "mac_admin", "mac_override", "sys_tty_config",
)  # fmt: skip

#: The kernel kills unshare when the test process ends, however that ends, and pid 1 when unshare ends.
UNSHARE = (
    "setpriv", "--pdeathsig=KILL", "--", "unshare", "--mount", "--propagation=private", "--pid", "--fork",
    "--kill-child", "--ipc", "--uts", "--net", "--",
)  # fmt: skip

BUS_SOCKET = "/run/dbus/system_bus_socket"
UNITS = {
    "ofu-test.target": """
[Unit]
DefaultDependencies=no
Wants=dbus.socket dbus.service
""",
    "dbus.socket": f"""
[Unit]
DefaultDependencies=no
[Socket]
ListenStream={BUS_SOCKET}
""",
    "dbus.service": """
[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile --nosyslog
""",
}
MANAGER = """
[Manager]
DefaultStandardOutput=null
DefaultStandardError=null
"""


# ------------------------------------------------------------------------------ what this machine offers


def cgroup_mounts() -> dict[str, Path]:
    """The hierarchies that systemd can keep its units in: ``unified`` (version 2), ``legacy`` (its own)."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        kind, _, options = words[words.index("-") + 1 :]
        if kind == "cgroup2":
            found.setdefault("unified", Path(words[4]))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            found.setdefault("legacy", Path(words[4]))
    return found


def systemd_program() -> Path | None:
    """The systemd that is installed, running or not."""
    return next((place for place in SYSTEMD_PLACES if place.is_file()), None)


def missing_requirements(hierarchy: str) -> str | None:
    """Why no systemd of our own can run here, in one line; None when one can."""
    if os.geteuid() != 0:
        return "a systemd of our own needs root"
    if systemd_program() is None:
        return "a systemd of our own needs the package systemd"
    if absent := [name for name in PROGRAMS if not shutil.which(name, path=PATH)]:
        return f"a systemd of our own needs {', '.join(absent)} (packages systemd, dbus, util-linux)"
    if hierarchy not in cgroup_mounts():
        return f"a systemd of our own needs mounted cgroups of the kind {hierarchy}"
    probe = subprocess.run(
        [*UNSHARE, "true"],
        env={"PATH": PATH},
        text=True,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return f"a systemd of our own needs namespaces: {probe.stderr.strip()}" if probe.returncode else None


# ------------------------------------------------------------------------------ the side of the tests


class SystemdError(Exception):
    """The isolated systemd did not do what a test asked of it."""


def poll(what: str, ask: Callable[[], T], seconds: float = LIMIT_S) -> T:
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise SystemdError(f"waited {seconds:g} s for {what}; last answer: {answer!r}")
        time.sleep(0.02)
    return answer


def remove_cgroups(top: Path) -> bool:
    """Remove a cgroup and those below, as far as no process is left in them; whether nothing is left."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not top.exists()


def sweep(hierarchy: Path) -> None:
    """Remove the cgroups of test processes that were killed before they could."""
    for left in hierarchy.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > OLD_S and not has_processes(left):
                remove_cgroups(left)


def has_processes(top: Path) -> bool:
    """Whether a process is in a cgroup or in one below."""
    return any(procs.read_text() for procs in top.glob("**/cgroup.procs"))


class IsolatedSystemd:
    """systemd as pid 1 of its own namespaces, with a system bus, until :meth:`close` or this process's end.

    ``folder`` is an empty one; ``log`` in it tells why systemd did not come up.
    """

    def __init__(self, hierarchy: str, folder: Path) -> None:
        self.hierarchy, self.folder = hierarchy, folder
        self.cgroup = cgroup_mounts()[hierarchy] / f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self.pid = 0
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Bring it up, to the point where it answers on the system bus."""
        sweep(self.cgroup.parent)
        self.cgroup.mkdir()
        command = [
            *UNSHARE,
            sys.executable,
            "-IS",
            __file__,
            self.hierarchy,
            str(self.cgroup),
            str(self.folder),
        ]
        with (self.folder / "log").open("wb") as log:
            self.popen = subprocess.Popen(
                [*command, json.dumps(sorted({str(ROOT), sys.prefix, sys.base_prefix}))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": PATH},
                start_new_session=True,
            )  # fmt: skip
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children")
        self.pid = int(self._while_it_lives("pid 1", lambda: children.read_text().split())[0])
        self._while_it_lives("systemd", lambda: Path(f"/proc/{self.pid}/comm").read_text() == "systemd\n")
        self._check_cgroups()
        self._while_it_lives(
            "the target", lambda: self.call("systemctl", "is-active", "ofu-test.target")[0] == 0
        )
        self._while_it_lives("the system bus", self.is_on_the_bus)

    def _while_it_lives(self, what: str, ask: Callable[[], T]) -> T:
        def asked() -> T:
            assert self.popen is not None
            if self.popen.poll() is not None:
                raise SystemdError(f"no {what}: {(self.folder / 'log').read_text(errors='replace')}")
            return ask()

        return poll(what, asked)

    def _check_cgroups(self) -> None:
        """systemd mounts hierarchies that it misses; a second one here would be this machine's own."""
        mounts = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        seen = [line for line in mounts if line.partition(" - ")[2].startswith("cgroup")]
        if len(seen) != 1:
            raise SystemdError(f"it sees cgroups of this machine: {seen}")

    def is_on_the_bus(self) -> bool:
        """Whether systemd answers on the system bus."""
        return self.call("busctl", "--timeout=1", "status", "org.freedesktop.systemd1")[0] == 0

    def call(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command that runs in its namespaces (but not in its cgroups)."""
        inside = [
            "nsenter",
            f"--target={self.pid}",
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--net",
            "--cgroup",
        ]
        done = subprocess.run(
            [*inside, "--root", "--wd", "--", *command],
            env={"PATH": PATH}, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout.strip()

    def run(self, *command: str) -> str:
        """The output of a command that has to succeed."""
        code, output = self.call(*command)
        if code:
            raise SystemdError(f"{' '.join(command)} exited {code}: {output}")
        return output

    def start_service(self, name: str, command: Sequence[str], *properties: str) -> None:
        """Run a command as a service, in that service's cgroup."""
        options = [f"--property={each}" for each in ("DefaultDependencies=no", *properties)]
        self.run("systemd-run", "--quiet", "--collect", f"--unit={name}", *options, "--", *command)

    def file(self, path: str) -> Path:
        """Where a file of its root file system can be read and written from here."""
        return Path(f"/proc/{self.pid}/root{path}")

    def close(self) -> None:
        """Kill it, with every process in it, and remove its cgroups."""
        if self.popen is not None:
            self.popen.kill()  # pid 1, its only child, dies with it and takes all others along
            self.popen.wait()
        poll("the end of its processes", lambda: remove_cgroups(self.cgroup))


# ------------------------------------------------------------------------------ the program


def mount(kind: str, options: str, target: Path) -> None:
    """Mount a new file system, making its mount point if need be."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", kind, "-o", options, kind, str(target)], check=True)


def bind_read_only(source: Path, target: Path) -> None:
    """Show a folder at another place, where nothing can be written."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(target)], check=True)


def real(folders: Sequence[str]) -> list[Path]:
    """The folders without symbolic links, each once."""
    return sorted({Path(folder).resolve() for folder in folders})


def inside(root: Path, folder: Path) -> Path:
    """Where a folder is below another root."""
    return root / folder.relative_to("/")


def enter_cgroup(cgroup: Path) -> None:
    """Move into a cgroup and make it the root of all that this process can see of its hierarchy."""
    (cgroup / "cgroup.procs").write_text("0")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWCGROUP):
        raise OSError(ctypes.get_errno(), "unshare --cgroup")


def build_root(scratch: Path, shown: Sequence[Path]) -> Path:
    """The root file system: this machine's, with every change in memory."""
    mount("tmpfs", "mode=755", scratch)
    root = scratch / "root"
    for name in ("upper", "work"):
        (scratch / name).mkdir()
    mount("overlay", f"lowerdir=/,upperdir={scratch}/upper,workdir={scratch}/work", root)
    for folder in real(OWN_FOLDERS):
        mount("tmpfs", "mode=1777" if folder.name == "tmp" else "mode=755", inside(root, folder))
    for folder in shown:
        if folder not in (Path("/"), Path("/usr")):
            bind_read_only(folder, inside(root, folder))
    for folder in real(SYSTEMD_FOLDERS):
        if inside(root, folder).is_dir():
            mount("tmpfs", "mode=755", inside(root, folder))
    return root


def build_interfaces(root: Path, hierarchy: str) -> None:
    """The kernel's file systems: /proc, /sys, /dev."""
    mount("proc", "nosuid,nodev,noexec", root / "proc")
    for name in READ_ONLY:
        if (entry := root / "proc" / name).is_dir():
            bind_read_only(entry, entry)
        elif entry.exists():
            subprocess.run(["mount", "--bind", "/dev/null", str(entry)], check=True)
    mount("sysfs", "ro,nosuid,nodev,noexec", root / "sys")
    cgroups = root / "sys/fs/cgroup"
    if hierarchy == "unified":
        mount("cgroup2", "nosuid,nodev,noexec", cgroups)
    else:
        mount("tmpfs", "mode=755", cgroups)
        mount("cgroup", "nosuid,nodev,noexec,none,name=systemd", cgroups / "systemd")
        # systemd would mount every other hierarchy beside it, and those are this machine's.
        subprocess.run(["mount", "-o", "remount,ro", str(cgroups)], check=True)
    mount("tmpfs", "mode=755", root / "dev")
    for name, numbers in DEVICES.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(*numbers))
        (root / "dev" / name).chmod(0o666)
    mount("tmpfs", "mode=1777", root / "dev/shm")
    mount("devpts", "newinstance,ptmxmode=0666,mode=620", root / "dev/pts")
    (root / "dev/ptmx").symlink_to("pts/ptmx")


def write_units(root: Path) -> None:
    """All that systemd finds to do and to obey."""
    (root / "etc/systemd/system.conf").write_text(MANAGER)
    (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
    units = root / "etc/systemd/system"
    units.mkdir()
    for name, text in UNITS.items():
        (units / name).write_text(text.lstrip())


def main(hierarchy: str, cgroup: str, folder: str, shown: str) -> None:
    """Build the root file system, move into it and become systemd."""
    if os.getpid() != 1:
        raise SystemExit("only as pid 1 of its own namespaces")
    program = systemd_program()
    assert program is not None
    enter_cgroup(Path(cgroup))
    root = build_root(Path(folder), [Path(each) for each in json.loads(shown)])
    build_interfaces(root, hierarchy)
    write_units(root)
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    subprocess.run(["umount", "--lazy", "."], check=True)
    os.chroot(".")
    os.chdir("/")
    if Path(folder).exists() and any(Path(folder).iterdir()):
        raise SystemExit("this is not the root file system that was built")
    bounding = f"--bounding-set={','.join(f'-{name}' for name in FORBIDDEN)}"
    words = [str(program), "--unit=ofu-test.target", "--log-target=null", "--show-status=no"]
    os.execvpe("setpriv", ["setpriv", bounding, *words], {"PATH": PATH, "container": "ofu-test"})


if __name__ == "__main__":
    main(*sys.argv[1:])
