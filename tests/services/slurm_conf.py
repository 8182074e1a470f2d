"""The configuration files of a test cluster, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CPUS = 16
MEMORY_MB = 64000
PRIORITY_NODES = 2
LONGEST_PREFIX = 64


@dataclass(frozen=True)
class NodeSpec:
    """One node; `gres` and `gres_lines` replace what follows from the number of GPUs."""

    name: str
    gpus: int = 4
    gpu_type: str | None = "h100"
    gres: str | None = None
    gres_lines: tuple[str, ...] | None = None

    def gres_value(self) -> str:
        """The node's Gres= in slurm.conf."""
        if self.gres is not None:
            return self.gres
        return ":".join(filter(None, ("gpu", self.gpu_type, str(self.gpus)))) if self.gpus else ""

    def gres_conf(self) -> str:
        """The node's lines in gres.conf; the positions in it are what SLURM_JOB_GPUS counts."""
        lines = self.gres_lines
        if lines is None:
            kind = f"Type={self.gpu_type} " if self.gpu_type else ""
            lines = (f"Name=gpu {kind}File=/dev/nvidia[0-{self.gpus - 1}]",) if self.gpus else ()
        return "".join(f"NodeName={self.name} {line}\n" for line in lines)


@dataclass(frozen=True)
class Hooks:
    """Scripts that Slurm runs: a path or a glob, several paths (run in this order), or none."""

    prolog: str | Path | Sequence[Path] | None = None
    epilog: str | Path | Sequence[Path] | None = None
    prolog_slurmctld: Path | None = None
    epilog_slurmctld: Path | None = None

    def lines(self, folder: Path) -> str:
        """The slurm.conf lines."""
        named = {
            "Prolog": self.prolog,
            "Epilog": self.epilog,
            "PrologSlurmctld": self.prolog_slurmctld,
            "EpilogSlurmctld": self.epilog_slurmctld,
        }
        return "".join(f"{k}={linked(v, folder / k.lower())}\n" for k, v in named.items() if v is not None)


def linked(scripts: str | Path | Sequence[Path], folder: Path) -> str:
    """What to write after Prolog=; Slurm 22.05 runs a glob's matches in reverse alphabetical order."""
    if isinstance(scripts, str | Path):
        return str(scripts)
    folder.mkdir(parents=True, exist_ok=True)
    for number, script in enumerate(reversed(scripts)):
        (folder / f"{number:03}-{script.name}").symlink_to(script)
    return f"{folder}/*"


@dataclass(frozen=True)
class Layout:
    """Where everything of a cluster lives below its prefix."""

    prefix: Path

    def __post_init__(self) -> None:
        if len(str(self.prefix)) > LONGEST_PREFIX:
            raise ValueError(f"{self.prefix} is too long for the unix sockets below it")

    def __getattr__(self, name: str) -> Path:
        if name in ("etc", "log", "state", "nodes", "home", "hooks", "database", "temporary", "munge"):
            return self.prefix / name
        raise AttributeError(name)

    @property
    def slurm_conf(self) -> Path:
        return self.prefix / "etc/slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.prefix / "munge/socket"

    @property
    def database_socket(self) -> Path:
        return self.prefix / "database/socket"

    def node(self, name: str) -> Path:
        return self.prefix / "nodes" / name


@dataclass(frozen=True)
class Settings:
    """Everything the configuration files depend on."""

    layout: Layout
    version: tuple[int, int]
    cluster_name: str
    nodes: tuple[NodeSpec, ...]
    hooks: Hooks
    prolog_flags: str
    hook_timeout: int
    gres_types: tuple[str, ...]
    proctrack: str
    extra_conf: str
    ports: tuple[int, ...]

    @property
    def controller_port(self) -> int:
        return self.ports[0]

    @property
    def accounting_port(self) -> int:
        return self.ports[1]

    def node_port(self, index: int) -> int:
        return self.ports[2 + index]


def tracked_tres(settings: Settings) -> str:
    """The generic resources of AccountingStorageTRES, with and without a type."""
    types = {s.gpu_type for s in settings.nodes if s.gpu_type and s.gpus}
    return ",".join([f"gres/{t}" for t in settings.gres_types] + sorted(f"gres/gpu:{t}" for t in types))


def node_lines(settings: Settings) -> str:
    lines = ""
    for index, spec in enumerate(settings.nodes):
        gres = f" Gres={spec.gres_value()}" if spec.gres_value() else ""
        lines += (
            f"NodeName={spec.name} NodeHostname=localhost NodeAddr=127.0.0.1 "
            f"Port={settings.node_port(index)} CPUs={CPUS} Boards=1 SocketsPerBoard=1 "
            f"CoresPerSocket={CPUS} ThreadsPerCore=1 RealMemory={MEMORY_MB}{gres} State=UNKNOWN\n"
        )
    return lines


