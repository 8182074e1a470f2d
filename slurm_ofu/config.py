"""One TOML file → :class:`~slurm_ofu.values.Config`.

Every key has a default; an unknown key, a wrong type or a value out of range is an error that names
the key and, for a typo, the nearest valid one. The file is found by argument, else by the environment
variable ``OFU_CONFIG``, else at ``/etc/slurm-ofu/slurm-ofu.toml``; only the last may be absent.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_ofu.errors import ConfigError
from slurm_ofu.values import (
    AccountingConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    GpuModel,
    SamplerConfig,
    SigningConfig,
    WriteBackConfig,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = "/etc/slurm-ofu/slurm-ofu.toml"
ENVIRONMENT_VARIABLE = "OFU_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the file: where its value goes, and what it may be."""

    field: str  # of Config, or with a dot of one of its parts
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


def _delivery(value: str) -> str | None:
    """sqlite:///path, dir:///path or http[s]://host:port."""
    scheme, _, rest = value.partition("://")
    if scheme in ("http", "https"):
        return _host_port(rest.rstrip("/"))
    return _url("sqlite", "dir")(value) and (
        "must be sqlite:///absolute/path, dir:///absolute/path or http://host:port"
    )


def _host_port(value: str) -> str | None:
    host, _, port = value.rpartition(":")
    if not host or set(host) & set("/@ \"'\\") or not (port.isascii() and port.isdecimal()):
        return "must name a host and a port, as in host:6825 or [::1]:6825"
    return None if 0 < int(port[:6]) < 65536 else "must have a port between 1 and 65535"


def _listen(value: str) -> str | None:
    return None if value == "" else _host_port(value)


def _directory_or_file(value: str) -> str | None:
    return None if value == "" else _absolute(value)


