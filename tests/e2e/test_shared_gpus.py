"""Jobs that share a GPU: what is the device's and what is each job's."""

from __future__ import annotations

import secrets

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


@pytest.fixture(scope="module")
def site(make_site: SiteFactory) -> Site:
    """One node with one GPU that is handed out in four shards."""
    node = f"ofu{secrets.token_hex(3)}n1"
    spec = NodeSpec(
        node,
        gpus=1,
        gres="gpu:h100:1,shard:4",
        gres_lines=("Name=gpu Type=h100 File=/dev/nvidia0", "Name=shard Count=4"),
    )
    return make_site(
        {node: Scenario(gpus=(Gpu(segments=(STEADY,)),))},
        "interval_seconds = 0.3",
        nodes=[spec],
        gres_types=("gpu", "shard"),
    )


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
