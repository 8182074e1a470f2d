"""Jobs that share a GPU: what is the device's and what is each job's. Beside them a node of eight idle GPUs.

All runs say how they fare, as by default, but more often."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.e2e.conftest import SiteFactory
from tests.e2e.site import Site
from tests.services.slurm_conf import NodeSpec
from tests.services.unix_users import ALICE, BOB
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("jobs that share a GPU share its time"),
]

STEADY = Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.9)
IDLE = Segment(seconds=1, tensor_ratio=0.0, sm_clock_mhz=345, sm_active_ratio=0.0)
SETTINGS = "interval_seconds = 0.3\ncheckpoint_seconds = 0.5\ninterim_seconds = 1"
#: As the default but for seconds in the place of an hour.
AUDITS = "[audits]\nidle_seconds = 10\nminimum_seconds = 1\nminimum_gpu_hours = 0.001\n"


@pytest.fixture(scope="module")
def site(make_site: SiteFactory) -> Site:
    """A node with one GPU that is handed out in four shards, and one with eight GPUs."""
    stem = f"ofu{secrets.token_hex(3)}n"
    node, idle_node = f"{stem}1", f"{stem}2"
    spec = NodeSpec(
        node,
        gpus=1,
        gres="gpu:h100:1,shard:4",
        gres_lines=("Name=gpu Type=h100 File=/dev/nvidia0", "Name=shard Count=4"),
    )
    idle = Scenario(gpus=tuple(Gpu(segments=(IDLE,), minor=index) for index in range(8)))
    site = make_site(
        {node: Scenario(gpus=(Gpu(segments=(STEADY,)),)), idle_node: idle},
        SETTINGS,
        nodes=[spec, NodeSpec(idle_node, gpus=8)],
        gres_types=("gpu", "shard"),
    )
    site.config.write_text(site.config.read_text() + AUDITS)
    return site


def test_shards_of_one_gpu_share_its_time(site: Site) -> None:
    """Two shard jobs at once are both `shared`, and together they count no more than the GPU's time."""
    first = site.cluster.sbatch("sleep 4", "--gres=shard:1", user=ALICE)
    second = site.cluster.sbatch("sleep 4", "--gres=shard:1", user=BOB)
    for job in (first, second):
        site.cluster.wait_accounted(job)
    site.wait_delivered()
    pages = [site.page(job)[0] for job in (first, second)]
    assert ["shared", "shared"] == [page["reason"] for page in pages]
    begin = min(page["start_epoch_s"] for page in pages)
    end = max(page["end_epoch_s"] for page in pages)
    # Both times are shown in hundredths of a second, as binary fractions: equal ones may differ a little.
    assert sum(page["gpu_hours"] for page in pages) * 3600 <= end - begin + 0.001
    assert [pytest.approx(0.5, abs=0.01)] * 2 == [page["ofu_ratio"] for page in pages]


def test_a_gpu_job_after_them_is_alone(site: Site) -> None:
    """A job that has the GPU to itself is not `shared`, however soon it follows."""
    first = site.cluster.sbatch("sleep 2", "--gres=shard:1", user=ALICE)
    alone = site.cluster.sbatch("sleep 2", "--gres=gpu:1", user=BOB)
    for job in (first, alone):
        site.cluster.wait_accounted(job)
    site.wait_delivered()
    assert {"ok", "short"} >= {site.page(job)[0]["reason"] for job in (first, alone)}


def idle_entries(site: Site, job: int) -> dict[str, dict[str, Any]]:
    """What the audit of idle runs says of a job, by kind."""
    site.ingest()
    said = json.loads(site.command("ofu-admin", "audit", "idle", "--json").stdout)
    [audit] = said["audits"]
    return {one["kind"]: one for one in audit["entries"] if job in {run["job_id"] for run in one["runs"]}}


def test_eight_idle_gpus_are_caught_while_they_are_held(site: Site) -> None:
    """The audit lists the job as running until it ends, then as ended; -s R shows it just as long."""
    job = site.cluster.sbatch("sleep 300", "--gres=gpu:8", f"--nodelist={site.nodes[1]}", user=ALICE)
    site.cluster.wait_state(job, "RUNNING", 60)
    entry = site.cluster.wait_for(lambda: idle_entries(site, job).get("running"), 120, "the audit's word")
    assert entry is not None
    assert (8, 0.0) == (entry["figures"]["gpu_count"], entry["figures"]["ofu_ratio"])
    assert 10 <= entry["figures"]["idle_tail_seconds"]
    assert [job] == [row["job_id"] for row in site.report("-a", "-s", "R")["rows"]]
    site.cluster.run("scancel", str(job))
    site.cluster.wait_accounted(job)
    site.wait_delivered()
    assert {"ended"} == set(idle_entries(site, job))
    assert "" == site.command("ofu-report", "-a", "-s", "R", "-P", "-n", check=False).stdout
