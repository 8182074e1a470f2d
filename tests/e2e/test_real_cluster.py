"""A day on a real cluster: real jobs of three users, real hooks, real samplers, and what the reports say.

Nodes 1 and 2 have GPUs with cycle counters, nodes 3 and 4 an older driver without. On node 2 the minor
numbers run against NVML's indexes, so that a position that is taken for an index shows.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.figures import figures
from slurm_ofu.store.read import Reader
from slurm_ofu.values import JobPage, Selection
from tests.e2e.conftest import SiteFactory
from tests.e2e.site import BIN, CONFIG, NO_INTERIMS, Site
from tests.services.unix_users import ALICE, BOB, CAROL
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("real jobs are measured by hooks and reported"),
    pytest.mark.timeout(600),
]

SETTINGS = "interval_seconds = 2\ncycles_interval_seconds = 3\ncheckpoint_seconds = 4"
REFRESH_SECONDS = 0.1
PATTERN_SECONDS = 0.1  # of the GPUs with cycle counters
LONG = 21  # seconds: from 20 s on the coverage is promised


def gpu(index: int, *, minor: int, cycles: bool) -> Gpu:
    """A GPU unlike its neighbours: a wrong mapping gives a wrong figure."""
    busy = 0.15 + 0.17 * index
    if cycles:  # nasty for a sampled clock: in step with its slices, clock and activity move together
        segments = (
            Segment(
                seconds=0.07, tensor_ratio=busy + 0.2, sm_clock_mhz=1980, sm_active_ratio=0.9, power_watts=600
            ),
            Segment(seconds=0.03, tensor_ratio=0.0, sm_clock_mhz=345, sm_active_ratio=0.0, power_watts=120),
        )
    else:
        segments = (
            Segment(
                seconds=0.031,
                tensor_ratio=busy + 0.1,
                sm_clock_mhz=1755,
                sm_active_ratio=0.9,
                power_watts=600,
            ),
            Segment(
                seconds=0.022,
                tensor_ratio=busy - 0.1,
                sm_clock_mhz=1725,
                sm_active_ratio=0.7,
                power_watts=500,
            ),
        )
    return Gpu(
        segments=segments,
        minor=minor,
        counters="absolute" if cycles else "absent",
        refresh_seconds=REFRESH_SECONDS if cycles else 0.0,
    )


def scenarios() -> dict[str, Scenario]:
    """Four nodes of four GPUs."""
    stem = f"ofu{secrets.token_hex(3)}n"
    return {
        f"{stem}{node}": Scenario(
            gpus=tuple(gpu(i, minor=3 - i if node == 2 else i, cycles=node <= 2) for i in range(4))
        )
        for node in (1, 2, 3, 4)
    }


@dataclass
class Day:
    """The jobs of one day by name, and what Slurm and we say of them afterwards."""

    site: Site
    jobs: dict[str, int] = field(default_factory=dict)
    accounted: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    seen_running: JobPage | None = None  # of the job to be cancelled, before it is

    def pages(self, name: str) -> list[dict[str, Any]]:
        """Our pages of a job, a run each."""
        return self.site.page(self.jobs[name])

    def page(self, name: str) -> dict[str, Any]:
        """The page of a job with one run."""
        [page] = self.pages(name)
        return page


@pytest.fixture(scope="module")
def day(make_site: SiteFactory) -> Day:
    """All jobs run at the same time where they fit; the tests look at what came of them."""
    site = make_site(scenarios(), SETTINGS)
    day = Day(site)
    speaking = site.config.read_text().replace(NO_INTERIMS, "interim_seconds = 2")
    site.configure(site.nodes[3], speaking)
    submit_the_long_ones(day)
    meddle(day)
    for name, job in day.jobs.items():
        day.accounted[name] = site.cluster.wait_accounted(job, 120)
    site.cluster.wait_idle()
    site.wait_delivered()
    return day


def submit_the_long_ones(day: Day) -> None:
    """21-second jobs that fill the cluster once: 1 + 2 GPUs on node 1, 4 on node 2, 2 + 1 + 1 on 1, 3, 4."""
    cluster, (n1, n2, n3, n4) = day.site.cluster, day.site.nodes
    begin_long(day, "four GPUs", "--gres=gpu:4", f"--nodelist={n2}", user=BOB)
    begin_long(day, "one GPU", "--gres=gpu:1", f"--nodelist={n1}", user=ALICE)
    begin_long(day, "beside it", "--gres=gpu:1", f"--nodelist={n1}", user=CAROL)
    begin_long(day, "three nodes", "-N3", "--gpus=4", f"--nodelist={n1},{n3},{n4}", user=ALICE)
    day.jobs["no GPU"] = cluster.sbatch("true", user=ALICE)
    day.jobs["array"] = cluster.sbatch("sleep 3", "--array=0-2", "--gres=gpu:1", f"--nodelist={n3}", user=BOB)


def begin_long(day: Day, name: str, *arguments: str, user: str) -> None:
    """One after the other, as on nodes that do not have to share the cores of one machine."""
    day.jobs[name] = day.site.cluster.sbatch(f"sleep {LONG}", *arguments, user=user)
    day.site.cluster.wait_state(day.jobs[name], "RUNNING", 60)


def meddle(day: Day) -> None:
    """Jobs that something happens to, as the long ones leave room."""
    site, cluster, (n1, _, n3, n4) = day.site, day.site.cluster, day.site.nodes
    jobs = day.jobs
    lives = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 300; sleep 4'
    jobs["requeued"] = cluster.sbatch(lives, "--gres=gpu:1", f"--nodelist={n4}", "--requeue", user=CAROL)
    site.wait_checkpoint(n4, jobs["requeued"])
    cluster.run("scontrol", "requeue", str(jobs["requeued"]))
    start_again(day, jobs["requeued"])
    jobs["cancelled"] = cluster.sbatch("sleep 300", "--gres=gpu:1", f"--nodelist={n4}", user=ALICE)
    day.seen_running = cluster.wait_for(
        lambda: running_page(site, jobs["cancelled"]), 60, "figures of a running job"
    )
    cluster.run("scancel", str(jobs["cancelled"]))
    jobs["failed"] = cluster.sbatch("sleep 2; exit 3", "--gres=gpu:1", f"--nodelist={n4}", user=ALICE)
    jobs["exclusive"] = cluster.sbatch(
        "sleep 3", "--gres=gpu:1", "--exclusive", f"--nodelist={n3}", user=CAROL
    )
    shrunk = f"{cluster.until_told('shrunk')}; sleep 3"
    jobs["shrunk"] = cluster.sbatch(shrunk, "-N2", "--gres=gpu:1", f"--nodelist={n1},{n4}", user=BOB)
    cluster.wait_state(jobs["shrunk"], "RUNNING", 60)
    site.wait_checkpoint(n1, jobs["shrunk"])
    cluster.run("scontrol", "update", f"jobid={jobs['shrunk']}", "NumNodes=1")
    cluster.tell("shrunk")


def running_page(site: Site, job_id: int) -> JobPage | None:
    """The page of a job that runs, once its nodes have said how it fares."""
    site.ingest()
    reader = Reader(site.database)
    rows = reader.usage(Selection(states=("RUNNING",), job_ids=(job_id,)), "job")
    measured = [row.run.run_id for row in rows if row.run is not None and row.sums.ofu_covered_seconds > 0]
    return reader.page(measured[0]) if measured else None


def start_again(day: Day, job: int) -> None:
    """Let a requeued job run now, but not at once: slurmd 24.11 refuses what it killed in the same second."""
    cluster = day.site.cluster
    cluster.wait_state(job, "PENDING")
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now+2")
    cluster.wait_state(job, "RUNNING")


def truth_of(day: Day, page: Mapping[str, Any]) -> float:
    """The pooled true OFU of a run's GPUs over the time they were allocated."""
    nodes = {row["node_name"]: row for row in page["nodes"]}
    parts = []
    for row in page["gpus"]:
        node = nodes[row["node_name"]]
        seen = day.site.truth(row["node_name"], row["position"], node["start_epoch_s"], node["end_epoch_s"])
        parts.append((seen.tensor_ref_seconds, seen.seconds))
    return sum(part for part, _ in parts) / sum(seconds for _, seconds in parts)


