"""Jobs on MIG slices of one GPU of a real node.

Slurm gives the slices' UUIDs to the hooks only where it was built with NVML (tests/hooks/test_mig.py has
that); here the site's own map says which slice a position is.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from typing import Any

import pytest

from tests.e2e.conftest import SiteFactory
from tests.e2e.site import Site
from tests.services.slurm_conf import NodeSpec
from tests.services.unix_users import ALICE, BOB
from tests.standins.nvml_standin import Gpu, Scenario, Segment, Slice

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("jobs on MIG slices weigh their share of the GPU"),
]

UUIDS = ("MIG-265a219d-a49f-578a-825d-222c72699c16", "MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d001")
SHARE = pytest.approx(16 / 132, rel=1e-5)  # a record rounds


def steady(tensor_ratio: float) -> tuple[Segment, ...]:
    """One activity at the reference clock, for ever."""
    return (Segment(seconds=1, tensor_ratio=tensor_ratio, sm_clock_mhz=1830, sm_active_ratio=0.9),)


@pytest.fixture(scope="module")
def site(make_site: SiteFactory) -> Site:
    """One node: the GPU of minor 0 is split, the one of minor 1 is not."""
    node = f"ofu{secrets.token_hex(3)}n1"
    slices = tuple(
        Slice(segments=steady(tensor), slice_uuid=uuid, mig_index=place, gpu_instance=7 + place)
        for place, (uuid, tensor) in enumerate(zip(UUIDS, (0.25, 0.75), strict=True))
    )
    spec = NodeSpec(
        node,
        gpus=3,
        gres="gpu:1g.10gb:2,gpu:h100:1",
        gres_lines=(
            "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidiactl",
            "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia2",
            "Name=gpu Type=h100 File=/dev/nvidia1",
        ),
    )
    named = "".join(f'{position} = "{uuid}"\n' for position, uuid in enumerate(UUIDS))
    split = Gpu(segments=steady(0.5), mig="on", slices=slices)
    return make_site(
        {node: Scenario(gpus=(split, Gpu(segments=steady(1.0))))},
        f'interval_seconds = 0.3\ncycles_interval_seconds = 0.3\n[gpu_map."{node}"]\n{named}',
        nodes=[spec],
    )


def rows(site: Site, job_id: int) -> list[dict[str, Any]]:
    """The job's GPUs in the accounting database."""
    with contextlib.closing(sqlite3.connect(f"file:{site.database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT * FROM run JOIN run_gpu USING (run_id) WHERE job_id = ? ORDER BY position"
        return [dict(row) for row in connection.execute(query, (job_id,))]


def test_two_jobs_on_slices_and_one_beside_them(site: Site) -> None:
    """Each slice has its own figure and weighs its SMs; the GPU beside weighs 1; no job gets another's."""
    jobs = [
        site.cluster.sbatch("sleep 4", f"--gres={gres}:1", user=user)
        for gres, user in (("gpu:1g.10gb", ALICE), ("gpu:1g.10gb", BOB), ("gpu:h100", ALICE))
    ]
    for job in jobs:
        site.cluster.wait_accounted(job)
    site.wait_delivered()
    found = [row for job in jobs for row in rows(site, job)]
    assert ["ok"] * 3 == [row["reason"] for row in found]
    assert set(UUIDS) == {row["uuid"] for row in found[:2]}
    for row in found[:2]:
        assert ("1g.10gb", SHARE, "gpu_map") == (row["mig_profile"], row["sm_share_ratio"], row["mapped_by"])
    assert ("gres_file", None, 1.0, "cycles") == tuple(
        found[2][name] for name in ("mapped_by", "mig_profile", "sm_share_ratio", "estimator")
    )
    truth = {UUIDS[0]: 0.25, UUIDS[1]: 0.75}
    for job, row in zip(jobs, found, strict=True):
        (page,) = site.page(job)
        assert pytest.approx(truth.get(row["uuid"], 1.0), abs=0.01) == page["ofu_ratio"]
        held_hours = (row["end_epoch_s"] - row["start_epoch_s"]) / 3600
        assert pytest.approx(held_hours * row["sm_share_ratio"], rel=0.2) == page["gpu_hours"]
