"""One of every kind of job, run on a real cluster, for the contract tests of what reads its accounting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.values import AccountingConfig, AccountingRow
from tests.services.slurm_cluster import SlurmCluster
from tests.services.unix_users import ALICE, BOB, CAROL

LONG_ENOUGH = 180.0

#: Names and comments that break readers: delimiters, ends of lines, what looks like a row.
TEXTS = (
    "a|b",
    "x^|^y;|;z",
    "two\nlines",
    "\nleading, trailing\n",
    "a\n99|99|ofutest|RUNNING\n",
    "unit \x1f record \x1e file \x1c escape \x1b",
    "tab\tcarriage\rreturn",
    "quotes \"double\" 'single' `back`",
    "Grüße — 漢字 🚀 e\u0301",
    "back\\slash \\n %s $HOME ;",
    "mfu=0.41",
)
#: "café" in Latin-1: no UTF-8.
INVALID = b"caf\xe9".decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Jobs:
    """The ids of what was run."""

    array: int = 0  # three tasks, the last of which keeps the id
    het: int = 0
    requeued: int = 0
    cancelled_pending: int = 0
    cancelled_held: int = 0
    cancelled_running: int = 0
    suspended: int = 0
    resized: int = 0
    failed: int = 0
    failed_137: int = 0
    killed: int = 0
    untyped: int = 0
    typed: int = 0
    uneven: int = 0
    three_nodes: int = 0
    exclusive: int = 0
    limited: int = 0
    running: int = 0
    waiting_array: int = 0
    texts: list[int] = field(default_factory=list)
    invalid: int = 0


def run_them(cluster: SlurmCluster) -> Jobs:
    """Run every kind, and wait until accounting says no more about them."""
    jobs = Jobs()
    alice = {"user": ALICE}
    jobs.running = cluster.sbatch("sleep 10000", "--gres=gpu:1", "-w", cluster.nodes[0], **alice)
    cluster.wait_state(jobs.running, "RUNNING", LONG_ENOUGH)
    resumed = f"{cluster.until_told('resumed')}; sleep 2"
    jobs.suspended = cluster.sbatch(resumed, "--gres=gpu:1", user=BOB)
    twice = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 600; sleep 2'
    jobs.requeued = cluster.sbatch(twice, "--gres=gpu:1", "--requeue", **alice)
    jobs.cancelled_pending = cluster.sbatch("true", "-w", cluster.nodes[0], "--exclusive", **alice)
    jobs.cancelled_held = cluster.sbatch("true", "-H", **alice)
    jobs.waiting_array = cluster.sbatch("true", "--array=1-5%2", "--begin=now+10hours", **alice)
    jobs.cancelled_running = cluster.sbatch("sleep 1000", "--gres=gpu:1", user=CAROL)
    _interfere(cluster, jobs)
    resize = "sleep 2; scontrol update jobid=$SLURM_JOB_ID NumNodes=1; sleep 3"
    jobs.resized = cluster.sbatch(resize, "-N3", "--gres=gpu:2", **alice)
    jobs.array = cluster.sbatch("sleep 1", "--array=0-2%2", "--gres=gpu:1", **alice)
    jobs.het = cluster.sbatch("sleep 1", "--gres=gpu:h100:1", ":", "--gres=gpu:2", **alice)
    jobs.failed = cluster.sbatch("exit 3", "--gres=gpu:1", **alice)
    jobs.failed_137 = cluster.sbatch("exit 137", user=BOB)
    jobs.killed = cluster.sbatch("kill -9 $$", **alice)
    jobs.untyped = cluster.sbatch("sleep 1", "--gres=gpu:2", user=BOB)
    jobs.typed = cluster.sbatch("sleep 1", "--gres=gpu:h100:1", user=CAROL)
    jobs.uneven = cluster.sbatch("sleep 1", "--gpus=3", "-N2", **alice)
    jobs.three_nodes = cluster.sbatch("sleep 1", "-N3", "--gres=gpu:2", **alice)
    jobs.exclusive = cluster.sbatch("sleep 1", "--gres=gpu:1", "--exclusive", **alice)
    jobs.limited = cluster.sbatch("sleep 1", "-t", "5", "--mem=2G", **alice)
    jobs.texts = [cluster.sbatch("true", "-J", text, f"--comment={text}", **alice) for text in TEXTS]
    jobs.invalid = cluster.sbatch("true", "-J", INVALID, f"--comment={INVALID}", **alice)
    wait_settled(cluster, jobs)
    return jobs


def _interfere(cluster: SlurmCluster, jobs: Jobs) -> None:
    """Suspend and resume, requeue, cancel: each where it was meant."""
    for job_id in (jobs.requeued, jobs.suspended, jobs.cancelled_running):
        cluster.wait_state(job_id, "RUNNING", LONG_ENOUGH)
    cluster.run("scontrol", "suspend", str(jobs.suspended))
    since = now(cluster)
    cluster.wait_for(lambda: now(cluster) >= since + 3, LONG_ENOUGH, "some seconds of suspension")
    cluster.run("scontrol", "resume", str(jobs.suspended))
    cluster.tell("resumed")
    cluster.run("scontrol", "requeue", str(jobs.requeued))
    cluster.run("scancel", *map(str, (jobs.cancelled_pending, jobs.cancelled_held, jobs.cancelled_running)))

    def hurried() -> bool:
        """A requeued job is held back for two minutes; hurrying it works once it is pending again."""
        cluster.run("scontrol", "update", f"jobid={jobs.requeued}", "StartTime=now", check=False)
        return cluster.run(*_state_of(jobs.requeued), check=False).stdout.strip() != "PENDING"

    cluster.wait_state(jobs.requeued, "PENDING", LONG_ENOUGH)
    cluster.wait_for(hurried, LONG_ENOUGH, "the requeued job to run again", interval=0.5)


def _state_of(job_id: int) -> tuple[str, ...]:
    return ("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T")


def now(cluster: SlurmCluster) -> int:
    """Seconds since 1970 by this host's clock, the cluster's."""
    return int(cluster.run("date", "+%s").stdout)


def ids_of(jobs: Jobs) -> list[int]:
    """Every id that was given out, to tasks and components too, without the pending array's."""
    last = max(jobs.invalid, *jobs.texts)
    return [number for number in range(1, last + 10) if number != jobs.waiting_array]


