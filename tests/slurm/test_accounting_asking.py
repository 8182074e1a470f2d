"""How a real cluster is asked: large windows, any environment, unknown clusters, daemons that are away."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from slurm_ofu.errors import AccountingError
from slurm_ofu.protocols import Accounting
from slurm_ofu.slurm.accounting_pyslurm import PyslurmAccounting
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.slurm.sacct_json import SacctJson
from slurm_ofu.values import AccountingConfig
from tests.services.fixtures import ClusterFactory, slurm_cluster_factory
from tests.services.invented_jobs import invent_jobs, sql
from tests.services.processes import poll
from tests.services.slurm_cluster import SlurmCluster
from tests.services.unix_users import ALICE
from tests.slurm.accounting_jobs import Jobs, now, reader
from tests.slurm.accounting_stage import Stage, key, ways

__all__ = ["slurm_cluster_factory"]

pytestmark = [pytest.mark.contract, pytest.mark.slurm, pytest.mark.timeout(600)]
DAY = 86_400


@pytest.fixture(scope="module")
def stage(slurm_cluster_factory: ClusterFactory) -> Iterator[Stage]:
    """A cluster that has run two jobs."""
    cluster = slurm_cluster_factory(nodes=1)
    jobs = Jobs(untyped=cluster.sbatch("sleep 1", "--gres=gpu:2", user=ALICE))
    jobs.failed = cluster.sbatch("exit 3", user=ALICE)
    for job in (jobs.untyped, jobs.failed):
        cluster.wait_accounted(job)
    yield Stage(cluster, jobs, *ways(cluster))


@pytest.mark.slurm_versions("a long window is read in parts, every row once")
def test_large_window(stage: Stage) -> None:
    """Over many slices each row comes once: those that span them all, too."""
    start = now(stage.cluster) - 100 * DAY
    invent = partial(invent_jobs, stage.cluster, stage.jobs.untyped, start_epoch_s=start)
    invent(first_id=1_000_001, count=200, every_seconds=DAY / 2, run_seconds=DAY)
    spanning = {"time_end": f"if(s.seq=3,0,{start}+90*{DAY})", "state": "if(s.seq=3,1,3)"}
    invent(first_id=2_000_001, count=3, every_seconds=DAY, run_seconds=0, columns=spanning)
    rows = [row for row in reader(stage.cluster).rows(start, start + 100 * DAY) if row.job_id > 1_000_000]
    ids = sorted(row.job_id for row in rows)
    assert [*range(1_000_001, 1_000_201), 2_000_001, 2_000_002, 2_000_003] == ids
    part = [row.job_id for row in reader(stage.cluster).rows(start + DAY, start + 2 * DAY)]
    assert [1_000_002, 1_000_003, 1_000_004, 2_000_001, 2_000_002] == sorted(part)


@pytest.mark.slurm_versions("who asks, and where, does not change the answer")
def test_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time zone, time format and Slurm's own variables of the caller change nothing."""
    end = now(stage.cluster)

    def answers() -> dict[str, object]:
        return stage.every(lambda way: [row for row in way.rows(end - 7200, end) if row.end_epoch_s])

    before = answers()
    for name, value in (
        ("TZ", "America/St_Johns"),
        ("SLURM_TIME_FORMAT", "relative"),
        ("SLURM_CLUSTERS", "nonono"),
        ("SACCT_FORMAT", "jobid"),
        ("LC_ALL", "de_DE.UTF-8"),
        ("SLURM_BITSTR_LEN", "1"),
    ):
        monkeypatch.setenv(name, value)
    assert before == answers()


@pytest.mark.slurm_versions("a cluster that slurmdbd does not know is an error")
def test_clusters(stage: Stage) -> None:
    """The local cluster by name is the local cluster; an unknown one is an error that names those known."""
    end = now(stage.cluster)
    for way in stage.ways:
        by_name = [key(row) for row in way.rows(end - 7200, end, clusters=(stage.name,))]
        assert (way.name, [key(row) for row in way.rows(end - 7200, end)]) == (way.name, by_name)
        with pytest.raises(AccountingError, match=f"no cluster 'nonono'; it knows {stage.name}"):
            list(way.rows(end - 7200, end, clusters=("nonono",)))
        with pytest.raises(AccountingError, match="no cluster 'nonono'"):
            list(way.rows_of("nonono", [1]))
        assert (way.name, []) == (way.name, list(way.rows_of(stage.name, [])))
        assert (way.name, []) == (way.name, list(way.rows(end, end)))


