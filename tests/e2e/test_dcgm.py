"""A100-like nodes on a real cluster: NVML without GPM, and DCGM beside it.

On node 1 the host engine runs, and DCGM numbers the GPUs against NVML's order; on node 2 it does not.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.samples.checkpoint import decode_checkpoint
from tests.e2e.conftest import nvml_library
from tests.e2e.site import Site
from tests.services.fixtures import ClusterFactory
from tests.services.node_namespace import Mount
from tests.services.processes import Process
from tests.services.unix_users import ALICE
from tests.standins import dcgmi_standin
from tests.standins.nvml_standin import Gpu, Scenario, Segment

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

INTERVAL = 3
SETTINGS = f"""\
source = "dcgm"
dcgmi = "/opt/dcgm-standin/dcgmi"
interval_seconds = {INTERVAL}
checkpoint_seconds = 3
"""
LONG = 24
LEAST_COVERAGE = 0.6  # seconds at the start, more of them on a busy machine, and one at the end
GPUS = 4


def gpu(index: int) -> Gpu:
    """A GPU unlike its neighbours, whose clock and activity move together."""
    busy = 0.25 + 0.15 * index
    return Gpu(
        segments=(
            Segment(
                seconds=0.9,
                tensor_ratio=busy,
                sm_clock_mhz=1275,
                sm_active_ratio=0.9,
                power_watts=390,
                utilisation_ratio=1.0,
            ),
            Segment(seconds=0.35, sm_clock_mhz=1410, sm_active_ratio=0.05, power_watts=120),
        ),
        name="NVIDIA A100-SXM4-80GB",
        gpm=False,
        sms=108,
        cores_per_sm=64,
        reference_clock_mhz=1410,
        max_clock_mhz=1410,
        architecture=7,
        compute_capability=(8, 0),
    )


NODE = Scenario(gpus=tuple(gpu(index) for index in range(GPUS)))


def cards() -> tuple[dcgmi_standin.Card, ...]:
    """The same GPUs as DCGM has them, numbered the other way round."""
    return tuple(
        dcgmi_standin.Card(
            number=GPUS - 1 - index, uuid=one.uuid(index), segments=one.segments, origin_s=one.origin_s
        )
        for index, one in enumerate(NODE.gpus)
    )


@dataclass
class DcgmSite(Site):
    """A site whose nodes have a dcgmi each."""

    dcgm: dict[str, dcgmi_standin.Installed] = field(default_factory=dict)

    def _mounts(self, node: str) -> list[Mount]:
        folder = self.folder / f"dcgm-{node}"
        folder.mkdir()
        self.dcgm[node] = dcgmi_standin.install(folder, dcgmi_standin.Scenario(cards=cards()))
        return [*super()._mounts(node), Mount.bind(folder, "/opt/dcgm-standin")]

    def begin(self, node: str, *arguments: str, script: str = f"sleep {LONG}") -> int:
        """Submit a job to a node, and wait until it runs."""
        job = self.cluster.sbatch(script, f"--nodelist={node}", *arguments, user=ALICE)
        self.cluster.wait_state(job, "RUNNING", 60)
        return job

    def finished(self, job: int) -> dict[str, Any]:
        """A job's page after its end."""
        self.cluster.wait_accounted(job, 120)
        self.wait_delivered()
        [page] = self.page(job)
        return page

    def dmons(self, node: str) -> list[int]:
        """The pids of every dmon that was started on a node and still runs."""
        calls = [call["pid"] for call in self.dcgm[node].calls() if call["arguments"][0] == "dmon"]
        return [pid for pid in calls if is_dmon(pid)]

    @contextmanager
    def trouble(self, node: str, **changes: Any) -> Iterator[None]:
        """DCGM is otherwise for a while."""
        before = {name: getattr(self.dcgm[node].scenario, name) for name in changes}
        self.dcgm[node].play(**changes)
        try:
            yield
        finally:
            self.dcgm[node].play(**before)


def is_dmon(pid: int) -> bool:
    """Whether a process is one, and not only its remains."""
    try:
        return b"dmon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def site(
    slurm_cluster_factory: ClusterFactory, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> DcgmSite:
    """Two nodes of four A100s; the second without a host engine."""
    stem = f"ofu{secrets.token_hex(3)}n"
    scenarios = {f"{stem}1": NODE, f"{stem}2": NODE}
    its = DcgmSite(tmp_path_factory.mktemp("site"), nvml_library, scenarios, SETTINGS)
    its.start(slurm_cluster_factory)
    its.dcgm[f"{stem}2"].play(engine="down")
    return its