LONG_JOBS = ("one GPU", "four GPUs", "beside it", "three nodes")


@pytest.mark.slurm_versions("a job's OFU is within 0.5 points of the truth")
@pytest.mark.parametrize("name", LONG_JOBS)
def test_ofu_is_the_scenario_s_truth(day: Day, name: str) -> None:
    """A job's OFU is within 0.5 points of the truth, with counters within OFU x (refresh + period) / T."""
    page = day.page(name)
    true = truth_of(day, page)
    limit = 0.005
    if page["estimator"] == "cycles":
        # The truth is over the whole allocation: what is not covered of it may end amid the pattern's period.
        limit = max(0.0005, true * (REFRESH_SECONDS + PATTERN_SECONDS) / LONG)
    assert page["ofu_ratio"] == pytest.approx(true, abs=limit)


@pytest.mark.slurm_versions("a job of 20 s or more is measured over at least 95 % of its time")
@pytest.mark.parametrize("name", LONG_JOBS)
def test_long_jobs_are_covered(day: Day, name: str) -> None:
    """A job of 20 s or more is measured over at least 95 % of its time."""
    coverage = day.page(name)["coverage_ratio"]
    assert 0.95 <= coverage <= 1.0


@pytest.mark.slurm_versions("each GPU's figure is that of the GPU that Slurm allocated")
def test_each_gpu_has_its_own_figure(day: Day) -> None:
    """Every GPU's own OFU is that of the device at its Slurm position, wherever minors run."""
    page = day.page("four GPUs")
    node = page["nodes"][0]
    times = (node["start_epoch_s"], node["end_epoch_s"])
    true = [day.site.truth(node["node_name"], position, *times).ofu for position in range(4)]
    assert [row["ofu_ratio"] for row in page["gpus"]] == pytest.approx(true, abs=0.005)
    assert {row["mapped_by"] for row in page["gpus"]} == {"gres_file"}


