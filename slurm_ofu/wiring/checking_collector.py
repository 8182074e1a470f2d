"""The way to the collector: whether this node can sign, and whether the collector takes what it signs."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slurm_ofu.errors import DeliveryError, RecordRefused
from slurm_ofu.slurm.conf_lines import slurm_conf_settings
from slurm_ofu.values import Config
from slurm_ofu.wiring.delivering import open_http_delivery
from slurm_ofu.wiring.findings import Finding, bad, note, ok
from slurm_ofu.wiring.gpus import DEFAULT_SLURM_CONF

#: Longer than this no person waits.
WAIT_SECONDS = 5.0
NO_CLUSTER = "unknown"  # what records say where Slurm says none


def check_collector(config: Config) -> Iterator[Finding]:
    """Signing, then the collector's own word, then a message without records, as the hooks would send it."""
    url, how = config.delivery_to, config.delivery_signing.authentication
    try:
        delivery = open_http_delivery(
            replace(config, delivery_wait_seconds=min(WAIT_SECONDS, config.delivery_wait_seconds))
        )
        delivery.signing.sign(b"")
    except DeliveryError as error:
        yield bad("signing", str(error))
        return
    yield ok("signing", how)
    try:
        status = str(delivery.health().get("status"))
    except DeliveryError as error:
        yield bad("delivery", f"{error}: does `ofu-admin collect` run there, and may this host reach it?")
        return
    if status != "ok":
        yield note("delivery", f"{url}: the collector is {status}: records wait here until it is not")
        return
    if how == "munge" and os.geteuid() != 0:
        yield note("delivery", f"{url} answers; run as root to see whether it takes this node's messages")
        return
    cluster = _cluster(config)
    try:
        delivery.hand_on(cluster, ())
    except (DeliveryError, RecordRefused) as error:
        yield bad("delivery", f"{error} (this node's cluster: {cluster})")
        return
    yield ok("delivery", f"{url} takes the messages of cluster {cluster}")


def _cluster(config: Config) -> str:
    """What this node's records will say."""
    if config.cluster_name:
        return config.cluster_name
    conf = config.accounting.slurm_conf or os.environ.get("SLURM_CONF") or DEFAULT_SLURM_CONF
    try:
        return slurm_conf_settings(Path(conf)).get("clustername") or NO_CLUSTER
    except (OSError, ValueError):
        return NO_CLUSTER
