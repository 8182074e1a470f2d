"""Put the collector's units, inbox, database and configuration where they belong."""

from collections.abc import Iterable
from pathlib import Path

from slurm_ofu.config import load_config, url_path
from slurm_ofu.errors import ConfigError, StoreError
from slurm_ofu.values import Config
from slurm_ofu.wiring.collecting import make_inbox
from slurm_ofu.wiring.database import out_of_reach, prepare_database
from slurm_ofu.wiring.delivering import group_exists, owner_id
from slurm_ofu.wiring.installing import shipped, write_configuration, write_filled

UNIT = "slurm-ofu-collect.service"
MAIL_TIMER = "slurm-ofu-mail.timer"
UNITS = (UNIT, "slurm-ofu-mail.service", MAIL_TIMER)


def install_collector(config_file: Path, systemd_dir: Path | None, *, python: Path) -> list[str]:
    """Install on the database's host; what exists of the configuration is kept. Says what it did. Raises
    ConfigError."""
    try:
        return _install(config_file, systemd_dir, python)
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}: run as root") from error


def _install(config_file: Path, systemd_dir: Path | None, python: Path) -> list[str]:
    said = write_configuration(config_file)
    config = load_config(str(config_file))
    _refuse_marks((config_file, python, *_written(config)))
    try:
        said.append(prepare_database(config))
        said += [problem for problem in (out_of_reach(config),) if problem]
    except StoreError as error:
        said.append(f"no database yet, and the collector will try: {error}")
    make_inbox(Path(config.collector.inbox), owner_id(config))
    said.append(f"inbox {config.collector.inbox}")
    signing = config.collector.signing
    if signing.authentication == "key" and not Path(signing.key_file).exists():
        said.append(f"{signing.key_file} is missing: run ofu-admin new-key before the collector is started")
    if systemd_dir is not None:
        values = {
            "@OFU_ADMIN@": str(python.parent / "ofu-admin"),
            "@OFU_CONFIG@": str(config_file),
            "@OFU_USER@": _user_lines(config),
            "@OFU_WRITES@": " ".join(f"-{path}" for path in _written(config)),
        }
        said += [
            write_filled(shipped(f"etc/systemd/{unit}"), systemd_dir / unit, values, mode=0o644)
            for unit in UNITS
        ]
        if config.mail.sender:
            said.append(f"for mail every Monday `systemctl enable --now {MAIL_TIMER}`, after ofu-admin mail")
        said.append(f"then `systemctl daemon-reload` and `systemctl enable --now {UNIT}`")
    return said


def _written(config: Config) -> tuple[Path, ...]:
    """The directories that the collector writes to."""
    database, inbox = url_path(config.database).parent, Path(config.collector.inbox)
    return (database,) if database in inbox.parents else (database, inbox)


def _user_lines(config: Config) -> str:
    if config.database_owner is None:
        return "# As root: [database] owner names nobody else."
    group = config.database_group
    # To give the database to its readers' group one has to be in it.
    lines = [f"SupplementaryGroups={group}"] if group is not None and group_exists(group) else []
    return "\n".join((f"User={config.database_owner}", *lines))


def _refuse_marks(paths: Iterable[Path]) -> None:
    for path in paths:
        if set(str(path)) & set("'\"\\\n %"):
            raise ConfigError(f"{path}: a unit cannot hold a path with spaces, quotes, backslashes or %")
