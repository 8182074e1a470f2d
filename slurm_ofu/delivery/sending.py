"""``http://host:port`` or ``https://host:port``: records handed to a collector.

Each attempt signs the message anew, since what was signed expires and counts once. Only a signed answer
that names the message is believed: whoever else answers at that port can neither make a record be
forgotten nor be set aside.
"""

import builtins
import json
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError, TimeoutError

from slurm_ofu.delivery.conversation import (
    CLUSTER_HEADER,
    ENVELOPE_TYPE,
    FOR_EVER,
    HEALTH_PATH,
    IN_A_MOMENT,
    RECORDS_PATH,
    STATUS,
    TAKEN,
    read_plain,
)
from slurm_ofu.delivery.message import (
    HEAD_BYTES,
    LIMIT_BYTES,
    Answer,
    Message,
    batched,
    pack,
    printable,
    unpack_answer,
)
from slurm_ofu.delivery.signing import Signing
from slurm_ofu.errors import DeliveryError, MessageRefused, RecordRefused
from slurm_ofu.values import NodeRecord

ATTEMPTS = 4
_CONNECT_SECONDS = 10.0
_LEAST_SECONDS = 0.5
_ANSWER_LIMIT = 64 * 1024
_LONGEST_RETRY_AFTER = 3600.0
_Said = TypeVar("_Said")


class _NotNow(DeliveryError):
    """Another attempt in a moment may help; ``after_seconds``: the receiver's own word for when."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class HttpDelivery:
    """A Delivery to a collector. Waits for it up to ``wait_seconds`` for each message."""

    def __init__(
        self, url: str, *, signing: Signing, wait_seconds: float, ca_file: str | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.signing = signing
        self.wait_seconds = wait_seconds
        self._pool = urllib3.PoolManager(num_pools=1, cert_reqs="CERT_REQUIRED", ca_certs=ca_file)

    def send(self, records: Sequence[tuple[NodeRecord, bytes]]) -> None:
        """Hand on records, in as many messages as it takes. Raises RecordRefused where one of them is never
        taken (those of earlier messages were: taken again they change nothing), DeliveryError."""
        for record, data in records:
            if len(data) > LIMIT_BYTES - HEAD_BYTES:
                raise RecordRefused(
                    f"{self.url}: the record of job {record.job.key.job_id} on {record.node_name} has"
                    f" {len(data)} bytes: more than fit into a message ({LIMIT_BYTES - HEAD_BYTES})"
                )
        for cluster, batch in batched((record.job.key.cluster, data) for record, data in records):
            self.hand_on(cluster, batch)

    def hand_on(self, cluster: str, records: Sequence[bytes]) -> None:
        """One message; one without records only asks whether it would be taken."""
        message = Message(
            cluster=cluster,
            node=os.uname().nodename,
            message_id=secrets.token_hex(16),
            records=tuple(records),
        )
        try:
            packed = pack(message)
        except MessageRefused as error:
            raise RecordRefused(f"{self.url}: these records make no message: {error}") from error
        deadline = time.monotonic() + self.wait_seconds
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._heed(self._answer(message, packed, deadline))
                return
            except _NotNow as error:
                pause = _pause(attempt, error.after_seconds)
                if attempt == ATTEMPTS or time.monotonic() + pause + _LEAST_SECONDS > deadline:
                    raise DeliveryError(str(error)) from error
            time.sleep(pause)

    def health(self) -> dict[str, Any]:
        """What the collector says of itself. Raises DeliveryError where no collector answers."""
        status, body, _ = self._call("GET", HEALTH_PATH, time.monotonic() + self.wait_seconds)
        try:
            said = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            said = None
        if status != 200 or not isinstance(said, dict) or said.get("service") != "slurm-ofu":
            raise DeliveryError(f"{self.url}: what answers there is no collector (HTTP status {status})")
        return said

    def _answer(self, message: Message, packed: bytes, deadline: float) -> Answer:
        """One attempt: the collector's signed answer. Raises _NotNow, DeliveryError."""
        headers = {CLUSTER_HEADER: quote(message.cluster), "Content-Type": ENVELOPE_TYPE}
        envelope = self.signing.sign(packed)
        status, body, said = self._call("POST", RECORDS_PATH, deadline, headers=headers, body=envelope)
        if said.get("Content-Type") == ENVELOPE_TYPE:
            return self._believed(body, message)
        told = read_plain(body)
        why = f"{told[0]}: {told[1]}" if told else f"no collector's answer (HTTP status {status})"
        if status in IN_A_MOMENT:
            raise _NotNow(f"{self.url}: {why}", _seconds(said.get("Retry-After")))
        raise DeliveryError(f"{self.url}: {why}")

    def _believed(self, body: bytes, message: Message) -> Answer:
        try:
            answer = unpack_answer(self.signing.verify(body))
        except MessageRefused as error:
            raise DeliveryError(
                f"{self.url}: its answer cannot be believed: {error}. The collector must run as root, or as"
                " the [database] owner of this host's configuration"
            ) from error
        if answer.message_id != message.message_id:
            raise DeliveryError(f"{self.url}: its answer is one to another message: nothing was delivered")
        return answer

    def _heed(self, answer: Answer) -> None:
        if answer.code == TAKEN:
            return
        where = "" if answer.record is None else f" (record {answer.record} of the message)"
        said = f"{self.url}: {printable(answer.code)}: {answer.text}{where}"
        if STATUS.get(answer.code) in IN_A_MOMENT:
            raise _NotNow(said)
        raise RecordRefused(said) if answer.code in FOR_EVER else DeliveryError(said)

    def _call(self, method: str, path: str, deadline: float, **given: Any) -> tuple[int, bytes, Any]:
        """Status, body and headers of an answer. Raises _NotNow where none came."""
        left = max(_LEAST_SECONDS, deadline - time.monotonic())
        headers = {"User-Agent": "slurm-ofu", "Connection": "close", **given.pop("headers", {})}

        def called() -> tuple[int, bytes, Any]:
            response = self._pool.request(
                method,
                self.url + path,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(left, _CONNECT_SECONDS), read=left),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
                **given,
            )
            try:
                return response.status, response.read(_ANSWER_LIMIT), response.headers
            finally:
                response.close()

        try:
            return _within(left + _LEAST_SECONDS, called)
        except (HTTPError, OSError) as error:
            raise _NotNow(f"{self.url}: {_reason(error, left)}") from error


def _within(seconds: float, call: Callable[[], _Said]) -> _Said:
    """What a call comes to. Raises what it raises, and TimeoutError: a socket's own limit begins anew with
    each byte, so that whoever drips an answer, or a name server, could hold a node's process for days. The
    call is left behind then, and ends with the process."""
    said: list[_Said] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            said.append(call())
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            raised.append(error)

    thread = threading.Thread(target=run, name="http", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not said:
        raise builtins.TimeoutError
    return said[0]


def _reason(error: Exception, left: float) -> str:
    """A connection's failure in few words; urllib3's own name the objects that failed."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return printable(cause.strerror)
    if isinstance(error, (TimeoutError, builtins.TimeoutError)):
        return f"no answer within {left:.0f} s"
    return printable(str(error))


def _pause(attempt: int, after_seconds: float | None) -> float:
    """Seconds until the next attempt, different on every node."""
    if after_seconds is not None:
        return after_seconds * random.uniform(0.5, 1.5)
    return random.uniform(0.2, 1.0) * 2.0 ** (attempt - 1)


def _seconds(text: str | None) -> float | None:
    if text is None or not (text.isascii() and text.isdecimal()):
        return None
    return min(float(text), _LONGEST_RETRY_AFTER)
