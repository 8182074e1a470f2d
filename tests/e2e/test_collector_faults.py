"""What breaks around the collector, on a real cluster: every finished run is in the database exactly once
afterwards, with Slurm's own word on it."""

from __future__ import annotations

import random
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import NodeRecord
from tests.e2e.collected import CollectedSite, spool_of
from tests.e2e.conftest import CollectedSiteFactory
from tests.services.processes import poll
from tests.services.unix_users import ALICE, BOB
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

#: Runs say how they fare all the time, also while the collector is away.
SETTINGS = (
    "interval_seconds = 0.2\ncycles_interval_seconds = 0.2\ncheckpoint_seconds = 0.3\ninterim_seconds = 0.3"
)


def scenario() -> Scenario:
    """Four GPUs, evenly busy."""
    segment = Segment(seconds=1.0, tensor_ratio=0.5, sm_clock_mhz=1755)
    return Scenario(gpus=tuple(Gpu(segments=(segment,), minor=index) for index in range(4)))


@pytest.fixture(scope="module")
def whole_site(make_collected_site: CollectedSiteFactory) -> CollectedSite:
    """Two nodes, their cluster, and a collector that is not started yet."""
    stem = f"ofu{secrets.token_hex(3)}n"
    return make_collected_site({f"{stem}{node}": scenario() for node in (1, 2)}, SETTINGS)


@pytest.fixture
def site(whole_site: CollectedSite) -> Iterator[CollectedSite]:
    """The same with a collector at work, and with every daemon back afterwards."""
    whole_site.start_collector()
    try:
        yield whole_site
    finally:
        whole_site.close()
        for daemon in ("munged", "mariadbd", "slurmdbd", "slurmctld"):
            whole_site.cluster.start_daemon(daemon)


def submit(site: CollectedSite, count: int, seconds: float = 0.5) -> set[int]:
    """So many jobs of one GPU and one of two nodes."""
    jobs = {site.cluster.sbatch(f"sleep {seconds}", "--gres=gpu:1", user=ALICE) for _ in range(count)}
    jobs.add(site.cluster.sbatch(f"srun sleep {seconds}", "-N2", "--gres=gpu:1", user=BOB))
    return jobs


def wait_ended(site: CollectedSite, jobs: set[int]) -> None:
    for job in jobs:
        site.cluster.wait_ended(job, 120)


def assert_each_once(site: CollectedSite, jobs: set[int]) -> list[dict[str, Any]]:
    """Every job is there once, heard and accounted, with the GPUs it had; nothing is left on a node."""
    site.cluster.wait_for(lambda: not any(map(site.left_on, site.nodes)), 60, "every record to leave")
    rows = site.wait_accounted_runs(jobs)
    assert dict.fromkeys(jobs, 1) == dict(Counter(row["job_id"] for row in rows))
    for row in rows:
        assert (True, "COMPLETED", row["slurm_gpu_count"]) == (row["heard"], row["state"], row["gpu_count"])
        [accounted] = site.cluster.job_rows(row["job_id"])
        elapsed = int(accounted["ElapsedRaw"])
        assert (elapsed, int(accounted["Start"])) == (row["elapsed_seconds"], row["start_epoch_s"])
        assert elapsed * row["gpu_count"] / 3600 == pytest.approx(row["gpu_hours"])
    return rows


def heard(site: CollectedSite) -> set[int]:
    """Jobs that some node has told of; what accounting alone knows comes and goes until then."""
    known = site.runs() if site.database.exists() else []
    return {row["job_id"] for row in known if row["heard"]}


def test_a_collector_killed_again_and_again_loses_and_doubles_nothing(site: CollectedSite) -> None:
    """SIGKILL at any moment of receiving, ingesting and reading accounting, while jobs end."""
    jobs = submit(site, 12)
    chance = random.Random(7)
    for _ in range(5):
        arrived = heard(site)
        poll(lambda: chance.random() < 0.2, 30, "a random moment", interval=0.05)
        site.end_collector(signal.SIGKILL)
        site.start_collector()
        assert arrived <= heard(site)
    wait_ended(site, jobs)
    site.deliver()
    assert_each_once(site, jobs)


