"""The spool, the way of the records, and the accounting database where it is on this host."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from slurm_ofu.config import url_path
from slurm_ofu.delivery.directory import ITS_OWN, directory_problem
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import StoreBusy, StoreError
from slurm_ofu.store.filesystems import network_filesystem
from slurm_ofu.store.migrate import condition
from slurm_ofu.values import Config
from slurm_ofu.wiring.checking_collector import check_collector
from slurm_ofu.wiring.database import out_of_reach
from slurm_ofu.wiring.delivering import group_exists, is_remote, owner_id
from slurm_ofu.wiring.findings import Finding, bad, note, ok


def check_spool(config: Config) -> Iterator[Finding]:
    """The spool's place and rights, and what is in it."""
    directory = Path(config.spool_dir)
    try:
        found = directory.stat()
    except FileNotFoundError as error:
        yield bad("spool", f"{directory}: {error.strerror}; run ofu-node install")
        return
    if kind := network_filesystem(directory):
        yield bad("spool", f"{directory}: lies on {kind}: use a local disk")
    if stat.S_IMODE(found.st_mode) & 0o022:
        yield bad("spool", f"{directory}: others can write to it: {ITS_OWN}")
        return
    spool = Spool(directory)
    waiting, runs = len(spool.waiting()), len(spool.tags())
    free = os.statvfs(directory)
    text = (
        f"{directory}: {runs} runs, {waiting} records waiting, {free.f_bavail * free.f_frsize >> 20} MiB free"
    )
    yield ok("spool", text) if os.access(directory, os.W_OK) else bad("spool", f"{text}: not writable")
    if rejected := spool.rejected():
        yield bad(
            "rejected",
            f"{len(rejected)} records that their receiver refused, {rejected[0]} is the first: upgrade"
            " the receiver and rename them back to .record, or report them",
        )


def check_delivery(config: Config) -> Iterator[Finding]:
    """Whether records can be handed on."""
    if is_remote(config):
        yield from check_collector(config)
        return
    path = url_path(config.delivery_to)
    if config.delivery_to.startswith("dir:"):
        problem = directory_problem(path, owner_id(config))
        yield bad("delivery", problem) if problem else ok("delivery", config.delivery_to)
        return
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if kind := network_filesystem(nearest):
        text = f"{path}: lies on {kind}, where several nodes must not write SQLite: use dir:/// instead"
        yield bad("delivery", text)
    elif not os.access(nearest, os.W_OK):
        yield bad("delivery", f"{nearest}: is not writable for this user: run as root")
    else:
        yield ok("delivery", config.delivery_to)
    if path != url_path(config.database):
        text = f"records go to {path}, but ofu-report reads {url_path(config.database)}: [delivery] to and"
        yield bad("delivery", f"{text} [database] url must be the same")


def check_database(config: Config) -> Iterator[Finding]:
    """The database itself, where it is here, and whether its readers can get to it."""
    group = config.database_group
    if group is not None and not group_exists(group):
        text = f"group {group} does not exist: only the owner can read; see ofu-admin init -h"
        yield note("database", text)
    here = [config.database]
    if config.delivery_to.startswith("sqlite:"):
        here.insert(0, config.delivery_to)
    for path in dict.fromkeys(map(url_path, here)):
        if path.exists():
            yield _condition(path)
    path = url_path(config.database)
    if path.parent.exists() and (problem := out_of_reach(config)):
        yield note("database", problem)


def _condition(path: Path) -> Finding:
    try:
        return ok("database", condition(path))
    except StoreBusy as error:
        return note("database", str(error))
    except StoreError as error:
        return bad("database", str(error))
