"""Name of a way to ask Slurm's accounting → the object that does. Each is imported only when asked for."""

from slurm_ofu.errors import AccountingUnusable
from slurm_ofu.protocols import Accounting
from slurm_ofu.values import AccountingConfig

#: What each is for.
WAYS = {
    "sacct": "sacct, read as text: every Slurm from 22.05 on, any window",
    "sacct-json": "sacct --json: Slurm 24.11 and later, windows of up to a day",
    "pyslurm": "pyslurm, which must be built for exactly this Slurm (pip install 'slurm-ofu[pyslurm]')",
}


def open_accounting_source(config: AccountingConfig) -> Accounting:
    """What ``[accounting] source`` names; "auto" is sacct. Nothing is asked yet.

    Raises AccountingUnusable for "none", and for a name that there is not.
    """
    if config.source in ("auto", "sacct"):
        from slurm_ofu.slurm.sacct import Sacct

        return Sacct(config)
    if config.source == "sacct-json":
        from slurm_ofu.slurm.sacct_json import SacctJson

        return SacctJson(config)
    if config.source == "pyslurm":
        from slurm_ofu.slurm.accounting_pyslurm import PyslurmAccounting

        return PyslurmAccounting(config)
    ways = "; ".join(f'"{name}" ({what})' for name, what in WAYS.items())
    raise AccountingUnusable(
        f'[accounting] source = "{config.source}": accounting is not asked; there is "auto" or {ways}'
    )
