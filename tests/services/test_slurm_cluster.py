"""The test cluster itself: what other tests rely on when they use it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .fixtures import ClusterFactory
from .node_namespace import Mount
from .processes import ClusterError, Process
from .recording import Recorder, recorder
from .slurm_cluster import DATABASE, SlurmCluster
from .unix_users import ALICE, BOB, CAROL, user_exists

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions(
        "the tests' own cluster: users, accounting, hooks, an end that leaves nothing"
    ),
]

SPOOL = "/var/spool/slurm-ofu"
ADDED_FILE = "/usr/lib/ofu-test-absent/libexample.so.1"


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorder]:
    with recorder() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(slurm_cluster_factory: ClusterFactory, recorded: Recorder) -> SlurmCluster:
    def mounts(node: str) -> list[Mount]:
        return [Mount.tmpfs(f"{SPOOL}/small", size="64k"), Mount.bind("/etc/hostname", ADDED_FILE)]

    return slurm_cluster_factory(hooks=recorded.hooks, mounts=mounts, hide=[DATABASE])


def test_four_nodes_are_idle_after_the_start(cluster: SlurmCluster) -> None:
    """A started cluster has as many idle nodes as asked for, in partition gpu, two of them in prio."""
    assert list(cluster.node_states().values()) == ["idle"] * 4
    prio = cluster.run("sinfo", "-h", "-N", "-p", "prio", "-o", "%N").stdout.split()
    assert prio == cluster.nodes[:2]


@pytest.mark.parametrize(("user", "account"), [(ALICE, "astro"), (BOB, "astro"), (CAROL, "bio")])
def test_a_gpu_job_of_each_user_runs_and_is_accounted(
    cluster: SlurmCluster, recorded: Recorder, user: str, account: str
) -> None:
    """A job runs as its user, is accounted with its GPU, and both hooks see which GPU it has."""
    job = cluster.sbatch("id -un", "--gres=gpu:1", "--output=%j.out", user=user)
    [row] = cluster.wait_accounted(job)
    assert (row["State"], row["User"], row["Account"]) == ("COMPLETED", user, account)
    assert "gres/gpu=1" in row["AllocTRES"].split(",")
    assert (cluster.layout.home / user / f"{job}.out").read_text().strip() == user
    for context in ("prolog", "epilog"):
        assert recorded.environment(job, context, row["NodeList"])["SLURM_JOB_GPUS"] == "0"


def test_accounting_is_final_when_a_job_on_all_nodes_is_reported(cluster: SlurmCluster) -> None:
    """`wait_accounted` does not return the first, incomplete rows of a job on several nodes."""
    [row] = cluster.wait_accounted(cluster.sbatch("true", "-N4", user=ALICE))
    names = cluster.run("scontrol", "show", "hostnames", row["NodeList"]).stdout.split()
    assert names == cluster.nodes
    assert int(row["Submit"]) <= int(row["Start"]) <= int(row["End"])


def test_a_node_s_private_folder_is_seen_by_that_node_only(cluster: SlurmCluster) -> None:
    """What one node writes to its spool is on neither another node nor the host, but tests can reach it."""
    one, two = cluster.nodes[:2]
    cluster.in_node(one, "touch", f"{SPOOL}/mine")
    assert cluster.in_node(two, "test", "-e", f"{SPOOL}/mine", check=False).returncode == 1
    assert not Path(SPOOL, "mine").exists()
    assert cluster.node_path(one, f"{SPOOL}/mine").exists()


def test_mounts_leave_no_trace_on_the_host(cluster: SlurmCluster) -> None:
    """A file bound to a place that the host lacks is in the nodes, and the host still lacks it."""
    assert cluster.in_node(cluster.nodes[0], "cat", ADDED_FILE).stdout == Path("/etc/hostname").read_text()
    assert not Path(ADDED_FILE).exists()
    assert not Path(ADDED_FILE).parent.exists()


def test_a_size_limited_tmpfs_fills_up(cluster: SlurmCluster) -> None:
    """A tmpfs given to a node cannot hold more than its size."""
    fill = cluster.in_node(
        cluster.nodes[0], "dd", "if=/dev/zero", f"of={SPOOL}/small/x", "bs=128k", "count=1", check=False
    )
    assert "No space left" in fill.stderr


def test_a_hidden_host_folder_is_empty_in_a_job(cluster: SlurmCluster) -> None:
    """The database's folder is there on the host, and empty in what jobs and hooks see."""
    assert list(cluster.layout.database.iterdir())
    assert cluster.in_node(cluster.nodes[0], "ls", "-A", str(cluster.layout.database)).stdout == ""


def test_gpu_device_files_are_character_devices_at_their_usual_names(cluster: SlurmCluster) -> None:
    """Each node has /dev/nvidia0..3 and /dev/nvidiactl, harmless because they are /dev/null underneath."""
    files = [*(f"/dev/nvidia{i}" for i in range(4)), "/dev/nvidiactl", "/dev/null"]
    found = cluster.in_node(cluster.nodes[2], "stat", "-c", "%F %t:%T", *files).stdout.splitlines()
    assert found == ["character special file 1:3"] * len(files)


