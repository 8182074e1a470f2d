"""How a Prometheus is asked, and what is made of whatever answers."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.prometheus import ATTEMPTS, Prometheus, selector_of
from slurm_ofu.errors import SamplesError, SamplesTooMany
from tests.standins.faulty_proxy import FaultyProxy, Heard, Said

Make = Callable[..., tuple[Prometheus, FaultyProxy, list[float]]]
SELECTOR = '{__name__=~"a",Hostname="n1"}'


def matrix(*values: tuple[float, str], **labels: str) -> Said:
    """An answer with one series."""
    result = [{"metric": {"__name__": "a", **labels}, "values": [[at, value] for at, value in values]}]
    return success({"resultType": "matrix", "result": result})


def success(data: object, **more: object) -> Said:
    """A good answer."""
    return Said(body=json.dumps({"status": "success", "data": data, **more}).encode())


def failure(status: int, kind: str, text: str = "it failed") -> Said:
    """An answer that is an error, as Prometheus words it."""
    return Said(
        status=status, body=json.dumps({"status": "error", "errorType": kind, "error": text}).encode()
    )


@pytest.fixture
def make() -> Iterator[Make]:
    """A client, the server that it asks, and the pauses that it makes."""
    made: list[FaultyProxy] = []

    def client(*script: Said, user: str = "", **more: object) -> tuple[Prometheus, FaultyProxy, list[float]]:
        proxy = FaultyProxy(script)
        made.append(proxy)
        pauses: list[float] = []
        url = proxy.url.replace("http://", f"http://{user}")
        settings: dict[str, object] = {"timeout_seconds": 30.0, **more}
        return Prometheus(url, pause=pauses.append, **settings), proxy, pauses  # type: ignore[arg-type]

    yield client
    for one in made:
        one.close()


def test_raw_samples_are_asked_for(make: Make) -> None:
    """A range selector at one instant, by POST: a selector may be longer than a URL."""
    client, proxy, _ = make(matrix((60.5, "0.25"), (120, "1e-3"), Hostname="n1"))
    [series] = client.samples(SELECTOR, 60.0, 120.0)
    assert ([(60_500, 0.25), (120_000, 0.001)], "n1") == (series.samples, series.labels["Hostname"])
    [heard] = proxy.heard
    assert (
        "POST",
        "/api/v1/query",
        {"query": [f"{SELECTOR}[60s]"], "time": ["120"], "timeout": ["30s"]},
    ) == (
        *(heard.method, heard.path),
        parse_qs(heard.body),
    )


def test_the_sample_at_the_start_is_the_window_befores(make: Make) -> None:
    """Prometheus 2 brings it, 3 and VictoriaMetrics do not: none is in two windows."""
    client, _, _ = make(matrix((60, "1"), (90, "2"), (120, "3")))
    assert [(90_000, 2.0), (120_000, 3.0)] == client.samples(SELECTOR, 60.0, 120.0)[0].samples


@pytest.mark.parametrize(
    "fault",
    [
        failure(503, "unavailable"),
        failure(500, "internal"),
        Said(status=429, body=b"slow down", content_type="text/plain"),
        Said(status=502, body=b"<html>bad gateway</html>", content_type="text/html"),
        Said(hangs=True),
        success([], isPartial=True),
        success([], warnings=["a store is away"]),
    ],
    ids=lambda said: f"{said.status}{'hangs' if said.hangs else said.body[:30]}",
)
def test_what_may_pass_is_asked_again(make: Make, fault: Said) -> None:
    """With pauses that grow; an answer that is not whole counts as none."""
    client, proxy, pauses = make(fault, fault, success(["n1"]))
    assert ("n1",) == client.label_values("Hostname", SELECTOR, 0.0, 1.0)
    assert (3, 3, [0.5, 1.0]) == (len(proxy.heard), client.query_count, pauses)


def test_it_is_not_asked_for_ever(make: Make) -> None:
    """The last fault is what is said."""
    client, proxy, _ = make(*[failure(503, "unavailable", "disk is full")] * 20)
    with pytest.raises(SamplesError, match=f"disk is full .asked {ATTEMPTS} times"):
        client.label_values("Hostname", SELECTOR, 0.0, 1.0)
    assert ATTEMPTS == len(proxy.heard)


def test_the_servers_own_word_for_when(make: Make) -> None:
    """Retry-After, within reason."""
    later = [Said(status=503, headers=(("Retry-After", text),)) for text in ("7", "100000", "soon")]
    client, _, pauses = make(*later, success([]))
    client.label_values("Hostname", SELECTOR, 0.0, 1.0)
    assert [7.0, 30.0, 2.0] == pauses


@pytest.mark.parametrize(
    "fault",
    [
        failure(422, "execution", "query processing would load too many samples"),
        failure(503, "timeout", "query timed out in expression evaluation"),
        Said(
            body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
            b'{"status":"error","errorType":"422","error":"more than 100 samples"}'
        ),
    ],
    ids=["422", "timeout", "late"],
)
def test_too_much_at_once(make: Make, fault: Said) -> None:
    """Is told apart, since a shorter window helps; VictoriaMetrics may notice after it said success."""
    client, proxy, _ = make(fault)
    with pytest.raises(SamplesTooMany, match=r"samples|timed out"):
        client.samples(SELECTOR, 0.0, 60.0)
    assert 1 == len(proxy.heard)


def test_a_server_that_does_not_answer_in_time(make: Make) -> None:
    """May do so for a shorter window."""
    answered = threading.Event()

    def wait(_heard: Heard) -> None:
        answered.wait(60)

    client, proxy, _ = make(timeout_seconds=0.2)
    proxy.before = wait
    with pytest.raises(SamplesTooMany, match="timeout_seconds"):
        client.samples(SELECTOR, 0.0, 60.0)
    answered.set()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Said(status=401, body=b"Unauthorized"), "does not let us ask .HTTP status 401.*token_file"),
        (Said(status=403, body=b"no"), "does not let us ask"),
        (Said(status=404, body=b"404 page not found"), "not the API.*HTTP status 404.*select/0/prometheus"),
        (Said(body=b"<!DOCTYPE html><html>Grafana</html>", content_type="text/html"), "not the API.*Grafana"),
        (Said(status=302, headers=(("Location", "/login"),)), "not the API.*HTTP status 302"),
        (failure(400, "bad_data", "parse error: unexpected end"), "parse error: unexpected end"),
        (success({"resultType": "vector", "result": []}), "resultType 'vector'"),
        (success(None), "resultType"),
        (success({"resultType": "matrix", "result": [{"values": []}]}), "no series"),
        (success({"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "x"]]}]}), "no series"),
        (
            success({"resultType": "matrix", "result": [{"metric": {}, "values": [[10**400, "1"]]}]}),
            "no series",
        ),
        (Said(body=b'{"status":"success","data":{"resultType":"matrix","result":['), "not the API"),
        (Said(body=b"[" * 100_000), "not the API"),
    ],
)
def test_whatever_else_answers(make: Make, said: Said, message: str) -> None:
    """Is an error in one line that says what came; it is asked once."""
    client, proxy, _ = make(said)
    with pytest.raises(SamplesError, match=message) as raised:
        client.samples(SELECTOR, 0.0, 60.0)
    assert (1, True) == (len(proxy.heard), len(str(raised.value)) < 800 and "\n" not in str(raised.value))


def test_nobody_listens() -> None:
    """The system's word, and the address."""
    proxy = FaultyProxy()
    proxy.close()
    client = Prometheus(proxy.url, timeout_seconds=5.0, pause=lambda _seconds: None)
    with pytest.raises(SamplesError, match=f"{proxy.url}: Connection refused"):
        client.samples(SELECTOR, 0.0, 60.0)


