"""Exact GPU model name → reference clock.

The catalogue is data (``gpu_models.toml``). A name matches as a whole after an optional leading
``NVIDIA `` is taken off and dashes are read as blanks, so that ``L4``, ``L40`` and ``L40S`` are never
confused. An unknown name has no reference clock: its tensor activity is kept and its OFU is absent.
"""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from slurm_ofu.values import GpuModel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def normal_name(name: str) -> str:
    """The form in which names are compared."""
    return " ".join(name.removeprefix("NVIDIA ").replace("-", " ").split())


@cache
def catalogue() -> tuple[GpuModel, ...]:
    """Every model that is shipped, one row per name."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    rows = []
    for row in table["gpu"]:
        names = row.pop("names")
        rows += [GpuModel(name=name, **row) for name in names]
    return tuple(rows)


def find_model(name: str | None, site_models: Iterable[GpuModel] = ()) -> GpuModel | None:
    """The row for a driver's GPU name, a site's own rows first; ``None`` when it is not known."""
    if name is None:
        return None
    wanted = normal_name(name)
    return next((row for row in (*site_models, *catalogue()) if normal_name(row.name) == wanted), None)
