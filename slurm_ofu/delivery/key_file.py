"""The key file of a site without munge: lines of ``name secret``. The first signs, every one is accepted.

So keys are changed one host at a time: add the new one at the end on the collector, then put it first on
the nodes, then take the old one out on the collector.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from slurm_ofu.delivery.files import read_regular, write_whole
from slurm_ofu.errors import ConfigError, DeliveryError, RecordError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")
_LEAST_SECRET = 32  # characters
_SECRET_BYTES = 32
_HEAD = "# slurm-ofu: name secret. The first line signs, every line is accepted.\n"


def read_keys(path: Path, owner_id: int | None = None) -> Mapping[str, bytes]:
    """Name → secret, in the file's order. Raises DeliveryError for a file that others could have read,
    or that is not what it must be; no message holds a secret. ``owner_id``: whose it may be, besides
    root's and this user's."""

    def check(found: os.stat_result) -> None:
        if problem := _problem(found, owner_id):
            raise DeliveryError(f"{path}: {problem}")

    try:
        text = read_regular(path, check=check).decode("ascii")
    except FileNotFoundError:
        raise DeliveryError(f"{path}: no such key file: make one with ofu-admin new-key") from None
    except OSError as error:
        raise DeliveryError(f"{path}: the key file cannot be read: {error.strerror}") from error
    except RecordError as error:
        raise DeliveryError(f"{path}: the key file is {error}") from error
    except UnicodeDecodeError as error:
        raise DeliveryError(f"{path}: is no key file") from error
    return _parsed(text, path)


def add_key(path: Path, name: str, owner_id: int | None = None) -> str:
    """Make a key file, or add a line to one; what is in it stays. Says what it did. Raises ConfigError,
    DeliveryError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: a key's name is of letters, digits, dots and hyphens, 40 at most")
    line = f"{name} {secrets.token_urlsafe(_SECRET_BYTES)}\n"
    if not (path.exists() or path.is_symlink()):
        _write(path, _HEAD + line, owner_id)
        return f"wrote {path} with the key {name}: copy it, mode 0600, to every host that signs with it"
    keys = read_keys(path, owner_id)
    if name in keys:
        raise ConfigError(f"{path}: has a key {name} already, which stays: choose another name")
    before = path.read_text(encoding="ascii")
    _write(path, before + ("" if before.endswith("\n") else "\n") + line, path.stat().st_uid)
    return (
        f"added the key {name} to {path}: it is accepted here from now on, and {next(iter(keys))} still"
        " signs; put it first in the nodes' files, then take the old one out"
    )


def _write(path: Path, text: str, owner_id: int | None) -> None:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(path, text.encode("ascii"), sync=True, mode=0o600, owner_id=owner_id)
    except OSError as error:
        raise ConfigError(f"{path}: the key file cannot be written: {error.strerror}") from error


def _problem(found: os.stat_result, owner_id: int | None) -> str | None:
    if found.st_mode & 0o077:
        return "others may use the key file: make new keys, and chmod 0600"
    if found.st_uid not in (0, os.geteuid(), owner_id):
        return f"the key file belongs to user id {found.st_uid}: it must be root's, or of who reads it"
    return None


def _parsed(text: str, path: Path) -> Mapping[str, bytes]:
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        good = len(words) == 2 and _NAME.fullmatch(words[0]) and len(words[1]) >= _LEAST_SECRET
        if not good or words[0] in keys:
            raise DeliveryError(
                f"{path}: line {number} is not `name secret` with a name of its own and a secret of at least"
                f" {_LEAST_SECRET} characters: make keys with ofu-admin new-key"
            )
        keys[words[0]] = words[1].encode("ascii")
    if not keys:
        raise DeliveryError(f"{path}: has no key: make one with ofu-admin new-key")
    return keys
