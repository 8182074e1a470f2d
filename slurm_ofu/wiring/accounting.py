"""Which way of asking Slurm's accounting a Config names."""

from slurm_ofu.protocols import Accounting
from slurm_ofu.slurm.accounting_catalogue import open_accounting_source
from slurm_ofu.values import Config


def open_accounting(config: Config) -> Accounting:
    """The configured way; whether it works here shows when it is asked. Raises AccountingUnusable."""
    return open_accounting_source(config.accounting)
