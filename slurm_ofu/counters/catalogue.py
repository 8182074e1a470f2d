"""Name of a counter source → how to open it. Sources are imported only when asked for."""

from collections.abc import Callable, Mapping

from slurm_ofu.config import url_path
from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import SamplerConfig


def open_source(settings: SamplerConfig, *, job_id: int) -> CounterSource:
    """Open the source that ``[sampler] source`` names. Raises SourceError."""
    name = settings.source
    scheme = name.partition("://")[0]
    if scheme == "synthetic":
        from slurm_ofu.counters.synthetic import open_synthetic

        return open_synthetic(url_path(name), job_id)
    if scheme == "replay":
        from slurm_ofu.counters.replay import open_replay

        return open_replay(url_path(name))
    return _BY_NAME[name](settings)


def _nvml(settings: SamplerConfig) -> CounterSource:
    try:
        from slurm_ofu.counters.nvml import NvmlSource
    except ImportError as error:
        raise SourceError(f"NVML cannot be used: {error}; install nvidia-ml-py") from error
    return NvmlSource(settings.nvml_library)


def _dcgm(settings: SamplerConfig, nvml: CounterSource | None = None) -> CounterSource:
    from slurm_ofu.counters.dcgm import open_dcgm

    return open_dcgm(settings, nvml)


def _exporter(
    settings: SamplerConfig, nvml: CounterSource | None = None, *, must_answer: bool = False
) -> CounterSource:
    try:
        from slurm_ofu.counters.exporter import open_exporter
    except ImportError as error:
        raise SourceError(f"the page cannot be read: {error}; install prometheus-client") from error
    source = open_exporter(settings, nvml)
    if must_answer:
        source.look()
    return source


def _auto(settings: SamplerConfig) -> CounterSource:
    from slurm_ofu.counters.auto import AutoSource

    nvml: CounterSource | SourceError
    try:
        nvml = _nvml(settings)
    except SourceError as problem:
        nvml = problem
    others = (
        ("dcgm", lambda lent: _dcgm(settings, lent)),
        ("exporter", lambda lent: _exporter(settings, lent, must_answer=True)),
    )
    return AutoSource(nvml, others)


_BY_NAME: Mapping[str, Callable[[SamplerConfig], CounterSource]] = {
    "auto": _auto,
    "nvml": _nvml,
    "dcgm": _dcgm,
    "exporter": _exporter,
}
