"""Where the configuration says records go, and the outbox emptied into it."""

import contextlib
import grp
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_ofu.config import url_path
from slurm_ofu.delivery.attempts import Attempts
from slurm_ofu.delivery.directory import DirectoryDelivery
from slurm_ofu.delivery.files import read_regular
from slurm_ofu.delivery.spool import REJECTED, Spool
from slurm_ofu.errors import (
    ConfigError,
    DeliveryError,
    OfuError,
    RecordError,
    RecordRefused,
    RecordTooNew,
    StoreError,
)
from slurm_ofu.protocols import Delivery
from slurm_ofu.records.codec import decode
from slurm_ofu.slurm.claim import claim_of
from slurm_ofu.slurm.hostlists import expand
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import Config, NodeRecord
from slurm_ofu.wiring.finishing import assemble, finish_run, is_known
from slurm_ofu.wiring.host import boot_epoch_s

if TYPE_CHECKING:
    from slurm_ofu.delivery.sending import HttpDelivery

BATCH = 100
BOOT_SLACK_SECONDS = 60.0  # the wall clock may have been set since


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDelivery:
    """Records straight into a database on this host."""

    store: SqliteStore

    def send(self, records: Sequence[tuple[NodeRecord, bytes]]) -> None:
        """Store the records, all of them or none."""
        try:
            self.store.write([record for record, _ in records])
        except RecordRefused:
            raise
        except StoreError as error:
            raise DeliveryError(str(error)) from error


def group_exists(name: str | None) -> bool:
    """Whether the readers' group is there. Without it a new database is its owner's alone until
    `ofu-admin init`: records are stored all the same."""
    if name is None:
        return False
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def owner_id(config: Config) -> int | None:
    """The user id of the database's service user; ``None`` where none is configured. Raises ConfigError."""
    if config.database_owner is None:
        return None
    try:
        return pwd.getpwnam(config.database_owner).pw_uid
    except KeyError:
        raise ConfigError(
            f"{config.path}: [database] owner = {config.database_owner!r}: there is no such user"
        ) from None


def open_store(config: Config) -> SqliteStore:
    """The accounting database that ``[database] url`` names."""
    return _sqlite(config.database, config)


def _sqlite(url: str, config: Config) -> SqliteStore:
    return SqliteStore(
        url_path(url),
        group=config.database_group if group_exists(config.database_group) else None,
        world_readable=config.database_world_readable,
        wait_seconds=config.delivery_wait_seconds,
        expand_hostlist=expand,
        claim_of=partial(claim_of, source="accounting"),
    )


def is_remote(config: Config) -> bool:
    """Whether records go to a collector over the network."""
    return config.delivery_to.startswith(("http:", "https:"))


def open_delivery(config: Config) -> Delivery:
    """What ``[delivery] to`` names. Raises DeliveryError where this installation cannot do it."""
    if is_remote(config):
        return open_http_delivery(config)
    if config.delivery_to.startswith("dir:"):
        return DirectoryDelivery(url_path(config.delivery_to), owner_id(config))
    return StoreDelivery(store=_sqlite(config.delivery_to, config))


