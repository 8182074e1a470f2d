"""From an exporter's page by way of a server that reads it every second to the OFU of a job."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.counters.prometheus import Prometheus
from slurm_ofu.figures import figures
from slurm_ofu.store.backfilling import Asked
from slurm_ofu.store.read import Reader
from slurm_ofu.values import Config, Selection
from slurm_ofu.wiring.backfilling import backfill
from tests.services.processes import poll
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer
from tests.standins.stored_samples import H100, H100_MHZ, KINDS, LONG_ENOUGH, Server, require
from tests.store.accounting_rows import make_row
from tests.wiring.test_backfilling import Told
from tests.wiring.test_completing import Slurmdbd

pytestmark = pytest.mark.contract

SCRAPED_SECONDS = 16
PATTERNS = [
    Pattern(
        [
            Segment(seconds=0.73, tensor_active_ratio=tensor, sm_clock_mhz=1980.0),
            Segment(seconds=0.49, tensor_active_ratio=tensor, sm_clock_mhz=1755.0),
        ]
    )
    for tensor in (0.6, 0.3)
]


@dataclass(frozen=True)
class Scraped:
    """A server, and from when to when it read the pages of two nodes without a break."""

    server: Server
    start: int
    end: int


@pytest.fixture(scope="module", params=KINDS)
def scraped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A while of two nodes with exporters of different ages; one maps its GPUs to jobs."""
    require(request.param)
    gpus = tuple(
        ExporterGpu(uuid=f"GPU-{at}", pattern=pattern, index=at, model=H100)
        for at, pattern in enumerate(PATTERNS)
    )
    old = ExporterNode(gpus=gpus, dialect="4.0", host="old.example.org", interval_seconds=1.0)
    mapped = tuple(replace(gpu, uuid=f"{gpu.uuid}-new") for gpu in gpus)
    mapped = (mapped[0], replace(mapped[1], jobs=("77", "", "78")))
    new = ExporterNode(gpus=mapped, dialect="4.9", host="new", interval_seconds=1.0)
    with ExporterServer(old, now_s=time.time) as one, ExporterServer(new, now_s=time.time) as other:
        targets = [f"127.0.0.1:{port}" for port in (one.port, other.port)]
        server = Server(request.param, tmp_path_factory.mktemp("live") / "server", scrapes=targets)

        def times() -> list[list[float]]:
            server.flush()
            said = json.loads(
                server.ask(
                    "/api/v1/query", query='{__name__=~"DCGM_FI_PROF_(PIPE_)?TENSOR_(ACTIVE|UTIL_RATIO)"}[1h]'
                )
            )
            return [[float(at) for at, _ in one["values"]] for one in said["data"]["result"]]

        def long_enough() -> tuple[int, int] | None:
            series = times()
            if len(series) < 6:
                return None
            start = int(max(min(its) for its in series)) + 2
            end = int(min(max(its) for its in series))
            return (start, end) if end - start >= SCRAPED_SECONDS else None

        start, end = poll(long_enough, LONG_ENOUGH, "samples of both exporters", interval=1.0) or (0, 0)
    yield Scraped(server, start, end)
    server.close()


def test_the_truth_by_way_of_scrapes(scraped: Scraped, tmp_path: Path) -> None:
    """A job on a whole node, and one on a GPU that the exporter maps to it and another: the truth within the
    bar, whatever generation the exporter's names are of."""
    config = Config(path="/x", database=f"sqlite://{tmp_path}/ofu.db", database_group=None)
    done = backfill(
        config,
        Asked(start_epoch_s=scraped.start - 60.0, end_epoch_s=scraped.end + 60.0),
        scraped.end + 3600.0,
        prometheus=Prometheus(scraped.server.url, timeout_seconds=60.0),
        progress=Told(),
        accounting=Slurmdbd(
            [
                make_row(job_id=job_id, node_list=node, gpu_count=count, start=scraped.start, end=scraped.end)
                for job_id, node, count in ((76, "old", 2), (77, "new", 1))
            ]
        ),
    )
    assert 2 == done.count("measured")
    reader = Reader(f"{tmp_path}/ofu.db")
    for job_id, tensor in ((76, 0.45), (77, 0.3)):
        [row] = reader.jobs(Selection(job_ids=(job_id,)))
        its = figures(row.sums)
        busy = PATTERNS[0].until(scraped.end).minus(PATTERNS[0].until(scraped.start))
        truth = tensor * busy.sm_megacycles / H100_MHZ / (scraped.end - scraped.start)
        assert its.ofu_ratio is not None and its.ofu_error_pp is not None and its.coverage_ratio is not None
        # A clock that is read once a second is a small sample: three sigma.
        assert 100 * abs(its.ofu_ratio - truth) <= 1.5 * its.ofu_error_pp < 9.0
        assert its.coverage_ratio > 0.3  # where the machine is busy, scrapes are late
        assert (("ok",), "scraped", H100) == (its.reasons, its.estimator, its.gpu_model)
