"""One TOML file → :class:`~slurm_ofu.values.Config`.

Every key has a default; an unknown key, a wrong type or a value out of range is an error that names
the key and, for a typo, the nearest valid one. The file is found by argument, else by the environment
variable ``OFU_CONFIG``, else at ``/etc/slurm-ofu/slurm-ofu.toml``; only the last may be absent.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slurm_ofu.errors import ConfigError
from slurm_ofu.values import Config, GpuModel, SamplerConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = "/etc/slurm-ofu/slurm-ofu.toml"
ENVIRONMENT_VARIABLE = "OFU_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the file: where its value goes, and what it may be."""

    field: str
    kinds: tuple[type, ...]
    check: Callable[[Any], str | None] = lambda value: None


def _positive(value: float) -> str | None:
    if not value > 0:
        return "must be greater than 0"
    # Beyond, nanoseconds are none or too many to count.
    return None if 1e-3 <= value <= 1e9 else "must lie between 0.001 and 1e9"


def _absolute(value: str) -> str | None:
    """The hooks read paths with the shell alone, so a path must need no unescaping."""
    if not value.startswith("/"):
        return "must be an absolute path"
    return None if not set(value) & set("\"'\\\n") else "must not hold quotes, backslashes or newlines"


def _url(*schemes: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        if value.startswith(tuple(f"{scheme}:///" for scheme in schemes)):
            return None
        return "must be " + " or ".join(f"{scheme}:///absolute/path" for scheme in schemes)

    return check


def _source(value: str) -> str | None:
    if value in ("auto", "nvml"):
        return None
    return (
        _url("synthetic", "replay")(value)
        and 'must be "auto", "nvml", "synthetic:///file" or "replay:///file"'
    )


def _readings(value: int) -> str | None:
    return None if 2 <= value <= 1000 else "must lie between 2 and 1000"


_NUMBER = (int, float)
SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "node": {
        "spool_dir": Key(field="spool_dir", kinds=(str,), check=_absolute),
        "cluster_name": Key(field="cluster_name", kinds=(str,)),
    },
    "sampler": {
        "source": Key(field="source", kinds=(str,), check=_source),
        "interval_seconds": Key(field="interval_seconds", kinds=_NUMBER, check=_positive),
        "cycles_interval_seconds": Key(field="cycles_interval_seconds", kinds=_NUMBER, check=_positive),
        "clock_readings": Key(field="clock_readings", kinds=(int,), check=_readings),
        "checkpoint_seconds": Key(field="checkpoint_seconds", kinds=_NUMBER, check=_positive),
        "counter_refresh_seconds": Key(field="counter_refresh_seconds", kinds=_NUMBER, check=_positive),
        "nvml_library": Key(field="nvml_library", kinds=(str,)),
        "seed": Key(field="seed", kinds=(int,)),
    },
    "delivery": {
        "to": Key(field="delivery_to", kinds=(str,), check=_url("sqlite", "dir")),
        "wait_seconds": Key(field="delivery_wait_seconds", kinds=_NUMBER, check=_positive),
    },
    "database": {
        "url": Key(field="database", kinds=(str,), check=_url("sqlite")),
        "owner": Key(field="database_owner", kinds=(str,)),
        "group": Key(field="database_group", kinds=(str,)),
        "world_readable": Key(field="database_world_readable", kinds=(bool,)),
    },
}
FREE_SECTIONS = ("gpu_map", "gpu_models")
GPU_MODEL_KEYS: Mapping[str, Key] = {
    "sm_count": Key(field="sm_count", kinds=(int,), check=_positive),
    "reference_clock_mhz": Key(field="reference_clock_mhz", kinds=_NUMBER, check=_positive),
    "max_clock_mhz": Key(field="max_clock_mhz", kinds=_NUMBER, check=_positive),
    "source": Key(field="source", kinds=(str,)),
}


def url_path(url: str) -> Path:
    """The absolute path in ``scheme:///absolute/path`` (SQLAlchemy's four slashes are fine too)."""
    return Path("/" + url.partition("://")[2].lstrip("/"))


def config_path(path: str | None = None) -> str:
    """The file that would be read: ``path``, else ``$OFU_CONFIG``, else the default."""
    return path or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_PATH


