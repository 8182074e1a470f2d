"""Signed with a key that both sides have in a file, for a site without munge: HMAC-SHA256.

    slurm-ofu key 1 NAME TIME NONCE MAC
    …the payload…

The MAC is of everything else. Unlike munge this hides nothing: without TLS in front of the collector
who sees the network sees the records.
"""

import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slurm_ofu.delivery.key_file import read_keys
from slurm_ofu.errors import MessageRefused

_KIND = b"slurm-ofu key 1 "
_HEAD = re.compile(
    rb"(?P<head>"
    + _KIND
    + rb"(?P<name>[A-Za-z0-9._-]{1,40}) (?P<epoch>[0-9]{1,12}) (?P<nonce>[0-9a-f]{32}) )"
    rb"(?P<mac>[0-9a-f]{64})\n"
)
LIFETIME_SECONDS = 300


class KeySigning:
    """Signs with the first key of a file, takes what any key of it signed. The file is read each time:
    a changed one needs no restart. ``owner_id``: whose it may be, besides root's and this user's."""

    def __init__(
        self, key_file: Path, *, owner_id: int | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.key_file = key_file
        self.owner_id = owner_id
        self._now = now
        self._seen: dict[bytes, float] = {}  # nonce → when it is too old anyway
        self._lock = threading.Lock()

    def sign(self, payload: bytes) -> bytes:
        """An envelope around the payload."""
        name, secret = next(iter(read_keys(self.key_file, self.owner_id).items()))
        head = _KIND + f"{name} {int(self._now())} {secrets.token_hex(16)} ".encode("ascii")
        return head + _mac(secret, head, payload) + b"\n" + payload

    def verify(self, envelope: bytes) -> bytes:
        """The payload of an envelope that somebody with one of the keys made, now and not before."""
        found = _HEAD.match(envelope)
        if found is None:
            raise _bad("it is not signed with a key: is authentication the same on both hosts?")
        name, payload = found["name"].decode("ascii"), envelope[found.end() :]
        secret = read_keys(self.key_file, self.owner_id).get(name)
        if secret is None:
            raise _bad("it is signed with a key that is not in this host's key file")
        if not hmac.compare_digest(_mac(secret, found["head"], payload), found["mac"]):
            raise _bad(f"it is not signed with the key {name} as this host has it, or was changed on its way")
        self._check_time(int(found["epoch"]))
        self._check_new(found["nonce"])
        return payload

    def _check_time(self, epoch_s: int) -> None:
        ahead = epoch_s - self._now()
        if abs(ahead) > LIFETIME_SECONDS:
            code, way = ("rewound", "ahead of") if ahead > 0 else ("expired", "behind")
            raise MessageRefused(
                f"its time is {abs(ahead):.0f} s {way} this host's: set the clock of its sender, or of this"
                " host (or it was under way for that long)",
                code=code,
            )

    def _check_new(self, nonce: bytes) -> None:
        now = self._now()
        with self._lock:
            while self._seen and next(iter(self._seen.values())) < now:  # the oldest stand first
                del self._seen[next(iter(self._seen))]
            if nonce in self._seen:
                raise MessageRefused(
                    "it was received before; what is sent again must be signed again", code="replayed"
                )
            self._seen[nonce] = now + 2 * LIFETIME_SECONDS


def _mac(secret: bytes, head: bytes, payload: bytes) -> bytes:
    return hmac.new(secret, head + payload, "sha256").hexdigest().encode("ascii")


def _bad(why: str) -> MessageRefused:
    return MessageRefused(why, code="bad_credential")
