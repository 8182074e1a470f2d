"""Every prolog's sampler comes to life, however slurmd cleans up after the prolog.

slurmd kills a prolog's process group as soon as the prolog ends. A child that has not left the group by then
is lost: with `setsid -f` alone this test loses 11 to 17 of its 200 samplers, with `setsid ... &` 55 to 67.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

import pytest

from tests.e2e.conftest import SiteFactory
from tests.e2e.site import Site
from tests.services.unix_users import ALICE
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [pytest.mark.slurm, pytest.mark.alone, pytest.mark.timeout(600)]

JOBS, NODES, GPUS = 200, 4, 3
# A job lasts for longer than two intervals, so that one without a sampler is no short run but a death.
JOB_SECONDS, SETTINGS = 2, "interval_seconds = 0.2\ncycles_interval_seconds = 0.2\ncheckpoint_seconds = 5"


@pytest.fixture(scope="module")
def site(make_site: SiteFactory) -> Site:
    """Four nodes that take twelve jobs at once."""
    segment = Segment(seconds=0.05, tensor_ratio=0.4, sm_clock_mhz=1830, sm_active_ratio=0.9, power_watts=500)
    stem = f"ofu{secrets.token_hex(3)}n"
    gpus = (Gpu(segments=(segment,)),) * GPUS
    return make_site({f"{stem}{node}": Scenario(gpus=gpus) for node in range(1, NODES + 1)}, SETTINGS)


def runs(site: Site) -> list[dict[str, Any]]:
    """Every job of an array of short ones, as it is in the accounting afterwards."""
    job = site.cluster.sbatch(
        f"sleep {JOB_SECONDS}", f"--array=1-{JOBS}", "--gres=gpu:1", "--output=/dev/null", user=ALICE
    )
    site.cluster.wait_ended(job, 400)
    site.wait_delivered()
    rows: list[dict[str, Any]] = site.report("--allusers")["rows"]
    return rows


def test_two_hundred_starts(site: Site) -> None:
    """200 short jobs are 200 runs, each measured by a sampler of its own."""
    rows = runs(site)
    reasons = Counter(row["reason"] for row in rows)
    assert JOBS == len({row["job_id"] for row in rows}) == len(rows), reasons
    assert {"ok", "short"} >= set(reasons), reasons
    assert reasons["ok"], reasons
    assert {"idle"} == set(site.cluster.node_states().values())