def test_a_collector_that_is_away_is_waited_for(site: CollectedSite) -> None:
    """Jobs end as ever while it is away; their records wait on their nodes, and none is lost."""
    site.end_collector()
    jobs = submit(site, 4)
    wait_ended(site, jobs)
    site.cluster.wait_for(
        lambda: sum(name.endswith(".record") for node in site.nodes for name in site.left_on(node)) == 6,
        60,
        "six records to wait",
    )
    site.deliver()  # in vain
    site.start_collector()
    site.deliver()
    assert_each_once(site, jobs)


def test_a_running_job_is_seen_through_a_collector_that_was_killed(site: CollectedSite) -> None:
    """Eight GPUs on two nodes, again and again; at its end the job is one run. Nothing waits on a node."""
    job = site.cluster.sbatch("srun sleep 300", "-N2", "--gres=gpu:4", user=ALICE)

    def measured(more_than: float) -> float | None:
        known = site.runs("-s", "R") if site.database.exists() else []
        its = [row for row in known if row["job_id"] == job and row["gpu_count"] == 8]
        hours = [row["gpu_hours_measured"] for row in its]
        return hours[0] if hours and hours[0] > more_than else None

    before = site.cluster.wait_for(lambda: measured(0.0), 60, "figures of a running job")
    assert before is not None
    site.end_collector(signal.SIGKILL)
    site.start_collector()
    site.cluster.wait_for(lambda: measured(before), 120, "later figures")
    assert [] == [name for node in site.nodes for name in site.left_on(node) if name.endswith(".record")]
    site.cluster.run("scancel", str(job))
    wait_ended(site, {job})
    site.deliver()
    [row] = site.wait_accounted_runs({job})
    assert (False, 8.0) == (row["running"], row["gpu_count"])
    assert row["state"].startswith("CANCELLED")


@pytest.mark.parametrize("daemon", ["slurmdbd", "mariadbd", "slurmctld"])
def test_a_daemon_of_slurm_that_is_away_delays_and_loses_nothing(site: CollectedSite, daemon: str) -> None:
    """Records are taken in without it; Slurm's own word on the runs comes when it is back."""
    jobs = submit(site, 3)
    site.cluster.wait_for(
        lambda: (
            site.cluster.run("squeue", "-h", "-t", "R").stdout.strip()
            or not site.cluster.job_active(max(jobs))
        ),
        30,
        "a job to run",
    )
    site.cluster.stop_daemon(daemon)
    if daemon != "slurmctld":  # without it nothing ends
        wait_ended(site, jobs)
        site.cluster.wait_for(
            lambda: {row["job_id"] for row in site.runs()} >= jobs, 60, f"records without {daemon}"
        )
    site.cluster.start_daemon(daemon)
    site.cluster.start_daemon(
        "slurmdbd"
    )  # which may end for want of its database, and is started by systemd then
    wait_ended(site, jobs)
    assert_each_once(site, jobs)


def test_a_node_whose_clock_is_an_hour_off_gets_slurms_times(site: CollectedSite) -> None:
    """A record an hour late by its own word is that run's all the same, and shown with Slurm's times."""
    node = site.nodes[0]
    held = site.folder / "held"
    held.mkdir(mode=0o700, exist_ok=True)
    site.configure(
        node,
        site.node_toml().replace("http://", "http://127.0.0.1:9/off/").split("[delivery]")[0]
        + f'[delivery]\nto = "dir://{held}"\n',
    )
    try:
        jobs = {
            site.cluster.sbatch("sleep 1", "--gres=gpu:1", f"--nodelist={node}", user=ALICE) for _ in range(2)
        }
        wait_ended(site, jobs)
        site.cluster.wait_for(lambda: not site.left_on(node), 60, "the records to leave")
    finally:
        site.configure(node, site.node_toml())
    for path in held.glob("*.record"):
        (site.inbox / path.name).write_bytes(encode(an_hour_off(decode(path.read_bytes()))))
    assert_each_once(site, jobs)


def an_hour_off(record: NodeRecord) -> NodeRecord:
    """The record of a node whose wall clock is an hour ahead."""
    hour = 3600.0
    assert record.start_epoch_s is not None
    return replace(
        record,
        start_epoch_s=record.start_epoch_s + hour,
        end_epoch_s=record.end_epoch_s + hour,
        quarters=tuple(replace(row, start_epoch_s=row.start_epoch_s + 3600) for row in record.quarters),
    )


def test_an_empty_spool_on_every_node(site: CollectedSite) -> None:
    """After all that no node keeps anything of a delivered run."""
    site.deliver()
    for node in site.nodes:
        assert [] == [path.name for path in spool_of(site, node).glob("outbox/*")]
