"""The accounting database, made ready by hand. Apart from delivery: this needs sqlite-utils."""

from slurm_ofu.config import url_path
from slurm_ofu.store.migrate import hand_over, migrate
from slurm_ofu.values import Config


def prepare_database(config: Config) -> str:
    """Create or upgrade the configured database and set its group and mode. Raises StoreError."""
    path = url_path(config.database)
    group, everybody = config.database_group, config.database_world_readable
    migrate(path, group=group, world_readable=everybody, wait_seconds=config.delivery_wait_seconds)
    hand_over(path, group=group, world_readable=everybody)
    readers = "everybody" if everybody else f"group {group}" if group else "its owner"
    return f"{path} is up to date, readable by {readers}"
