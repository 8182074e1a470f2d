"""Exact GPU model name → reference clock.

The catalogue is data (``gpu_models.toml``). A name matches as a whole after an optional leading
``NVIDIA `` is taken off and dashes are read as blanks, so that ``L4``, ``L40`` and ``L40S`` are never
confused. An unknown name has no reference clock: its tensor activity is kept and its OFU is absent.
"""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from slurm_ofu.values import GpuModel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def normal_name(name: str) -> str:
    """The form in which names are compared."""
    return " ".join(name.replace("-", " ").split()).removeprefix("NVIDIA ")


@cache
def catalogue() -> tuple[GpuModel, ...]:
    """Every model that is shipped, one row per name."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(_model(name, row) for row in table["gpu"] for name in row["names"])


def _model(name: str, row: dict[str, Any]) -> GpuModel:
    return GpuModel(
        name=name,
        sm_count=row["sm_count"],
        reference_clock_mhz=row["reference_clock_mhz"],
        max_clock_mhz=row.get("max_clock_mhz"),
        compute_capability=row["compute_capability"],
        rates=row["flop_per_clock_per_sm"],
        peaks=row["peak_tflops"],
        calibrated=row.get("calibrated", True),
        status=row["status"],
        source=row["source"],
    )


def find_model(name: str | None, site_models: Iterable[GpuModel] = ()) -> GpuModel | None:
    """The row for a driver's GPU name, a site's own rows first; ``None`` when it is not known."""
    if name is None:
        return None
    wanted = normal_name(name)
    return next((row for row in (*site_models, *catalogue()) if normal_name(row.name) == wanted), None)


def doubts(names: Iterable[str], site_models: Iterable[GpuModel] = ()) -> list[str]:
    """What a reader should know of figures of these GPU models: a text for each that has something."""
    own = tuple(site_models)
    found = {name: model for name in sorted(set(names)) if (model := find_model(name, own)) is not None}
    return [f"{name}: {text}" for name, model in found.items() if (text := _doubt(model)) is not None]


def _doubt(model: GpuModel) -> str | None:
    if not model.calibrated:
        return (
            "uncalibrated: its tensor pipes run at half rate by design, and nobody has measured what their"
            " activity reads at full load: OFU may be off by a factor of two"
        )
    return f"its reference clock is not sure ({model.source})" if model.status == "unsure" else None
