"""Signed with a key of our own."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.delivery.key_file import add_key, read_keys
from slurm_ofu.delivery.key_signing import LIFETIME_SECONDS, KeySigning
from slurm_ofu.errors import ConfigError, DeliveryError, MessageRefused

PAYLOAD = b"slurm-ofu \0\n\n payload"
NOW = 1_764_424_800.0
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "delivery.key"
    add_key(path, "first")
    return path


@pytest.fixture
def signing(key_file: Path) -> KeySigning:
    return KeySigning(key_file)


def code_of(signing: KeySigning, envelope: bytes) -> str:
    with pytest.raises(MessageRefused) as refused:
        signing.verify(envelope)
    return refused.value.code


def test_what_was_signed_is_believed_once(signing: KeySigning, key_file: Path) -> None:
    """What somebody with the key signed comes back, once, also between two processes."""
    envelope = signing.sign(PAYLOAD)
    other = KeySigning(key_file)
    assert PAYLOAD == other.verify(envelope)
    assert "replayed" == code_of(other, envelope)
    assert PAYLOAD == other.verify(signing.sign(PAYLOAD))


@pytest.mark.property
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=500))
def test_any_bytes_come_back(signing: KeySigning, payload: bytes) -> None:
    """Any bytes can be signed."""
    assert payload == signing.verify(signing.sign(payload))


@pytest.mark.property
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=50), st.data())
def test_any_change_is_noticed(signing: KeySigning, payload: bytes, data: st.DataObject) -> None:
    """Whatever bit of an envelope is changed, it is refused."""
    envelope = bytearray(signing.sign(payload))
    place = data.draw(st.integers(0, len(envelope) - 1))
    envelope[place] ^= 1 << data.draw(st.integers(0, 7))
    assert "bad_credential" == code_of(signing, bytes(envelope))


@pytest.mark.parametrize(
    "envelope", [b"", b"MUNGE:AAAA:", b"slurm-ofu key 1 ", b"slurm-ofu key 1 a b c d\n", b"x" * 9999]
)
def test_what_is_no_envelope(signing: KeySigning, envelope: bytes) -> None:
    """Anything else is refused."""
    assert "bad_credential" == code_of(signing, envelope)


OFF: list[tuple[float, str | None]] = [
    (0, None),
    (LIFETIME_SECONDS - 1, None),
    (1 - LIFETIME_SECONDS, None),
    (LIFETIME_SECONDS + 2, "rewound"),
    (-LIFETIME_SECONDS - 2, "expired"),
    (3600, "rewound"),
]


@pytest.mark.parametrize(("off", "code"), OFF)
def test_clocks_may_differ_by_minutes(key_file: Path, off: float, code: str | None) -> None:
    """Five minutes between two clocks are taken, more are not, and the direction is told."""
    envelope = KeySigning(key_file, now=lambda: NOW + off).sign(PAYLOAD)
    here = KeySigning(key_file, now=lambda: NOW)
    if code is None:
        assert PAYLOAD == here.verify(envelope)
    else:
        assert code == code_of(here, envelope)


def test_what_is_too_old_need_not_be_remembered(key_file: Path) -> None:
    """Nonces are forgotten once their envelopes have expired, and not before."""
    time = [NOW]
    signing = KeySigning(key_file, now=lambda: time[0])
    envelopes = []
    for _ in range(5):
        envelopes.append(signing.sign(PAYLOAD))
        signing.verify(envelopes[-1])
        time[0] += LIFETIME_SECONDS - 10
    assert ["expired"] * 3 + ["replayed"] == [
        code_of(signing, each) for each in (*envelopes[:3], envelopes[4])
    ]
    assert len(signing._seen) < 5


def test_replays_at_once(signing: KeySigning) -> None:
    """Of many threads with the same envelope one is believed."""
    envelope, believed = signing.sign(PAYLOAD), []

    def verify() -> None:
        try:
            believed.append(signing.verify(envelope))
        except MessageRefused as refused:
            assert "replayed" == refused.code

    threads = [threading.Thread(target=verify) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [PAYLOAD] == believed


def test_keys_are_changed_one_host_at_a_time(key_file: Path, tmp_path: Path) -> None:
    """A key that is added is accepted at once and signs when it stands first; taken out, it is refused."""
    collector, node_file = KeySigning(key_file), tmp_path / "node.key"
    node_file.write_bytes(key_file.read_bytes())
    node_file.chmod(0o600)
    node = KeySigning(node_file)
    assert "still signs" in add_key(key_file, "second")
    assert ["first", "second"] == list(read_keys(key_file))
    assert b" first " in collector.sign(PAYLOAD)
    assert PAYLOAD == collector.verify(node.sign(PAYLOAD))
    old, new = (line for line in key_file.read_text().splitlines() if not line.startswith("#"))
    node_file.write_text(f"{new}\n{old}\n")
    assert PAYLOAD == collector.verify(node.sign(PAYLOAD))
    key_file.write_text(f"# only the new one\n\n{new}\n")
    node_file.write_text(f"{old}\n")
    assert "bad_credential" == code_of(collector, node.sign(PAYLOAD))


def test_a_new_key_is_for_its_owner_only_and_changes_nothing(key_file: Path) -> None:
    """A key file is 0600; a name that is there already is refused, and so is what is no name."""
    before = key_file.read_bytes()
    assert 0o600 == stat.S_IMODE(key_file.stat().st_mode)
    for name in ("first", "a b", "", "ä", "x" * 41, "a\n"):
        with pytest.raises(ConfigError):
            add_key(key_file, name)
    assert before == key_file.read_bytes()
    add_key(key_file, "second")
    assert key_file.read_bytes().startswith(before)
    assert 0o600 == stat.S_IMODE(key_file.stat().st_mode)
    assert 2 == len(set(read_keys(key_file).values()))


def linked(path: Path) -> None:
    """A link to the file that was there."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def made_a_directory(path: Path) -> None:
    """A directory of that name."""
    path.unlink()
    path.mkdir()


