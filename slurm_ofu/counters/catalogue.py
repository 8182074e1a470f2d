"""Name of a counter source → how to open it. Sources are imported only when asked for."""

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
    try:
        from slurm_ofu.counters.nvml import NvmlSource  # "nvml", and what "auto" finds so far
    except ImportError as error:
        raise SourceError(f"NVML cannot be used: {error}; install nvidia-ml-py") from error
    return NvmlSource(settings.nvml_library)
