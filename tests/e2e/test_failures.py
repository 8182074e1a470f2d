"""What goes wrong on clusters, done to a real one: the hooks never hurt, and no run is lost.

Other scripts run before and after ours, as on most sites. Theirs write down how long ours took, that it
returned 0 (Slurm would not have gone on to the next), and who holds a GPU when it is through.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest

import slurm_ofu
from slurm_ofu.records.codec import decode
from slurm_ofu.wiring.host import boot_id
from tests.e2e.hung_filesystem import hung
from tests.e2e.site import BIN, CONFIG, LIBRARY_DIRECTORY, SPOOL, Site
from tests.services.fixtures import ClusterFactory
from tests.services.node_namespace import Mount
from tests.services.processes import Process
from tests.services.unix_users import ALICE
from tests.standins.nvml_standin import Control, Fault, Gpu, Scenario, Segment

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

HARMLESS = pytest.mark.slurm_versions("hooks never hurt: what hangs on a node costs no job and no node")
PACKAGE = Path(slurm_ofu.__file__).parent
INTERVAL, CHECKPOINT = 0.5, 1.0  # seconds
SETTINGS = (
    f"interval_seconds = {INTERVAL}\ncycles_interval_seconds = {INTERVAL}\n"
    f"checkpoint_seconds = {CHECKPOINT}\ninterim_seconds = 1"  # all along, whatever goes wrong
)
EPILOG_SECONDS = 5.0  # two for the sampler, half a one for its end, the rest for a busy machine
PROLOG_SECONDS = 3.0
SMALL_SPOOL = "256k"
MARKS = "/etc/slurm-ofu"  # any folder that each node has for itself
MARK = f"""#!/bin/sh
read -r uptime _ </proc/uptime
echo "$uptime" >{MARKS}/$SLURM_JOB_ID.@NAME@
/bin/cat /proc/$$/environ >{MARKS}/$SLURM_JOB_ID.@NAME@.environment
"""
HOLDERS = f"""{MARK}
: >{MARKS}/$SLURM_JOB_ID.holders
for file in /proc/[0-9]*/fd/*; do
    for gpu in /dev/nvidia[0-9]*; do
        [ "$file" -ef "$gpu" ] && echo "$file $gpu" >>{MARKS}/$SLURM_JOB_ID.holders
    done
done
exit 0
"""


@dataclass
class Ward(Site):
    """A site whose nodes can be hurt one by one. The last node's spool is small."""

    def _install_hooks(self) -> None:
        super()._install_hooks()
        for folder, name, text in (
            (self.prolog_dir, "50-before", MARK.replace("@NAME@", "prolog-before")),
            (self.prolog_dir, "00-after", MARK.replace("@NAME@", "prolog-after")),
            (self.epilog_dir, "zzz-before", MARK.replace("@NAME@", "epilog-before")),
            (self.epilog_dir, "50-holders", HOLDERS.replace("@NAME@", "epilog-after")),
        ):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def _mounts(self, node: str) -> list[Mount]:
        small = [Mount.tmpfs(SPOOL, size=SMALL_SPOOL, mode="700")] if node == list(self.scenarios)[-1] else []
        return [*super()._mounts(node), *small]

    # ------------------------------------------------------------------ a node from outside

    def holder(self, node: str) -> int:
        """The pid of the process that holds a node's namespace."""
        return self.cluster.processes[f"node-{node}"].pid

    def spool(self, node: str) -> Path:
        """The node's spool, whatever is mounted there."""
        return Path(f"/proc/{self.holder(node)}/root{SPOOL}")

    def spool_file(self, node: str, pattern: str) -> Path | None:
        """The one file in a node's spool that matches, or ``None``."""
        return next(iter(self.spool(node).glob(pattern)), None)

    def left_on(self, node: str) -> list[str]:
        """What a node's spool still holds of any run."""
        return [path.name for folder in ("state", "outbox") for path in self.spool(node).glob(f"{folder}/*")]

    def control(self, node: str) -> Control:
        """Where a node's NVML is told to misbehave."""
        path = self.scenarios[node].control
        assert path is not None
        return Control(path)

    @contextmanager
    def mounted(self, node: str, at: Path | str, *how: str) -> Iterator[None]:
        """Something else at a place of one node's file system."""
        self.cluster.in_node(node, "mount", *how, str(at))
        try:
            yield
        finally:
            self.cluster.in_node(node, "umount", str(at))

    def hidden(self, node: str, folder: Path | str) -> Any:
        """An empty folder in the place of one."""
        return self.mounted(node, folder, "-t", "tmpfs", "tmpfs")

    def replaced(self, node: str, file: Path | str, by: Path | str) -> Any:
        """One file in the place of another."""
        return self.mounted(node, file, "--bind", str(by))

    def deliver(self, node: str) -> str:
        """What the timer runs on a node."""
        done = self.cluster.in_node(node, str(BIN / "ofu-node"), "deliver", "--config", CONFIG, check=False)
        return done.stdout + done.stderr

    # ------------------------------------------------------------------ jobs that end when told

    def end_file(self, job: int) -> Path:
        """The job ends when this file is there."""
        return self.cluster.layout.home / ALICE / f"end-{job}"

    def begin(self, *nodes: str) -> int:
        """A job with one GPU of each node, that runs when this returns and ends with :meth:`end`."""
        script = '#!/bin/sh\nwhile [ ! -e "$HOME/end-$SLURM_JOB_ID" ]; do sleep 0.1; done\n'
        where = (f"-N{len(nodes)}", f"--nodelist={','.join(nodes)}", "--gres=gpu:1")
        job = self.cluster.sbatch(script, *where, user=ALICE)
        self.cluster.wait_state(job, "RUNNING")
        for node in nodes:  # for Slurm a job runs before its prologs are over
            self.cluster.wait_for(partial(self.has_mark, node, job, "prolog-after"), 30, "the prolog")
        return job

    def has_mark(self, node: str, job: int, name: str) -> bool:
        """Whether a script around ours has written its file, to the end."""
        mark = self.mark(node, job, name)
        return mark.exists() and mark.read_text().endswith("\n")

    def sampled(self, *nodes: str) -> int:
        """The same, once its samplers have their first readings."""
        job = self.begin(*nodes)
        for node in nodes:
            self.wait_checkpoint(node, job)
        return job

    def sample_for(self, *, seconds: float) -> None:
        """Let the samplers that have begun go on for a while."""
        began = uptime()
        self.cluster.wait_for(lambda: uptime() > began + seconds, seconds + 20, f"{seconds} s of samples")

    def wait_held(self, node: str, job: int, seconds: float) -> None:
        """Wait until a job has held its GPU that long."""
        began = self.began(node, job)
        self.cluster.wait_for(lambda: uptime() - began > seconds, seconds + 20, f"{seconds} s of job {job}")

    def began(self, node: str, job: int) -> float:
        """The uptime at which a job's prologs began."""
        return float(self.mark(node, job, "prolog-before").read_text())

    def mark(self, node: str, job: int, name: str) -> Path:
        """A file that the scripts around ours wrote."""
        return self.cluster.node_path(node, f"{MARKS}/{job}.{name}")

    def end(self, job: int, *nodes: str) -> None:
        """End a job, and see that neither it nor its nodes took harm."""
        self.end_file(job).touch()
        [row] = self.cluster.wait_accounted(job)  # a requeued job would have two
        assert ("COMPLETED", "0:0") == (row["State"], row["ExitCode"])
        for node in nodes:
            self.wait_node_idle(node)
            assert 0 <= self.took(node, job, "prolog") <= PROLOG_SECONDS
            assert 0 <= self.took(node, job, "epilog") <= EPILOG_SECONDS
            assert "" == self.mark(node, job, "holders").read_text(), "somebody still holds a GPU"

    def wait_node_idle(self, node: str) -> None:
        """Wait until a node is idle; one that was drained never is."""
        self.cluster.wait_for(lambda: "idle" == self.cluster.node_states()[node], 30, f"{node} to be idle")

    def took(self, node: str, job: int, hook: str) -> float:
        """Seconds of our hook between its neighbours."""
        before, after = (
            float(self.mark(node, job, f"{hook}-{when}").read_text()) for when in ("before", "after")
        )
        return after - before

    def wait_clean(self, node: str, timeout: float = 30) -> None:
        """Wait until nothing of any run is left on a node."""
        self.cluster.wait_for(lambda: not self.left_on(node), timeout, f"{node} to have delivered everything")

    def run_of(self, job: int, *nodes: str) -> dict[str, Any]:
        """The only run of a job in the accounting, with a GPU of each node."""
        self.ingest()
        [page] = self.page(job)
        assert sorted(nodes) == sorted(row["node_name"] for row in page["nodes"])
        assert sorted(nodes) == sorted(row["node_name"] for row in page["gpus"])
        return page

    def wait_logged(self, node: str, text: str) -> None:
        """Wait until a line with this text is in a node's syslog, under our name."""
        self.cluster.wait_for(
            lambda: any(text in line and "slurm-ofu" in line for line in self.syslog_lines(node)),
            20,
            f"{text!r} in the syslog of {node}, where there is\n{self.cluster.syslog(node)}",
        )

    def syslog_lines(self, node: str) -> list[str]:
        """A node's syslog."""
        return self.cluster.syslog(node).splitlines()

    # ------------------------------------------------------------------ hooks by hand

    def by_hand(self, node: str, hook: Path, like: Path, job: int) -> subprocess.Popen[str]:
        """Start a hook in a node as slurmd does, with the environment that another job's had."""
        said = [entry for entry in like.read_text().split("\0") if entry]
        words = [entry for entry in said if not entry.startswith("SLURM_JOB_ID=")]
        command = [*self.cluster.entering(node), "env", "-i", *words, f"SLURM_JOB_ID={job}", str(hook)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    @property
    def prolog(self) -> Path:
        """Our prolog as installed."""
        return self.prolog_dir / "00-slurm-ofu"

    @property
    def epilog(self) -> Path:
        """Our epilog as installed."""
        return self.epilog_dir / "zz-slurm-ofu"

    # ------------------------------------------------------------------ a database on the node

    @contextmanager
    def local_database(self, node: str, wait_seconds: float) -> Iterator[Path]:
        """A node delivers into a database that it sees, and reports are about that one."""
        folder = self.folder / f"local-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o700)
        database = folder / "ofu.db"
        usual, here = self.config, folder / "slurm-ofu.toml"
        text = usual.read_text().replace(str(self.database), str(database))
        here.write_text(text)
        self.configure(
            node,
            text.replace(f"dir://{self.inbox}", f"sqlite://{database}").replace(
                "wait_seconds = 5", f"wait_seconds = {wait_seconds}"
            ),
        )
        self.config = here
        try:
            yield database
        finally:
            self.config = usual
            self.configure(node, usual.read_text())


def uptime() -> float:
    """Seconds since boot, as the hooks read them."""
    return float(Path("/proc/uptime").read_text().split()[0])


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def exits(*started: subprocess.Popen[str]) -> list[int]:
    """Exit codes, of processes that must end soon."""
    for process in started:
        process.communicate(timeout=20)
    return [process.returncode for process in started]


@pytest.fixture(scope="module")
def ward(
    slurm_cluster_factory: ClusterFactory, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Ward:
    """Five nodes of two GPUs."""
    controls = tmp_path_factory.mktemp("controls")
    segment = Segment(seconds=0.05, tensor_ratio=0.4, sm_clock_mhz=1830, sm_active_ratio=0.9, power_watts=500)
    stem = f"ofu{secrets.token_hex(3)}n"
    scenarios = {}
    for number in range(1, 6):
        gpus = tuple(Gpu(segments=(segment,), device=Path(f"/dev/nvidia{index}")) for index in range(2))
        scenarios[f"{stem}{number}"] = Scenario(gpus=gpus, control=controls / str(number))
        Control(controls / str(number)).inject()
    folder = tmp_path_factory.mktemp("site")
    ward = Ward(folder, nvml_library, scenarios, SETTINGS)
    ward.start(slurm_cluster_factory)
    return ward


# ------------------------------------------------------------------ the sampler


@HARMLESS
def test_nothing_goes_wrong(ward: Ward) -> None:
    """Where nothing goes wrong, the run is there, complete, and syslog has no word of ours."""
    node = ward.nodes[0]
    job = ward.sampled(node)
    ward.sample_for(seconds=3 * INTERVAL)
    like, trial = ward.mark(node, job, "prolog-before.environment"), 900_000
    assert [0] == exits(ward.by_hand(node, ward.epilog_dir / "50-holders", like, trial))
    assert f"/proc/{ward.sampler_pid(node, job)}/fd/" in ward.mark(node, trial, "holders").read_text()
    ward.end(job, node)
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert "ok" == page["reason"]
    assert 0.4 == pytest.approx(page["ofu_ratio"], abs=0.01)
    assert [] == [line for line in ward.syslog_lines(node) if "slurm-ofu" in line]


def test_a_killed_sampler_loses_one_checkpoint_interval(ward: Ward) -> None:
    """SIGKILL in mid-job leaves the figure up to the last checkpoint, at most one interval earlier."""
    node = ward.nodes[0]
    job = ward.sampled(node)
    began = time.time()
    ward.sample_for(seconds=2.4)
    pid = ward.sampler_pid(node, job)
    assert pid is not None
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    ward.wait_held(node, job, uptime() - ward.began(node, job) + 1)  # without a sampler
    ward.end(job, node)
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert "sampler_died" == page["reason"]
    [gpu] = page["gpus"]
    assert killed - began - CHECKPOINT - 0.5 <= gpu["covered_seconds"]
    assert gpu["covered_seconds"] <= gpu["allocated_seconds"] - 1
    assert page["coverage_ratio"] < 0.9
    assert 0.4 == pytest.approx(page["ofu_ratio"], abs=0.01)
    ward.wait_logged(node, f"job {job}: ")


def test_a_stranger_s_sigterm(ward: Ward) -> None:
    """`fuser -k -TERM /dev/nvidia0` ends the sampler with all it has seen; the record comes at the epilog."""
    node = ward.nodes[0]
    job = ward.sampled(node)
    ward.sample_for(seconds=3 * INTERVAL)
    pid = ward.sampler_pid(node, job)
    assert pid is not None
    sampler = Process.of(pid)
    told = time.time()
    ward.cluster.in_node(node, "fuser", "-k", "-TERM", "/dev/nvidia0")
    ward.cluster.wait_for(lambda: not sampler.alive(), 10, "the sampler to end")
    checkpoint = ward.spool_file(node, f"state/{job}.*.checkpoint")
    assert checkpoint is not None
    assert checkpoint.stat().st_mtime > told - 0.02  # file times are as coarse as the kernel's tick
    ward.end(job, node)
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert "sampler_died" == page["reason"]
    assert 0 < page["coverage_ratio"] < 1
    assert 0.4 == pytest.approx(page["ofu_ratio"], abs=0.01)
    ward.wait_logged(node, f"job {job}: ")


@HARMLESS
@pytest.mark.parametrize("function", ["nvmlDeviceGetClockInfo", "nvmlInit*"])
def test_nvml_hangs(ward: Ward, function: str) -> None:
    """NVML that never answers, from the start or in mid-job, costs the figure after that and 2.5 s."""
    node = ward.nodes[1]
    at_once = function == "nvmlInit*"
    fault = Fault(function=function, hang=True)
    try:
        if at_once:
            ward.control(node).inject(fault)
        job = ward.begin(node) if at_once else ward.sampled(node)
        ward.control(node).inject(fault)
        ward.wait_held(node, job, 4 * INTERVAL)
        pid = ward.sampler_pid(node, job)
        assert pid is not None
        sampler = Process.of(pid)
        assert sampler.alive()
        ward.end(job, node)
        assert not sampler.alive()
    finally:
        ward.control(node).inject()
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert "sampler_died" == page["reason"]
    assert at_once == (page["ofu_ratio"] is None)
    ward.wait_logged(node, f"job {job}: the sampler did not finish and was killed")


@HARMLESS
@pytest.mark.parametrize("folder", ["counters", "delivery", ".."])
def test_python_in_uninterruptible_sleep(ward: Ward, folder: str) -> None:
    """A file system that does not answer holds up our Python, which even SIGKILL cannot end, and no job.

    `counters` is what the sampler imports, `delivery` what the finisher imports as well; `..` is the whole
    installation, its Python included.
    """
    node, place = ward.nodes[2], (PACKAGE / folder).resolve()
    with hung(ward.holder(node), place):
        job = ward.begin(node)
        ward.wait_held(node, job, 3 * INTERVAL)
        pid = ward.sampler_pid(node, job)
        assert pid is not None
        ward.end(job, node)
        assert "D" == state_of(pid)
        finisher = int((ward.spool(node) / "finisher").read_text().split()[0])
        if folder != "counters":
            assert state_of(finisher) in ("S", "D")
    ward.cluster.wait_for(lambda: "" == state_of(pid) == state_of(finisher), 20, "the stuck ones to go")
    ward.cluster.in_node(node, "umount", str(place))
    ward.deliver(node)
    ward.wait_clean(node)
    assert "sampler_died" == ward.run_of(job, node)["reason"]
    ward.wait_logged(node, f"job {job}: the sampler did not finish and was killed")


# ------------------------------------------------------------------ the spool


@contextmanager
def full_spool(ward: Ward, node: str) -> Iterator[None]:
    """No byte is left in a node's spool; names can still be made, as on most full disks."""
    filler = f"{SPOOL}/filler"
    ward.cluster.in_node(node, "dd", "if=/dev/zero", f"of={filler}", "bs=4k", check=False)
    try:
        yield
    finally:
        ward.cluster.in_node(node, "rm", filler)


def test_the_spool_fills_up(ward: Ward) -> None:
    """A spool that is full at the job's end: the record goes straight to its receiver, complete."""
    node = ward.nodes[-1]
    job = ward.sampled(node)
    with full_spool(ward, node):
        ward.sample_for(seconds=2 * CHECKPOINT + 1)
        ward.end(job, node)
        assert "ok" == ward.run_of(job, node)["reason"]
        ward.wait_logged(node, f"job {job}: no checkpoint: ")
    ward.deliver(node)
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert "ok" == page["reason"]
    assert page["gpus"][0]["covered_seconds"] > 2 * CHECKPOINT
    ward.wait_logged(node, f"job {job}: the outbox cannot be written: ")


def test_the_spool_fills_up_and_nobody_takes_records(ward: Ward) -> None:
    """A sampler that can put its record nowhere keeps it until there is room."""
    node = ward.nodes[-1]
    ward.configure(node, ward.toml(f"dir://{ward.folder}/absent"))
    try:
        job = ward.sampled(node)
        ward.sample_for(seconds=3 * INTERVAL)
        with full_spool(ward, node):
            ward.end(job, node)
            ward.wait_logged(node, f"job {job}: the outbox cannot be written: ")
        ward.cluster.wait_for(lambda: ward.spool_file(node, f"outbox/{job}.*"), 20, "the record")
        ward.wait_logged(node, f"job {job}: its record waits in {SPOOL}/outbox: ")
    finally:
        ward.configure(node, ward.config.read_text())
    ward.deliver(node)
    ward.wait_clean(node)
    assert "ok" == ward.run_of(job, node)["reason"]


def gpus_held(ward: Ward, node: str) -> bool:
    """Whether anybody has a node's GPUs open."""
    return 0 == ward.cluster.in_node(node, "fuser", "-s", "/dev/nvidia0", check=False).returncode


def test_the_spool_is_full_all_along(ward: Ward) -> None:
    """Full from before the prolog until after the epilog: nothing could be written down, nothing is lost."""
    node = ward.nodes[-1]
    with full_spool(ward, node):
        job = ward.begin(node)
        ward.cluster.wait_for(lambda: gpus_held(ward, node), 20, "the sampler to open the GPUs")
        ward.sample_for(seconds=4 * INTERVAL)
        ward.end(job, node)
        ward.wait_logged(node, f"job {job}: prolog cannot write to {SPOOL}/state")
        ward.wait_logged(node, f"job {job}: epilog cannot write to {SPOOL}/state")
        ward.cluster.wait_for(lambda: not our_processes(ward), 20, "the sampler to end")
    ward.deliver(node)
    ward.wait_clean(node)
    assert "ok" == ward.run_of(job, node)["reason"]


def test_the_spool_cannot_be_written(ward: Ward) -> None:
    """Where not even a name can be made, no sampler is started, which nobody could tell to end."""
    node = ward.nodes[-1]
    with ward.mounted(node, SPOOL, "-t", "tmpfs", "-o", "ro", "tmpfs"):
        job = ward.begin(node)
        ward.wait_logged(node, f"job {job}: prolog cannot write to {SPOOL}/state")
        ward.wait_held(node, job, 1)
        assert [] == our_processes(ward)
        ward.end(job, node)
        ward.wait_logged(node, f"job {job}: epilog cannot write to {SPOOL}/state")
        ward.cluster.wait_for(lambda: not our_processes(ward), 20, "our processes to end")


# ------------------------------------------------------------------ the database


@contextmanager
def locked(database: Path, how: str) -> Iterator[None]:
    """Another process's grip on a database: as one of our writers, or as any program may."""
    if how == "flock":
        with database.with_name(f"{database.name}.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("how", ["flock", "BEGIN EXCLUSIVE"])
def test_the_database_is_locked(ward: Ward, how: str) -> None:
    """Locked for longer than we wait, the record stays in the outbox, and the next job's hook delivers it."""
    node = ward.nodes[3]
    with ward.local_database(node, wait_seconds=1) as database:
        first = one_job(ward, node)
        with locked(database, how):
            second = one_job(ward, node, clean=False)
            ward.wait_logged(node, f"job {second}: its record waits in {SPOOL}/outbox: {database}: ")
            assert [f"{second}"] == [name.split(".")[0] for name in ward.left_on(node)]
        third = one_job(ward, node)
        for job in (first, second, third):
            assert "ok" == ward.run_of(job, node)["reason"]


def test_the_database_is_locked_for_less_than_we_wait(ward: Ward) -> None:
    """Nobody waits for a sampler that waits for the database; it delivers by itself."""
    node = ward.nodes[3]
    with ward.local_database(node, wait_seconds=60) as database:
        one_job(ward, node)
        with locked(database, "flock"):
            job = one_job(ward, node, clean=False)
            assert [f"{job}"] == [name.split(".")[0] for name in ward.left_on(node)]
            assert our_processes(ward)
        ward.wait_clean(node)
        ward.cluster.wait_for(lambda: not our_processes(ward), 20, "the sampler to end")
        assert "ok" == ward.run_of(job, node)["reason"]


def one_job(ward: Ward, node: str, *, clean: bool = True) -> int:
    """A short job from begin to end."""
    job = ward.sampled(node)
    ward.sample_for(seconds=3 * INTERVAL)
    ward.end(job, node)
    if clean:
        ward.wait_clean(node)
    return job


# ------------------------------------------------------------------ the hooks


@pytest.mark.slurm_versions("a node on which no prolog ran is part of the run, and says so")
def test_no_prolog_on_one_node(ward: Ward) -> None:
    """A node on which no prolog ran is part of the run all the same, and says so."""
    with_prolog, without = ward.nodes[:2]
    with ward.replaced(without, ward.prolog, "/bin/true"):
        job = ward.begin(with_prolog, without)
        ward.wait_checkpoint(with_prolog, job)
        ward.sample_for(seconds=3 * INTERVAL)
        ward.end(job, with_prolog, without)
    for node in (with_prolog, without):
        ward.wait_clean(node)
    page = ward.run_of(job, with_prolog, without)
    reasons = {row["node_name"]: row["reason"] for row in page["nodes"]}
    assert {with_prolog: "ok", without: "not_started"} == reasons
    assert 2 == page["gpu_count"]


def test_a_second_epilog(ward: Ward) -> None:
    """An epilog that runs again after the job changes nothing, and makes no record."""
    node = ward.nodes[0]
    job = one_job(ward, node)
    before = ward.run_of(job, node)
    again = ward.by_hand(node, ward.epilog, ward.mark(node, job, "epilog-before.environment"), job)
    assert [0] == exits(again)
    ward.wait_clean(node)
    ward.cluster.wait_for(lambda: not our_processes(ward), 20, "our processes to end")
    assert [] == list(ward.inbox.iterdir())
    assert before == ward.run_of(job, node)


def test_two_epilogs_at_once(ward: Ward) -> None:
    """Two epilogs of one run at the same time: one final record, of the sampler's own."""
    node = ward.nodes[0]
    model, job = one_job(ward, node), 900_001
    prolog, epilog = (ward.mark(node, model, f"{hook}-before.environment") for hook in ("prolog", "epilog"))
    assert [0] == exits(ward.by_hand(node, ward.prolog, prolog, job))
    ward.wait_checkpoint(node, job)
    ward.sample_for(seconds=3 * INTERVAL)
    assert [0, 0] == exits(*(ward.by_hand(node, ward.epilog, epilog, job) for _ in range(2)))
    ward.wait_clean(node)
    ward.cluster.wait_for(lambda: not our_processes(ward), 20, "our processes to end")
    records = [decode(path.read_bytes()) for path in ward.inbox.glob(f"{job}.*.record")]
    assert 1 == len([record for record in records if not record.interim])
    assert "ok" == ward.run_of(job, node)["reason"]


@pytest.mark.parametrize("receiver", ["directory", "database"])
def test_an_upgrade_during_the_job(ward: Ward, receiver: str) -> None:
    """A sampler needs no file of ours, of pynvml or of sqlite3 any more once it runs."""
    node = ward.nodes[3]
    with ExitStack() as around:
        if receiver == "database":
            around.enter_context(ward.local_database(node, wait_seconds=5))
            one_job(ward, node)
        job = ward.sampled(node)
        with ExitStack() as upgrade:
            upgrade.enter_context(ward.hidden(node, PACKAGE))
            upgrade.enter_context(ward.hidden(node, Path(sqlite3.__file__).parent))
            upgrade.enter_context(ward.replaced(node, pynvml.__file__, "/dev/null"))
            ward.sample_for(seconds=4 * INTERVAL)
            ward.end(job, node)
            ward.wait_clean(node)
        page = ward.run_of(job, node)
        assert "ok" == page["reason"]
        assert page["gpus"][0]["covered_seconds"] > 3 * INTERVAL


def broken(ward: Ward, node: str, what: str) -> Any:
    """One thing that a node lacks."""
    if what == "no Python":
        return ward.hidden(node, BIN)
    if what == "no working Python":
        return ward.replaced(node, sys.executable, "/bin/false")
    if what == "no NVML":
        return ward.replaced(node, LIBRARY_DIRECTORY / "libnvidia-ml.so.1", "/dev/null")
    broken_config = ward.cluster.node_path(node, CONFIG).with_name("broken.toml")
    broken_config.write_text(ward.config.read_text() + "[sampler\n")
    return ward.replaced(node, CONFIG, f"{MARKS}/broken.toml")


@pytest.mark.parametrize(
    ("what", "said", "reason"),
    [
        ("no Python", "no Python at ", "sampler_died"),
        ("no working Python", "the sampler was gone before the job's end", "sampler_died"),
        ("no NVML", "no counters: NVML cannot be used: ", "no_source"),
        ("no configuration", "the sampler stops: ConfigError: ", "sampler_died"),
    ],
)
def test_something_is_missing(ward: Ward, what: str, said: str, reason: str) -> None:
    """Without Python, NVML or a configuration that can be read, jobs run; the record says what it can."""
    node = ward.nodes[2]
    with broken(ward, node, what):
        job = ward.begin(node)
        ward.wait_held(node, job, 4 * INTERVAL)
        ward.end(job, node)
        ward.wait_logged(node, said)
        if what == "no NVML":
            ward.wait_clean(node)
    ward.deliver(node)
    ward.wait_clean(node)
    page = ward.run_of(job, node)
    assert (reason, None) == (page["reason"], page["ofu_ratio"])


def test_a_reboot_during_the_job(ward: Ward) -> None:
    """What another boot left is finished from its last checkpoint by the next job's prolog."""
    node = ward.nodes[0]
    model, job = one_job(ward, node), 900_002
    assert [0] == exits(
        ward.by_hand(node, ward.prolog, ward.mark(node, model, "prolog-before.environment"), job)
    )
    ward.wait_checkpoint(node, job)
    ward.sample_for(seconds=3 * INTERVAL)
    pid = ward.sampler_pid(node, job)
    assert pid is not None
    sampler = Process.of(pid)
    sampler.send(signal.SIGKILL)
    ward.cluster.wait_for(lambda: not sampler.alive(), 10, "the sampler to end")
    boot, old = boot_id(), "0" * 8 + "-0000" * 3 + "-" + "0" * 12
    for path in (ward.spool_file(node, f"state/{job}.*.prolog"), ward.spool(node) / "boot"):
        assert path is not None
        path.write_text(path.read_text().replace(boot, old))
    like = ward.mark(node, model, "epilog-before.environment")
    assert [0] == exits(ward.by_hand(node, ward.epilog, like, job))  # slurmd may run it after a reboot
    one_job(ward, node)
    page = ward.run_of(job, node)
    assert "sampler_died" == page["reason"]
    assert page["ofu_ratio"] is not None


# ------------------------------------------------------------------ afterwards


def our_processes(ward: Ward) -> Sequence[str]:
    """Command lines of what this cluster's hooks started and that still lives."""
    lines = []
    for process in ward.cluster.asked.descendants():
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if CONFIG in line or "slurm_ofu" in line:
            lines.append(line)
    return lines


@pytest.mark.slurm_versions("no process and no state is left on the nodes, and none is drained")
def test_nothing_is_left(ward: Ward) -> None:
    """After all that: no process, no state, no record on the way, every node idle."""
    ward.cluster.wait_for(lambda: not our_processes(ward), 20, "our processes to end")
    assert [] == [name for node in ward.nodes for name in ward.left_on(node)]
    assert [] == list(ward.inbox.iterdir())
    assert {"idle"} == set(ward.cluster.node_states().values())
