"""How the configuration says that messages are signed: on a node, and by the collector."""

from collections.abc import Callable, Collection
from pathlib import Path

from slurm_ofu.delivery.signing import Signing
from slurm_ofu.errors import ConfigError
from slurm_ofu.values import Config, SigningConfig
from slurm_ofu.wiring.delivering import owner_id

_ROOT = 0


def node_signing(config: Config) -> Signing:
    """A node's: messages that the collector's user alone can read, answers of that user or of root."""
    try:
        collector = owner_id(config)
    except ConfigError:  # a user whom only the collector's host knows: it cannot be told from others here
        collector = None
    trusted = {_ROOT} if collector is None else {_ROOT, collector}
    return _signing(config.delivery_signing, trusted, reader_id=collector or _ROOT, owner_id=collector)


def collector_signing(config: Config) -> Callable[[str], Signing | None]:
    """The collector's, for each cluster that it serves; messages of that cluster's root."""
    settings, owner = config.collector, owner_id(config)
    if not settings.clusters:
        everybody = _signing(settings.signing, {_ROOT}, reader_id=None, owner_id=owner)
        return lambda cluster: everybody
    realms = {
        cluster.name: _signing(cluster.signing, {_ROOT}, reader_id=None, owner_id=owner)
        for cluster in settings.clusters
    }
    return realms.get


def _signing(
    settings: SigningConfig, trusted: Collection[int], *, reader_id: int | None, owner_id: int | None
) -> Signing:
    if settings.authentication == "key":
        from slurm_ofu.delivery.key_signing import KeySigning  # OpenSSL, only where it is used

        return KeySigning(Path(settings.key_file), owner_id=owner_id)
    from slurm_ofu.delivery.munge_signing import MungeSigning

    return MungeSigning(trusted_user_ids=trusted, reader_user_id=reader_id, socket=settings.munge_socket)
