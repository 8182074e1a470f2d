"""Signed by a real munge."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ofu.delivery.message import LIMIT_BYTES
from slurm_ofu.delivery.munge_signing import MungeSigning
from slurm_ofu.delivery.receiving import ENVELOPE_LIMIT
from slurm_ofu.errors import DeliveryError, MessageRefused
from tests.delivery.munged import NOBODY, Munged, new_key, require
from tests.services.processes import poll

PAYLOAD = b"slurm-ofu \0\n\n payload"


@pytest.fixture
def signing(munged: Munged) -> MungeSigning:
    return MungeSigning(socket=str(munged.socket))


@pytest.fixture(scope="module")
def clocks(munge_key: bytes) -> Iterator[dict[str, Munged]]:
    """munged with the same key and clocks that are an hour off."""
    require("faketime")
    daemons = {clock: Munged(munge_key, clock) for clock in ("-1h", "+1h")}
    yield daemons
    for daemon in daemons.values():
        daemon.close()


def made(munged: Munged, *options: str, user: int = 0, payload: bytes = PAYLOAD) -> bytes:
    """What the munge program makes for a user."""
    command = ["/usr/bin/munge", f"--socket={munged.socket}", *options]
    done = subprocess.run(command, input=payload, capture_output=True, check=True, user=user, extra_groups=[])
    return done.stdout


def refusal(signing: MungeSigning, envelope: bytes) -> MessageRefused:
    with pytest.raises(MessageRefused) as refused:
        signing.verify(envelope)
    return refused.value


@pytest.mark.parametrize("payload", [PAYLOAD, b"\n\n", b"x" * LIMIT_BYTES, bytes(range(256))])
def test_root_is_believed(signing: MungeSigning, payload: bytes) -> None:
    """What root signed comes back, byte for byte, also the largest message."""
    envelope = signing.sign(payload)
    assert payload == signing.verify(envelope)
    assert len(envelope) < ENVELOPE_LIMIT


def test_nobody_else_is_believed(signing: MungeSigning, munged: Munged) -> None:
    """A credential of any other user is not root's word, and says whose it is."""
    refused = refusal(signing, made(munged, user=NOBODY))
    assert "not_root" == refused.code
    assert f"user id {NOBODY}" in str(refused)


def test_others_are_believed_where_it_is_asked_for(munged: Munged) -> None:
    """A service user's answers are believed by who names that user, and by nobody else."""
    trusting = MungeSigning(socket=str(munged.socket), trusted_user_ids=(0, NOBODY))
    assert PAYLOAD == trusting.verify(made(munged, user=NOBODY))
    other = refusal(MungeSigning(socket=str(munged.socket), trusted_user_ids=(0, 12)), made(munged, user=7))
    assert ("not_root", True) == (other.code, "root or user id 12" in str(other))


def test_once_only(signing: MungeSigning) -> None:
    """The same credential is believed once; a new one of the same bytes again."""
    envelope = signing.sign(PAYLOAD)
    signing.verify(envelope)
    assert ["replayed", "replayed"] == [refusal(signing, envelope).code for _ in range(2)]
    assert PAYLOAD == signing.verify(signing.sign(PAYLOAD))


def test_an_old_credential_has_expired(signing: MungeSigning, munged: Munged) -> None:
    """A credential past its time is refused, and how far past is said."""
    envelopes = iter([made(munged, "--ttl=1") for _ in range(200)])

    def expired() -> MessageRefused | None:
        try:
            signing.verify(next(envelopes))
        except MessageRefused as refused:
            return refused
        return None

    refused = poll(expired, 30, "a credential to expire", interval=0.2)
    assert refused is not None
    assert "expired" == refused.code
    assert "s behind this host's: set the clock" in str(refused)


@pytest.mark.parametrize(
    ("clock", "code", "way"), [("-1h", "expired", "behind"), ("+1h", "rewound", "ahead of")]
)
def test_a_clock_that_is_off(
    signing: MungeSigning, clocks: dict[str, Munged], clock: str, code: str, way: str
) -> None:
    """A node whose clock is an hour off is told so, in seconds and with the direction."""
    refused = refusal(signing, made(clocks[clock]))
    assert code == refused.code
    (seconds,) = (int(word) for word in str(refused).split() if word.isdecimal())
    assert 3590 <= seconds <= 3700
    assert way in str(refused)