def slurm_conf(settings: Settings) -> str:
    at = settings.layout
    priority = ",".join(spec.name for spec in settings.nodes[:PRIORITY_NODES])
    flags = f"PrologFlags={settings.prolog_flags}" if settings.prolog_flags else ""
    return f"""\
ClusterName={settings.cluster_name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={settings.controller_port}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={at.munge_socket}
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={at.state}
SlurmdSpoolDir={at.nodes}/%n/spool
SlurmctldPidFile={at.state}/slurmctld.pid
SlurmdPidFile={at.nodes}/%n/slurmd.pid
SlurmctldLogFile={at.log}/slurmctld.log
SlurmdLogFile={at.log}/slurmd-%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
LogTimeFormat=iso8601_ms

# a node may claim more than the machine has
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
ProctrackType=proctrack/{settings.proctrack}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes={",".join(settings.gres_types)}

SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=100000,batch_sched_delay=0
PriorityType=priority/multifactor
JobRequeue=1
KillWait=3
MinJobAge=300
SlurmctldTimeout=30
SlurmdTimeout=60
MessageTimeout=20

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={settings.accounting_port}
# not a password: with munge this is the socket of connections to slurmdbd, which AuthInfo does not reach
AccountingStoragePass={at.munge_socket}
AccountingStorageTRES={tracked_tres(settings)}
AccountingStorageEnforce=associations,limits
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5

{flags}
PrologEpilogTimeout={settings.hook_timeout}
{settings.hooks.lines(at.hooks)}
{node_lines(settings)}
PartitionName=gpu  Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=prio Nodes={priority} PriorityTier=10 MaxTime=1-0 State=UP
{settings.extra_conf}
"""


def gres_conf(settings: Settings) -> str:
    return "".join(spec.gres_conf() for spec in settings.nodes)


def cgroup_conf(settings: Settings) -> str:
    """Real cgroups where the machine has version 1; otherwise a plugin that starts without any.

    22.05 does not know `disabled`; its version 1 plugin starts on an empty tmpfs at /sys/fs/cgroup.
    """
    no_limits = "ConstrainDevices=no\nConstrainRAMSpace=no\nConstrainCores=no\n"
    if settings.proctrack == "cgroup":
        return "CgroupPlugin=cgroup/v1\n" + no_limits
    if settings.version < (23, 11):
        return "CgroupPlugin=cgroup/v1\n"
    return "CgroupPlugin=disabled\n"


def needs_cgroup_tmpfs(settings: Settings) -> bool:
    return settings.proctrack != "cgroup" and settings.version < (23, 11)


def slurmdbd_conf(settings: Settings) -> str:
    at = settings.layout
    return f"""\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={settings.accounting_port}
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket={at.munge_socket}
CommunicationParameters=NoInAddrAny
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct
LogFile={at.log}/slurmdbd.log
PidFile={at.state}/slurmdbd.pid
DebugLevel=verbose
CommitDelay=0
"""


def accounts_file(cluster_name: str, accounts: Mapping[str, Sequence[str]]) -> str:
    """What `sacctmgr load` reads: one command for all is several times faster than one for each."""
    lines = [f"Cluster - '{cluster_name}'", "Parent - 'root'", *(f"Account - '{name}'" for name in accounts)]
    for name, users in accounts.items():
        lines += [f"Parent - '{name}'", *(f"User - '{user}':DefaultAccount='{name}'" for user in users)]
    return "\n".join(lines) + "\n"


def munged_command(layout: Layout) -> list[str]:
    return [
        "munged",
        "--foreground",
        f"--socket={layout.munge_socket}",
        f"--key-file={layout.munge}/key",
        f"--pid-file={layout.munge}/pid",
        f"--log-file={layout.munge}/munged.log",
        f"--seed-file={layout.munge}/seed",
        "--num-threads=10",
    ]


def mariadbd_command(layout: Layout) -> list[str]:
    """Throw-away data: no fsync, small pools; `loose-` passes over options that a version lacks.

    A server that starts removes every temporary table in its tmpdir: in /tmp also those of other servers.
    """
    return [
        "mariadbd",
        "--no-defaults",
        f"--datadir={layout.database}",
        f"--tmpdir={layout.temporary}",
        f"--socket={layout.database_socket}",
        f"--pid-file={layout.database}/pid",
        "--skip-networking",
        "--skip-log-bin",
        "--character-set-server=utf8mb4",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--loose-innodb-flush-method=nosync",
        "--innodb-lock-wait-timeout=900",
        "--performance-schema=off",
        "--loose-innodb-snapshot-isolation=OFF",
    ]


def database_install_command(layout: Layout) -> list[str]:
    return [
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={layout.database}",
        f"--tmpdir={layout.temporary}",
        "--user=mysql",
        "--auth-root-authentication-method=socket",
        "--skip-test-db",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-log-file-size=64M",
    ]