def _one_of(*words: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        return None if value in words else "must be one of " + ", ".join(f'"{word}"' for word in words)

    return check


def _names(value: list[Any]) -> str | None:
    good = all(isinstance(name, str) and name and "," not in name for name in value)
    return None if good else 'must be a list of names, as in ["alpha", "beta"]'


def _threads(value: int) -> str | None:
    return None if 1 <= value <= 64 else "must lie between 1 and 64"


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


def _seconds(field: str) -> Key:
    return Key(field=field, kinds=_NUMBER, check=_positive)


_AUTHENTICATION = _one_of("munge", "key")


def _signing(at: str) -> dict[str, Key]:
    """The keys of a SigningConfig that Config holds at ``at``."""
    return {
        "authentication": Key(field=f"{at}.authentication", kinds=(str,), check=_AUTHENTICATION),
        "munge_socket": Key(field=f"{at}.munge_socket", kinds=(str,), check=_directory_or_file),
        "key_file": Key(field=f"{at}.key_file", kinds=(str,), check=_absolute),
    }


SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "node": {
        "spool_dir": Key(field="spool_dir", kinds=(str,), check=_absolute),
        "cluster_name": Key(field="cluster_name", kinds=(str,)),
    },
    "sampler": {
        "source": Key(field="sampler.source", kinds=(str,), check=_source),
        "interval_seconds": _seconds("sampler.interval_seconds"),
        "cycles_interval_seconds": Key(
            field="sampler.cycles_interval_seconds", kinds=_NUMBER, check=_positive
        ),
        "clock_readings": Key(field="sampler.clock_readings", kinds=(int,), check=_readings),
        "checkpoint_seconds": _seconds("sampler.checkpoint_seconds"),
        "counter_refresh_seconds": Key(
            field="sampler.counter_refresh_seconds", kinds=_NUMBER, check=_positive
        ),
        "nvml_library": Key(field="sampler.nvml_library", kinds=(str,)),
        "seed": Key(field="sampler.seed", kinds=(int,)),
    },
    "delivery": {
        "to": Key(field="delivery_to", kinds=(str,), check=_delivery),
        "wait_seconds": _seconds("delivery_wait_seconds"),
        "ca_file": Key(field="delivery_ca_file", kinds=(str,), check=_directory_or_file),
        **_signing("delivery_signing"),
    },
    "collector": {
        "listen": Key(field="collector.listen", kinds=(str,), check=_listen),
        "inbox": Key(field="collector.inbox", kinds=(str,), check=_absolute),
        "inbox_limit_mib": Key(field="collector.inbox_limit_mib", kinds=(int,), check=_positive),
        "threads": Key(field="collector.threads", kinds=(int,), check=_threads),
        **_signing("collector.signing"),
    },
    "accounting": {
        "source": Key(
            field="accounting.source",
            kinds=(str,),
            check=_one_of("auto", "sacct", "sacct-json", "pyslurm", "none"),
        ),
        "clusters": Key(field="accounting.clusters", kinds=(list,), check=_names),
        "bin_dir": Key(field="accounting.bin_dir", kinds=(str,), check=_absolute),
        "slurm_conf": Key(field="accounting.slurm_conf", kinds=(str,), check=_directory_or_file),
        "every_seconds": _seconds("accounting.every_seconds"),
        "settle_seconds": _seconds("accounting.settle_seconds"),
    },
    "write_back": {
        "enabled": Key(field="write_back.enabled", kinds=(bool,)),
        "field": Key(
            field="write_back.field",
            kinds=(str,),
            check=_one_of("SystemComment", "AdminComment", "Comment"),
        ),
        "wait_seconds": _seconds("write_back.wait_seconds"),
        "jobs_per_minute": Key(field="write_back.jobs_per_minute", kinds=_NUMBER, check=_positive),
    },
    "database": {
        "url": Key(field="database", kinds=(str,), check=_url("sqlite")),
        "owner": Key(field="database_owner", kinds=(str,)),
        "group": Key(field="database_group", kinds=(str,)),
        "world_readable": Key(field="database_world_readable", kinds=(bool,)),
    },
}
FREE_SECTIONS = ("gpu_map", "gpu_models", "clusters")
CLUSTER_KEYS: Mapping[str, Key] = _signing("signing")
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
    parts = {name: _part(values, name) for name in _PARTS}
    signing = SigningConfig(**parts.pop("collector.signing"))
    collector = CollectorConfig(
        **parts.pop("collector"),
        signing=signing,
        clusters=_clusters(_table(table.get("clusters", {}), f"{path}: [clusters]"), signing, path),
    )
    return Config(
        path=path,
        sampler=SamplerConfig(**parts["sampler"]),
        gpu_map=_gpu_map(_table(table.get("gpu_map", {}), f"{path}: [gpu_map]"), path),
        gpu_models=_gpu_models(_table(table.get("gpu_models", {}), f"{path}: [gpu_models]"), path),
        delivery_signing=SigningConfig(**parts["delivery_signing"]),
        collector=collector,
        accounting=AccountingConfig(**parts["accounting"]),
        write_back=WriteBackConfig(**parts["write_back"]),
        **values,
    )


_PARTS = ("sampler", "delivery_signing", "collector.signing", "collector", "accounting", "write_back")


def _part(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Take the fields of one part of Config out of ``values``."""
    found = [field for field in values if field.startswith(f"{name}.")]
    return {field.rpartition(".")[2]: values.pop(field) for field in found}


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
        values[key.field] = _plain(value, key)
    return values


def _plain(value: Any, key: Key) -> Any:
    """The value as Config holds it: numbers as float, lists as tuples, "" of an optional text as None."""
    if value == "" and key.field.endswith(_EMPTY_IS_NONE):
        return None
    if isinstance(value, list):
        return tuple(value)
    return float(value) if float in key.kinds else value


_EMPTY_IS_NONE = ("_owner", "_group", "munge_socket", "ca_file", "slurm_conf")


def _clusters(body: Mapping[str, Any], default: SigningConfig, path: str) -> tuple[ClusterConfig, ...]:
    """[clusters.NAME]: what differs from [collector] for one of several clusters."""
    clusters = []
    for name, row in body.items():
        where = f"{path}: [clusters.{name}]"
        said = _part(_section(_table(row, where), CLUSTER_KEYS, where), "signing")
        clusters.append(ClusterConfig(name=name, signing=replace(default, **said)))
    return tuple(clusters)


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
