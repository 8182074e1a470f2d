"""``ofu-node check``: what this node would do for a job, and what is wrong with it.

Each check says ``ok``, ``note`` or ``bad``, in a fixed order; nothing is changed and no Slurm command
is run.
"""

import contextlib
import importlib.util
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from slurm_ofu.config import load_config, url_path
from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.delivery.directory import directory_problem
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import OfuError, SourceError
from slurm_ofu.gpu_models import find_model
from slurm_ofu.protocols import CounterSource
from slurm_ofu.slurm.conf_lines import slurm_conf_settings
from slurm_ofu.slurm.gpu_order import Assignment
from slurm_ofu.slurm.gres_conf import read_node_gres
from slurm_ofu.store.filesystems import network_filesystem
from slurm_ofu.values import Config, Reason
from slurm_ofu.wiring.delivering import group_exists
from slurm_ofu.wiring.gpus import DEFAULT_SLURM_CONF, resolve_gpus

Verdict = Literal["ok", "note", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the check."""

    verdict: Verdict
    what: str
    text: str


def check(config_file: str | None, *, slurm_conf: str | None, node: str | None) -> Iterator[Finding]:
    """Every finding about this node, in order."""
    yield from _python()
    try:
        config = load_config(config_file)
    except OfuError as error:
        yield Finding(verdict="bad", what="config", text=str(error))
        return
    yield Finding(verdict="ok", what="config", text=config.path)
    yield _spool(config)
    yield _delivery(config)
    if config.database_group is not None and not group_exists(config.database_group):
        text = f"group {config.database_group} does not exist: only the owner can read; see ofu-admin init -h"
        yield Finding(verdict="note", what="database", text=text)
    conf = Path(slurm_conf or os.environ.get("SLURM_CONF") or DEFAULT_SLURM_CONF)
    yield from _slurm(conf)
    yield from _gpus(config, conf, node or os.uname().nodename.partition(".")[0])


def _python() -> Iterator[Finding]:
    spec = importlib.util.find_spec("pynvml")
    origin = Path(spec.origin) if spec and spec.origin else None
    with contextlib.suppress(PackageNotFoundError):
        yield Finding(
            verdict="bad",
            what="pynvml",
            text=f"the deprecated package pynvml {version('pynvml')} is installed and slows every start of"
            " Python: pip uninstall pynvml, then reinstall nvidia-ml-py",
        )
    try:
        yield Finding(verdict="ok", what="nvidia-ml-py", text=version("nvidia-ml-py"))
    except PackageNotFoundError:
        yield Finding(verdict="bad", what="nvidia-ml-py", text="not installed: pip install nvidia-ml-py")
    compiled = origin and Path(importlib.util.cache_from_source(str(origin))).exists()
    yield Finding(
        verdict="ok" if compiled else "note",
        what="byte-code",
        text="in place" if compiled else "missing: every sampler starts slowly; run ofu-node install",
    )


def _spool(config: Config) -> Finding:
    directory = Path(config.spool_dir)
    try:
        found = directory.stat()
    except OSError as error:
        return Finding(
            verdict="bad", what="spool", text=f"{directory}: {error.strerror}; run ofu-node install"
        )
    if kind := network_filesystem(directory):
        return Finding(verdict="bad", what="spool", text=f"{directory}: lies on {kind}: use a local disk")
    if stat.S_IMODE(found.st_mode) & 0o022:
        return Finding(verdict="bad", what="spool", text=f"{directory}: others can write to it: chmod 700")
    spool = Spool(directory)
    waiting, runs = len(spool.waiting()), len(spool.tags())
    free = os.statvfs(directory)
    text = (
        f"{directory}: {runs} runs, {waiting} records waiting, {free.f_bavail * free.f_frsize >> 20} MiB free"
    )
    return Finding(verdict="ok" if os.access(directory, os.W_OK) else "bad", what="spool", text=text)


def _delivery(config: Config) -> Finding:
    path = url_path(config.delivery_to)
    if config.delivery_to.startswith("dir:"):
        problem = directory_problem(path)
        return Finding(
            verdict="bad" if problem else "ok", what="delivery", text=problem or config.delivery_to
        )
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if kind := network_filesystem(nearest):
        text = f"{path}: lies on {kind}, where several nodes must not write SQLite: use dir:/// instead"
        return Finding(verdict="bad", what="delivery", text=text)
    writable = os.access(nearest, os.W_OK)
    return Finding(
        verdict="ok" if writable else "bad",
        what="delivery",
        text=config.delivery_to if writable else f"{nearest}: is not writable for this user",
    )


def _slurm(conf: Path) -> Iterator[Finding]:
    try:
        settings = slurm_conf_settings(conf)
    except (OSError, ValueError) as error:
        yield Finding(verdict="note", what="slurm.conf", text=f"{conf}: cannot be read: {error}")
        return
    flags = settings.get("prologflags", "")
    alloc = {"alloc", "contain", "deferbatch", "nohold", "x11"} & set(flags.lower().split(","))
    yield Finding(
        verdict="ok" if alloc else "bad",
        what="PrologFlags",
        text=flags
        if alloc
        else f"{flags or '(not set)'}: without Alloc no prolog runs on nodes without a step",
    )
    for key in ("prolog", "epilog"):
        yield _hook(key, settings.get(key, ""))


def _hook(key: str, value: str) -> Finding:
    ours = "slurm-ofu"
    paths = [path for entry in value.split(",") if entry for path in _expanded(entry)]
    if any(ours in path.name or _mentions(path) for path in paths):
        return Finding(verdict="ok", what=key, text=value)
    return Finding(verdict="bad", what=key, text=f"{value or '(not set)'}: runs no slurm-ofu hook")


def _expanded(entry: str) -> list[Path]:
    path = Path(entry)
    return sorted(path.parent.glob(path.name)) if set("*?[") & set(path.name) else [path]


def _mentions(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return b"slurm-ofu" in path.read_bytes()
    return False


def _gpus(config: Config, conf: Path, node: str) -> Iterator[Finding]:
    try:
        source = open_source(config.sampler.source, job_id=0, nvml_library=config.sampler.nvml_library)
    except SourceError as error:
        yield Finding(verdict="bad", what="source", text=str(error))
        return
    try:
        yield from _source(source, config, conf, node)
    finally:
        source.close()


def _source(source: CounterSource, config: Config, conf: Path, node: str) -> Iterator[Finding]:
    devices = source.devices()
    faults = {}
    for _ in range(2):  # a figure needs two readings
        for device in devices:
            faults[device.uuid] = source.read(device).fault
        time.sleep(source.min_interval_seconds + 0.01)
    estimator = "cycles" if source.has_cycles else "sampled"
    yield Finding(
        verdict="ok" if devices else "bad",
        what="source",
        text=f"{source.name}, estimator {estimator}, {len(devices)} GPUs"
        + ("" if source.has_cycles else " (no cycle counters: they need driver R595 and Hopper)"),
    )
    _, count = read_node_gres(conf, node)
    positions = tuple(range(len(devices) if count is None else count))
    environment = {"SLURM_CONF": str(conf)}
    for assignment in resolve_gpus(
        positions, environment=environment, node=node, source=source, config=config
    ):
        yield _gpu(assignment, faults, config)


def _gpu(assignment: Assignment, faults: Mapping[str, Reason | None], config: Config) -> Finding:
    what, device = f"GPU {assignment.position}", assignment.device
    if device is None:
        return Finding(verdict="bad", what=what, text=f"unmapped: {assignment.why_not}")
    model = find_model(device.gpu_model, config.gpu_models)
    clock = f"reference clock {model.reference_clock_mhz:g} MHz" if model else "unknown model: no OFU"
    fault = faults[device.uuid]
    text = f"{device.uuid} ({device.gpu_model}), by {assignment.how}, {clock}"
    return Finding(
        verdict="bad" if fault is not None or model is None else "ok",
        what=what,
        text=text if fault is None else f"{text}, reads: {fault}",
    )