def test_syslog_of_a_job_is_collected_for_its_node(cluster: SlurmCluster) -> None:
    """What a process writes to /dev/log is in that node's syslog text and in no other's."""
    one, two = cluster.nodes[:2]
    job = cluster.sbatch("logger -t ofu-test hello from $SLURM_JOB_ID", f"--nodelist={two}", user=BOB)
    cluster.wait_ended(job)
    assert f"ofu-test: hello from {job}\n" in cluster.syslog(two)
    assert "ofu-test" not in cluster.syslog(one)


def inodes(pid: int) -> set[str]:
    """Socket inode numbers that a process has open."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def listening_addresses(pids: set[int]) -> set[str]:
    """Addresses on which processes listen, from the kernel's own tables."""
    open_inodes = {inode for pid in pids for inode in inodes(pid)}
    addresses = set()
    for table, family, state in (
        ("tcp", socket.AF_INET, "0A"),
        ("tcp6", socket.AF_INET6, "0A"),
        ("udp", socket.AF_INET, "07"),
        ("udp6", socket.AF_INET6, "07"),
    ):
        file = Path("/proc/net", table)
        for line in file.read_text().splitlines()[1:] if file.exists() else []:
            fields = line.split()
            if fields[3] == state and fields[9] in open_inodes:
                raw = bytes.fromhex(fields[1].split(":")[0])
                words = [raw[i : i + 4][::-1] for i in range(0, len(raw), 4)]
                addresses.add(socket.inet_ntop(family, b"".join(words)))
    return addresses


def test_daemons_listen_on_loopback_only(cluster: SlurmCluster) -> None:
    """No socket of the cluster is reachable from another machine."""
    pids = {process.pid for process in cluster.asked.descendants()}
    assert listening_addresses(pids) == {"127.0.0.1"}


def test_a_second_cluster_runs_beside_the_first(
    cluster: SlurmCluster, slurm_cluster_factory: ClusterFactory
) -> None:
    """Two clusters do not see each other, and the end of one leaves the other alone."""
    second = slurm_cluster_factory(nodes=1)
    [row] = second.wait_accounted(second.sbatch("true", "--gres=gpu:4", user=ALICE))
    assert row["State"] == "COMPLETED"
    assert not set(second.nodes) & set(cluster.nodes)
    second.stop()
    cluster.wait_idle()
    assert user_exists(ALICE)


def test_a_stopped_slurmd_finds_its_node_again(cluster: SlurmCluster) -> None:
    """A daemon that is stopped and started is back in the same namespace, with the node usable."""
    node = cluster.nodes[3]
    cluster.in_node(node, "touch", f"{SPOOL}/before")
    cluster.stop_daemon(f"slurmd-{node}")
    cluster.start_daemon(f"slurmd-{node}")
    cluster.wait_idle()
    job = cluster.sbatch(f"ls {SPOOL}", f"--nodelist={node}", "--output=%j.out", user=CAROL)
    cluster.wait_ended(job)
    assert "before" in (cluster.layout.home / CAROL / f"{job}.out").read_text()


def mentions(prefix: Path) -> list[int]:
    """Processes whose arguments, environment or mounts name a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            for file in ("cmdline", "environ", "mountinfo"):
                try:
                    if str(prefix).encode() in (entry / file).read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
    return found


def names(processes: Iterable[Process]) -> list[str]:
    """What living processes are called."""
    found = []
    for process in processes:
        with suppress(OSError):
            found.append(Path(f"/proc/{process.pid}/comm").read_text().strip())
    return found


@pytest.mark.parametrize("proctrack", [None, "linuxproc"])
def test_stop_leaves_nothing_behind(slurm_cluster_factory: ClusterFactory, proctrack: str | None) -> None:
    """After stop no process is left, not even one that a job put into its own session, and no cgroup."""
    cluster = slurm_cluster_factory(nodes=2, proctrack=proctrack)
    job = cluster.sbatch("setsid sleep 1000 & sleep 1000", "-N2", user=ALICE)
    cluster.wait_state(job, "RUNNING")
    cluster.wait_for(lambda: "sleep" in names(cluster.asked.descendants()), 20, "the job's own processes")
    running = cluster.asked.descendants()
    assert len(running) > 8
    cluster.stop()
    assert [p for p in running if p.alive()] == []
    assert mentions(cluster.layout.prefix) == []
    assert not [g for n in cluster.nodes for g in Path("/sys/fs/cgroup").glob(f"**/*{n}*")]
    cluster.remove()
    assert not cluster.layout.prefix.exists()


def test_everything_ends_with_the_process_that_started_it(slurm_cluster_factory: ClusterFactory) -> None:
    """A test process that is killed leaves no daemon: the keeper ends them when its socket closes."""
    cluster = slurm_cluster_factory(nodes=1)
    running, keeper = cluster.asked.descendants(), cluster.asked
    keeper.control.shutdown(socket.SHUT_RDWR)
    keeper.popen.wait(timeout=30)
    assert running
    assert [p for p in running if p.alive()] == []


def test_a_daemon_that_cannot_start_is_reported_with_its_log(slurm_cluster_factory: ClusterFactory) -> None:
    """When a daemon fails, the error shows why, as the daemon itself said it."""
    with pytest.raises(ClusterError, match=r"slurmctld has ended[\s\S]*sched/nosuch"):
        slurm_cluster_factory(nodes=1, extra_conf="SchedulerType=sched/nosuch")
