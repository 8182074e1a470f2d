"""The accounting database, made ready by hand. Apart from delivery: this needs sqlite-utils."""

import grp

from slurm_ofu.config import url_path
from slurm_ofu.store.filesystems import closed_directory
from slurm_ofu.store.migrate import hand_over, is_shared, migrate
from slurm_ofu.values import Config
from slurm_ofu.wiring.delivering import group_exists, owner_id


def prepare_database(config: Config) -> str:
    """Create or upgrade the configured database and set its group, if there is such a group, and its mode.
    Raises StoreError."""
    path = url_path(config.database)
    group = config.database_group if group_exists(config.database_group) else None
    everybody, done = config.database_world_readable, "is up to date" if path.exists() else "was created"
    migrate(path, group=group, world_readable=everybody, wait_seconds=config.delivery_wait_seconds)
    hand_over(path, group=group, world_readable=everybody, owner_id=owner_id(config))
    readers = "everybody" if everybody else f"group {group}" if group else "its owner"
    stays = f"; {path.parent} holds other files too, and stays as it is" if is_shared(path) else ""
    return f"{path} {done}, readable by {readers}{stays}"


def out_of_reach(config: Config) -> str | None:
    """Why its readers cannot get to the database, and what to do; ``None`` where they can."""
    path, group = url_path(config.database), config.database_group
    if config.database_world_readable:
        readers, group_id = "other users", None
    elif group is None:
        return None  # its owner's alone
    elif not group_exists(group):
        return (
            f"group {group} does not exist: only the database's owner can read it; groupadd --system {group},"
            " then ofu-admin init"
        )
    else:
        readers, group_id = f"members of the group {group}", grp.getgrnam(group).gr_gid
    closed = closed_directory(path, group_id)
    if closed is None:
        return None
    own = closed == path.parent and not is_shared(path)
    todo = "run ofu-admin init" if own else f"let them pass (chmod a+x {closed})"
    return f"{path}: {readers} cannot enter {closed}: {todo}, or set [database] url to another place"
