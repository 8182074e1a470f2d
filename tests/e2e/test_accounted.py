"""From the prolog to Slurm's own word: runs of every kind on a real cluster, delivered to a collector that
completes them from slurmdbd, writes them back, and is reconciled with it afterwards."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.collected import CollectedSite
from tests.e2e.conftest import CollectedSiteFactory
from tests.services.unix_users import ALICE, BOB, CAROL
from tests.standins.nvml_standin import Gpu, Scenario, Segment

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.slurm_versions(
        "records of all nodes are collected, completed from slurmdbd and written back"
    ),
]

SETTINGS = "interval_seconds = 0.2\ncycles_interval_seconds = 0.2\ncheckpoint_seconds = 1"
COLLECTOR = "[write_back]\nenabled = true\nwait_seconds = 1\njobs_per_minute = 6000"
SUSPENDED_SECONDS = 4
LIFE_SECONDS = 2


def scenario() -> Scenario:
    """Four GPUs, evenly busy."""
    segment = Segment(seconds=1.0, tensor_ratio=0.5, sm_clock_mhz=1755)
    return Scenario(gpus=tuple(Gpu(segments=(segment,), minor=index) for index in range(4)))


@dataclass
class Jobs:
    """What was run, by what it is for."""

    site: CollectedSite
    ids: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The runs of one raw job id, oldest first."""
        found = [row for row in self.rows if row["job_id"] == self.ids[name]]
        return sorted(found, key=lambda row: row["start_epoch_s"])

    def one(self, name: str) -> dict[str, Any]:
        """The only run of one raw job id."""
        [row] = self.of(name)
        return row

    def slurm(self, name: str) -> list[dict[str, str]]:
        """sacct's lines of one raw job id, in the order of their submission."""
        rows = self.site.cluster.job_rows(self.ids[name])
        return [row for row in rows if row["JobIDRaw"] == str(self.ids[name])]


@pytest.fixture(scope="module")
def jobs(make_collected_site: CollectedSiteFactory) -> Jobs:
    """Every kind of run, over and accounted."""
    stem = f"ofu{secrets.token_hex(3)}n"
    site = make_collected_site(
        {f"{stem}{node}": scenario() for node in (1, 2, 3)}, SETTINGS, collector_settings=COLLECTOR
    )
    site.start_collector()
    jobs = Jobs(site)
    submit(jobs)
    meddle(jobs)
    for job in jobs.ids.values():
        site.cluster.wait_ended(job, 180)
    site.deliver()
    jobs.rows = site.wait_accounted_runs(set(jobs.ids.values()), lives=len(jobs.ids) + 1)  # one has two
    return jobs


def submit(jobs: Jobs) -> None:
    """Array tasks and components get names of their own."""
    cluster, ids = jobs.site.cluster, jobs.ids
    n1 = jobs.site.nodes[0]
    script = f"{cluster.until_told('resumed')}; sleep 2"
    ids["suspended"] = cluster.sbatch(script, "--gres=gpu:2", f"--nodelist={n1}", user=BOB)
    twice = '#!/bin/sh\nif [ -n "$SLURM_RESTART_COUNT" ]; then sleep 3; else sleep 600; fi\n'
    ids["requeued"] = cluster.sbatch(twice, "--gres=gpu:1", "--requeue", user=ALICE)
    resize = "sleep 2; scontrol update jobid=$SLURM_JOB_ID NumNodes=1; sleep 3"
    ids["resized"] = cluster.sbatch(resize, "-N3", "--gres=gpu:1", user=CAROL)
    ids["claiming"] = cluster.sbatch(
        "scontrol update jobid=$SLURM_JOB_ID comment=mfu=0.41; sleep 1", "--gres=gpu:1", user=ALICE
    )
    ids["failing"] = cluster.sbatch("sleep 1; exit 3", "--gres=gpu:1", "-J", "a|b c", user=ALICE)


def meddle(jobs: Jobs) -> None:
    """Suspend and resume one job, requeue another; then what is told apart by more than its raw id."""
    cluster, ids = jobs.site.cluster, jobs.ids
    for name in ("suspended", "requeued"):
        cluster.wait_state(ids[name], "RUNNING", 120)
    running = time.monotonic()  # slurmdbd may never hear of the start of a life of less than a second
    cluster.wait_for(lambda: time.monotonic() >= running + LIFE_SECONDS, 60, "a life of some seconds")
    cluster.run("scontrol", "suspend", str(ids["suspended"]))
    cluster.run("scontrol", "requeue", str(ids["requeued"]))
    since = time.monotonic()  # a life that is back within two seconds gets no prolog on 22.05
    cluster.wait_for(lambda: time.monotonic() >= since + SUSPENDED_SECONDS, 60, "suspended seconds")
    cluster.run("scontrol", "resume", str(ids["suspended"]))
    cluster.tell("resumed")
    cluster.wait_state(ids["requeued"], "PENDING", 60)
    cluster.wait_for(lambda: started_again(jobs), 60, "the requeued job to start again", interval=0.5)
    array = cluster.sbatch("sleep 1", "--array=3-4", "--gres=gpu:1", user=BOB)
    het = cluster.sbatch("sleep 1", "--gres=gpu:1", ":", "--gres=gpu:2", user=BOB)
    ids |= {"leader": het, "component": het + 1}
    ids |= {
        f"task {task}": raw_id(jobs, f"{array}_{task}", array) for task in (3, 4)
    }  # one of them: the array's