def open_http_delivery(config: Config) -> "HttpDelivery":
    """The way to the collector. What it needs is loaded only here: other nodes never pay for it."""
    try:
        from slurm_ofu.delivery.sending import HttpDelivery
        from slurm_ofu.wiring.signing import node_signing
    except ImportError as error:
        raise DeliveryError(f"{config.delivery_to}: {error}: install slurm-ofu again, whole") from error
    return HttpDelivery(
        config.delivery_to,
        signing=node_signing(config),
        wait_seconds=config.delivery_wait_seconds,
        ca_file=config.delivery_ca_file,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What came of one attempt. ``problems``: what went wrong, for a log."""

    finished: int
    sent: int
    left: int
    problems: tuple[str, ...]


def finish_ended_runs(spool: Spool, config: Config, boot_id: str) -> tuple[int, tuple[str, ...]]:
    """Records for every run that ended without its sampler, and for those of another boot."""
    finished, problems = 0, []
    for tag in spool.tags():
        if not (spool.has_ended(tag) or _of_another_boot(spool, tag, boot_id)):
            continue
        with spool.hold(tag) as alone:
            # Whoever held it a moment ago may have finished it.
            if not alone or tag not in spool.tags():
                continue
            if not is_known(spool, tag, boot_epoch_s()):
                spool.forget(tag)
                problems.append(
                    f"{tag}: forgotten: no hook left a word of it, and its name is of no run here"
                )
                continue
            try:
                if spool.has_record(tag):  # whoever made it died before the mark
                    spool.mark_done(tag, assemble(spool, tag, config)[1])
                else:
                    finish_run(spool, tag, config)
                finished += 1
            except (OfuError, OSError, ValueError, TypeError, KeyError) as error:
                problems.append(f"{tag}: no record yet: {error}")  # and the other runs go on
    with contextlib.suppress(OSError):
        spool.forget_old()
    return finished, tuple(problems)


def _of_another_boot(spool: Spool, tag: str, boot_id: str) -> bool:
    found = spool.facts(tag, "prolog")
    if found is None:
        return False
    if not found[0].startswith(b"OFU1 "):  # left by a full disk: only its time tells
        return found[1] < boot_epoch_s() - BOOT_SLACK_SECONDS
    return found[0].split(b" ", 2)[1].decode("ascii", "replace") != boot_id


def deliver(
    spool: Spool, config: Config, paths: Sequence[Path] | None = None, *, at_once: bool = False
) -> Delivered:
    """Hand on what is in the outbox (or only ``paths``); what cannot be handed on stays there.

    After a collector did not answer it is left alone for a while, unless ``at_once``: a node ends many
    jobs, and there are many nodes.
    """
    waiting = spool.waiting() if paths is None else tuple(paths)
    attempts = Attempts(spool.directory / "attempts") if is_remote(config) else None
    sent, problems = 0, list[str]()
    if waiting and (at_once or attempts is None or attempts.due()):
        try:
            delivery = open_delivery(config)
            for begin in range(0, len(waiting), BATCH):
                batch = [item for path in waiting[begin : begin + BATCH] if (item := _read(path, problems))]
                sent += _send(delivery, batch, problems)
            if attempts is not None:
                attempts.succeeded()
        except DeliveryError as error:
            problems.append(str(error))
            if attempts is not None:
                attempts.failed()
    left = len(spool.waiting() if paths is None else [path for path in waiting if path.exists()])
    return Delivered(finished=0, sent=sent, left=left, problems=tuple(problems))


def _read(path: Path, problems: list[str]) -> tuple[Path, NodeRecord, bytes] | None:
    try:
        data = read_regular(path)
        return path, decode(data), data
    except FileNotFoundError:
        return None  # somebody else delivered it
    except (OSError, RecordTooNew) as error:
        problems.append(f"{path.name}: {error}")  # another time, or another version, may read it
        return None
    except RecordError as error:
        _set_aside(path, f"{path.name}: {error}", problems)
        return None


def _send(delivery: Delivery, batch: Sequence[tuple[Path, NodeRecord, bytes]], problems: list[str]) -> int:
    """Hand on a batch. One record that the receiver never takes is looked for by halves, and does not hold
    up the others."""
    if not batch:
        return 0
    try:
        delivery.send([(record, data) for _, record, data in batch])
    except RecordRefused as error:
        if len(batch) > 1:
            middle = len(batch) // 2
            return sum(_send(delivery, half, problems) for half in (batch[:middle], batch[middle:]))
        _set_aside(batch[0][0], str(error), problems)
        return 0
    for path, _, _ in batch:
        path.unlink(missing_ok=True)
    return len(batch)


def _set_aside(path: Path, why: str, problems: list[str]) -> None:
    """Keep what cannot be delivered where a person finds it and no attempt does."""
    aside = path.with_suffix(REJECTED)
    problems.append(f"{why}; kept as {aside}")
    with contextlib.suppress(OSError):
        path.replace(aside)