def test_a_token_and_a_password(make: Make, tmp_path: Path) -> None:
    """Are sent, and never printed."""
    token = tmp_path / "token"
    token.write_text("s3cret\nsecond line\n")
    client, proxy, _ = make(success([]), success([]), token_file=str(token))
    client.label_values("Hostname", SELECTOR, 0.0, 1.0)
    assert "Bearer s3cret" == proxy.heard[0].authorization
    client, proxy, _ = make(failure(400, "bad_data"), user="me:p%40ss@")
    with pytest.raises(SamplesError) as raised:
        client.label_values("Hostname", SELECTOR, 0.0, 1.0)
    assert ("Basic bWU6cEBzcw==", False, proxy.url) == (
        proxy.heard[0].authorization,
        "p%40ss" in str(raised.value) or "p@ss" in str(raised.value),
        client.url,
    )


def test_proxies_of_the_environment_are_not_used(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for http nor for all."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client, _, _ = make(success(["n1"]))
    assert ("n1",) == client.label_values("Hostname", SELECTOR, 0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "message"), [("", "first line"), ("\n", "first line"), (None, "cannot be read")]
)
def test_a_token_file_without_a_token(tmp_path: Path, text: str | None, message: str) -> None:
    """Is an error that names it."""
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SamplesError, match=message):
        Prometheus("http://localhost:1", timeout_seconds=1.0, token_file=str(path))