def test_the_estimator_is_the_best_that_answers(day: Day) -> None:
    """Cycle counters where the driver has them, else the sampled clock; a mixed job says so."""
    assert "cycles" == day.page("four GPUs")["estimator"]
    assert "sampled" == day.page("array")["estimator"]
    assert "mixed" == day.page("three nodes")["estimator"]


@pytest.mark.slurm_versions("allocated GPU-seconds are Slurm's")
@pytest.mark.parametrize("name", [*LONG_JOBS, "failed", "exclusive"])
def test_allocated_seconds_are_slurm_s(day: Day, name: str) -> None:
    """Allocated GPU-seconds are within 1.5 s x GPUs of Slurm's."""
    [row], page = day.accounted[name], day.page(name)
    gpus = gpu_count(row)
    assert page["gpu_count"] == gpus
    assert page["gpu_hours"] * 3600 == pytest.approx(int(row["ElapsedRaw"]) * gpus, abs=1.5 * gpus)


@pytest.mark.slurm_versions("a cancelled job is measured until it is gone")
def test_a_cancelled_job_holds_its_gpu_until_it_is_gone(day: Day) -> None:
    """For Slurm a cancelled job ends with the order, for us when the node lets go of the GPU."""
    [row], page = day.accounted["cancelled"], day.page("cancelled")
    slurm = int(row["ElapsedRaw"])
    assert slurm - 1.5 <= page["gpu_hours"] * 3600 <= slurm + 8


@pytest.mark.slurm_versions("a running job shows its OFU so far")
def test_a_running_job_shows_its_ofu_so_far(day: Day) -> None:
    """Its figures are the truth up to its latest word; after its end it is one finished run like others."""
    assert day.seen_running is not None
    row, [node], [gpu] = day.seen_running.row, day.seen_running.nodes, day.seen_running.gpus
    assert row.run is not None
    assert (True, "RUNNING", None) == (row.run.running, row.run.state, row.run.exit_code)
    assert node.start_epoch_s is not None
    assert node.end_epoch_s is not None
    true = day.site.truth(node.node_name, gpu.totals.position, node.start_epoch_s, node.end_epoch_s)
    assert figures(row.sums).ofu_ratio == pytest.approx(true.ofu, abs=0.03)
    assert "ok" == day.page("cancelled")["reason"]
    reader = Reader(day.site.database)
    assert [] == reader.usage(Selection(states=("RUNNING",)), "job")


