"""The real hook scripts with a collector at the other end."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ofu.records.codec import decode
from tests.delivery.listener import Listener
from tests.hooks.node import Node
from tests.services.processes import poll
from tests.wiring.collector_process import Collector


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "node").mkdir()
    its = Node(tmp_path / "node", wait_seconds=60)
    yield its
    its.close()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    (tmp_path / "collector").mkdir()
    its = Collector(tmp_path / "collector")
    yield its
    its.close()


def deliver_to(node: Node, url: str, collector: Collector) -> None:
    """Let a node's records go to a URL, signed with the collector's key."""
    text = node.config.read_text()
    here = f'to = "sqlite://{node.database}"'
    assert here in text
    how = f'to = "{url}"\nauthentication = "key"\nkey_file = "{collector.folder}/key"'
    node.config.write_text(text.replace(here, how))


def outbox(node: Node) -> list[Path]:
    return list(node.spool.glob("outbox/*.record"))


def test_no_epilog_waits_for_a_delivery(node: Node, collector: Collector) -> None:
    """With a collector that takes the connection and never answers, the epilog is over while somebody else
    still waits for it, and the record is in the outbox."""
    silent = Listener(None)
    try:
        deliver_to(node, silent.url, collector)
        node.prolog()
        sampler = node.sampling()
        called = node.epilog()
        assert (0, b"") == (called.code, called.output)
        assert 1 == len(outbox(node))
        poll(lambda: silent.bodies, 30, "the delivery to be tried")
        assert sampler.alive()
        assert "ofu-deliver\n" == Path(f"/proc/{sampler.pid}/comm").read_text()
        assert 1 == len(outbox(node))
    finally:
        silent.close()
    node.gone()


def test_records_wait_for_the_collector(node: Node, collector: Collector) -> None:
    """Jobs that end while the collector is away end as always; the hooks' next attempt delivers all."""
    node.wait_seconds = 1
    node.write_config()
    deliver_to(node, collector.url, collector)
    for job in (1, 2):
        node.prolog(job)
        node.sampling(job=job)
        assert 0 == node.epilog(job).code
    node.gone()
    assert 2 == len(outbox(node))
    assert (node.spool / "attempts").exists()
    collector.start()
    (node.spool / "attempts").write_text("1 1.0\n")  # the time is over
    node.prolog(3)
    poll(lambda: {1: 2, 2: 2} == collector.stored(), 60, "both jobs, with two GPUs each")
    node.sampling(job=3)
    assert 0 == node.epilog(3).code
    poll(lambda: {1: 2, 2: 2, 3: 2} == collector.stored(), 60, "the third as well")
    node.gone()
    assert [] == outbox(node)
    assert not (node.spool / "attempts").exists()


# ------------------------------------------------------------------- while jobs run


def interim_processes(node: Node) -> list[str]:
    """Those that hand on interim records."""
    return [said for said in map(node.command, node.processes()) if "slurm_ofu.hooks.interim" in said]


def test_a_collector_that_hangs_holds_up_no_sampler(node: Node, collector: Collector) -> None:
    """With a collector that never answers, an interim record is under way, sampling goes on, and the job's
    end takes the process of that record with it."""
    silent = Listener(None)
    try:
        node.write_config(interim_seconds=0.2)
        deliver_to(node, silent.url, collector)
        node.prolog()
        poll(lambda: silent.bodies, 60, "an interim record to be tried")
        node.sampling(node.covered_seconds() + 2)
        assert 2 == len(interim_processes(node))  # timeout(1), and what it watches over
        assert 0 == node.epilog().code
        [path] = poll(lambda: outbox(node), 30, "the final record")
        assert [] == interim_processes(node)
        record = decode(path.read_bytes())
        assert not record.interim
        assert record.health.late_max_seconds < 10
    finally:
        silent.close()
    node.gone()


def test_nothing_piles_up_while_the_collector_is_away(node: Node, collector: Collector) -> None:
    """Interim records that could not be handed on are missed, no more; with the collector the next one comes,
    and the final one takes its place."""
    node.wait_seconds = 1
    node.write_config(interim_seconds=0.2)
    deliver_to(node, collector.url, collector)
    node.prolog()
    node.sampling(2.0)
    assert [] == list(node.spool.glob("outbox/*"))
    assert not (node.spool / "attempts").exists()
    collector.start()
    poll(lambda: [(1, 1)] == runs(collector), 60, "the running job")
    assert 0 == node.epilog().code
    poll(lambda: [(0, 0)] == runs(collector), 60, "its end")
    node.gone()
    assert node.is_settled()


def runs(collector: Collector) -> list[tuple[int, int]]:
    """(running, interim) of each run and node; none where there is no database yet."""
    if not collector.stored():
        return []
    query = "SELECT running, interim FROM run JOIN run_node USING (run_id)"
    with contextlib.closing(sqlite3.connect(collector.database, timeout=60)) as opened:
        return opened.execute(query).fetchall()
