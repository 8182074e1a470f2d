"""What ``ofu-node check`` says of the way to the collector."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.values import Config
from slurm_ofu.wiring.checking_storage import check_delivery
from tests.delivery.listener import Listener
from tests.delivery.munged import Munged, require
from tests.wiring.collector_process import Collector, newer_record


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    its = Collector(tmp_path)
    yield its
    its.close()


def said(config: Config) -> list[tuple[str, str, str]]:
    """(verdict, what, text) of each finding."""
    return [(its.verdict, its.what, its.text) for its in check_delivery(config)]


def test_all_is_well(collector: Collector) -> None:
    """Signing works, and the collector takes a message of this node's cluster, which leaves nothing."""
    collector.start()
    config = replace(collector.settings, cluster_name="alpha")
    expected = [
        ("ok", "signing", "key"),
        ("ok", "delivery", f"{collector.url} takes the messages of cluster alpha"),
    ]
    assert expected == said(config)
    assert (0, [], {}) == (
        collector.health()["taken_records"],
        collector.waiting(),
        collector.health()["refused_messages"],
    )


def test_the_cluster_is_slurms(collector: Collector, tmp_path: Path) -> None:
    """Without a name in the configuration the cluster is slurm.conf's."""
    (tmp_path / "slurm.conf").write_text("ClusterName=Beta\n")
    collector.start()
    config = collector.settings
    config = replace(config, accounting=replace(config.accounting, slurm_conf=str(tmp_path / "slurm.conf")))
    assert said(config)[-1][2].endswith("cluster Beta")


def test_nobody_listens(collector: Collector) -> None:
    """A collector that is not there is bad, with what to look for."""
    [_, (verdict, what, text)] = said(replace(collector.settings, delivery_wait_seconds=0.1))
    assert ("bad", "delivery") == (verdict, what)
    assert "Connection refused: does `ofu-admin collect` run there" in text


def test_something_else_listens(collector: Collector) -> None:
    """Another service at that port is told from a collector."""
    other = Listener(200, b"<html>")
    try:
        [_, (verdict, _, text)] = said(replace(collector.settings, delivery_to=other.url))
    finally:
        other.close()
    assert ("bad", True) == (verdict, "no collector" in text)


def test_a_key_that_others_can_read(collector: Collector, tmp_path: Path) -> None:
    """A key file with the wrong rights is bad, before anything is sent."""
    (tmp_path / "key").chmod(0o644)
    [(verdict, what, text)] = said(collector.settings)
    assert ("bad", "signing", True) == (verdict, what, "others may use the key file" in text)


def test_a_key_that_the_collector_does_not_have(collector: Collector, tmp_path: Path) -> None:
    """A key that the collector does not know is bad, in the collector's words."""
    (tmp_path / "other").mkdir()
    other = Collector(tmp_path / "other")
    collector.start()
    [_, (verdict, _, text)] = said(replace(other.settings, delivery_to=collector.url))
    assert ("bad", True) == (verdict, "bad_credential: it is not signed with the key one" in text)


def test_a_collector_that_is_full(collector: Collector) -> None:
    """A full inbox is a note: nothing is lost by it."""
    text = collector.config.read_text()
    collector.config.write_text(text.replace("[accounting]", "inbox_limit_mib = 1\n[accounting]"))
    collector.drop()
    (collector.inbox / "newer.record").write_bytes(newer_record(1 << 20))
    collector.start()
    (verdict, what, text) = said(collector.settings)[-1]
    assert ("note", "delivery", True) == (verdict, what, "the collector is busy" in text)


def test_munge(munged: Munged, tmp_path: Path) -> None:
    """With munge the check goes all the way; without munged it is signing that is bad."""
    require()
    collector = Collector(tmp_path, munged.socket)
    try:
        collector.start()
        config = replace(collector.settings, cluster_name="alpha")
        assert ["ok", "ok"] == [verdict for verdict, _, _ in said(config)]
        signing = replace(config.delivery_signing, munge_socket=str(tmp_path / "none"))
        [(verdict, what, text)] = said(replace(config, delivery_signing=signing))
    finally:
        collector.close()
    assert ("bad", "signing", True) == (verdict, what, "Did you start munged" in text)
