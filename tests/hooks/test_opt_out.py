"""A job that asks not to be profiled, through the real hook scripts."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.node import Node, poll


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose processes end with the test."""
    its = Node(tmp_path)
    yield its
    its.close()


def stands_by(node: Node, job: int = 7) -> None:
    """Wait until the job's sampler has said that it does not sample."""
    poll(f"job {job} standing by", lambda: list(node.spool.glob(f"state/{job}.*.checkpoint")))


def test_nothing_is_read_and_the_record_says_so(node: Node) -> None:
    """The job asked: no source is opened, every GPU is opted_out, and its time is allocated."""
    node.source.unlink()  # opening it would be no_source
    node.prolog(SLURM_JOB_COMMENT="run 12; OFU=off")
    stands_by(node)
    node.epilog()
    gpus = node.stored()
    assert ["opted_out"] * 2 == [gpu["reason"] for gpu in gpus]
    assert [None] * 2 == [gpu["tensor_ref_seconds"] for gpu in gpus]
    assert all(gpu["allocated_seconds"] > 0 for gpu in gpus)
    assert all(gpu["covered_seconds"] == 0 for gpu in gpus)
    [row] = node.rows("SELECT source FROM run_node")
    assert "none: the job asked not to be profiled" == row["source"]
    node.gone()


def test_where_the_site_forbids_it_the_job_is_sampled(node: Node) -> None:
    """allow_opt_out = false: the word is a comment like any other."""
    node.write_config(allow_opt_out=False)
    node.prolog(SLURM_JOB_COMMENT="ofu=off")
    node.sampling()
    node.epilog()
    assert ["ok"] * 2 == [gpu["reason"] for gpu in node.stored()]


@pytest.mark.parametrize(("before", "after"), [("ofu=off", "never mind"), (None, "ofu=off")])
def test_what_the_comment_becomes_changes_nothing(node: Node, before: str | None, after: str) -> None:
    """The prolog's comment counts; scontrol update comes too late for both."""
    node.prolog(SLURM_JOB_COMMENT=before)
    if before is None:
        node.sampling()
    else:
        stands_by(node)
    node.epilog(SLURM_JOB_COMMENT=after)
    expected = "ok" if before is None else "opted_out"
    assert [expected] * 2 == [gpu["reason"] for gpu in node.stored()]


def test_a_killed_sampler_changes_nothing(node: Node) -> None:
    """What it has saved says why there is no figure, whoever makes the record."""
    node.prolog(SLURM_JOB_COMMENT="ofu=off")
    stands_by(node)
    node.sampler_process().send(signal.SIGKILL)
    node.epilog()
    assert ["opted_out"] * 2 == [gpu["reason"] for gpu in node.stored()]


def test_an_epilog_before_the_sampler_listens(node: Node) -> None:
    """A job that was over before the sampler was up: it does not stand by for ever."""
    prolog = node.start("prolog", SLURM_JOB_COMMENT="ofu=off")
    prolog.communicate(timeout=20)
    node.epilog()
    node.stored()
    node.gone()


def test_who_shares_a_gpu_with_it_has_only_a_part(node: Node) -> None:
    """The run holds its GPUs without being measured: another on them is shared for all of its time."""
    node.prolog(7, SLURM_JOB_COMMENT="ofu=off")
    stands_by(node, 7)
    node.prolog(8)
    node.sampling(job=8)
    node.epilog(8)
    measured = node.stored(8)
    assert ["shared"] * 2 == [gpu["reason"] for gpu in measured]
    node.epilog(7)
    assert ["opted_out"] * 2 == [gpu["reason"] for gpu in node.stored(7)]


def test_the_process_that_stands_by_holds_nothing(node: Node) -> None:
    """No library of a GPU, no pipe to anybody, no child."""
    node.prolog(SLURM_JOB_COMMENT="ofu=off")
    stands_by(node)
    process = node.sampler_process()
    mapped = Path(f"/proc/{process.pid}/maps").read_text()
    assert "nvidia" not in mapped
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert [] == children
    opened = [str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
    assert [] == [name for name in opened if name.startswith(("/dev/nvidia", "pipe:"))]
