"""The nodes of the demo's cluster: the real hooks, really installed, run as slurmd runs them."""

import contextlib
import ctypes
import grp
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from demo.cluster_day import CLUSTER, GPUS_PER_NODE, NODES, Run, synthetic_table
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import ConfigError, OfuError
from slurm_ofu.wiring.installing import EPILOG, PROLOG, Places, default_python, install

_HOOKS = {"prolog": PROLOG, "epilog": EPILOG}
_HOOK_SECONDS = 20.0
_PR_SET_CHILD_SUBREAPER = 36
_CONFIG = """\
[node]
spool_dir = "{node}/spool"

[sampler]
source = "synthetic://{node}/counters.json"
interval_seconds = 0.25
clock_readings = 10
checkpoint_seconds = 1.0

[delivery]
to = "sqlite://{cluster}/ofu.db"

[collector]
inbox = "{cluster}/inbox"

[accounting]
source = "none"

[database]
url = "sqlite://{cluster}/ofu.db"
group = "{group}"

# The day is one of seconds: by the defaults its jobs would be too short, and too small, to say anything of.
[findings]
short_seconds = 1.0
idle_tail_seconds = 1.0

[audits]
minimum_seconds = 1.0
minimum_gpu_hours = 0.0
"""


class HookFailed(OfuError):
    """A hook did not exit with 0: slurmd would have drained the node."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, each with a folder of its own in ``directory``, and their common database."""

    directory: Path

    def build(self) -> None:
        """Configure and install every node. Raises OfuError, OSError."""
        _check_python()
        devices = f"/dev/nvidia[0-{GPUS_PER_NODE - 1}]"
        (self.directory / "slurm.conf").write_text(
            f"ClusterName={CLUSTER}\nGresTypes=gpu\nNodeName={','.join(NODES)} Gres=gpu:{GPUS_PER_NODE}\n"
        )
        (self.directory / "gres.conf").write_text(f"Name=gpu File={devices}\n")
        for node in NODES:
            self._build_node(node)

    def _build_node(self, node: str) -> None:
        folder = self.directory / node
        folder.mkdir()
        (folder / "counters.json").write_text(json.dumps(synthetic_table(node)))
        self.config(node).write_text(
            _CONFIG.format(node=folder, cluster=self.directory, group=_group_name()), encoding="utf-8"
        )
        install(
            Places(
                config=self.config(node),
                prolog_dir=folder / "prolog",
                epilog_dir=folder / "epilog",
                systemd_dir=None,
                python=default_python(),
            )
        )

    def config(self, node: str) -> Path:
        """A node's slurm-ofu.toml."""
        return self.directory / node / "slurm-ofu.toml"

    def run_hook(self, hook: str, run: Run, node: str) -> None:
        """Run a node's prolog or epilog for a run. Raises HookFailed."""
        script = self.directory / node / hook / _HOOKS[hook]
        # As slurmd does: almost no environment, /, a pipe, a process group that is killed at the end.
        process = subprocess.Popen(
            [str(script)],
            env=self._environment(hook, run, node),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        in_time = _await_exit(process.pid, _HOOK_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the group is still this one
        said = process.communicate()[0].decode(errors="replace").strip()
        if not in_time:
            raise HookFailed(f"the {hook} on {node} ran for more than {_HOOK_SECONDS:.0f} s")
        if process.returncode:
            raise HookFailed(f"the {hook} on {node} exited with {process.returncode}: {said}")

    def _environment(self, hook: str, run: Run, node: str) -> Mapping[str, str]:
        """The variables that Slurm gives to a node's hooks."""
        gpus = ",".join(str(position) for position in run.gpus[node])
        # After a requeue the epilog's restart count is already the next life's.
        restart_count = run.restart_count + (1 if run.requeued and hook == "epilog" else 0)
        ended = {
            "SLURM_JOB_DERIVED_EC": "0",
            "SLURM_JOB_EXIT_CODE": str(run.exit_code << 8),
            "SLURM_JOB_EXIT_CODE2": f"{run.exit_code}:0",
        }
        return {
            "CUDA_VISIBLE_DEVICES": gpus,
            "GPU_DEVICE_ORDINAL": gpus,
            "ROCR_VISIBLE_DEVICES": gpus,
            "ZE_AFFINITY_MASK": gpus,
            "SLURMD_NODENAME": node,
            "SLURM_CLUSTER_NAME": CLUSTER,
            "SLURM_CONF": str(self.directory / "slurm.conf"),
            "SLURM_JOBID": str(run.job_id),
            "SLURM_JOB_ACCOUNT": run.user.account,
            "SLURM_JOB_CPUS_PER_NODE": "8",
            "SLURM_JOB_GID": str(run.user.uid),
            "SLURM_JOB_GPUS": gpus,
            "SLURM_JOB_ID": str(run.job_id),
            "SLURM_JOB_NUM_NODES": str(len(run.gpus)),
            "SLURM_JOB_PARTITION": run.partition,
            "SLURM_JOB_RESTART_COUNT": str(restart_count),
            "SLURM_JOB_UID": str(run.user.uid),
            "SLURM_JOB_USER": run.user.name,
            "SLURM_JOB_WORK_DIR": f"/home/{run.user.name}",
            "SLURM_NODELIST": run.node_list,
            "SLURM_SCRIPT_CONTEXT": f"{hook}_slurmd",
            "SLURM_UID": str(run.user.uid),
            **({} if run.comment is None else {"SLURM_JOB_COMMENT": run.comment}),
            **(ended if hook == "epilog" else {}),
        }

    def kill_sampler(self, run: Run, node: str) -> None:
        """What an out-of-memory killer does."""
        for path in self._spool(node).state.glob(f"{run.job_id}.{run.restart_count}.*.sampler"):
            os.kill(int(path.read_text().split()[0]), signal.SIGKILL)

    def is_settled(self) -> bool:
        """Whether every record has arrived."""
        spools = [self._spool(node) for node in NODES]
        return not any(spool.tags() or spool.waiting() for spool in spools)

    def _spool(self, node: str) -> Spool:
        return Spool(self.directory / node / "spool")


def _await_exit(pid: int, seconds: float) -> bool:
    """Wait for a child's exit without reaping it; False when it takes too long."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _check_python() -> None:
    """The hooks import slurm-ofu from where it is installed, never from the current directory."""
    command = [sys.executable, "-I", "-c", "import slurm_ofu.hooks.sample"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"slurm-ofu is not installed for {sys.executable}: {done.stderr.strip()}")


def _group_name() -> str:
    """A group that anybody may give a file to: one of their own."""
    for group_id in (os.getgid(), *os.getgroups()):
        with contextlib.suppress(KeyError):
            return grp.getgrgid(group_id).gr_name
    raise ConfigError(f"none of your groups has a name here (gid {os.getgid()}): run this as somebody else")


@contextlib.contextmanager
def stage(keep: Path | None) -> Iterator[Path]:
    """An empty directory; afterwards no process that came of this one is left, nor, unless it shall be
    kept, the directory. Raises ConfigError."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise ConfigError(f"{keep}: not empty; name a new directory")
    with contextlib.ExitStack() as stack:
        made = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-ofu-demo-")))
        _adopt_orphans()
        try:
            yield made.resolve()
        finally:
            for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(name, signal.SIG_IGN)  # an impatient second Ctrl-C would leave things behind
            _end_descendants()


def _adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, as pid 1 would be: the
    samplers leave their hook's session, and only so all of them are known here."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _end_descendants(seconds: float = 5.0) -> None:
    """End and reap every process that came of this one."""
    deadline = time.monotonic() + seconds
    while (found := _descendants()) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # "pid (name) state parent …", and the name may hold anything.
            parents[int(path.parent.name)] = int(path.read_bytes().rpartition(b")")[2].split()[1])
    found: list[int] = []
    generation = {os.getpid()}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        found += generation
    return found
