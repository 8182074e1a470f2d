"""A mixed node on a real cluster: each GPU of one job is measured by the best source that answers for it.

GPU 0 has GPM with cycle counters, GPU 1 none of it but a place on the page of a real exporter, GPU 2 nobody.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from slurm_ofu.counters import pattern
from tests.e2e.conftest import SiteFactory
from tests.e2e.site import Site
from tests.services.unix_users import ALICE
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.slurm_versions("each GPU of a mixed node is measured by the best source that answers"),
]

SECONDS = 18
COLLECTION_SECONDS = 2.0
SETTINGS = 'interval_seconds = 2\ncycles_interval_seconds = 2\ndcgmi = "/absent/dcgmi"'
A100_MHZ, A100_REFERENCE_MHZ = 1395, 1410
TENSOR = (0.7, 0.45, 0.9)


def gpu(tensor: float, mhz: float, **more: Any) -> Gpu:
    """One at constant work."""
    segment = Segment(seconds=1, tensor_ratio=tensor, sm_clock_mhz=mhz, sm_active_ratio=0.9, power_watts=300)
    return Gpu(segments=(segment,), **more)


def scenario() -> Scenario:
    """One GPU of each kind."""
    a100 = {"gpm": False, "name": "NVIDIA A100-SXM4-80GB", "sms": 108, "reference_clock_mhz": 1410.0}
    return Scenario(
        gpus=(
            gpu(TENSOR[0], 1700, minor=0),
            gpu(TENSOR[1], A100_MHZ, minor=1, **a100),
            gpu(TENSOR[2], A100_MHZ, minor=2, **a100),
        )
    )


@dataclass
class Run:
    """One job over all three GPUs, and what became of it."""

    site: Site
    page: dict[str, Any]
    gpus: list[dict[str, Any]]  # rows of the database, by position
    request_count: int


@pytest.fixture(scope="module")
def run(make_site: SiteFactory) -> Iterator[Run]:
    """The job has come and gone while the exporter was there."""
    node = scenario()
    busy = pattern.Segment(
        seconds=1, tensor_active_ratio=TENSOR[1], sm_clock_mhz=A100_MHZ, sm_active_ratio=0.9, power_watts=300
    )
    published = ExporterNode(
        gpus=(ExporterGpu(uuid=node.uuid(1), pattern=pattern.Pattern([busy]), index=1, jobs=("7", "8")),),
        interval_seconds=COLLECTION_SECONDS,
        host="a-container",
    )
    with ExporterServer(published) as server:
        settings = f'{SETTINGS}\nexporter_url = "{server.url}"'
        site = make_site({f"ofu{secrets.token_hex(3)}n1": node}, settings)
        job = site.cluster.sbatch(f"sleep {SECONDS}", "--gres=gpu:3", user=ALICE)
        site.cluster.wait_ended(job, 180)
        site.wait_delivered()
        requests = server.request_count
    [page] = site.page(job)
    with closing(sqlite3.connect(site.database)) as database:
        database.row_factory = sqlite3.Row
        rows = [dict(row) for row in database.execute("SELECT * FROM run_gpu ORDER BY position")]
    yield Run(site, page, rows, requests)


def test_each_gpu_says_who_spoke_for_it(run: Run) -> None:
    """The record of each GPU names its source and why no better one spoke."""
    assert ["nvml", "exporter", "none"] == [row["source"] for row in run.gpus]
    hopper, exported, nobody = (row["source_note"] for row in run.gpus)
    assert hopper is None
    assert exported.startswith("nvml: no GPM on this GPU; dcgm: ")
    assert nobody.startswith(exported)
    assert nobody.endswith("; exporter: no tensor activity of this GPU")


def test_each_gpu_has_its_own_estimator_and_reason(run: Run) -> None:
    """Cycles where they are, scraped by the exporter, and no figure, with the reason, where nobody speaks."""
    found = [(row["estimator"], row["reason"]) for row in run.gpus]
    assert [("cycles", "ok"), ("scraped", "ok"), (None, "no_source")] == found


def test_each_figure_is_the_truth(run: Run) -> None:
    """Whoever spoke, the GPU's OFU is what it truly did."""
    hopper, exported, nobody = run.page["gpus"]
    assert pytest.approx(TENSOR[0] * 1700 / 1830, abs=0.01) == hopper["ofu_ratio"]
    assert pytest.approx(TENSOR[1] * A100_MHZ / A100_REFERENCE_MHZ, abs=1e-4) == exported["ofu_ratio"]
    assert nobody["ofu_ratio"] is None


def test_what_nobody_measured_is_not_covered(run: Run) -> None:
    """The exporter's GPU is covered but for its first and last collection, nobody's not at all, and the job's
    coverage is over all three GPUs."""
    covered = [row["covered_seconds"] for row in run.gpus]
    allocated = [row["allocated_seconds"] for row in run.gpus]
    assert 0.9 * allocated[0] <= covered[0]
    assert 0.5 * allocated[1] <= covered[1] < allocated[1] - COLLECTION_SECONDS
    assert covered[2] in (None, 0)
    assert pytest.approx((covered[0] + covered[1]) / sum(allocated)) == run.page["coverage_ratio"]


def test_the_exporter_is_asked_once_a_tick(run: Run) -> None:
    """The node's exporter hears of the job no more often than once per reading, and twice at its start."""
    [node] = run.page["nodes"]
    ticks = (node["end_epoch_s"] - node["start_epoch_s"]) / 2
    assert run.request_count <= ticks + 4