def load_config(path: str | None = None) -> Config:
    """Read and check the configuration. Raises ConfigError with the file, the key and what to do."""
    found = config_path(path)
    try:
        text = Path(found).read_text(encoding="utf-8")
    except FileNotFoundError:
        if found == DEFAULT_PATH:
            return Config(path=found)
        raise ConfigError(f"{found}: no such file (named by --config or {ENVIRONMENT_VARIABLE})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found}: cannot be read: {error}") from error
    return parse_config(text, path=found)


def parse_config(text: str, *, path: str) -> Config:
    """Text of a slurm-ofu.toml → Config. Raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    values: dict[str, Any] = {}
    for section, body in table.items():
        where = f"{path}: [{section}]"
        if section in FREE_SECTIONS:
            continue
        keys = _known(SECTIONS, section, f"{path}: section")
        values.update(_section(_table(body, where), keys, where))
    _check_hooks_reading(text, values.get("spool_dir"), path)
    sampler_fields = {field.name for field in fields(SamplerConfig)}
    sampler = SamplerConfig(**{name: values.pop(name) for name in list(values) if name in sampler_fields})
    return Config(
        path=path,
        sampler=sampler,
        gpu_map=_gpu_map(_table(table.get("gpu_map", {}), f"{path}: [gpu_map]"), path),
        gpu_models=_gpu_models(_table(table.get("gpu_models", {}), f"{path}: [gpu_models]"), path),
        **values,
    )


def _check_hooks_reading(text: str, spool_dir: str | None, path: str) -> None:
    """The hooks read ``spool_dir`` with the shell: both must come to the same directory."""
    if _as_the_hooks_read(text) != spool_dir:
        raise ConfigError(
            f"{path}: the hooks read spool_dir with the shell alone and come to another directory: write"
            f' spool_dir = "{spool_dir or Config(path=path).spool_dir}" on a line of its own under [node]'
        )


def _as_the_hooks_read(text: str) -> str | None:
    """What ``read_spool_dir`` of the hook scripts makes of the file."""
    for line in text.split("\n"):
        key, _, value = line.strip(" \t").partition("=")
        if key.strip(" \t") != "spool_dir":
            continue
        value = value.strip(" \t")
        if value[:1] in ("'", '"'):
            value = value[1:].partition(value[0])[0]
        return value if value.startswith("/") else None
    return None


def _table(body: object, where: str) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise ConfigError(f"{where} must be a table")
    return body


def _known(table: Mapping[str, Any], name: str, where: str) -> Any:
    if name in table:
        return table[name]
    from difflib import get_close_matches  # only a typo pays for it

    near = get_close_matches(name, table, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(table))}"
    raise ConfigError(f"{where} {name} is not known{hint}")


def _section(body: Mapping[str, Any], keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    values = {}
    for name, value in body.items():
        key = _known(keys, name, f"{where} key")
        if not isinstance(value, key.kinds) or (isinstance(value, bool) and bool not in key.kinds):
            kinds = " or ".join(kind.__name__ for kind in key.kinds)
            raise ConfigError(f"{where} {name} = {value!r}: must be {kinds}")
        if problem := key.check(value):
            raise ConfigError(f"{where} {name} = {value!r}: {problem}")
        values[key.field] = float(value) if float in key.kinds else value
    for name in ("database_owner", "database_group"):
        if values.get(name) == "":
            values[name] = None
    return values


def _gpu_map(body: Mapping[str, Any], path: str) -> dict[str, dict[int, str]]:
    result: dict[str, dict[int, str]] = {}
    for node, positions in body.items():
        where = f"{path}: [gpu_map] {node}"
        row = _table(positions, where)
        if not all(name.isdecimal() and isinstance(gpu, str) for name, gpu in row.items()):
            raise ConfigError(f'{where}: must map positions to GPUs, as in 0 = "GPU-…"')
        result[node] = {int(name): gpu for name, gpu in row.items()}
    return result


def _gpu_models(body: Mapping[str, Any], path: str) -> tuple[GpuModel, ...]:
    models = []
    for name, row in body.items():
        where = f"{path}: [gpu_models.{name!r}]"
        values = _section(_table(row, where), GPU_MODEL_KEYS, where)
        if "reference_clock_mhz" not in values:
            raise ConfigError(f"{where}: reference_clock_mhz is missing")
        models.append(GpuModel(name=name, **{"sm_count": None, "max_clock_mhz": None, **values}))
    return tuple(models)
