"""The clusters that slurmdbd knows. Asked about another one, sacct has no rows and no complaint."""

from slurm_ofu.errors import AccountingError
from slurm_ofu.slurm import client_command
from slurm_ofu.values import AccountingConfig

TIMEOUT_SECONDS = 60.0
_LIST = ("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster")


class ClusterNames:
    """What sacctmgr lists, read again whenever a name is not among it."""

    def __init__(self, config: AccountingConfig) -> None:
        self._config = config
        self._known: frozenset[str] = frozenset()

    def check(self, cluster: str) -> None:
        """AccountingError, naming those that there are, for a cluster that slurmdbd does not know."""
        if cluster in self._known:
            return
        said = client_command.run(_LIST, config=self._config, timeout_seconds=TIMEOUT_SECONDS)
        if said.returncode:
            raise client_command.failure("sacctmgr", said)
        self._known = frozenset(said.stdout.decode("utf-8", "replace").split())
        if cluster not in self._known:
            known = ", ".join(sorted(self._known)) or "none"
            raise AccountingError(f"slurmdbd knows no cluster {cluster!r}; it knows {known}")
