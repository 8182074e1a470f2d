"""Epilogs that never came, finishers that died half-way: nothing is lost, nobody else suffers."""

import json
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import RecordTooNew
from slurm_ofu.records.codec import decode
from slurm_ofu.slurm.gres_conf import nodes_without_gpus
from tests.hooks.node import Node, poll


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    its = Node(tmp_path)
    try:
        yield its
    finally:
        its.close()


def kill_sampler(node: Node, job: int = 7) -> None:
    process = node.sampling(job=job)
    process.send(signal.SIGKILL)
    poll("the sampler's end", lambda: not process.alive())


def test_a_run_without_an_epilog_shares_no_gpu_with_later_ones(node: Node) -> None:
    """A run whose epilog was lost with its sampler does not halve the runs that have its GPU later."""
    node.prolog(7)
    kill_sampler(node)
    node.prolog(8)
    node.sampling(1.0, job=8)
    node.epilog(8)
    rows = node.stored(8)
    assert ["ok", "ok"] == [row["reason"] for row in rows]
    assert all(row["allocated_seconds"] >= row["covered_seconds"] >= 1.0 for row in rows)


def test_the_next_life_of_a_job_ends_one_whose_epilog_was_lost(node: Node) -> None:
    """A prolog of the same job on the same node proves that its life before is over: two runs, none shared,
    and the sampler of the first does not stay."""
    node.prolog(7, SLURM_JOB_RESTART_COUNT="0")
    first = node.sampling(0.5)
    node.prolog(7, SLURM_JOB_RESTART_COUNT="1")
    poll("the first life's sampler to end", lambda: not first.alive())
    node.epilog(7, SLURM_JOB_RESTART_COUNT="1")

    def lives() -> list[Any]:
        return node.rows("SELECT restart_count, reason FROM run JOIN run_node USING (run_id) ORDER BY 1")

    found = poll("both lives", lambda: rows if len(rows := lives()) == 2 else None)
    assert found is not None
    assert [0, 1] == [row["restart_count"] for row in found]
    assert "shared" not in {row["reason"] for row in found}


def test_the_latest_run_gets_the_epilog(node: Node) -> None:
    """Of several unended states of a job id the epilog ends the one of the latest prolog, by number and
    not by letters."""
    node.prolog(7)
    node.sampling(0.5)
    [current] = node.spool.glob("state/7.*.prolog")
    stale = current.with_name("7.0.99.prolog")
    stale.write_bytes(current.read_bytes())
    node.epilog(7)
    assert (node.spool / "done" / current.stem).exists()
    assert stale.exists() or (node.spool / "done/7.0.99").exists()


def test_a_record_in_the_outbox_is_not_made_again(node: Node) -> None:
    """Killed between the record and its mark: the finisher keeps the good record and only marks it."""
    node.prolog(7)
    node.sampling(1.0)
    [prolog] = node.spool.glob("state/7.*.prolog")
    state = {
        path.name: path.read_bytes() for path in prolog.parent.glob(f"{prolog.stem}.*") if path.is_file()
    }
    node.epilog(7)
    before = node.stored()
    poll("an empty outbox", lambda: not list(node.spool.glob("outbox/*.record")))
    # As if the kill had come just after the record's rename: state and record are there, the mark is not.
    spool = Spool(node.spool)
    (node.spool / "done" / prolog.stem).unlink()
    for name, data in state.items():
        (node.spool / "state" / name).write_bytes(data)
    (node.spool / "state" / f"{prolog.stem}.epilog").touch()
    kept = b"whatever it says"
    (node.spool / "outbox" / f"{prolog.stem}.record").write_bytes(kept)
    assert spool.has_record(prolog.stem)
    node.finisher()
    assert (node.spool / "done" / prolog.stem).exists()
    [aside] = node.spool.glob("outbox/*.rejected")
    assert kept == aside.read_bytes()
    assert before == node.stored()


def test_gpus_in_words_that_nobody_understands_are_unmapped(node: Node) -> None:
    """A job that has GPUs, whatever Slurm called them, is no job without any: it says `unmapped`."""
    node.prolog(7, SLURM_JOB_GPUS="gpu0")
    node.epilog(7, SLURM_JOB_GPUS="gpu0")
    query = "SELECT reason FROM run JOIN run_node USING (run_id)"
    assert [{"reason": "unmapped"}] == poll("the run", lambda: node.rows(query))


CONF = """
NodeName=DEFAULT CPUs=4
NodeName=c[1-2]
NodeName=g[1-4] Gres=gpu:h100:4
NodeName=g4
"""


def test_nodes_without_gpus_are_known_from_slurm_conf(tmp_path: Path) -> None:
    """Nodes that slurm.conf gives no GPU, and only those: an unknown node may have some."""
    (tmp_path / "slurm.conf").write_text(CONF)
    asked = ["c1", "g1", "g4", "unknown"]
    assert frozenset({"c1", "g4"}) == nodes_without_gpus(tmp_path / "slurm.conf", asked)


def test_a_node_without_gpus_is_not_waited_for(node: Node) -> None:
    """--exclusive on a GPU node and a CPU node: nothing is heard of the latter, and nothing is missing."""
    name = node.environment()["SLURMD_NODENAME"]
    (node.folder / "slurm.conf").write_text(f"NodeName={name} Gres=gpu:2\nNodeName=cpu01\n")
    said = {"SLURM_CONF": str(node.folder / "slurm.conf"), "SLURM_NODELIST": f"cpu01,{name}"}
    node.prolog(7, **said)
    node.sampling(0.5)
    node.epilog(7, **said)
    node.stored()
    rows = node.rows("SELECT node_name FROM run_node")
    assert [name] == [row["node_name"] for row in rows]


def test_a_record_of_a_newer_version_waits(node: Node) -> None:
    """After a downgrade records of the newer version stay in the outbox until somebody can read them."""
    (node.spool / "outbox").mkdir(parents=True)
    newer = node.spool / "outbox/7.0.1.record"
    newer.write_bytes(zlib.compress(json.dumps({"format": 99, "record": {}}).encode()))
    with pytest.raises(RecordTooNew, match="99"):
        decode(newer.read_bytes())
    node.finisher()
    assert newer.exists()