def reader(cluster: SlurmCluster) -> Sacct:
    """The default way to ask."""
    return Sacct(AccountingConfig(slurm_conf=str(cluster.layout.slurm_conf)))


def wait_settled(cluster: SlurmCluster, jobs: Jobs) -> None:
    """Accounting follows the jobs at a distance: wait until all but one have ended and nothing changes."""
    sacct, last = reader(cluster), [[]]  # type: Sacct, list[list[AccountingRow]]
    name = cluster.settings.cluster_name

    def settled() -> bool:
        before = last[0]
        last[0] = [row for row in sacct.rows_of(name, ids_of(jobs)) if row.job_id != jobs.running]
        return before == last[0] and all(map(is_final, last[0])) and are_all_there(last[0], jobs)

    cluster.wait_for(settled, LONG_ENOUGH, "the accounting of every job", interval=1.0)


def is_final(row: AccountingRow) -> bool:
    """Whether it has ended, and names as many nodes as it counts."""
    named = row.node_list or ""
    return row.end_epoch_s is not None and (row.node_count or 0) == count_nodes(named)


def count_nodes(named: str) -> int:
    """The nodes in a host list of one prefix."""
    inside = re.search(r"\[(.*)\]", named)
    if not inside:
        return bool(named)
    ranges = [part.split("-") for part in inside[1].split(",")]
    return sum(int(one[-1]) - int(one[0]) + 1 for one in ranges)


def are_all_there(rows: Sequence[AccountingRow], jobs: Jobs) -> bool:
    """Whether the jobs with several rows have all of them."""
    two = all(len([row for row in rows if row.job_id == one]) == 2 for one in (jobs.requeued, jobs.resized))
    tasks = len([row for row in rows if row.array_job_id == jobs.array])
    components = len([row for row in rows if row.het_job_id == jobs.het])
    return two and tasks == 3 and components == 2 and jobs.invalid in {row.job_id for row in rows}
