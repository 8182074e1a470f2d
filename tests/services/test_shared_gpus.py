"""What Slurm tells Prolog and Epilog about jobs that get a part of a GPU (shard, mps)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .fixtures import ClusterFactory
from .recording import Recorder, recorder
from .slurm_cluster import SlurmCluster
from .slurm_conf import NodeSpec
from .unix_users import ALICE

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slurm_versions("hooks of a job on a shared GPU (shard, mps) are told its index"),
]

SHARD_NODE, MPS_NODE = 0, 1
GPU_LINE = "Name=gpu Type=h100 File=/dev/nvidia[0-3]"
TELLING = ("GPU", "CUDA", "ROCR", "ZE_", "SHARD", "MPS", "GRES", "TRES")


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorder]:
    with recorder() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(slurm_cluster_factory: ClusterFactory, recorded: Recorder) -> SlurmCluster:
    """Two nodes of four GPUs each: one shares them as shards, the other through MPS."""
    stem = f"ofushare{recorded.folder.name[-4:].strip('_').lower()}x"
    nodes = [
        NodeSpec(f"{stem}1", 4, "h100", "gpu:h100:4,shard:16", (GPU_LINE, "Name=shard Count=16")),
        NodeSpec(f"{stem}2", 4, "h100", "gpu:h100:4,mps:400", (GPU_LINE, "Name=mps Count=400")),
    ]
    return slurm_cluster_factory(nodes=nodes, hooks=recorded.hooks, gres_types=("gpu", "shard", "mps"))


def gpu_variables(environment: dict[str, str]) -> dict[str, str]:
    """Every variable that could say something about GPUs."""
    return {k: v for k, v in environment.items() if any(word in k for word in TELLING)}


WHOLE = {
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
}
MPS = {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}


@pytest.mark.parametrize(
    ("request_gres", "node", "names", "accounted"),
    [
        ("--gres=gpu:1", SHARD_NODE, WHOLE, "gres/gpu=1"),
        ("--gres=shard:1", SHARD_NODE, WHOLE, "gres/shard=1"),
        ("--gres=mps:50", MPS_NODE, MPS, "gres/mps=50"),
        ("--gres=none", SHARD_NODE, set(), "cpu=1"),
    ],
)
def test_hooks_of_a_job_on_a_shared_gpu_see_its_index(
    cluster: SlurmCluster, recorded: Recorder, request_gres: str, node: int, names: set[str], accounted: str
) -> None:
    """A shard job looks to its hooks like a one-GPU job, an mps job almost; only accounting tells.

    The MPS percentage itself is not tested: Slurm 22.05 gives 0, 50 or 100 depending on gres.conf.
    """
    name = cluster.nodes[node]
    job = cluster.sbatch("true", request_gres, f"--nodelist={name}", user=ALICE)
    [row] = cluster.wait_accounted(job)
    for context in ("prolog", "epilog"):
        told = gpu_variables(recorded.environment(job, context, name))
        assert set(told) == names
        assert {v for k, v in told.items() if "MPS" not in k} <= {"0"}
    assert accounted in row["AllocTRES"].split(",")
    assert ("gres/gpu" in row["AllocTRES"]) == (request_gres == "--gres=gpu:1")


def test_two_shard_jobs_at_a_time_have_the_same_gpu(cluster: SlurmCluster, recorded: Recorder) -> None:
    """Two jobs that run together may both be told the same SLURM_JOB_GPUS."""
    jobs = [cluster.sbatch("sleep 100", "--gres=shard:1", user=ALICE) for _ in range(2)]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    name = cluster.nodes[SHARD_NODE]
    told = [recorded.environment(job, "prolog", name)["SLURM_JOB_GPUS"] for job in jobs]
    cluster.run("scancel", *map(str, jobs))
    cluster.wait_idle()
    assert told == ["0", "0"]
