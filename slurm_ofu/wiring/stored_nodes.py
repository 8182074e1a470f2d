"""Which stored series are which node's: the host labels of a dcgm-exporter's samples, and Slurm's names."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from slurm_ofu.counters.dcgm_fields import FIELDS
from slurm_ofu.counters.prometheus import Prometheus, selector_of

DAY_SECONDS = 86_400
#: Until dcgm-exporter 4.5, from 4.6 on, and Prometheus's own of the target; the last where there is no other.
_HOST_LABELS = ("Hostname", "hostname")
_TARGET_LABEL = "instance"


@dataclass(frozen=True, slots=True)
class _Named:
    label: str
    value: str
    host: str


class NodeSelectors:
    """The selectors of each node's series, day by day: labels change as exporters are upgraded."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._days: dict[int, dict[str, list[_Named]]] = {}
        self._latest: dict[str, list[_Named]] = {}

    def of(self, node_name: str, start_epoch_s: int, end_epoch_s: int) -> tuple[str, ...]:
        """The selectors of a node's series within one UTC day. (): nothing is stored of it."""
        day = start_epoch_s // DAY_SECONDS
        if day not in self._days:
            found = self._read(day)
            if found != self._latest:
                self._latest = found
            self._days[day] = self._latest  # as a rule one for all days of a year
        named = self._days[day].get(_short(node_name), [])
        exact = [one for one in named if one.host == node_name.lower()]
        if not exact and len({one.host for one in named}) > 1:
            return ()  # hosts of several domains by one name
        chosen = exact or named
        published = [one for one in chosen if one.label != _TARGET_LABEL]
        return tuple(selector_of(FIELDS, **{one.label: one.value}) for one in published or chosen)

    def _read(self, day: int) -> dict[str, list[_Named]]:
        found: dict[str, list[_Named]] = {}
        for label in (*_HOST_LABELS, _TARGET_LABEL):
            for value in self._prometheus.label_values(
                label, selector_of(FIELDS), day * DAY_SECONDS, (day + 1) * DAY_SECONDS
            ):
                host = _host(value) if label == _TARGET_LABEL else value.lower()
                if host:
                    found.setdefault(_short(host), []).append(_Named(label, value, host))
        return found


def grid(stretches: Iterator[tuple[int, int]], longest_seconds: int) -> Iterator[tuple[int, int]]:
    """Cut stretches of time at the multiples of a length: the same pieces whoever asks."""
    for start, end in stretches:
        at = start
        while at < end:
            following = min(end, (at // longest_seconds + 1) * longest_seconds)
            yield at, following
            at = following


def _host(instance: str) -> str:
    """The host of ``host:port``."""
    host, colon, port = instance.rpartition(":")
    return (host if colon and port.isdecimal() else instance).strip("[]").lower()


def _short(name: str) -> str:
    """A host's name without its domain; an address stays as it is."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().partition(".")[0]
    return name