def test_another_clusters_root_is_not_believed(signing: MungeSigning) -> None:
    """A credential made with another munge key is refused, and the key is what is asked about."""
    foreign = Munged(new_key())
    try:
        refused = refusal(signing, made(foreign))
    finally:
        foreign.close()
    assert ("bad_credential", True) == (refused.code, "munge key the same" in str(refused))


def test_a_changed_credential_is_refused(signing: MungeSigning) -> None:
    """Whatever letter of a credential is changed, it is refused."""
    envelope = bytearray(signing.sign(PAYLOAD))
    for place in range(6, len(envelope) - 1, 7):
        changed = envelope.copy()
        changed[place] = ord("B") if changed[place] == ord("A") else ord("A")
        assert refusal(signing, bytes(changed)).code in ("bad_credential", "malformed")


NO_CREDENTIALS = [
    b"", b"MUNGE:", b"MUNGE::", b"MUNGE:AAAA:", b"\0\xff" * 99, b"GET / HTTP/1.1", b"slurm-ofu key 1 ",
    b"MUNGE:" + b"A" * 900_000 + b":",
]  # fmt: skip


@pytest.mark.parametrize("envelope", NO_CREDENTIALS, ids=lambda value: repr(value)[:20])
def test_what_is_no_credential(signing: MungeSigning, envelope: bytes) -> None:
    """Anything else is refused as a bad credential, not as a fault of this host."""
    assert "bad_credential" == refusal(signing, envelope).code


def test_only_its_reader_reads_it(munged: Munged, signing: MungeSigning) -> None:
    """A message for one user cannot be read by another, root included, and the refusal says what to do."""
    for_root = MungeSigning(socket=str(munged.socket), reader_user_id=0).sign(PAYLOAD)
    command = ["/usr/bin/unmunge", f"--socket={munged.socket}"]
    done = subprocess.run(
        command, input=for_root, capture_output=True, check=False, user=NOBODY, extra_groups=[]
    )
    assert (18, b"") == (done.returncode, done.stdout)
    assert PAYLOAD == signing.verify(for_root)
    for_nobody = MungeSigning(socket=str(munged.socket), reader_user_id=NOBODY).sign(PAYLOAD)
    refused = refusal(signing, for_nobody)
    assert ("wrong_user", True) == (refused.code, "[database] owner" in str(refused))


def test_without_munged_nothing_is_anybodys_fault(tmp_path: Path, munged: Munged) -> None:
    """Where munged does not answer, neither is the message bad nor is it signed: another time it may be."""
    absent = MungeSigning(socket=str(tmp_path / "none"))
    with pytest.raises(DeliveryError, match="Did you start munged"):
        absent.sign(PAYLOAD)
    with pytest.raises(DeliveryError, match="cannot verify on this host") as failed:
        absent.verify(made(munged))
    assert not isinstance(failed.value, MessageRefused)


def fake(folder: Path, text: str) -> str:
    """A directory with a munge and an unmunge of our own."""
    for name in ("munge", "unmunge"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exec sleep 60", "took longer than 0.5 s"),
        ("cat >/dev/null; echo STATUS: 0; echo UID: 0; echo; echo hello", "says something"),
        ("cat >/dev/null; exit 7", "it said nothing"),
        ("cat >/dev/null; echo 'unmunge: Error: Out of order' >&2; exit 1", "host: Out of order"),
    ],
)
def test_a_munge_that_fails(tmp_path: Path, text: str, said: str) -> None:
    """Programs that hang, fail or say something else are a fault of this host."""
    signing = MungeSigning(bin_dir=fake(tmp_path, text), limit_seconds=0.5)
    with pytest.raises(DeliveryError, match=said) as failed:
        signing.verify(b"MUNGE:AAAA:")
    assert not isinstance(failed.value, MessageRefused)


def test_no_munge_at_all(tmp_path: Path) -> None:
    """A host without munge is told to install it, or to sign otherwise."""
    with pytest.raises(DeliveryError, match="install munge, or set authentication"):
        MungeSigning(bin_dir=str(tmp_path)).sign(PAYLOAD)
