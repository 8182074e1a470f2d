"""``ofu-node check``: what this node would do for a job, and what is wrong with it.

Each check says ``ok``, ``note`` or ``bad``, in a fixed order; nothing is changed and no Slurm command
is run. A part that cannot be looked at is a finding too, and the others go on.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from slurm_ofu.config import config_path, load_config
from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.errors import OfuError, SourceError
from slurm_ofu.gpu_models import find_model
from slurm_ofu.protocols import CounterSource
from slurm_ofu.slurm.gpu_order import Assignment
from slurm_ofu.slurm.gres_conf import read_gres_conf, read_node_gres
from slurm_ofu.values import Config, DeviceIdentity, GpuModel, Reading, SourceChoice
from slurm_ofu.wiring.checking_hooks import check_node_name, check_slurm
from slurm_ofu.wiring.checking_python import check_python
from slurm_ofu.wiring.checking_storage import check_database, check_delivery, check_spool
from slurm_ofu.wiring.delivering import is_remote
from slurm_ofu.wiring.findings import Finding, bad, note, ok, unreadable
from slurm_ofu.wiring.gpus import DEFAULT_SLURM_CONF, resolve_gpus

#: Readings after which a source that is still not there is left alone: dcgmi takes a second or two.
START_TRIES = 40


def check(config_file: str | None, *, slurm_conf: str | None, node: str | None) -> Iterator[Finding]:
    """Every finding about this node, in order."""
    yield from _part("Python", check_python)
    config, found = _config(config_file)
    yield found
    if config is not None:
        yield from _part("spool", check_spool, config)
        yield from _part("delivery", check_delivery, config)
        if not is_remote(config):  # else it is on the collector's host
            yield from _part("database", check_database, config)
    conf = Path(slurm_conf or os.environ.get("SLURM_CONF") or DEFAULT_SLURM_CONF)
    name = node or os.uname().nodename.partition(".")[0]
    yield from _part("slurm.conf", check_slurm, conf, config_path(config_file))
    yield from _part("node", check_node_name, conf, name)
    if config is not None:
        yield from _part("source", _gpus, config, conf, name)


def _part(what: str, look: Callable[..., Iterable[Finding]], *arguments: object) -> Iterator[Finding]:
    try:
        yield from look(*arguments)
    except OSError as error:
        yield unreadable(what, error)


def _config(config_file: str | None) -> tuple[Config | None, Finding]:
    try:
        config = load_config(config_file)
    except OfuError as error:
        cause = error.__cause__
        return None, unreadable("config", cause) if isinstance(cause, OSError) else bad("config", str(error))
    if not Path(config.path).exists():
        return config, note("config", f"{config.path}: not there: defaults are used")
    return config, ok("config", config.path)


def _gpus(config: Config, conf: Path, node: str) -> Iterator[Finding]:
    try:
        source = open_source(config.sampler, job_id=0)
    except SourceError as error:
        yield bad("source", str(error))
        return
    try:
        yield from _source(source, config, conf, node)
    finally:
        source.close()


def _source(source: CounterSource, config: Config, conf: Path, node: str) -> Iterator[Finding]:
    devices = source.devices()
    readings = _readings(source, devices)
    text = f"{source.name}, {len(devices)} GPUs"
    yield ok("source", text) if devices else bad("source", text)
    _, count = read_node_gres(conf, node)
    listed = _listed(conf, node)
    expected = len(devices) if count is None else count
    if listed > len(devices):
        yield bad("gres.conf", f"File= gives this node {listed} GPUs, {len(devices)} are seen")
        expected = max(expected, listed)
    for assignment in resolve_gpus(
        tuple(range(expected)),
        environment={"SLURM_CONF": str(conf)},
        node=node,
        source=source,
        config=config,
    ):
        yield _gpu(assignment, source, readings, config)
    for device in devices:
        if device.mig_profile is not None:  # Slurm counts slices in an order of its own
            yield _device(f"MIG {device.mig_profile}", device, "UUID", source, readings, config)


def _readings(source: CounterSource, devices: Sequence[DeviceIdentity]) -> dict[str, Reading]:
    """The second readings, which a figure needs, or the first at which sources that had to start are there.
    For an exporter's next collection nobody waits: it may be minutes away."""
    readings: dict[str, Reading] = {}
    for number in range(START_TRIES):
        readings = {device.uuid: source.read(device) for device in devices}
        starting = [its for its in devices if readings[its.uuid].waiting and _is_soon_there(source, its)]
        if number > 0 and not starting:
            break
        time.sleep(source.min_interval_seconds + 0.01)
    return readings


def _is_soon_there(source: CounterSource, device: DeviceIdentity) -> bool:
    return source.choice(device).source != "exporter"


def _listed(conf: Path, node: str) -> int:
    """How many GPUs gres.conf lists for the node, whatever slurm.conf then takes of them."""
    lines = read_gres_conf(conf).lines
    return sum(len(line.files) for line in lines if line.nodes is None or node in line.nodes)


def _gpu(
    assignment: Assignment, source: CounterSource, readings: Mapping[str, Reading], config: Config
) -> Finding:
    what, device = f"GPU {assignment.position}", assignment.device
    if device is None:
        slices = any(its.mig_profile is not None for its in source.devices())
        return (note if slices else bad)(what, f"unmapped: {assignment.why_not}{_BY_UUID if slices else ''}")
    return _device(what, device, assignment.how, source, readings, config)


_BY_UUID = "; jobs whose CUDA_VISIBLE_DEVICES has UUIDs are measured all the same"


def _device(
    what: str,
    device: DeviceIdentity,
    how: str,
    source: CounterSource,
    readings: Mapping[str, Reading],
    config: Config,
) -> Finding:
    model = find_model(device.gpu_model, config.gpu_models)
    reading, choice = readings[device.uuid], source.choice(device)
    text = f"{device.uuid} ({device.gpu_model}), by {how}, {_clock(model)}, source {choice.source}"
    why = f" ({choice.note})" if choice.note else ""
    if reading.fault is not None:
        return bad(what, f"{text}, reads: {reading.fault}{why}")
    text = f"{text}, {_estimator(reading, choice)}{why}"
    return bad(what, text) if model is None else ok(what, text)


def _clock(model: GpuModel | None) -> str:
    if model is None:
        return "unknown model: no OFU; add it under [gpu_models] (operate.md, GPU models)"
    doubt = " (uncalibrated)" if not model.calibrated else " (unsure)" if model.status == "unsure" else ""
    return f"reference clock {model.reference_clock_mhz:g} MHz{doubt}"


def _estimator(reading: Reading, choice: SourceChoice) -> str:
    """What a run's figure will be made of, as far as two readings show it."""
    if reading.sm_cycles is not None:
        return "estimator cycles"
    if choice.source == "exporter" or reading.published_clock_mhz is not None:
        return "estimator scraped, at the exporter's own interval"
    return "estimator sampled: cycle counters need driver R595 and Hopper"
