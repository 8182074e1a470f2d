"""Metric names of dcgm-exporter → what they hold: the one table, for a page of today and for stored samples.

The scale of a value follows from its name alone, never from its size or from the help text, which sites
write themselves. Three generations of names are about: today's (DCGM 4.7: base units), those before, and
``dcgm_…`` in lower case (``--use-old-namespace``).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Quantity = Literal[
    "tensor_active_ratio",  # 1004, any tensor pipe; never its parts 1013-1015, which overlap
    "sm_active_ratio",
    "dram_active_ratio",
    "engine_active_ratio",  # any graphics or compute context at work: where it is 0, so is SM activity
    "sm_clock_mhz",
    "utilisation_ratio",
    "power_watts",
    "energy_joules",  # cumulative
    "memory_used_bytes",
    "throttle_mask",
]
QUANTITIES: Final[tuple[Quantity, ...]] = Quantity.__args__  # type: ignore[attr-defined]

_HIGHEST: Final[Mapping[Quantity, float]] = {
    "sm_clock_mhz": 100_000.0,
    "power_watts": 100_000.0,
    "throttle_mask": float(2**32 - 1),
}
#: A ratio may be beyond 0 or 1 by rounding.
_ROUNDING: Final = 1e-4
#: DCGM's codes for "no value": of doubles, 2**47 and the three after it; of long integers, far beyond.
_BLANK: Final = float(2**47)
#: Those of 32-bit integers, where energy and memory are of that size: as they are.
_BLANK_32: Final = frozenset(float(0x7FFFFFF0 + code) for code in range(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What one metric holds; ``factor`` takes its values to the quantity's unit."""

    quantity: Quantity
    factor: float = 1.0
    needs_base_units: bool = False  # the name had another scale before DCGM 4.7, under which it means nothing


def _fields(quantity: Quantity, **factors: float) -> dict[str, Field]:
    return {name: Field(quantity=quantity, factor=factor) for name, factor in factors.items()}


#: Metric name → meaning. Of two names for one quantity the one that stands first here counts.
FIELDS: Final[Mapping[str, Field]] = {
    **_fields(
        "tensor_active_ratio",
        DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=1,
        DCGM_FI_PROF_TENSOR_UTIL_RATIO=1,
        dcgm_fi_prof_pipe_tensor_active=1,
    ),
    **_fields(
        "sm_active_ratio",
        DCGM_FI_PROF_SM_ACTIVE=1,
        DCGM_FI_PROF_SM_UTIL_RATIO=1,
        dcgm_fi_prof_sm_active=1,
    ),
    **_fields(
        "dram_active_ratio",
        DCGM_FI_PROF_DRAM_ACTIVE=1,
        DCGM_FI_PROF_DRAM_UTIL_RATIO=1,
        dcgm_fi_prof_dram_active=1,
    ),
    **_fields(
        "engine_active_ratio",
        DCGM_FI_PROF_GR_ENGINE_ACTIVE=1,
        DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO=1,
        dcgm_fi_prof_gr_engine_active=1,
    ),
    **_fields("sm_clock_mhz", DCGM_FI_DEV_SM_CLOCK=1, DCGM_FI_DEV_SM_CLOCK_HERTZ=1e-6, dcgm_sm_clock=1),
    **_fields("utilisation_ratio", DCGM_FI_DEV_GPU_UTIL=0.01, dcgm_gpu_utilization=0.01),
    # Field 203, in per cent, was called so in DCGM 4.6; in 4.7 it is field 1613, a ratio.
    "DCGM_FI_DEV_GPU_UTIL_RATIO": Field(quantity="utilisation_ratio", needs_base_units=True),
    **_fields("power_watts", DCGM_FI_DEV_POWER_USAGE=1, DCGM_FI_DEV_BOARD_POWER_WATTS=1, dcgm_power_usage=1),
    **_fields(
        "energy_joules",
        DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION=1e-3,
        DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL=1,
        dcgm_total_energy_consumption=1e-3,
    ),
    **_fields(
        "memory_used_bytes",
        DCGM_FI_DEV_FB_USED_BYTES=1,
        DCGM_FI_DEV_FB_USED=2**20,
        dcgm_fb_used=2**20,
    ),
    **_fields(
        "throttle_mask",
        DCGM_FI_DEV_CLOCKS_EVENT_REASONS=1,
        DCGM_FI_DEV_CLOCK_THROTTLE_REASONS=1,
    ),
}
#: Names that no DCGM before 4.7 knows. One of them beside a value says what ``…_GPU_UTIL_RATIO`` means.
BASE_UNIT_NAMES: Final = frozenset(
    {
        "DCGM_FI_DEV_SM_CLOCK_HERTZ",
        "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ",
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
        "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
        "DCGM_FI_DEV_ENC_UTIL_RATIO",
        "DCGM_FI_DEV_DEC_UTIL_RATIO",
        "DCGM_FI_DEV_FB_CAPACITY_BYTES",
        "DCGM_FI_DEV_FB_FREE_BYTES",
        "DCGM_FI_DEV_FB_USED_BYTES",
        "DCGM_FI_DEV_FB_RESERVED_BYTES",
    }
)


def has_base_units(names: Iterable[str]) -> bool:
    """Whether these metrics, of one GPU at one time, come from DCGM 4.7 or later."""
    return not BASE_UNIT_NAMES.isdisjoint(names)


def names_of(quantity: Quantity) -> tuple[str, ...]:
    """Every metric name of a quantity, the one that counts first."""
    return tuple(name for name, field in FIELDS.items() if field.quantity == quantity)


def canonical(name: str, value: float, *, base_units: bool) -> float | None:
    """A metric's value in its quantity's unit; ``None`` where it is blank, out of range or of unknown scale.

    ``base_units``: see :func:`has_base_units`.
    """
    field = FIELDS[name]
    if field.needs_base_units and not base_units:
        return None
    if not 0 - _ROUNDING <= value < _BLANK or value in _BLANK_32 or math.isnan(value):
        return None
    return _in_range(field.quantity, value * field.factor)


def _in_range(quantity: Quantity, value: float) -> float | None:
    if quantity.endswith("_ratio"):
        return min(max(value, 0.0), 1.0) if value <= 1 + _ROUNDING else None
    if value < 0 or value > _HIGHEST.get(quantity, math.inf):
        return None
    return None if quantity == "sm_clock_mhz" and value == 0 else value