@pytest.mark.slurm_versions("slurmdbd or its database away is an error, and passes")
@pytest.mark.parametrize("daemon", ["slurmdbd", "mariadbd"])
def test_daemon_away(stage: Stage, daemon: str) -> None:
    """With slurmdbd or its database stopped every question is an error that says so; later it works again."""
    end = now(stage.cluster)
    asked = (*stage.ways, *fresh_ways(stage))
    stage.cluster.stop_daemon(daemon)
    try:
        for way in asked:
            with pytest.raises(AccountingError, match="does not answer") as raised:
                list(way.rows(end - 7200, end))
            assert AccountingError is type(raised.value)
            with pytest.raises(AccountingError, match="does not answer"):
                list(way.rows_of(stage.name, [1]))
    finally:
        stage.cluster.start_daemon(daemon)
    for way in asked:
        stage.cluster.wait_for(partial(answers, way, stage), 60, f"{way.name} to work again")


@pytest.mark.slurm_versions("losing slurmdbd or its database in the middle of a question is an error")
@pytest.mark.parametrize("loss", ["slurmdbd", "mariadbd", "query"])
def test_lost_in_the_middle(stage: Stage, loss: str) -> None:
    """A question whose daemon dies under it, or whose query the database breaks off, is never "no jobs"."""
    end = now(stage.cluster)
    for way in stage.ways:
        try:
            with asked_and_stuck(stage.cluster, way, (end - 7200, end)) as child:
                if loss == "query":
                    [query] = stuck_queries(stage.cluster)
                    sql(stage.cluster, f"kill query {query}")
                else:
                    stage.cluster.stop_daemon(loss, number=signal.SIGKILL)
            said = child.communicate(timeout=120)[0]
        finally:
            if loss != "query":
                stage.cluster.start_daemon(loss)
        assert (way.name, True) == (way.name, said.startswith("AccountingError: ")), said
        stage.cluster.wait_for(partial(answers, way, stage), 60, f"{way.name} to work again")


@pytest.mark.slurm_versions("a slurmdbd that hangs is an error in bounded time")
def test_hanging(stage: Stage) -> None:
    """A database that keeps slurmdbd waiting does not keep us: the question is given up."""
    with locked(stage.cluster):
        for way in fresh_ways(stage, seconds=3):
            with pytest.raises(AccountingError, match=r"gave no answer (for|within) 3 s"):
                list(way.rows_of(stage.name, [1]))
    for way in stage.ways:
        stage.cluster.wait_for(partial(answers, way, stage), 60, f"{way.name} to work again")


def fresh_ways(stage: Stage, seconds: float = 100) -> list[Accounting]:
    """The same ways, which have asked for nothing yet, with a bound on their patience."""
    config = AccountingConfig(slurm_conf=str(stage.cluster.layout.slurm_conf))
    kinds: dict[str, Any] = {
        "sacct": partial(Sacct, silence_seconds=seconds),
        "sacct-json": partial(SacctJson, timeout_seconds=seconds),
        "pyslurm": partial(PyslurmAccounting, silence_seconds=seconds),
    }
    return [kinds[way.name](config) for way in stage.ways]


def answers(way: Accounting, stage: Stage) -> bool:
    """Whether it answers."""
    with suppress(AccountingError):
        return bool(list(way.rows_of(stage.name, [stage.jobs.untyped])))
    return False


@contextmanager
def locked(cluster: SlurmCluster) -> Iterator[None]:
    """Nobody can read the job table; slurmdbd waits."""
    table = f"{cluster.settings.cluster_name}_job_table"
    argv = ["mariadb", "--no-defaults", f"--socket={cluster.layout.database_socket}", "-n", "slurm_acct"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as lock:
        assert lock.stdin
        assert lock.stdout
        lock.stdin.write(f"lock tables {table} write; select 'locked';\n".encode())
        lock.stdin.flush()
        assert b"locked" in lock.stdout.readline()
        yield
        with suppress(BrokenPipeError):
            lock.stdin.close()


ASK = """
import sys
from slurm_ofu.errors import AccountingError
from slurm_ofu.slurm.accounting_catalogue import open_accounting_source
from slurm_ofu.values import AccountingConfig
way = open_accounting_source(AccountingConfig(source=sys.argv[1], slurm_conf=sys.argv[2]))
try:
    print(len(list(way.rows(float(sys.argv[3]), float(sys.argv[4])))), "rows")
except AccountingError as error:
    print(f"{type(error).__name__}: {error}")
"""


@contextmanager
def asked_and_stuck(
    cluster: SlurmCluster, way: Accounting, window: tuple[int, int]
) -> Iterator[subprocess.Popen[str]]:
    """A process that asks, while slurmdbd waits for its database."""
    argv = [sys.executable, "-c", ASK, way.name, str(cluster.layout.slurm_conf), *map(str, window)]
    with locked(cluster):
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        poll(partial(stuck_queries, cluster), 60, "the question to be stuck")
        yield child


def stuck_queries(cluster: SlurmCluster) -> list[str]:
    """The ids of slurmdbd's queries that wait for the job table."""
    return sql(
        cluster,
        "select id from information_schema.processlist where user='slurm'"
        " and state like 'Waiting for table%' and info like '%job_table%'",
    )
