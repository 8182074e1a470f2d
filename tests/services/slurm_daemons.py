"""The daemons of a test cluster: munge, MariaDB, slurmdbd, slurmctld and several slurmd.

Everything lives in one folder, listens on loopback only and needs root but no systemd.  Each slurmd, and
with it its hooks and jobs, runs in its own mount namespace: see README.md.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from . import slurm_conf as conf
from .node_namespace import Mount, View
from .processes import HERE, ClusterError, Keeper, Process, answers, free_ports, listens, poll, tail
from .slurm_conf import Hooks, Layout, NodeSpec, Settings
from .unix_users import ACCOUNTS, UnixUsers

T = TypeVar("T")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PRIVATE_DIRS = ("/var/spool/slurm-ofu", "/etc/slurm-ofu")
DATABASE = Path("database")


def slurm_version() -> tuple[int, int]:
    """Major version of the installed Slurm, such as (22, 5)."""
    text = subprocess.run(["slurmd", "-V"], env={"PATH": PATH}, text=True, capture_output=True, check=True)
    found = re.search(r"(\d+)\.(\d+)", text.stdout)
    assert found, text.stdout
    return int(found[1]), int(found[2])


def best_proctrack() -> str:
    """cgroup where the freezer of version 1 is mounted, else what works without cgroups."""
    return "cgroup" if Path("/sys/fs/cgroup/freezer/tasks").exists() else "linuxproc"


class SlurmDaemons:
    """The processes and namespaces of one cluster, and running commands against them."""

    def __init__(
        self,
        prefix: Path,
        *,
        nodes: int | Sequence[NodeSpec] = 4,
        gpus: int = 4,
        gpu_type: str | None = "h100",
        node_prefix: str | None = None,
        cluster_name: str = "ofutest",
        hooks: Hooks | None = None,
        prolog_flags: str = "Alloc",
        hook_timeout: int = 20,
        gres_types: Sequence[str] = ("gpu",),
        proctrack: str | None = None,
        extra_conf: str = "",
        private_dirs: Sequence[str] = PRIVATE_DIRS,
        mounts: Callable[[str], Sequence[Mount]] | None = None,
        hide: Sequence[Path] = (),
        accounts: Mapping[str, Sequence[str]] = ACCOUNTS,
    ) -> None:
        """Node names are unique on the machine unless given: version 1 cgroups are named after them only.

        `private_dirs` and `mounts` shape each node's namespace; `hide` empties host folders in it
        (relative ones are inside the prefix: `hide=[DATABASE]` hides the accounting database).
        """
        self.layout = Layout(prefix)
        if isinstance(nodes, int):
            stem = node_prefix or f"ofu{secrets.token_hex(3)}n"
            nodes = [NodeSpec(f"{stem}{i}", gpus, gpu_type) for i in range(1, nodes + 1)]
        self.specs = tuple(nodes)
        self.nodes = [spec.name for spec in self.specs]
        self.private_dirs, self.extra_mounts, self.hidden = tuple(private_dirs), mounts, tuple(hide)
        self.accounts = {account: tuple(users) for account, users in accounts.items()}
        self.users = tuple(user for users in self.accounts.values() for user in users)
        self.settings = Settings(
            self.layout,
            slurm_version(),
            cluster_name,
            self.specs,
            hooks or Hooks(),
            prolog_flags,
            hook_timeout,
            tuple(gres_types),
            proctrack or best_proctrack(),
            extra_conf,
            tuple(free_ports(2 + len(self.specs))),
        )
        self.processes: dict[str, Process] = {}
        self.unix_users = UnixUsers(self.users)
        self.keeper: Keeper | None = None

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Bring up every daemon, in an order in which none has to retry, until all nodes are idle."""
        try:
            self.prepare()
            self.keeper = Keeper(self.nodes, self.layout.log / "keeper.log")
            self.start_nodes_namespaces()
            self.start_database()
            self.start_accounting()
            for name in ["slurmctld", *(f"slurmd-{n}" for n in self.nodes)]:
                self.spawn(name)
            self.ready("slurmctld")
            self.wait_idle()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process that the cluster started, or that those left behind; its data stays."""
        if self.keeper:
            self.keeper.close()
            self.keeper = None
        self.processes.clear()
        self.unix_users.release()

    def remove(self) -> None:
        """Delete the prefix."""
        shutil.rmtree(self.layout.prefix, ignore_errors=True)

    def prepare(self) -> None:
        """Write every file; from here on tests may also put files into the nodes' private folders."""
        self.unix_users.acquire()
        at = self.layout
        owners = {
            at.prefix: "root",
            at.etc: "root",
            at.log: "slurm",
            at.nodes: "root",
            at.home: "root",
            at.state: "slurm",
            at.database: "mysql",
            at.temporary: "mysql",
            at.munge: "munge",
        }
        for folder, owner in owners.items():
            make_folder(folder, owner)
        for user in self.users:
            make_folder(at.home / user, user)
        for node in self.nodes:
            self.prepare_node(node)
        at.slurm_conf.write_text(conf.slurm_conf(self.settings))
        (at.etc / "gres.conf").write_text(conf.gres_conf(self.settings))
        (at.etc / "cgroup.conf").write_text(conf.cgroup_conf(self.settings))
        secret(at.etc / "slurmdbd.conf", conf.slurmdbd_conf(self.settings).encode(), "slurm")
        secret(at.munge / "key", os.urandom(128), "munge")

    def prepare_node(self, node: str) -> None:
        folder = self.layout.node(node)
        for name in ("spool", "scratch"):
            make_folder(folder / name, "root")
        for path in self.private_dirs:
            make_folder(self.node_path(node, path), "root")
        spec = self.specs[self.nodes.index(node)]
        names = ["localhost", *self.nodes]
        (folder / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        View(
            node,
            str(folder / "scratch"),
            str(folder / "ready"),
            str(folder / "log"),
            spec.gpus,
            tuple(self.node_mounts(node)),
        ).save(folder / "view.json")

    def node_mounts(self, node: str) -> list[Mount]:
        mounts = [Mount.bind(self.layout.node(node) / "hosts", "/etc/hosts")]
        mounts += [Mount.bind(self.node_path(node, path), path) for path in self.private_dirs]
        if conf.needs_cgroup_tmpfs(self.settings):
            mounts.append(Mount.tmpfs("/sys/fs/cgroup"))
        mounts += self.extra_mounts(node) if self.extra_mounts else ()
        return mounts + [Mount.tmpfs(self.layout.prefix / folder, size="4k") for folder in self.hidden]

    def start_nodes_namespaces(self) -> None:
        for node in self.nodes:
            at = self.layout.node(node)
            self.asked.ask("syslog", path=str(at / "log"), file=str(at / "syslog.txt"))
            self.spawn(f"node-{node}")
        for node in self.nodes:
            self.ready(f"node-{node}")

    def start_database(self) -> None:
        self.spawn("munged")
        install = conf.database_install_command(self.layout)
        with (self.layout.log / "database-install.log").open("wb") as out:
            done = subprocess.run(install, env={"PATH": PATH}, stdout=out, stderr=out, check=False)
        if done.returncode:
            raise ClusterError(f"{install[0]} failed\n{tail(self.layout.log / 'database-install.log')}")
        self.spawn("mariadbd")
        self.ready("munged")
        self.ready("mariadbd")
        # The unix user slurm is let in by its uid: no password anywhere.  The database is made here because
        # with libmariadb 3.4.10 a slurmdbd that has to create it ends with "Number of columns in result".
        self.run(
            "mariadb",
            "--no-defaults",
            f"--socket={self.layout.database_socket}",
            "-e",
            "CREATE DATABASE slurm_acct; CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;"
            "GRANT ALL ON slurm_acct.* TO slurm@localhost",
        )

    def start_accounting(self) -> None:
        """slurmdbd, with cluster, accounts and users known to it before slurmctld asks."""
        self.spawn("slurmdbd")
        self.ready("slurmdbd")
        file = self.layout.etc / "accounts.cfg"
        file.write_text(conf.accounts_file(self.settings.cluster_name, self.accounts))
        self.run("sacctmgr", "-i", "load", str(file))

    # ------------------------------------------------------------------ daemons

    @property
    def asked(self) -> Keeper:
        if self.keeper is None:
            raise ClusterError("the cluster is not running")
        return self.keeper

    def command(self, name: str) -> tuple[list[str], str | None]:
        """Arguments and unix user of a process; all stay in the foreground."""
        kind, _, node = name.partition("-")
        if kind == "node":
            view = str(self.layout.node(node) / "view.json")
            return [
                "unshare",
                "--mount",
                "--uts",
                "--propagation",
                "private",
                "--",
                sys.executable,
                "-IS",
                str(HERE / "node_namespace.py"),
                view,
            ], None
        if kind == "slurmd":
            return [*self.entering(node), "slurmd", "-D", "-N", node], None
        return {
            "munged": (conf.munged_command(self.layout), "munge"),
            "mariadbd": (conf.mariadbd_command(self.layout), "mysql"),
            "slurmdbd": (["slurmdbd", "-D"], "slurm"),
            "slurmctld": (["slurmctld", "-D"], "slurm"),
        }[name]

    def entering(self, node: str) -> list[str]:
        """The start of a command line that runs in a node's namespace (in a chroot: below its root)."""
        holder = f"/proc/{self.processes[f'node-{node}'].pid}"
        return [
            "nsenter",
            f"--mount={holder}/ns/mnt",
            f"--uts={holder}/ns/uts",
            f"--root={holder}/root",
            "--",
        ]

    def environment(self) -> dict[str, str]:
        """Built from nothing, so that the tests' own environment cannot leak into hooks and jobs."""
        return {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "SLURM_CONF": str(self.layout.slurm_conf),
            # slurmdbd has no option for the database's socket; libmariadb reads this
            "MYSQL_UNIX_PORT": str(self.layout.database_socket),
        }

    def spawn(self, name: str) -> None:
        argv, user = self.command(name)
        log = self.layout.log / f"{name}.out"
        self.processes[name] = self.asked.spawn(argv, self.environment(), user, log)

    def is_ready(self, name: str) -> bool:
        kind, _, node = name.partition("-")
        if kind == "node":
            return (self.layout.node(node) / "ready").exists()
        if kind == "slurmd":
            return listens(self.settings.node_port(self.nodes.index(node)))
        return {
            "munged": lambda: answers(self.layout.munge_socket),
            "mariadbd": lambda: answers(self.layout.database_socket),
            "slurmdbd": lambda: listens(self.settings.accounting_port),
            "slurmctld": lambda: self.run("scontrol", "ping", check=False).returncode == 0,
        }[name]()

    def ready(self, name: str, timeout: float = 60) -> None:
        """Wait until a process does its work; its log is in the error if it ends or takes too long."""

        def check() -> bool:
            self.check_alive([name])
            return self.is_ready(name)

        try:
            poll(check, timeout, f"{name} to be ready")
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self.log_tail(name)}") from None

    def check_alive(self, names: Sequence[str]) -> None:
        for name in names:
            if not self.processes[name].alive():
                raise ClusterError(f"{name} has ended\n{self.log_tail(name)}")

    def log_tail(self, name: str) -> str:
        folder = self.layout.munge if name == "munged" else self.layout.log
        return tail(self.layout.log / f"{name}.out") + tail(folder / f"{name}.log")

    def start_daemon(self, name: str) -> None:
        """Start munged, mariadbd, slurmdbd, slurmctld or slurmd-NODE again."""
        if not self.processes[name].alive():
            self.spawn(name)
        self.ready(name)

    def stop_daemon(self, name: str, *, number: signal.Signals = signal.SIGTERM, grace: float = 20) -> None:
        """Stop one daemon, with SIGKILL where the signal does not do."""
        process = self.processes[name]
        process.send(number)
        try:
            poll(lambda: not process.alive(), grace, f"{name} to end")
        except ClusterError:
            process.send(signal.SIGKILL)
            poll(lambda: not process.alive(), grace, f"{name} to end")

    # ------------------------------------------------------------------ use

    def run(
        self,
        *argv: str,
        user: str | None = None,
        check: bool = True,
        timeout: float = 60,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A client command on the host, as root or a unix user; its output is in the error of a failure."""
        variables, cwd = self.environment(), self.layout.home
        if user:
            cwd = self.layout.home / user
            variables |= {"USER": user, "LOGNAME": user, "HOME": str(cwd)}
        who = pwd.getpwnam(user or "root")
        done = subprocess.run(
            argv,
            env=variables | dict(env or {}),
            cwd=cwd,
            input=stdin or "",
            text=True,
            capture_output=True,
            check=False,
            timeout=timeout,
            user=who.pw_uid,
            group=who.pw_gid,
            extra_groups=[],
        )
        if check and done.returncode:
            raise ClusterError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def in_node(
        self,
        node: str,
        *argv: str,
        user: str | None = None,
        check: bool = True,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A command inside a node's mount namespace, as root or a unix user."""
        identity: list[str] = []
        if user:
            who = pwd.getpwnam(user)
            identity = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", "--"]
        return self.run(*self.entering(node), *identity, *argv, check=check, timeout=timeout, env=env)

    def node_path(self, node: str, path: str) -> Path:
        """Where the host sees a path that is inside one of a node's private folders."""
        top = next((d for d in self.private_dirs if Path(d) in (Path(path), *Path(path).parents)), None)
        if top is None:
            raise ValueError(f"{path} is in none of {self.private_dirs}")
        private = self.layout.node(node) / "private" / top.strip("/").replace("/", "-")
        return private / Path(path).relative_to(top)

    def syslog(self, node: str) -> str:
        """All that was written to the node's /dev/log before this call."""
        self.asked.ask("drain")
        file = self.layout.node(node) / "syslog.txt"
        return file.read_text(errors="replace") if file.exists() else ""

    def wait_for(self, predicate: Callable[[], T], timeout: float, what: str, *, interval: float = 0.05) -> T:
        """Poll until the predicate is true; an error that names `what`, with the daemons' state, if never."""
        try:
            return poll(predicate, timeout, what, interval=interval)
        except ClusterError as error:
            dead = [n for n, p in self.processes.items() if not p.alive()]
            raise ClusterError(
                f"{error}; nodes {self.node_states()}, ended: {dead}\n{self.log_tail('slurmctld')}"
            ) from None

    def node_states(self) -> dict[str, str]:
        """State of each node as sinfo abbreviates it: idle, mix, alloc, drain, down..."""
        lines = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t", check=False).stdout.splitlines()
        return dict(line.split()[:2] for line in lines)

    def wait_idle(self, timeout: float = 60) -> None:
        """Wait until every node is up and without a job."""
        slurmds = [f"slurmd-{n}" for n in self.nodes]

        def idle() -> bool:
            self.check_alive(["slurmctld", *slurmds])
            return self.node_states() == dict.fromkeys(self.nodes, "idle")

        self.wait_for(idle, timeout, "all nodes to be idle")


def make_folder(folder: Path, owner: str) -> None:
    """A folder that everybody may enter, as the daemons and the jobs' users have to."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = pwd.getpwnam(owner)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    folder.chmod(0o755)


def secret(file: Path, content: bytes, owner: str) -> None:
    """A file that only its owner may read."""
    file.write_bytes(content)
    file.chmod(0o600)
    entry = pwd.getpwnam(owner)
    os.chown(file, entry.pw_uid, entry.pw_gid)
