"""What both sides of HTTP know: paths, headers, and why the collector does not take a message.

A refusal is a word, with an HTTP status, and what the sender does about it.
``docs/operate.md`` has the same words, with what a person does about them.
"""

import json
from collections.abc import Mapping

from slurm_ofu.delivery.message import printable

RECORDS_PATH, HEALTH_PATH = "/v1/records", "/v1/health"
CLUSTER_HEADER, CLUSTER_KEY = "X-OFU-Cluster", "HTTP_X_OFU_CLUSTER"  # WSGI's name for it
ENVELOPE_TYPE = "application/x-slurm-ofu"
TAKEN = "taken"
#: Word → HTTP status.
STATUS: Mapping[str, int] = {
    TAKEN: 200,
    "malformed": 400,
    "bad_credential": 401,
    "expired": 401,
    "rewound": 401,
    "replayed": 401,
    "not_root": 403,
    "wrong_user": 403,
    "unknown_cluster": 403,
    "not_found": 404,
    "wrong_method": 405,
    "too_large": 413,
    "unknown_version": 415,
    "refused": 422,
    "busy": 503,
    "cannot_verify": 503,
    "stopping": 503,
}
#: Said in a signed answer, no later attempt with the same records helps: one of them is at fault.
FOR_EVER = frozenset({"malformed", "refused", "too_large"})
#: HTTP statuses after which another attempt in a moment may help, whoever said it.
IN_A_MOMENT = frozenset({429, 500, 502, 503, 504})
#: Seconds after which a sender is asked to come back.
RETRY_AFTER_SECONDS = 10


def plain(code: str, text: str) -> bytes:
    """The body of an answer that is not signed: to whoever has not shown that it is root of a cluster."""
    return json.dumps({"error": code, "message": text}).encode("ascii") + b"\n"


def read_plain(body: bytes) -> tuple[str, str] | None:
    """Word and text of such an answer; ``None`` where it is something else."""
    try:
        said = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("error") not in STATUS:
        return None
    return str(said["error"]), printable(str(said.get("message", "")))
