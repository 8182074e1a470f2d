"""What a dcgm-exporter with known truth said, and the real servers that have stored it.

A GPU follows a Pattern. The exporter's tensor figure is the mean since its sample before, weighted by cycles;
its clock is that of the instant.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_ofu.counters.pattern import Pattern, Segment
from tests.services.processes import free_ports, listens, poll, tail

TENSOR, CLOCK = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_SM_CLOCK"
SM_ACTIVE, UTILISATION = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
H100 = "NVIDIA H100 80GB HBM3"
H100_MHZ = 1830.0
LONG_ENOUGH = 120.0
KINDS = ("prometheus", "victoria-metrics")

Samples = dict[float, float]  # by their time, seconds since 1970


@dataclass(frozen=True)
class Series:
    """One stored series."""

    name: str
    labels: Mapping[str, str]
    samples: Samples

    def lines(self, times: Callable[[float], str]) -> Iterator[str]:
        """As text; a NaN stays one."""
        labels = ",".join(f'{name}="{value}"' for name, value in sorted(self.labels.items()))
        for at, value in self.samples.items():
            yield f"{self.name}{{{labels}}} {value} {times(at)}"


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node as an exporter shows it."""

    node: str
    number: int
    pattern: Pattern
    extra: Mapping[str, str] = field(default_factory=dict)
    host_label: str = "Hostname"

    @property
    def uuid(self) -> str:
        """The same whenever it is asked for."""
        return f"GPU-{self.node}-{self.number}"

    @property
    def labels(self) -> dict[str, str]:
        """Of each of its series."""
        host = {} if self.host_label == "instance" else {self.host_label: self.node}
        return {
            "gpu": str(self.number),
            "UUID": self.uuid,
            "device": f"nvidia{self.number}",
            "modelName": H100,
            "instance": f"{self.node}:9400",
            "job": "dcgm",
            **host,
            **self.extra,
        }

    def series(self, start: float, end: float, step: float, *, offset: float = 0.0) -> list[Series]:
        """Its series from start to end, a sample every step."""
        times = [start + offset + step * at for at in range(1, int((end - start - offset) / step) + 1)]
        done = [self.pattern.until(at).minus(self.pattern.until(at - step)) for at in times]
        segments = [self.pattern.at(at) for at in times]
        values = {
            TENSOR: [one.tensor_megacycles / one.sm_megacycles for one in done],
            SM_ACTIVE: [one.sm_active_megacycles / one.sm_megacycles for one in done],
            CLOCK: [segment.sm_clock_mhz for segment in segments],
            UTILISATION: [100 * segment.utilisation_ratio for segment in segments],
        }
        return [Series(name, self.labels, dict(zip(times, its, strict=True))) for name, its in values.items()]

    def ofu_ratio(self, start: float, end: float) -> float:
        """The truth."""
        return self.pattern.ofu_ratio(start, end, H100_MHZ)


def steady(tensor: float, clock: float = 1755.0) -> Pattern:
    """A GPU that always does the same."""
    return Pattern([Segment(seconds=60, tensor_active_ratio=tensor, sm_clock_mhz=clock)])


def without(series: Iterable[Series], gone: Callable[[float], bool]) -> list[Series]:
    """The series without the samples of some times."""
    return [
        replace(one, samples={at: value for at, value in one.samples.items() if not gone(at)})
        for one in series
    ]


def labelled(series: Iterable[Series], **labels: str) -> list[Series]:
    """The series with more labels, or others."""
    return [replace(one, labels={**one.labels, **labels}) for one in series]


def missing(kind: str) -> str | None:
    """Why such a server cannot be run here."""
    names = {"prometheus": ("prometheus", "promtool"), "victoria-metrics": ("victoria-metrics",)}[kind]
    absent = [name for name in names if not shutil.which(name)]
    return f"{kind} needs Debian's {kind}: no {', '.join(absent)}" if absent else None


def require(kind: str) -> None:
    """Skip the test where it cannot run, or fail it when OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    reason = missing(kind)
    if reason and os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


class Server:
    """One real server on loopback, with samples in it. ``options``: more of its command line; ``scrapes``:
    the exporters (host:port) whose pages it reads every second."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        series: Sequence[Series] = (),
        *options: str,
        scrapes: Sequence[str] = (),
    ) -> None:
        self.kind, self.folder, self.config = kind, folder, folder / "scrapes.yml"
        [port] = free_ports(1)
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self._log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(_scraping(scrapes))
        if kind == "prometheus" and series:
            _make_blocks(folder, series)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=TERM", "--", *self._command(*options)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        poll(self._up, LONG_ENOUGH, f"{kind} to answer")
        if kind != "prometheus":
            self._post("/api/v1/import/prometheus", _text(series, lambda at: str(round(at * 1000))))
            self.flush()

    def _command(self, *options: str) -> list[str]:
        if self.kind == "prometheus":
            return [
                "prometheus",
                f"--config.file={self.config}",
                f"--storage.tsdb.path={self.folder}/data",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{self.port}",
                *options,
            ]
        return [
            "victoria-metrics",
            f"-storageDataPath={self.folder}/data",
            "-retentionPeriod=100y",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            "-memory.allowedBytes=256MB",
            f"-promscrape.config={self.config}",
            *options,
        ]

    def _up(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.kind} ended: {tail(self._log)}")
        if not listens(self.port):
            return False
        path = "/-/ready" if self.kind == "prometheus" else "/health"
        try:
            self.ask(path)
        except urllib.error.URLError:
            return False
        return True

    def flush(self) -> None:
        """VictoriaMetrics shows what it got only after some seconds."""
        if self.kind != "prometheus":
            self.ask("/internal/force_flush")

    def ask(self, path: str, **fields: str) -> bytes:
        """GET."""
        query = f"?{urllib.parse.urlencode(fields)}" if fields else ""
        with urllib.request.urlopen(f"{self.url}{path}{query}", timeout=LONG_ENOUGH) as answer:
            said: bytes = answer.read()
        return said

    def _post(self, path: str, body: str) -> None:
        with urllib.request.urlopen(f"{self.url}{path}", data=body.encode(), timeout=LONG_ENOUGH):
            pass

    def close(self) -> None:
        """End it, by its own process, and remove what it kept."""
        self.process.terminate()
        self.process.wait(timeout=LONG_ENOUGH)
        shutil.rmtree(self.folder, ignore_errors=True)


def _scraping(targets: Sequence[str]) -> str:
    listed = ", ".join(f'"{target}"' for target in targets)
    static = f"static_configs: [{{targets: [{listed}]}}]"
    timing = "scrape_interval: 1s, scrape_timeout: 1s"
    return f"global: {{{timing}}}\nscrape_configs: [{{job_name: dcgm, {static}}}]\n"


def _make_blocks(folder: Path, series: Sequence[Series]) -> None:
    """Prometheus takes no samples of the past but as blocks of its own."""
    text = folder / "samples.txt"
    text.write_text(_text(series, lambda at: f"{at:.3f}") + "# EOF\n")
    done = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")],
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )
    text.unlink()
    if done.returncode:
        raise RuntimeError(f"promtool: {done.stdout}{done.stderr}")


def _text(series: Sequence[Series], times: Callable[[float], str]) -> str:
    """Every series; those of a name stand together."""
    return "".join(
        f"{line}\n" for one in sorted(series, key=lambda one: one.name) for line in one.lines(times)
    )
