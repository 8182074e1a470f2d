"""Signed by munge, which every node of a Slurm cluster has: the credential says which user made it.

By the programs ``munge`` and ``unmunge``, since their library has no Python binding that is kept. What
they exit with is libmunge's error number.
"""

import subprocess
from collections.abc import Collection, Mapping

from slurm_ofu.errors import DeliveryError, MessageRefused

BIN_DIR = "/usr/bin"
LIMIT_SECONDS = 10.0
_ROOT = 0
_KEYS = "STATUS,ENCODE_HOST,ENCODE_TIME,DECODE_TIME,UID,LENGTH"
_UNAUTHORIZED = 18
#: libmunge's numbers of credentials that decode to nothing.
_BAD = range(8, 15)
_DATED: Mapping[int, str] = {15: "expired", 16: "rewound", 17: "replayed"}


class MungeSigning:
    """Signs as this process's user; takes what one of ``trusted_user_ids`` signed with the same munge key.

    ``reader_user_id``: who alone may read what is signed here, root included; ``None``: every user of
    every host with that key.
    """

    def __init__(
        self,
        *,
        trusted_user_ids: Collection[int] = (_ROOT,),
        reader_user_id: int | None = None,
        socket: str | None = None,
        bin_dir: str = BIN_DIR,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self.trusted_user_ids = frozenset(trusted_user_ids)
        self.reader_user_id = reader_user_id
        self._socket = [] if socket is None else [f"--socket={socket}"]
        self._bin_dir = bin_dir
        self._limit_seconds = limit_seconds

    def sign(self, payload: bytes) -> bytes:
        """A credential, in munge's own printable form."""
        reader = [] if self.reader_user_id is None else [f"--restrict-uid={self.reader_user_id}"]
        done = self._run("munge", *reader, given=payload)
        if done.returncode != 0:
            raise DeliveryError(f"munge cannot sign on this host: {_said(done.stderr)}")
        return done.stdout.strip()

    def verify(self, envelope: bytes) -> bytes:
        """The payload of a credential that root made, or one whom we trust like root."""
        if not envelope.startswith(b"MUNGE:"):
            raise MessageRefused("it is no munge credential", code="bad_credential")
        done = self._run("unmunge", "--numeric", f"--keys={_KEYS}", given=envelope)
        head, _, payload = done.stdout.partition(b"\n\n")
        facts = _facts(head)
        if done.returncode != 0:
            raise _refusal(done.returncode, facts, _said(done.stderr))
        if not facts.get("LENGTH", "").isdecimal() or int(facts["LENGTH"]) != len(payload):
            raise DeliveryError("unmunge on this host says something that is not understood")
        if facts.get("UID", "") not in {str(user_id) for user_id in self.trusted_user_ids}:
            raise MessageRefused(
                f"it was signed by user id {facts.get('UID')} on {facts.get('ENCODE_HOST')}, and only"
                f" {_users(self.trusted_user_ids)} can vouch for it",
                code="not_root",
            )
        return payload

    def _run(self, program: str, *arguments: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
        path = f"{self._bin_dir}/{program}"
        try:
            return subprocess.run(
                [path, *self._socket, *arguments],
                input=given,
                capture_output=True,
                env={},
                timeout=self._limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DeliveryError(
                f"{path} took longer than {self._limit_seconds:g} s: is munged well?"
            ) from error
        except OSError as error:
            raise DeliveryError(
                f"{path}: {error.strerror}: install munge, or set authentication to another kind"
            ) from error


def _facts(head: bytes) -> dict[str, str]:
    """unmunge's ``KEY:   value`` lines."""
    lines = (line.partition(":") for line in head.decode("ascii", "replace").splitlines())
    return {key: value.strip() for key, _, value in lines}


def _refusal(number: int, facts: Mapping[str, str], said: str) -> DeliveryError:
    """The error for a credential that unmunge did not accept."""
    if number in _DATED:
        return MessageRefused(_why_not_now(_DATED[number], facts), code=_DATED[number])
    if number == _UNAUTHORIZED:
        return MessageRefused(
            f"it may be read by another user only ({said}): run the collector as the [database] owner of the"
            " nodes' configuration, as root where they have none",
            code="wrong_user",
        )
    if number in _BAD:
        return MessageRefused(
            f"munge does not accept it ({said}): is the munge key the same on both hosts?",
            code="bad_credential",
        )
    return DeliveryError(f"munge cannot verify on this host: {said}")


def _why_not_now(code: str, facts: Mapping[str, str]) -> str:
    if code == "replayed":
        return "it was received before; what is sent again must be signed again"
    try:
        ahead = int(facts["ENCODE_TIME"]) - int(facts["DECODE_TIME"])
    except (KeyError, ValueError):
        ahead = 0
    way = f"{ahead} s ahead of" if ahead > 0 else f"{-ahead} s behind"
    host = facts.get("ENCODE_HOST", "its sender")
    return (
        f"its time is {way} this host's: set the clock of {host}, or of this host"
        " (or it was under way for that long)"
    )


def _users(user_ids: Collection[int]) -> str:
    others = sorted(set(user_ids) - {_ROOT})
    return "root" if not others else f"root or user id {', '.join(map(str, others))}"


def _said(stderr: bytes) -> str:
    """munge's own words, without its name."""
    line = stderr.decode("utf-8", "replace").strip().partition("\n")[0]
    return line.partition("Error: ")[2] or line or "it said nothing"
