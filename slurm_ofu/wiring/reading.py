"""Which accounting database a Config names, opened for reading."""

from functools import partial

from slurm_ofu.config import url_path
from slurm_ofu.errors import NotPermitted, StoreError, StoreMissing
from slurm_ofu.store.read import Reader
from slurm_ofu.values import Config
from slurm_ofu.wiring.claiming import with_peak


def open_reader(config: Config) -> Reader:
    """The reader of the configured database.

    Raises StoreMissing where there is none, NotPermitted where this user may not read it, StoreError where
    it cannot be read: each says what to do.
    """
    path = url_path(config.database)
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise StoreMissing(
            f"there is no accounting database at {path} (configuration: {config.path}). It comes into being"
            " with the first record that is delivered, or by ofu-admin init."
        ) from None
    except PermissionError:
        raise NotPermitted(
            f"{path}: permission denied. {_who_may(config)} Your own jobs, and all that Slurm lets you see,"
            " are in Slurm's accounting: ofu-report --from-slurm (where the site writes OFU back)."
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    return Reader(path, held_against=partial(with_peak, site_models=config.gpu_models), goals=config.goals)


def _who_may(config: Config) -> str:
    if config.database_group is None:
        return "Only its owner may read it: ask your administrators."
    return f"Members of the group {config.database_group!r} may read it: ask your administrators to be one."
