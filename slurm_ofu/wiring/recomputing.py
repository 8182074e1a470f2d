"""The reference clocks of the catalogue, and the site's, brought to the rows of the accounting database."""

from functools import partial

from slurm_ofu.config import url_path
from slurm_ofu.gpu_models import find_model
from slurm_ofu.records.build import reason_of_many
from slurm_ofu.store.recomputing import Recomputation
from slurm_ofu.values import Config


def open_recomputation(config: Config) -> Recomputation:
    """For the configured database and catalogue."""
    return Recomputation(
        url_path(config.database),
        wait_seconds=config.delivery_wait_seconds,
        model_of=partial(find_model, site_models=config.gpu_models),
        node_reason=reason_of_many,
    )
