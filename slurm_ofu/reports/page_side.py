"""What a run's GPUs took besides, in words: energy, power, memory."""

from collections.abc import Sequence

from slurm_ofu.figures.gpu_use import side_of_gpus
from slurm_ofu.reports.facts import Fact
from slurm_ofu.reports.page_gpus import gibibytes
from slurm_ofu.reports.wording import in_part
from slurm_ofu.values import Figures, GpuRow

_JOULES_PER_KWH = 3.6e6
_JOULES_PER_MJ = 1e6


def side_facts(gpus: Sequence[GpuRow], its: Figures) -> list[Fact]:
    """A line for each that is known."""
    side = side_of_gpus([gpu.totals for gpu in gpus])
    each = " a GPU" if len(gpus) > 1 else ""
    facts: list[Fact] = []
    if its.energy_joules is not None:
        facts.append(("Energy", _energy(its, its.energy_joules)))
    if side.power_watts is not None:
        facts.append(("Power", f"{side.power_watts:.0f} W{each} in the mean"))
    if side.memory_max_bytes is not None:
        any_gpu = " on any GPU" if len(gpus) > 1 else ""
        facts.append(("Memory", f"at most {gibibytes(side.memory_max_bytes)} GiB in use{any_gpu}"))
    return facts


def _energy(its: Figures, joules: float) -> str:
    text = f"{_three_digits(joules / _JOULES_PER_KWH)} kWh ({_three_digits(joules / _JOULES_PER_MJ)} MJ)"
    return text + (", measured part" if in_part(its) else "")


def _three_digits(value: float) -> str:
    """As precise as the counter is worth, and never with an exponent where it is great."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
