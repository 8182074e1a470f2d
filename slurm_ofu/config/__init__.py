"""One TOML file → :class:`~slurm_ofu.values.Config`.

Every key has a default; an unknown key, a wrong type or a value out of range is an error that names
the key and, for a typo, the nearest valid one. The file is found by argument, else by the environment
variable ``OFU_CONFIG``, else at ``/etc/slurm-ofu/slurm-ofu.toml``; only the last may be absent.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ofu.config.keys import CLUSTER_KEYS, FREE_SECTIONS, GPU_MODEL_KEYS, SECTIONS, Key, goal_problem
from slurm_ofu.errors import ConfigError
from slurm_ofu.values import (
    AccountingConfig,
    AuditConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    FindingRules,
    Goals,
    GpuModel,
    MailConfig,
    PagesConfig,
    PrometheusConfig,
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
        prometheus=PrometheusConfig(**parts["prometheus"]),
        goals=_goals(_table(table.get("goals", {}), f"{path}: [goals]"), path),
        findings=FindingRules(**parts["findings"]),
        audits=AuditConfig(**parts["audits"]),
        mail=MailConfig(**parts["mail"]),
        pages=PagesConfig(**parts["pages"]),
        **values,
    )


_PARTS = (
    *("sampler", "delivery_signing", "collector.signing", "collector"),
    *("accounting", "write_back", "prometheus", "findings", "audits", "mail", "pages"),
)


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
            raise ConfigError(f"{where} {name} = {_without_password(value)!r}: {problem}")
        values[key.field] = _plain(value, key)
    return values


def _without_password(value: Any) -> Any:
    """What a message may repeat of it: logs have more readers than some files."""
    return f"…@{value.rpartition('@')[2]}" if isinstance(value, str) and "@" in value else value


def _plain(value: Any, key: Key) -> Any:
    """The value as Config holds it: numbers as float, lists as tuples, "" of an optional text as None."""
    if value == "" and key.field.endswith(_EMPTY_IS_NONE):
        return None
    if isinstance(value, list):
        return tuple(value)
    return float(value) if float in key.kinds else value


_EMPTY_IS_NONE = (
    *("_owner", "_group", "munge_socket", "ca_file", "slurm_conf"),
    *("dcgm_host", "token_file", "prometheus.url", "templates_dir", "reply_to", "domain"),
    *("help_url", "pages.title"),
)


def _clusters(body: Mapping[str, Any], default: SigningConfig, path: str) -> tuple[ClusterConfig, ...]:
    """[clusters.NAME]: what differs from [collector] for one of several clusters."""
    clusters = []
    for name, row in body.items():
        where = f"{path}: [clusters.{name}]"
        said = _part(_section(_table(row, where), CLUSTER_KEYS, where), "signing")
        clusters.append(ClusterConfig(name=name, signing=replace(default, **said)))
    return tuple(clusters)


def _goals(body: Mapping[str, Any], path: str) -> Goals:
    """[goals]: partition → ratio; "*" is the default."""
    for name, value in body.items():
        if problem := goal_problem(name, value):
            raise ConfigError(f"{path}: [goals] {name} = {value!r}: {problem}")
    named = {name: float(value) for name, value in body.items() if name != "*"}
    return Goals(default_ratio=float(body.get("*", Goals().default_ratio)), by_partition=named)


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
        peak = values.pop("peak_tflops", None)
        peaks = {} if peak is None else {"fp16": peak}
        models.append(GpuModel(name=name, peaks=peaks, **{"sm_count": None, "max_clock_mhz": None, **values}))
    return tuple(models)
