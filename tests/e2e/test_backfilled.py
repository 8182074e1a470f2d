"""A site that never ran our sampler: real jobs in a real slurmdbd, and real servers that read their nodes'
exporters."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.counters.prometheus import Prometheus
from slurm_ofu.figures import figures
from slurm_ofu.slurm.sacct import Sacct
from slurm_ofu.store.backfilling import Asked
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingConfig, Config, RunRow, Selection
from slurm_ofu.wiring.backfilling import backfill
from tests.services.fixtures import ClusterFactory
from tests.services.slurm_cluster import NodeSpec
from tests.services.unix_users import ALICE, BOB
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer
from tests.standins.stored_samples import H100, H100_MHZ, KINDS, Server, require
from tests.wiring.test_backfilling import Told

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

TENSOR = {"gpu1": 0.6, "gpu2": 0.3}
MHZ = 1755.0
GPUS = 2


@dataclass(frozen=True)
class Ran:
    """What was run, and who knows of it."""

    both: int
    tasks: int
    single: int
    since: float
    config: Config
    servers: tuple[Server, ...]


def _exporter(node: str) -> ExporterNode:
    pattern = Pattern([Segment(seconds=60.0, tensor_active_ratio=TENSOR[node], sm_clock_mhz=MHZ)])
    gpus = tuple(
        ExporterGpu(uuid=f"GPU-{node}-{at}", pattern=pattern, index=at, model=H100) for at in range(GPUS)
    )
    return ExporterNode(gpus=gpus, host=f"{node}.cluster.example", interval_seconds=1.0)


@pytest.fixture(scope="module")
def ran(slurm_cluster_factory: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Jobs on two nodes of two GPUs, while both servers read the nodes' exporters."""
    for kind in KINDS:
        require(kind)
    folder = tmp_path_factory.mktemp("backfilled")
    cluster = slurm_cluster_factory(nodes=[NodeSpec(name=name, gpus=GPUS) for name in TENSOR])
    with ExitStack() as stack:
        exporters = [stack.enter_context(ExporterServer(_exporter(node), now_s=time.time)) for node in TENSOR]
        targets = [f"127.0.0.1:{one.port}" for one in exporters]
        servers = tuple(Server(kind, folder / kind, scrapes=targets) for kind in KINDS)
        for server in servers:
            stack.callback(server.close)
        since = time.time()
        gres = f"--gres=gpu:{GPUS}"
        both = cluster.sbatch("sleep 12", "-N2", gres, user=ALICE)
        tasks = cluster.sbatch("sleep 8", "--array=3-4", gres, user=BOB)
        single = cluster.sbatch("sleep 6", "--gres=gpu:1", user=BOB)
        for job_id in (both, tasks, single):
            cluster.wait_accounted(job_id, 180)
        for server in servers:
            server.flush()
        accounting = AccountingConfig(slurm_conf=str(cluster.layout.slurm_conf))
        yield Ran(both, tasks, single, since, Config(path="/x", accounting=accounting), servers)


def _runs(reader: Reader, job_id: int) -> list[tuple[RunRow, float | None, str | None]]:
    rows = reader.jobs(Selection(job_ids=(job_id,)))
    return [
        (row.run, its.ofu_ratio, its.reason)
        for row in rows
        if row.run is not None
        for its in [figures(row.sums)]
    ]


@pytest.mark.parametrize("which", range(len(KINDS)), ids=KINDS)
def test_jobs_that_nobody_measured_have_an_ofu(ran: Ran, which: int, tmp_path: Path) -> None:
    """Whole nodes by slurmdbd's own count, tasks of an array each by itself; a part of a node is unmapped."""
    config = Config(
        path="/x",
        database=f"sqlite://{tmp_path}/ofu.db",
        database_group=None,
        accounting=ran.config.accounting,
    )
    later = time.time() + 3600  # when the last samples are certainly there
    done = backfill(
        config,
        Asked(start_epoch_s=ran.since - 60.0, end_epoch_s=later),
        later,
        prometheus=Prometheus(ran.servers[which].url, timeout_seconds=60.0),
        progress=Told(),
        accounting=Sacct(ran.config.accounting),
    )
    assert (3, 1) == (done.count("measured"), done.count("unmapped"))
    reader = Reader(f"{tmp_path}/ofu.db")
    [(both, _, reason)] = _runs(reader, ran.both)
    for node, gpu in ((one.node_name, one.totals) for one in reader.page(both.run_id).gpus):
        assert pytest.approx(TENSOR[node] * MHZ / H100_MHZ, abs=0.001) == (
            (gpu.tensor_ref_seconds or 0.0) / gpu.covered_seconds
        )
        assert 0.0 < gpu.covered_seconds <= (gpu.allocated_seconds or 0.0)
    assert ("ok", ALICE, "COMPLETED", False) == (reason, both.user, both.state, both.heard)
    tasks = _runs(reader, ran.tasks)
    assert {3, 4} == {run.array_task_id for run, _, _ in tasks}
    for run, ofu, _ in tasks:
        assert pytest.approx(TENSOR[run.node_list or ""] * MHZ / H100_MHZ, abs=0.001) == ofu
    assert [(None, "unmapped")] == [(ofu, reason) for _, ofu, reason in _runs(reader, ran.single)]
