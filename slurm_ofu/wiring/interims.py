"""How a run fares that goes on: its interim record, made of the sampler's checkpoint, and handed on once.

Nothing of it is kept on the node. One that cannot be handed on is missing until the next, which says all that
it said, so nothing piles up while a collector is away, and no final record ever waits behind one.
"""

from dataclasses import replace

from slurm_ofu.delivery.attempts import Attempts
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.records.codec import encode
from slurm_ofu.values import Config, NodeRecord
from slurm_ofu.wiring.delivering import is_remote, open_delivery
from slurm_ofu.wiring.finishing import assemble, read_facts, saved_checkpoint


def interim_record(spool: Spool, tag: str, config: Config) -> NodeRecord | None:
    """The record of a run as of its sampler's last checkpoint; ``None``: it is over, or nothing is known yet.

    All of it ends with the checkpoint: what was measured, and what was allocated.
    """
    checkpoint, prolog = saved_checkpoint(spool, tag), read_facts(spool, tag, "prolog")
    if checkpoint is None or prolog is None:
        return None
    # The sampler goes on: for its sums this is as good as an end.
    record, _ = assemble(spool, tag, config, checkpoint=replace(checkpoint, ended=True), prolog=prolog)
    return None if _is_over(spool, tag) else replace(record, interim=True)


def publish_interim(spool: Spool, tag: str, config: Config) -> None:
    """Hand on a run's interim record. Raises OfuError where it cannot be, RecordRefused where it never can.

    A collector that did not answer is left alone for a while, as by everybody on this node.
    """
    attempts = Attempts(spool.directory / "attempts") if is_remote(config) else None
    if attempts is not None and not attempts.due():
        return
    record = interim_record(spool, tag, config)
    if record is None:
        return
    open_delivery(config).send([(record, encode(record))])
    if attempts is not None:
        attempts.succeeded()


def _is_over(spool: Spool, tag: str) -> bool:
    """Whether the end of a run was told meanwhile: then its final record is on its way."""
    return spool.has_ended(tag) or tag not in spool.tags()