def gpu_count(row: Mapping[str, str]) -> int:
    """GPUs that Slurm allocated, from AllocTRES (the typed entry counts the same ones again)."""
    amounts = dict(part.split("=") for part in row["AllocTRES"].split(","))
    return int(amounts["gres/gpu"])


@pytest.mark.slurm_versions("a job over unequal nodes is one run")
def test_unequal_nodes_meet_in_one_row(day: Day) -> None:
    """A job over three nodes with unequal GPUs is one run of four GPUs with three nodes, none silent."""
    page = day.page("three nodes")
    counts = sorted(row["gpu_count"] for row in page["nodes"])
    assert [1.0, 1.0, 2.0] == counts
    assert 4 == len(page["gpus"])
    assert "ok" == page["reason"]


@pytest.mark.slurm_versions("each array task is a run")
def test_array_tasks_are_jobs_of_their_own(day: Day) -> None:
    """Each array task is a run under its raw job id."""
    raw = {int(row["JobIDRaw"]) for row in day.accounted["array"]}
    assert 3 == len(raw)
    assert [1, 1, 1] == [len(day.site.page(job)) for job in sorted(raw)]


@pytest.mark.slurm_versions("each life of a requeued job is a run")
def test_a_requeued_job_is_two_runs(day: Day) -> None:
    """Each life of a requeued job is a run, with the prolog's restart count.

    A job that comes back to its node within seconds may get no second prolog from slurmd; that life is
    there all the same, and says so.
    """
    pages = day.pages("requeued")
    assert [0, 1] == sorted(page["restart_count"] for page in pages)
    first, second = sorted(pages, key=lambda page: page["restart_count"])
    assert first["ofu_ratio"] is not None
    assert first["end_epoch_s"] <= second["end_epoch_s"]
    assert second["ofu_ratio"] is not None or "not_started" == second["reason"]


@pytest.mark.slurm_versions("a cancelled job is measured until it is gone")
def test_a_cancelled_job_has_its_figure(day: Day) -> None:
    """scancel ends a run like any other end."""
    page = day.page("cancelled")
    assert page["ofu_ratio"] is not None
    assert page["reason"] in ("ok", "short")


@pytest.mark.slurm_versions("a failed job is measured and its exit code kept")
def test_a_failed_job_has_its_figure_and_exit_code(day: Day) -> None:
    """A job that fails is measured all the same, and its exit code is kept."""
    page = day.page("failed")
    assert page["ofu_ratio"] is not None
    assert "3:0" == page["exit_code"]


@pytest.mark.slurm_versions("a job without GPUs leaves nothing")
def test_a_job_without_gpus_leaves_nothing(day: Day) -> None:
    """No GPU, no run: it is no unmeasured job either."""
    assert [] == day.pages("no GPU")


@pytest.mark.slurm_versions("an exclusive job counts every GPU of its nodes")
def test_exclusive_counts_every_gpu(day: Day) -> None:
    """--exclusive holds all four GPUs, whatever was asked for."""
    assert 4 == len(day.page("exclusive")["gpus"])


@pytest.mark.slurm_versions("a shrunk job ends on each node when that node is released")
def test_a_shrunk_job_ends_on_each_node_when_that_node_is_released(day: Day) -> None:
    """The released node's GPU counts until its release, the kept one's until the end."""
    page = day.page("shrunk")
    kept, released = sorted(page["nodes"], key=lambda row: -row["allocated_seconds"])
    assert released["end_epoch_s"] < kept["end_epoch_s"] - 2
    assert {"ok", "short"} >= {kept["reason"], released["reason"]}
    assert 2 == page["node_count"]


