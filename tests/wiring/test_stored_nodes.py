"""Which stored series are which node's."""

import json
from collections.abc import Sequence

import pytest

from slurm_ofu.counters.prometheus import Prometheus
from slurm_ofu.wiring.stored_nodes import DAY_SECONDS, NodeSelectors, grid
from tests.standins.faulty_proxy import FaultyProxy, Said

DAY = 20_000 * DAY_SECONDS


def chosen(node: str, upper: Sequence[str], lower: Sequence[str], targets: Sequence[str]) -> list[str]:
    """The label conditions for a node, where the host labels have these values."""
    script = [
        Said(body=json.dumps({"status": "success", "data": values}).encode())
        for values in (upper, lower, targets)
    ]
    proxy = FaultyProxy(script)
    try:
        selectors = NodeSelectors(Prometheus(proxy.url, timeout_seconds=30.0))
        found = selectors.of(node, DAY + 5, DAY + 100)
        assert found == selectors.of(node, DAY + 100, DAY + 200)
        assert 3 == len(proxy.heard)
    finally:
        proxy.close()
    return [one.rpartition('",')[2].rstrip("}") for one in found]


@pytest.mark.parametrize(
    ("node", "upper", "lower", "targets", "expected"),
    [
        ("n1", ["n1", "n2"], [], ["n1:9400", "n2:9400"], ['Hostname="n1"']),
        ("n1", [], ["n1.example.org"], [], ['hostname="n1.example.org"']),
        ("n1", ["n1"], ["n1"], ["n1:9400"], ['Hostname="n1"', 'hostname="n1"']),
        ("n1", [], [], ["n1:9400", "n10:9400"], ['instance="n1:9400"']),
        ("n1", [], [], ["N1.example.org:9400"], ['instance="N1.example.org:9400"']),
        ("n1", ["dcgm-exporter-x7k2p"], [], ["n1:9400"], ['instance="n1:9400"']),
        ("n1.example.org", ["n1"], [], [], ['Hostname="n1"']),
        ("n1.a", ["n1.a", "n1.b"], [], [], ['Hostname="n1.a"']),
        ("n1", ["n1.a", "n1.b"], [], [], []),
        ("10", [], [], ["10.1.2.3:9400"], []),
        ("n1", [], [], ["[fe80::1]:9400"], []),
        ("n1", ["n2"], [], [], []),
    ],
)
def test_hosts_by_their_names(
    node: str, upper: list[str], lower: list[str], targets: list[str], expected: list[str]
) -> None:
    """The exporter's own label before the target's, old and new; with or without the domain, unless two hosts
    could be meant; an address is no name. Asked once a day of the window."""
    assert expected == chosen(node, upper, lower, targets)


def test_windows_are_the_same_whoever_asks() -> None:
    """Cut at the multiples of their length, so that none reaches over the end of a day."""
    assert [(50, 100), (100, 200), (200, 250)] == list(grid(iter([(50, 250)]), 100))
    assert [(0, 100), (100, 130), (170, 200)] == list(grid(iter([(0, 130), (170, 200)]), 100))
