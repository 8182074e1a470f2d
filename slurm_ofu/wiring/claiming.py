"""What a job's claim in TFLOP/s is held against: the peak of its GPUs, where all are of one known model."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slurm_ofu.gpu_models import find_model, normal_name
from slurm_ofu.values import Claim, GpuModel


def with_peak(
    claim: Claim | None, gpu_models: Iterable[str | None], site_models: Sequence[GpuModel] = ()
) -> Claim | None:
    """The claim with the dense 16-bit peak of one of these GPUs. ``None`` among them is an unknown GPU."""
    if claim is None:
        return None
    names = {None if name is None else normal_name(name) for name in gpu_models}
    model = find_model(next(iter(names)), site_models) if len(names) == 1 else None
    return replace(claim, peak_tflops=None if model is None else model.peak_tflops)
