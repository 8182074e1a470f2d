"""Jobs on MIG slices, from the prolog's environment to the rows in the accounting database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.node import Node
from tests.standins.nvml_standin import Gpu, Scenario, Segment, Slice, build

H100_SMS = 132


def steady(tensor_ratio: float) -> tuple[Segment, ...]:
    """One activity at the reference clock, for ever."""
    return (Segment(seconds=1, tensor_ratio=tensor_ratio, sm_clock_mhz=1830, sm_active_ratio=0.9),)


SMALL = Slice(
    segments=steady(0.25),
    slice_uuid="MIG-265a219d-a49f-578a-825d-222c72699c16",
    mig_index=0,
    gpu_instance=9,
    sms=16,
)
LARGE = Slice(
    segments=steady(0.75),
    slice_uuid="MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d001",
    mig_index=3,
    gpu_instance=2,
    profile="3g.40gb",
    sms=60,
    gpu_slices=3,
    compute_slices=3,
)
SPLIT = Gpu(
    segments=steady(0.5),
    gpu_uuid="GPU-6e19195c-0000-4000-8000-000000000001",
    mig="on",
    slices=(SMALL, LARGE),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def node(tmp_path: Path, library: Path) -> Iterator[Node]:
    """A node with a plain GPU and one that is split, as Slurm with AutoDetect=nvml would number it."""
    its = Node(tmp_path, gpus=2)
    copy = Path(shutil.copy(library, tmp_path))  # the scenario lies beside the library
    plain = Gpu(segments=steady(1.0))
    Scenario(gpus=(plain, SPLIT)).write(tmp_path / "nvml-scenario")
    its.write_config(source="nvml", nvml_library=str(copy))
    (tmp_path / "slurm.conf").write_text("NodeName=n1 Gres=gpu:h100:1,gpu:1g.10gb:1,gpu:3g.40gb:1\n")
    (tmp_path / "gres.conf").write_text("AutoDetect=nvml\n")
    try:
        yield its
    finally:
        its.close()


@pytest.mark.parametrize(
    "named",
    [
        f"{SMALL.slice_uuid},{LARGE.slice_uuid}",
        f"MIG-{SPLIT.gpu_uuid}/9/0,MIG-{SPLIT.gpu_uuid}/2/0",
    ],
    ids=["UUIDs", "old names"],
)
def test_slices_weigh_their_share(node: Node, named: str) -> None:
    """A job's slices are found by CUDA_VISIBLE_DEVICES; every second and cycle of theirs counts as their
    share of a GPU, and the ratio of the slice's own SMs stays what it is."""
    node.prolog(CUDA_VISIBLE_DEVICES=named, SLURM_JOB_GPUS="1,2")
    node.sampling(1.0)
    node.epilog(CUDA_VISIBLE_DEVICES=named, SLURM_JOB_GPUS="1,2")
    rows = node.stored()
    for row, its, tensor in zip(rows, (SMALL, LARGE), (0.25, 0.75), strict=True):
        share = pytest.approx(its.sms / H100_SMS, rel=1e-5)  # a record rounds
        assert (its.slice_uuid, its.profile, share) == (
            row["uuid"],
            row["mig_profile"],
            row["sm_share_ratio"],
        )
        assert ("ok", "sampled", "cuda_uuid") == (row["reason"], row["estimator"], row["mapped_by"])
        assert tensor == pytest.approx(row["tensor_ref_seconds"] / row["covered_seconds"], rel=1e-4)
    small, large = rows
    # Held for the same time: it weighs as the SMs do, and both together less than a GPU.
    assert small["allocated_seconds"] / 16 == pytest.approx(large["allocated_seconds"] / 60, rel=0.01)
    assert 0 < small["covered_seconds"] <= small["allocated_seconds"]
    held = small["end_epoch_s"] - small["start_epoch_s"]
    assert 16 / H100_SMS == pytest.approx(small["allocated_seconds"] / held, rel=0.05)


def test_a_slice_by_number_is_unmapped(node: Node) -> None:
    """Without its UUID a slice's position says nothing: unmapped, and no figure of the GPU that it is on."""
    node.prolog(CUDA_VISIBLE_DEVICES="1", SLURM_JOB_GPUS="1")
    node.state("checkpoint")
    node.epilog(CUDA_VISIBLE_DEVICES="1", SLURM_JOB_GPUS="1")
    (row,) = node.stored()
    assert ("unmapped", None, None) == (row["reason"], row["uuid"], row["tensor_ref_seconds"])


def test_a_plain_gpu_beside_a_slice_in_one_job(node: Node) -> None:
    """A job with a plain GPU, by UUID, and a slice: one weighs 1, the other its share."""
    plain = Scenario(gpus=(Gpu(segments=steady(1.0)),)).uuid(0)
    named = f"{plain},{SMALL.slice_uuid}"
    node.prolog(CUDA_VISIBLE_DEVICES=named, SLURM_JOB_GPUS="0,1")
    node.sampling(1.0)
    node.epilog(CUDA_VISIBLE_DEVICES=named, SLURM_JOB_GPUS="0,1")
    whole, small = node.stored()
    assert [(1.0, None), (pytest.approx(16 / H100_SMS, rel=1e-5), "1g.10gb")] == [
        (row["sm_share_ratio"], row["mig_profile"]) for row in (whole, small)
    ]
    assert ["ok", "ok"] == [whole["reason"], small["reason"]]
    # What was covered counts as allocated, and ends some milliseconds apart.
    assert small["allocated_seconds"] == pytest.approx(whole["allocated_seconds"] * 16 / H100_SMS, rel=0.01)


def test_a_slice_that_nobody_may_read_weighs_its_share(node: Node) -> None:
    """A job on a slice that asks not to be profiled holds a part of a GPU, not a whole one."""
    name = SMALL.slice_uuid
    node.prolog(CUDA_VISIBLE_DEVICES=name, SLURM_JOB_GPUS="1", SLURM_JOB_COMMENT="ofu=off")
    node.state("checkpoint")
    node.epilog(CUDA_VISIBLE_DEVICES=name, SLURM_JOB_GPUS="1")
    (row,) = node.stored()
    assert ("opted_out", SMALL.slice_uuid, None) == (row["reason"], row["uuid"], row["tensor_ref_seconds"])
    held = row["end_epoch_s"] - row["start_epoch_s"]
    assert 16 / H100_SMS == pytest.approx(row["allocated_seconds"] / held, rel=0.05)