BAD: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.chmod(0o640), "others may use"),
    (lambda path: path.chmod(0o604), "others may use"),
    (lambda path: path.unlink(), "no such key file"),
    (lambda path: path.write_text(""), "has no key"),
    (lambda path: path.write_text("# nothing\n"), "has no key"),
    (lambda path: path.write_text("name short\n"), "line 1 is not"),
    (lambda path: path.write_text("\nname\n"), "line 2 is not"),
    (lambda path: path.write_text(f"a {'x' * 40}\na {'y' * 40}\n"), "line 2 is not"),
    (lambda path: path.write_text(f"a {'x' * 40} more\n"), "line 1 is not"),
    (lambda path: path.write_bytes(b"\xff\xfe"), "is no key file"),
    (linked, "not a regular file"),
    (made_a_directory, "not a regular file"),
]


@pytest.mark.parametrize(("spoil", "said"), BAD)
def test_a_key_file_that_cannot_be_trusted(
    key_file: Path, spoil: Callable[[Path], object], said: str
) -> None:
    """A key file that others could have read, or that is not what it must be, is refused without telling
    a secret, both for signing and for verifying."""
    signing = KeySigning(key_file)
    envelope = signing.sign(PAYLOAD)
    spoil(key_file)
    for attempt, what in ((signing.sign, PAYLOAD), (signing.verify, envelope)):
        with pytest.raises(DeliveryError, match=said) as failed:
            attempt(what)
        assert not isinstance(failed.value, MessageRefused)
        assert "xxx" not in str(failed.value)


@as_root
def test_a_strangers_key_file_is_refused(key_file: Path) -> None:
    """A key file is root's, its reader's, or the configured service user's."""
    os.chown(key_file, 12345, -1)
    with pytest.raises(DeliveryError, match="belongs to user id 12345"):
        read_keys(key_file)
    assert ["first"] == list(read_keys(key_file, 12345))
    add_key(key_file, "second", 12345)
    assert 12345 == key_file.stat().st_uid


def test_a_key_that_cannot_be_written(tmp_path: Path) -> None:
    """Where the file cannot be written, the error names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/delivery\.key"):
        add_key(tmp_path / "file/delivery.key", "name")
