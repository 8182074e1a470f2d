"""What jobs on a real cluster claim of themselves, from their comments to their pages."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import pytest

from tests.e2e.conftest import SiteFactory
from tests.e2e.site import Site
from tests.services.unix_users import ALICE, BOB
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("what a job claims in its comment is taken at its end"),
]

STEADY = Segment(seconds=1, tensor_ratio=0.5, sm_clock_mhz=1830, sm_active_ratio=0.9)
LATE_CLAIM = "sleep 12; scontrol update jobid=$SLURM_JOB_ID comment=mfu=0.55"


@dataclass
class Jobs:
    """Jobs on one node by what their comment is."""

    site: Site
    ids: dict[str, int] = field(default_factory=dict)

    def page(self, name: str) -> str:
        """The page as words."""
        return " ".join(self.site.command("ofu-report", "-j", str(self.ids[name])).stdout.split())


@pytest.fixture(scope="module")
def jobs(make_site: SiteFactory) -> Jobs:
    """One node with four GPUs at OFU 50 %, all held at once."""
    node = f"ofu{secrets.token_hex(3)}n1"
    scenario = Scenario(gpus=tuple(Gpu(segments=(STEADY,)) for _ in range(4)))
    jobs = Jobs(make_site({node: scenario}, "interval_seconds = 0.3\ncheckpoint_seconds = 2"))
    cluster = jobs.site.cluster
    for name, script, comment, user in (
        ("changed", LATE_CLAIM, "--comment=tflops=1", ALICE),
        ("tflops", "sleep 12", "--comment=try 3, TFLOPS=412", BOB),
        ("per cent", "sleep 3", "--comment=mfu=41%", ALICE),
        ("none", "sleep 3", "--comment=hello", BOB),
    ):
        jobs.ids[name] = cluster.sbatch(script, "--gres=gpu:1", comment, user=user)
    for job in jobs.ids.values():
        cluster.wait_accounted(job, 120)
    jobs.site.wait_delivered()
    return jobs


def test_a_claim_may_be_made_while_the_job_runs(jobs: Jobs) -> None:
    """The job's last word counts: what its owner wrote into the comment with scontrol before it ended, not
    what it was submitted with."""
    (row,) = jobs.site.page(jobs.ids["changed"])
    claim = row["claim"]
    assert ("mfu", 0.55, "mfu=0.55", "epilog", 0.55) == tuple(
        claim[name] for name in ("kind", "value", "text", "source", "stated_ratio")
    )


def test_tflops_know_the_peak_of_their_gpus(jobs: Jobs) -> None:
    """A claim in TFLOP/s comes with the dense 16-bit peak of the node's GPUs, and its page compares them
    where nearly all of the job was measured."""
    (row,) = jobs.site.page(jobs.ids["tflops"])
    claim = row["claim"]
    assert ("tflops", 412.0, "TFLOPS=412", 989.4) == tuple(
        claim[name] for name in ("kind", "value", "text", "peak_tflops")
    )
    if row["coverage_ratio"] >= 0.95:
        assert pytest.approx(0.5 * 989.4, rel=0.02) == claim["measured_tflops"]
        assert "OFU × 989.4 TFLOP/s, the dense 16-bit peak of NVIDIA H100" in jobs.page("tflops")
    else:
        assert "low_coverage" == claim["not_compared"]


def test_what_is_no_claim_is_told(jobs: Jobs) -> None:
    """A percentage is no claim, and the page says what to write; any other comment is just one."""
    assert None is jobs.site.page(jobs.ids["per cent"])[0]["claim"]
    assert "a claim in the comment was not understood: mfu=41%; write mfu=0.41" in jobs.page("per cent")
    assert "Claimed" not in jobs.page("none")