def raw_id(jobs: Jobs, display_id: str, array: int) -> int:
    """The raw id of an array's task, once it has one."""
    cluster = jobs.site.cluster

    def found() -> int | None:
        rows = cluster.job_rows(array)
        return next((int(row["JobIDRaw"]) for row in rows if row["JobID"] == display_id), None)

    raw = cluster.wait_for(found, 120, f"{display_id} to be accounted", interval=0.5)
    assert raw is not None
    return raw


def started_again(jobs: Jobs) -> bool:
    """A requeued job is held back two minutes; hurrying works once it is pending."""
    cluster, job = jobs.site.cluster, jobs.ids["requeued"]
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now", check=False)
    state = cluster.run("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T", check=False).stdout.strip()
    return state in ("RUNNING", "COMPLETING", "COMPLETED")


# --------------------------------------------------------------- identity and denominators


def test_after_completion_the_gpu_hours_are_slurms(jobs: Jobs) -> None:
    """Allocated GPU time is GPUs times the seconds that Slurm charges, to the second."""
    for name in ("claiming", "failing", "task 3", "task 4", "leader", "component", "suspended"):
        row, [slurm] = jobs.one(name), jobs.slurm(name)
        charged = int(slurm["ElapsedRaw"]) * row["gpu_count"]
        assert pytest.approx(charged / 3600) == row["gpu_hours"], name
        assert (int(slurm["Start"]), int(slurm["End"])) == (row["start_epoch_s"], row["end_epoch_s"])
        assert row["slurm_gpu_count"] == row["gpu_count"]


def test_names_and_states_are_slurms(jobs: Jobs) -> None:
    """What no hook is told comes from accounting: name, state, exit code, QOS, submission."""
    row = jobs.one("failing")
    assert ("a|b c", "FAILED", "3:0") == (row["job_name"], row["state"], row["exit_code"])
    assert row["submit_epoch_s"] <= row["start_epoch_s"]
    assert row["qos"] is not None


def test_array_tasks_and_components_are_runs_of_their_own(jobs: Jobs) -> None:
    """Each has its display id, also the task that keeps the array's id and the leader."""
    array, het = jobs.ids["task 4"], jobs.ids["leader"]
    assert (f"{array}_3", f"{array}_4") == tuple(
        jobs.one(name)["display_job_id"] for name in ("task 3", "task 4")
    )
    assert (f"{het}+0", f"{het}+1") == tuple(
        jobs.one(name)["display_job_id"] for name in ("leader", "component")
    )
    asked = jobs.site.report("-j", f"{array}_3,{het}+1")["rows"]
    assert [jobs.ids["task 3"], jobs.ids["component"]] == [row["job_id"] for row in asked]
    whole = {row["job_id"] for row in jobs.site.report("-j", str(array))["rows"]}
    assert {jobs.ids["task 3"], jobs.ids["task 4"]} == whole


def test_a_requeued_job_is_several_runs(jobs: Jobs) -> None:
    """Each life has its own row of Slurm's accounting, its own times and its own state."""
    first, last = jobs.of("requeued")
    slurm = [row for row in jobs.slurm("requeued") if row["Start"].isdigit()]
    assert ["REQUEUED", "COMPLETED"] == [first["state"], last["state"]]
    assert [int(row["Start"]) for row in slurm] == [first["start_epoch_s"], last["start_epoch_s"]]
    assert [int(row["ElapsedRaw"]) for row in slurm] == [first["elapsed_seconds"], last["elapsed_seconds"]]


def test_suspended_time_leaves_the_denominator(jobs: Jobs) -> None:
    """The time in which a job was suspended is neither allocated nor measured, and its work stays."""
    row = jobs.one("suspended")
    assert row["suspended_seconds"] >= SUSPENDED_SECONDS - 1
    assert row["coverage_ratio"] <= 1
    assert row["gpu_hours_measured"] <= row["gpu_hours"] + 1e-9
    held = 2 * row["suspended_seconds"] / 3600
    assert (pytest.approx(held), 2.0) == (row["held_suspended_gpu_hours"], row["gpu_count"])


