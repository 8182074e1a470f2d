"""Samples that a Prometheus or VictoriaMetrics keeps, by its HTTP API.

Asked for are the raw samples: a range selector in an instant query, ``metric{…}[3600s]`` at a time, brings
them with their own timestamps. (``query_range`` would invent values by looking back, and has a limit of
11,000 points.) The environment's proxies are not used. Needs urllib3, so nothing on the hooks' path may
import this.
"""

import base64
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from slurm_ofu.counters.stored_series import StoredSeries
from slurm_ofu.errors import SamplesError, SamplesTooMany

ATTEMPTS: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 10.0
_ANSWER_LIMIT: Final = 16 << 20  # bytes: more is asked for in smaller parts
_SAID: Final = 300  # characters of an answer that stand in a message


class _NotNow(SamplesError):
    """Another attempt in a moment may help; ``after_seconds``: the server's own word for when."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]


class Prometheus:
    """The samples behind one URL. Each attempt waits up to ``timeout_seconds``.

    Methods raise SamplesError where the server does not answer, does not let us, or is something else, and
    SamplesTooMany where a shorter window may help.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float,
        ca_file: str | None = None,
        token_file: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        _check(url)
        self.url = _without_secret(url)
        self.query_count = 0  # requests that were sent
        self._headers = {"User-Agent": "slurm-ofu", "Accept": "application/json", **_basic(url)}
        if token_file is not None:
            self._headers["Authorization"] = f"Bearer {_token(token_file)}"
        self._timeout_seconds = timeout_seconds
        self._pause = pause
        self._pool = urllib3.PoolManager(num_pools=1, cert_reqs="CERT_REQUIRED", ca_certs=ca_file)

    def samples(self, selector: str, start_epoch_s: float, end_epoch_s: float) -> list[StoredSeries]:
        """Every sample of the selected series with start < t <= end. Whole seconds."""
        length = round(end_epoch_s - start_epoch_s)
        fields = {
            "query": f"{selector}[{length}s]",
            "time": str(round(end_epoch_s)),
            "timeout": f"{max(1, int(self._timeout_seconds))}s",
        }
        data = self._asked("POST", "/api/v1/query", fields)
        if not isinstance(data, dict) or data.get("resultType") != "matrix":
            raise self._other(f"resultType {data.get('resultType') if isinstance(data, dict) else data!r}")
        try:
            return [_series(one, start_epoch_s, end_epoch_s) for one in data["result"]]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._other(f"a result that is no series ({error!r})") from error

    def check(self) -> None:
        """Whether somebody is there who answers as a Prometheus does. Raises SamplesError."""
        self._asked("GET", "/api/v1/query", {"query": "1"})

    def label_values(
        self, label: str, selector: str, start_epoch_s: float, end_epoch_s: float
    ) -> tuple[str, ...]:
        """The values that a label of the selected series has in a window, or a little beyond."""
        fields = {
            "match[]": selector,
            "start": str(round(start_epoch_s)),
            "end": str(round(end_epoch_s)),
        }
        data = self._asked("GET", f"/api/v1/label/{quote(label, safe='')}/values", fields)
        if not (isinstance(data, list) and all(isinstance(value, str) for value in data)):
            raise self._other("label values that are no list of texts")
        return tuple(data)

    def _asked(self, method: str, path: str, fields: Mapping[str, str]) -> Any:
        """The data of an answer, after as many attempts as it takes."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._data(self._call(method, path, fields), path)
            except _NotNow as error:
                if attempt == ATTEMPTS:
                    doubt = f"asked {ATTEMPTS} times; is that its address, and is it running?"
                    raise SamplesError(f"{error} ({doubt})") from error
                pause = error.after_seconds or _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
            self._pause(min(pause, _LONGEST_PAUSE_SECONDS))
        raise AssertionError

    def _call(self, method: str, path: str, fields: Mapping[str, str]) -> _Answer:
        encoded = urlencode(fields)
        post = method == "POST"
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if post else {}
        self.query_count += 1
        try:
            response = self._pool.request(
                method,
                self.url + path + ("" if post else f"?{encoded}"),
                body=encoded if post else None,
                headers={**self._headers, **headers},
                timeout=urllib3.Timeout(
                    connect=min(self._timeout_seconds, _CONNECT_SECONDS), read=self._timeout_seconds
                ),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                body = response.read(_ANSWER_LIMIT + 1)
            finally:
                response.release_conn() if response.length_remaining == 0 else response.close()
            return _Answer(status=response.status, body=body, headers=response.headers)
        except ReadTimeoutError as error:
            raise SamplesTooMany(
                f"{self.url}: no answer within {self._timeout_seconds:g} s ([prometheus] timeout_seconds)"
            ) from error
        except (HTTPError, OSError) as error:
            raise _NotNow(f"{self.url}: {_reason(error)}") from error

    def _data(self, answer: _Answer, path: str) -> Any:
        status, said = answer.status, _said(answer.body)
        if len(answer.body) > _ANSWER_LIMIT:
            raise SamplesTooMany(f"{self.url}: an answer of more than {_ANSWER_LIMIT >> 20} MiB")
        table, late_status = _json(answer.body)
        status = late_status or status
        why = f"HTTP status {status}: {_error(table) or said}"
        if status in (401, 403):
            raise SamplesError(
                f"{self.url}: does not let us ask ({why}): set [prometheus] token_file, or the URL's"
                " user:password@"
            )
        # Prometheus: a query that takes too long is 503; one of too many samples 422, as in VictoriaMetrics.
        if status == 422 or (status == 503 and table.get("errorType") in ("timeout", "canceled")):
            raise SamplesTooMany(f"{self.url}: {why}")
        if status == 429 or status >= 500:
            raise _NotNow(f"{self.url}: {why}", _seconds(answer.headers.get("Retry-After")))
        if status != 200 or table.get("status") != "success" or "data" not in table:
            raise self._other(f"{why} at {path}")
        if table.get("isPartial") or table.get("warnings"):
            missing = table.get("warnings") or "isPartial"
            raise _NotNow(f"{self.url}: an incomplete answer: {missing!s:.{_SAID}}")
        return table["data"]

    def _other(self, what: str) -> SamplesError:
        return SamplesError(
            f"{self.url}: this is not the API of a Prometheus or VictoriaMetrics: {what}. The URL must be the"
            " one below which /api/v1/query is, as in http://host:9090 or http://host:8481/select/0/prometheus"
        )


def selector_of(names: Iterable[str], **labels: str) -> str:
    """A selector of metrics by their names, and by labels that are equal to these."""
    words = ["__name__=~" + _quoted("|".join(names))]
    return "{" + ",".join([*words, *(f"{label}={_quoted(value)}" for label, value in labels.items())]) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _series(one: Any, start_epoch_s: float, end_epoch_s: float) -> StoredSeries:
    """A series of an answer. A sample at the very start belongs to the window before."""
    labels = {str(name): str(value) for name, value in one["metric"].items()}
    samples = [
        (round(float(at) * 1000), float(value))
        for at, value in one.get("values", ())
        if start_epoch_s < float(at) <= end_epoch_s and value != "StaleNaN"
    ]
    return StoredSeries(labels=labels, samples=samples)


def _json(body: bytes) -> tuple[dict[str, Any], int | None]:
    """The object in an answer; {}: there is none. VictoriaMetrics finds out too late for its HTTP status that
    it cannot answer: then an error follows the answer, with the status that was meant."""
    text, decoder = body.decode("utf-8", "replace").strip(), json.JSONDecoder()
    try:
        table, end = decoder.raw_decode(text)
        late = decoder.raw_decode(text, end)[0] if end < len(text) else None
    except (ValueError, RecursionError):
        return {}, None
    if isinstance(late, dict) and late.get("status") == "error":
        meant = str(late.get("errorType"))
        return late, int(meant) if meant.isdecimal() else 422
    return (table, None) if isinstance(table, dict) and late is None else ({}, None)


def _error(table: Mapping[str, Any]) -> str:
    return _shortened(str(table.get("error", "")))


def _said(body: bytes) -> str:
    """What was answered, in short."""
    return _shortened(body[: 4 * _SAID].decode("utf-8", "replace"))


def _shortened(text: str) -> str:
    """A text on one line. Its end stays: VictoriaMetrics repeats the whole question first."""
    line = "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
    return line if len(line) <= _SAID else f"{line[: _SAID // 4]} … {line[-_SAID:]}"


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return f"{type(error).__name__}: {error!s:.{_SAID}}"


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None


def _check(url: str) -> None:
    """Refuse what is no address, without repeating what may be a password."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets that do not close, and of a port that is none
        good = False
    # An @ further on: the password before it has a character that ends the host.
    if not good or "@" in url.partition("://")[2].replace(parts.netloc, "", 1):
        before, _, shown = url.rpartition("@")
        raise SamplesError(
            f"{'…@' if before else ''}{shown}: must be http://host:port or https://…"
            "; a password has %2F %3F %23 %40 for / ? # @"
        )


def _without_secret(url: str) -> str:
    """The URL without user, password, query, and what would be doubled at its end."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def _basic(url: str) -> dict[str, str]:
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    if not at:
        return {}
    name, _, password = user.partition(":")
    secret = f"{unquote(name)}:{unquote(password)}".encode()
    return {"Authorization": "Basic " + base64.b64encode(secret).decode()}


def _token(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SamplesError(f"{path}: [prometheus] token_file cannot be read: {error}") from error
    token = lines[0].strip() if lines else ""
    if not token or not token.isprintable():
        raise SamplesError(f"{path}: [prometheus] token_file: its first line must be the token")
    return token