@pytest.mark.parametrize("url", ["localhost:9090", "ftp://host", "http://", "file:///etc/passwd"])
def test_what_is_no_url(url: str) -> None:
    """Is refused before anything is asked."""
    with pytest.raises(SamplesError, match="must be http"):
        Prometheus(url, timeout_seconds=1.0)


@pytest.mark.parametrize(
    "url",
    [
        *("me:s3cret@host:9090", "//me:s3cret@host", "https:/me:s3cret@host/", "http://me:s3cret@"),
        *(
            "http://me:s3cret@host:port",
            "http://me:s3cret@host:99999",
            "http://me:s3cret@[::1",
            "http://[::1",
        ),
        *("http://me:x/s3cret@host", "http://me:x#s3cret@host", "http://me:x?s3cret@host"),
    ],
)
def test_what_is_no_url_may_hold_a_password(url: str) -> None:
    """It is refused without being repeated, also where the password itself is what ends the host."""
    with pytest.raises(SamplesError, match="must be http") as raised:
        Prometheus(url, timeout_seconds=1.0)
    assert "s3cret" not in str(raised.value)


def test_labels_are_quoted() -> None:
    """Whatever a host is called, it stays one value."""
    assert '{__name__=~"a|b",Hostname="n\\"1\\\\"}' == selector_of(["a", "b"], Hostname='n"1\\')


def test_markers_are_no_values(make: Make) -> None:
    """C75: as texts they are not numbers, and none of them is a figure."""
    client, _, _ = make(matrix((10, "NaN"), (20, "0.41"), (30, "+Inf"), (40, "StaleNaN"), (50, "-Inf")))
    samples = dict(client.samples(SELECTOR, 0.0, 60.0)[0].samples)
    assert ({10_000, 20_000, 30_000, 50_000}, 0.41) == (set(samples), samples[20_000])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, "1e999", "success", "matrix"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "data", "resultType", "result", "metric", "values", "error"]), inner
        )
    ),
    max_leaves=12,
)
SAMPLES = st.lists(JSON | st.tuples(JSON, JSON), max_size=3)
SERIES = st.fixed_dictionaries({"metric": JSON | st.just({"__name__": "a"}), "values": SAMPLES | JSON})
RESULTS = st.lists(SERIES | JSON, max_size=3).map(lambda its: {"resultType": "matrix", "result": its})
BODIES = (
    st.binary(max_size=50)
    | JSON.map(lambda value: json.dumps(value).encode())
    | RESULTS.map(lambda data: success(data).body)
    | st.tuples(RESULTS, st.integers(0, 200)).map(lambda cut: success(cut[0]).body[: cut[1]])
)


@pytest.fixture(scope="module")
def answering() -> Iterator[tuple[Prometheus, FaultyProxy]]:
    """A client, and a server that answers whatever it is told."""
    proxy = FaultyProxy()
    yield Prometheus(proxy.url, timeout_seconds=30.0, pause=lambda _seconds: None), proxy
    proxy.close()


@pytest.mark.property
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES)
def test_nothing_that_answers_does_harm(answering: tuple[Prometheus, FaultyProxy], body: bytes) -> None:
    """Whatever comes back: series with samples of the window, or an error of ours."""
    client, proxy = answering
    proxy.script[:] = [Said(body=body)] * 10
    try:
        found = client.samples(SELECTOR, 0.0, 60.0)
    except SamplesError:
        return
    for series in found:
        assert all(0 < at_ms <= 60_000 and isinstance(value, float) for at_ms, value in series.samples)
