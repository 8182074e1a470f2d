"""The collector's side of HTTP, as a WSGI application: what is taken lies in the inbox, on disk, before
the answer says so.

    POST /v1/records   a signed message; the answer is signed too, once it is known whose message it is
    GET  /v1/health    how the collector fares, in JSON, for anybody; nothing in it is of any job
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

from slurm_ofu import __version__
from slurm_ofu.delivery.conversation import (
    CLUSTER_KEY,
    ENVELOPE_TYPE,
    HEALTH_PATH,
    RECORDS_PATH,
    RETRY_AFTER_SECONDS,
    STATUS,
    TAKEN,
    plain,
)
from slurm_ofu.delivery.directory import DirectoryDelivery
from slurm_ofu.delivery.expansion import EXPANDED_LIMIT, expanded_bytes
from slurm_ofu.delivery.inbox_room import InboxRoom
from slurm_ofu.delivery.message import Answer, Message, pack_answer, printable, unpack
from slurm_ofu.delivery.signing import Signing
from slurm_ofu.errors import DeliveryError, MessageRefused, RecordError, RecordTooNew
from slurm_ofu.values import NodeRecord

#: Bytes of a signed message: what munge makes of the largest one is smaller.
ENVELOPE_LIMIT = 1_000_000
#: Seconds between two lines about the same trouble of this host: every message meets it.
TELL_SECONDS = 60.0
_JSON = "application/json"


class StartResponse(Protocol):
    """WSGI's own."""

    def __call__(self, status: str, headers: list[tuple[str, str]], /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    code: str
    body: bytes
    kind: str = _JSON


class Receiver:
    """Takes messages into the inbox. For several threads at once.

    ``signing_of``: how messages of a cluster are verified; ``None`` for a cluster that is not served.
    ``arrived`` is called after records were taken; ``say`` with what an operator should know of this host.
    """

    def __init__(
        self,
        *,
        inbox: DirectoryDelivery,
        room: InboxRoom,
        signing_of: Callable[[str], Signing | None],
        decode: Callable[[bytes], NodeRecord],
        arrived: Callable[[], None],
        say: Callable[[str], None],
        state: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self.stopping = False
        self._inbox, self._room, self._signing_of = inbox, room, signing_of
        self._decode, self._arrived, self._say, self._state = decode, arrived, say, state
        self._lock, self._unpacking = threading.Lock(), threading.Lock()
        self._told: dict[str, float] = {}  # trouble → when it was said
        self._taken = 0
        self._refused: Counter[str] = Counter()
        self._unsaid: dict[str, tuple[int, str]] = {}  # code → how many since they were told, and the last

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        try:
            reply = self._answered(environ)
        except MessageRefused as error:
            reply = self._refusal(error, environ)
        except DeliveryError as error:
            self._tell("signing", str(error))
            text = "the collector cannot verify or sign messages now; its log says why"
            reply = self._refusal(MessageRefused(text, code="cannot_verify"), environ)
        status = STATUS[reply.code]
        headers = [("Content-Type", reply.kind), ("Content-Length", str(len(reply.body)))]
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("Retry-After", str(RETRY_AFTER_SECONDS)))
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [reply.body]

    def unsaid_refusals(self) -> list[str]:
        """A line for each kind of refusal since the last call: a flood of them leaves the log small."""
        with self._lock:
            told, self._unsaid = self._unsaid, {}
        return [f"messages refused: {count}; {last}" for _, (count, last) in sorted(told.items())]

    def _answered(self, environ: Mapping[str, Any]) -> _Reply:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        wanted = {RECORDS_PATH: "POST", HEALTH_PATH: "GET"}.get(path)
        if wanted is None:
            raise MessageRefused(f"there is {RECORDS_PATH} and {HEALTH_PATH} here", code="not_found")
        if method != wanted:
            raise MessageRefused(f"{path} is asked with {wanted}", code="wrong_method")
        return self._health() if path == HEALTH_PATH else self._received(environ)

    def _received(self, environ: Mapping[str, Any]) -> _Reply:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if size > ENVELOPE_LIMIT:
            raise MessageRefused(f"{size} bytes are more than {ENVELOPE_LIMIT}", code="too_large")
        if self.stopping:
            raise MessageRefused("the collector is being stopped", code="stopping")
        if problem := self._room.problem(size):
            raise MessageRefused(problem, code="busy")
        cluster = unquote(environ.get(CLUSTER_KEY, ""))
        signing = self._signing_of(cluster)
        if signing is None:
            raise MessageRefused(
                f"{printable(cluster) or 'no cluster'} is not served here: has the collector's configuration"
                f" a table [clusters.{printable(cluster) or 'NAME'}]?",
                code="unknown_cluster",
            )
        message = unpack(signing.verify(environ["wsgi.input"].read(size)))
        answer = self._taking(message, cluster)
        reply = _Reply(code=answer.code, body=signing.sign(pack_answer(answer)), kind=ENVELOPE_TYPE)
        if answer.code != TAKEN:
            self._note(answer.code, f"{printable(message.node)}: {answer.code}: {answer.text}")
        return reply

    def _taking(self, message: Message, cluster: str) -> Answer:
        """Take an authentic message, all of it or nothing, and what to answer."""

        def answer(code: str, text: str = "", record: int | None = None) -> Answer:
            return Answer(message_id=message.message_id, code=code, text=text, record=record)

        if message.cluster != cluster:
            return answer("unknown_cluster", f"it is sent as {cluster}'s, and says {message.cluster}")
        records = []
        room = EXPANDED_LIMIT
        for number, data in enumerate(message.records):
            room -= expanded_bytes(data, room)
            if room < 0:
                text = f"unpacked its records are more than {EXPANDED_LIMIT} bytes: fewer at once"
                return answer("too_large", text, number)
            try:
                with self._unpacking:  # one at a time, and only its names are kept: it may be large
                    record = replace(self._decode(data), gpus=(), quarters=())
            except RecordTooNew as error:
                return answer("unknown_version", f"{error}: upgrade the collector", number)
            except RecordError as error:
                return answer("refused", str(error), number)
            if record.job.key.cluster != cluster:
                text = f"a record of {record.job.key.cluster} in a message of {cluster}"
                return answer("unknown_cluster", text, number)
            records.append((record, data))
        try:
            self._inbox.send(records)
        except DeliveryError as error:
            self._tell("inbox", str(error))
            return answer("busy", "the inbox cannot be written now; the collector's log says why")
        if records:
            self._room.added(len(records), sum(map(len, message.records)))
            with self._lock:
                self._taken += len(records)
            self._arrived()
        return answer(TAKEN)

    def _health(self) -> _Reply:
        files, size = self._room.waiting()
        status = "stopping" if self.stopping else "busy" if self._room.problem(ENVELOPE_LIMIT) else "ok"
        with self._lock:
            taken, refused = self._taken, dict(self._refused)
        said = {
            "service": "slurm-ofu",
            "version": __version__,
            "status": status,
            "waiting_records": files,
            "waiting_bytes": size,
            "taken_records": taken,
            "refused_messages": refused,
            **self._state(),
        }
        return _Reply(code=TAKEN, body=json.dumps(said).encode("ascii") + b"\n")

    def _refusal(self, error: MessageRefused, environ: Mapping[str, Any]) -> _Reply:
        self._note(error.code, f"{environ.get('REMOTE_ADDR', 'somebody')}: {error.code}: {error}")
        return _Reply(code=error.code, body=plain(error.code, str(error)))

    def _tell(self, trouble: str, text: str) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._told.get(trouble, float("-inf")) < TELL_SECONDS:
                return
            self._told[trouble] = now
        self._say(text)

    def _note(self, code: str, text: str) -> None:
        with self._lock:
            self._refused[code] += 1
            self._unsaid[code] = (self._unsaid.get(code, (0, ""))[0] + 1, f"the last from {text}")