def test_a_resized_job_is_charged_by_segments(jobs: Jobs) -> None:
    """Three GPUs until the resize, one after it: not the second row's whole time again."""
    rows = jobs.slurm("resized")
    before, after = rows
    resize = int(after["Submit"])
    charged = 3 * (resize - int(before["Start"])) + (int(after["End"]) - resize)
    assert pytest.approx(charged / 3600, abs=1e-6) == jobs.one("resized")["gpu_hours"]


def test_a_claim_in_the_comment_is_kept_with_what_it_is_compared_to(jobs: Jobs) -> None:
    """The epilog's comment, which the job changed while it ran, is the claim; the page holds it to OFU."""
    row = jobs.one("claiming")
    assert ("mfu", 0.41, "epilog") == tuple(row["claim"][name] for name in ("kind", "value", "source"))
    page = jobs.site.command("ofu-report", "-j", str(jobs.ids["claiming"])).stdout
    assert "Claimed" in page


# --------------------------------------------------------------- written back


def tokens(jobs: Jobs) -> dict[str, str]:
    """SystemComment of the latest row of each job, once all were written."""
    cluster = jobs.site.cluster

    def comment(name: str) -> str:
        fields = ("JobIDRaw", "SystemComment")
        rows = cluster.job_rows(jobs.ids[name], fields=fields)
        return [row["SystemComment"] for row in rows if row["JobIDRaw"] == str(jobs.ids[name])][-1]

    def all_written() -> dict[str, str] | None:
        found = {name: comment(name) for name in jobs.ids}
        return found if all(found.values()) else None

    found = cluster.wait_for(all_written, 120, f"every token; {jobs.site.said()[-3000:]}", interval=1.0)
    assert found is not None
    return found


def test_sacct_shows_the_ofu_of_every_job(jobs: Jobs) -> None:
    """Each run's own figure stands in its row of Slurm's accounting, and reads back as the same OFU; one that
    was too short, as a second is on a busy machine, has none there either."""
    measured = 0
    for name, text in tokens(jobs).items():
        stated = dict(part.split("=") for part in text.removeprefix("ofu1:").split(";"))
        row = jobs.of(name)[-1]
        measured += row["ofu_ratio"] is not None
        ofu = None if "ofu" not in stated else float(stated["ofu"])
        assert pytest.approx(row["ofu_ratio"], abs=1e-4) == ofu, name
        assert pytest.approx(row["gpu_hours"], rel=1e-3) == float(stated["gpuh"]), name
    assert measured


def test_a_report_from_slurm_alone_agrees(jobs: Jobs) -> None:
    """--from-slurm needs no database, and gives the figures that were written back."""
    tokens(jobs)
    job = str(jobs.ids["claiming"])
    [row] = json.loads(jobs.site.command("ofu-report", "--from-slurm", "--json", "-j", job).stdout)["rows"]
    assert pytest.approx(jobs.one("claiming")["ofu_ratio"], abs=1e-4) == row["ofu_ratio"]


# --------------------------------------------------------------- reconciled


def test_reconciling_finds_nothing_amiss_and_what_was_never_seen(jobs: Jobs) -> None:
    """All of that is covered; then the job of a node whose records go nowhere is found, with why."""
    site = jobs.site
    quiet = json.loads(site.command("ofu-admin", "reconcile", "--json", "-S", "now-1hour").stdout)
    [cluster] = quiet["clusters"]
    assert ([], [], []) == (cluster["never_seen"], cluster["unaccounted"], cluster["incomplete"])
    node = site.nodes[2]
    site.configure(node, "[sampler]\nno_such_key = 1\n")
    try:
        lost = site.cluster.sbatch("sleep 2", "--gres=gpu:3", f"--nodelist={node}", user=CAROL)
        site.cluster.wait_accounted(lost, 120)
        # On 22.05 a row has no eligible time at first, and is in no window till then.
        site.cluster.wait_for(lambda: [row for row in site.runs() if row["job_id"] == lost], 120, "its run")
    finally:
        site.configure(node, site.node_toml())
    text = site.command("ofu-admin", "reconcile", "-S", "now-1hour").stdout
    assert f"{lost} {CAROL}" in text
    assert "GPU jobs of Slurm's accounting that no node ever spoke of: 1" in text
    [row] = site.report("-j", str(lost))["rows"]
    assert (False, None, "not_delivered", 3) == (
        row["heard"],
        row["ofu_ratio"],
        row["reason"],
        row["gpu_count"],
    )
    site.deliver()  # the node is mended: its run is finished now, and dissolves the silent one
    [row] = site.wait_accounted_runs({lost})
    assert (True, "sampler_died") == (row["heard"], row["reason"])
