"""Every key of slurm-ofu.toml: where its value goes, and what it may be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_ofu.values import AUDIT_NAMES


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


def _not_negative(value: float) -> str | None:
    return None if value == 0 else _positive(value)


def _ratio(value: float) -> str | None:
    return None if 0 < value <= 1.1 else "must be a ratio above 0 and up to 1.1"


def _factor(value: float) -> str | None:
    return None if 1 < value <= 1000 else "must be a factor above 1"


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
    good = all(isinstance(name, str) and name == name.strip() != "" and "," not in name for name in value)
    return None if good else 'must be a list of names, as in ["alpha", "beta"]'


def _audits(value: list[Any]) -> str | None:
    unknown = next((name for name in value if name not in AUDIT_NAMES), None)
    if unknown is None:
        return None
    from difflib import get_close_matches  # only a typo pays for it

    near = get_close_matches(unknown, AUDIT_NAMES, n=1) if isinstance(unknown, str) else []
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(AUDIT_NAMES)}"
    return f"{unknown!r} is no audit; {hint}"


def goal_problem(partition: str, value: object) -> str | None:
    """What is wrong with a line of [goals]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or _ratio(value):
        return "must be a ratio above 0 and up to 1.1"
    if "," in partition or partition != partition.strip() or not partition:
        return "must name a single partition"
    return 'no partition has that name: write "*"' if partition.lower() == "default" else None


def _threads(value: int) -> str | None:
    return None if 1 <= value <= 64 else "must lie between 1 and 64"


def _source(value: str) -> str | None:
    if value in ("auto", "nvml", "dcgm", "exporter"):
        return None
    return (
        _url("synthetic", "replay")(value)
        and 'must be "auto", "nvml", "dcgm", "exporter", "synthetic:///file" or "replay:///file"'
    )


def _http(value: str) -> str | None:
    good = value.startswith(("http://", "https://")) and not set(value) & set(" \"'\\\n")
    return None if good else "must be http://host:port/path or https://…"


def _http_or_none(value: str) -> str | None:
    return None if value == "" else _http(value)


def _readings(value: int) -> str | None:
    return None if 2 <= value <= 1000 else "must lie between 2 and 1000"


_NUMBER = (int, float)


def _seconds(field: str) -> Key:
    return Key(field=field, kinds=_NUMBER, check=_positive)


def _number(field: str, check: Callable[[Any], str | None]) -> Key:
    return Key(field=field, kinds=_NUMBER, check=check)


def _list(field: str) -> Key:
    return Key(field=field, kinds=(list,), check=_names)


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
        "dcgmi": Key(field="sampler.dcgmi", kinds=(str,), check=_absolute),
        "dcgm_host": Key(field="sampler.dcgm_host", kinds=(str,)),
        "exporter_url": Key(field="sampler.exporter_url", kinds=(str,), check=_http),
        "allow_opt_out": Key(field="sampler.allow_opt_out", kinds=(bool,)),
        "interim_seconds": Key(field="sampler.interim_seconds", kinds=_NUMBER, check=_not_negative),
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
    "prometheus": {
        "url": Key(field="prometheus.url", kinds=(str,), check=_http_or_none),
        "ca_file": Key(field="prometheus.ca_file", kinds=(str,), check=_directory_or_file),
        "token_file": Key(field="prometheus.token_file", kinds=(str,), check=_directory_or_file),
        "timeout_seconds": _seconds("prometheus.timeout_seconds"),
    },
    "findings": {
        **{
            name: _number(f"findings.{name}", _ratio)
            for name in (
                *("idle_ratio", "unused_ratio", "idle_tail_ratio", "slow_ratio", "memory_bound_ratio"),
                *("memory_bound_tensor_ratio", "non_tensor_ratio", "starved_ratio", "throttled_ratio"),
                *("goal_share_ratio", "judged_ratio", "low_clock_ratio"),
            )
        },
        "idle_tail_seconds": _seconds("findings.idle_tail_seconds"),
        "short_seconds": _number("findings.short_seconds", _not_negative),
    },
    "audits": {
        "minimum_seconds": _number("audits.minimum_seconds", _not_negative),
        "minimum_gpu_hours": _number("audits.minimum_gpu_hours", _not_negative),
        "top": Key(field="audits.top", kinds=(int,), check=_positive),
        **{
            name: _list(f"audits.{name}")
            for name in ("exclude_users", "exclude_accounts", "exclude_qos", "exclude_partitions")
        },
        **{
            name: _number(f"audits.{name}", _ratio)
            for name in (
                *("minimum_coverage_ratio", "waste_ofu_ratio", "idle_ratio", "unused_ratio"),
                *("hardware_lag_ratio", "coverage_ratio"),
            )
        },
        "idle_seconds": _seconds("audits.idle_seconds"),
        "regression_factor": _number("audits.regression_factor", _factor),
        "regression_runs": Key(field="audits.regression_runs", kinds=(int,), check=_readings),
        "claim_difference_pp": _number("audits.claim_difference_pp", _positive),
        "claim_ratio": _number("audits.claim_ratio", _factor),
        "hardware_jobs": Key(field="audits.hardware_jobs", kinds=(int,), check=_readings),
    },
    "mail": {
        "server": Key(field="mail.server", kinds=(str,), check=_host_port),
        "sender": Key(field="mail.sender", kinds=(str,)),
        "reply_to": Key(field="mail.reply_to", kinds=(str,)),
        "domain": Key(field="mail.domain", kinds=(str,)),
        "admins": _list("mail.admins"),
        "audits": Key(field="mail.audits", kinds=(list,), check=_audits),
        "days_between": _number("mail.days_between", _positive),
        "again_days": _number("mail.again_days", _positive),
        "templates_dir": Key(field="mail.templates_dir", kinds=(str,), check=_directory_or_file),
        "help_url": Key(field="mail.help_url", kinds=(str,), check=_http_or_none),
    },
    "pages": {
        "show_users": Key(field="pages.show_users", kinds=(bool,)),
        "title": Key(field="pages.title", kinds=(str,)),
        "templates_dir": Key(field="pages.templates_dir", kinds=(str,), check=_directory_or_file),
        "job_pages": Key(field="pages.job_pages", kinds=(int,), check=_positive),
    },
    "database": {
        "url": Key(field="database", kinds=(str,), check=_url("sqlite")),
        "owner": Key(field="database_owner", kinds=(str,)),
        "group": Key(field="database_group", kinds=(str,)),
        "world_readable": Key(field="database_world_readable", kinds=(bool,)),
    },
}
FREE_SECTIONS = ("gpu_map", "gpu_models", "clusters", "goals")
CLUSTER_KEYS: Mapping[str, Key] = _signing("signing")
GPU_MODEL_KEYS: Mapping[str, Key] = {
    "sm_count": Key(field="sm_count", kinds=(int,), check=_positive),
    "reference_clock_mhz": Key(field="reference_clock_mhz", kinds=_NUMBER, check=_positive),
    "max_clock_mhz": Key(field="max_clock_mhz", kinds=_NUMBER, check=_positive),
    "peak_tflops": Key(field="peak_tflops", kinds=_NUMBER, check=_positive),
    "calibrated": Key(field="calibrated", kinds=(bool,)),
    "source": Key(field="source", kinds=(str,)),
}