def test_ofu_is_the_truth(site: DcgmSite) -> None:
    """Each GPU of a job on A100s has the OFU of the device at its Slurm position, sampled over DCGM."""
    node = site.nodes[0]
    page = site.finished(site.begin(node, f"--gres=gpu:{GPUS}"))
    times = page["nodes"][0]["start_epoch_s"], page["nodes"][0]["end_epoch_s"]
    for row in page["gpus"]:
        true = site.truth(node, row["position"], *times)
        assert ("ok", "dcgm") == (row["reason"], row["source"])
        assert row["ofu_ratio"] == pytest.approx(true.ofu, abs=0.03)
        assert row["coverage_ratio"] >= LEAST_COVERAGE
    assert "sampled" == page["estimator"]
    true_sm = site.truth(node, 0, *times).sm_active
    assert page["sm_active_ratio"] == pytest.approx(true_sm, abs=0.05)
    assert [] == site.dmons(node)


def test_only_the_jobs_gpus_are_watched_by_one_child(site: DcgmSite) -> None:
    """One dmon for each sampler, over the job's GPUs by DCGM's numbers, and none after it."""
    node = site.nodes[0]
    before = len(site.dcgm[node].calls())
    job = site.begin(node, "--gres=gpu:1", script="sleep 10")
    site.cluster.wait_for(lambda: site.dmons(node), 20, "a dmon")
    assert 1 == len(site.dmons(node))
    page = site.finished(job)
    [call] = [one for one in site.dcgm[node].calls()[before:] if one["arguments"][0] == "dmon"]
    position = page["gpus"][0]["position"]
    assert str(GPUS - 1 - position) == call["arguments"][call["arguments"].index("-i") + 1]
    assert [] == site.dmons(node)


def test_a_lock_until_the_end(site: DcgmSite) -> None:
    """A job that another profiler's hold falls into is measured up to it, and says why no further."""
    node = site.nodes[0]
    job = site.begin(node, "--gres=gpu:1", script="sleep 22")
    with_figures(site, node, job)
    with site.trouble(node, paused=True):
        page = site.finished(job)
    [row] = page["gpus"]
    assert "profiling_locked" == row["reason"]
    assert 0 < row["coverage_ratio"] < 0.9


def with_figures(site: DcgmSite, node: str, job: int) -> None:
    """Wait until some time of a job has been measured and saved."""

    def measured() -> bool:
        path = site.spool_file(node, f"state/{job}.*.checkpoint")
        gpus = decode_checkpoint(path.read_bytes()).gpus if path is not None else ()
        return any(gpu.fold and gpu.fold["sampled"]["covered_seconds"] >= 2 * INTERVAL for gpu in gpus)

    site.cluster.wait_for(measured, 60, f"figures of {job}")


def test_a_killed_sampler_takes_dmon_with_it(site: DcgmSite) -> None:
    """Nothing of a sampler outlives it, and its checkpoint is the record."""
    node = site.nodes[0]
    job = site.begin(node, "--gres=gpu:1", script="sleep 14")
    with_figures(site, node, job)
    assert 1 == len(site.dmons(node))
    pid = site.sampler_pid(node, job)
    assert pid is not None
    Process.of(pid).send(signal.SIGKILL)
    site.cluster.wait_for(lambda: not site.dmons(node), 20, "dmon to end")
    assert "sampler_died" == site.finished(job)["gpus"][0]["reason"]


def test_without_a_host_engine_there_is_no_source(site: DcgmSite) -> None:
    """Jobs run as always, the record says what is missing, and no engine is started."""
    node = site.nodes[1]
    page = site.finished(site.begin(node, "--gres=gpu:1", script="sleep 3"))
    assert ("no_source", None) == (page["gpus"][0]["reason"], page["ofu_ratio"])
    assert {"discovery"} == {call["arguments"][0] for call in site.dcgm[node].calls()}
    assert "is nvidia-dcgm running" in site.cluster.syslog(node)


def test_a_job_may_ask_not_to_be_profiled(site: DcgmSite) -> None:
    """sbatch --comment=ofu=off: dcgmi is not even asked, and every report says why there is no figure."""
    node = site.nodes[0]
    before = len(site.dcgm[node].calls())
    job = site.begin(node, "--gres=gpu:2", "--comment=test run, ofu=off", script="sleep 4")
    site.wait_checkpoint(node, job)
    site.cluster.run("scontrol", "update", f"jobid={job}", "comment=never mind")
    page = site.finished(job)
    assert ["opted_out"] * 2 == [row["reason"] for row in page["gpus"]]
    assert (None, "opted_out") == (page["ofu_ratio"], page["reason"])
    assert page["gpu_hours"] > 0
    assert before == len(site.dcgm[node].calls())
    assert "asked not to be profiled" in site.command("ofu-report", "-j", str(job)).stdout