@pytest.mark.slurm_versions("every run is there exactly once")
def test_every_run_is_there_exactly_once(day: Day) -> None:
    """The report over the day has one row for each run that Slurm accounted with GPUs."""
    expected = sorted(
        int(row["JobIDRaw"])
        for name, rows in day.accounted.items()
        for row in (rows[:1] if name == "shrunk" else rows)
        if "gres/gpu=" in row["AllocTRES"]
    )
    rows = day.site.report("--allusers")["rows"]
    assert expected == sorted(row["job_id"] for row in rows)


@pytest.mark.slurm_versions("reports pool a user's and a partition's runs")
@pytest.mark.parametrize("user", [ALICE, BOB, CAROL])
def test_a_user_s_report_pools_their_runs(day: Day, user: str) -> None:
    """ofu-report --user NAME pools numerators and denominators over the user's GPUs, within 0.5 points."""
    report = day.site.report("--user", user)
    pages = pages_of(day, report)
    assert {user} == {page["user"] for page in pages}
    assert report["total"]["ofu_ratio"] == pytest.approx(pooled_truth(day, pages), abs=0.005)


def pages_of(day: Day, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The page of each run of a report by job, each once: a requeued job has several rows."""
    pages = [page for row in report["rows"] for page in day.site.page(row["job_id"])]
    return list({(page["job_id"], page["restart_count"]): page for page in pages}.values())


@pytest.mark.slurm_versions("reports pool a user's and a partition's runs")
def test_the_partition_s_report_pools_everything(day: Day) -> None:
    """ofu-report --partition gpu is within 0.5 points of the truth over everybody's GPUs."""
    report = day.site.report("--allusers", "--partition", "gpu", "--by", "partition")
    [row] = report["rows"]
    assert "gpu" == row["partition"]
    pages = pages_of(day, day.site.report("--allusers"))
    assert row["ofu_ratio"] == pytest.approx(pooled_truth(day, pages), abs=0.005)


def pooled_truth(day: Day, pages: list[dict[str, Any]]) -> float:
    """True OFU over several runs, weighted by what was covered of each GPU."""
    tensor, covered = 0.0, 0.0
    for page in pages:
        nodes = {row["node_name"]: row for row in page["nodes"]}
        for row in page["gpus"]:
            if row["ofu_ratio"] is None:
                continue
            node = nodes[row["node_name"]]
            seen = day.site.truth(
                row["node_name"], row["position"], node["start_epoch_s"], node["end_epoch_s"]
            )
            tensor += seen.ofu * row["covered_seconds"]
            covered += row["covered_seconds"]
    return tensor / covered


@pytest.mark.slurm_versions("`ofu-node check` finds everything in order")
def test_a_check_on_a_node_finds_everything_in_order(day: Day) -> None:
    """`ofu-node check` names GPUs by position and the estimator, and has nothing bad to say."""
    node = day.site.nodes[1]
    done = day.site.cluster.in_node(node, str(BIN / "ofu-node"), "check", "--node", node, check=False)
    assert "BAD" not in done.stdout, done.stdout
    assert "estimator cycles" in done.stdout
    first = next(line for line in done.stdout.splitlines() if "GPU 0" in line)
    assert day.site.scenarios[node].uuid(3) in first
    assert 0 == done.returncode


@pytest.mark.slurm_versions("no process and no state is left on the nodes, and none is drained")
def test_nothing_is_left_on_the_nodes(day: Day) -> None:
    """No process of ours is left, no state but the marks of finished runs, and no node is drained."""
    assert {"idle"} == set(day.site.cluster.node_states().values())
    day.site.cluster.wait_for(lambda: not our_processes(day.site), 10, "samplers to be gone")
    assert [] == [name for node in day.site.nodes for name in day.site.left_on(node)]


def our_processes(site: Site) -> list[str]:
    """Command lines of samplers and finishers that this cluster's hooks started."""
    found = []
    for process in site.cluster.asked.descendants():
        with suppress(OSError):
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if "slurm_ofu.hooks" in line and CONFIG in line:
                found.append(line)
    return found
