"""`ofu-admin reconcile`: complete what can be completed, then say what only one side knows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_ofu.config import url_path
from slurm_ofu.errors import StoreMissing
from slurm_ofu.protocols import Accounting
from slurm_ofu.store.reconciling import ReconcilingReader
from slurm_ofu.store.waiting import WaitingReader
from slurm_ofu.values import Config, Reconciliation
from slurm_ofu.wiring.completing import Completed, Completer, gone_epoch_s
from slurm_ofu.wiring.delivering import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What Slurm's accounting brought, and each cluster's reconciliation, by name."""

    completed: Completed
    clusters: tuple[tuple[str, Reconciliation], ...]


def reconcile(
    config: Config,
    start_epoch_s: float,
    end_epoch_s: float,
    now_epoch_s: float,
    *,
    clusters: Sequence[str] = (),
    partitions: Sequence[str] = (),
    accounting: Accounting | None = None,
) -> Reconciled:
    """Read Slurm's accounting of the window and ask for every run in it that waits for its row; then compare.

    ``clusters``: (): those configured, and all that have runs. Raises AccountingError and StoreError.
    """
    path = url_path(config.database)
    if not path.exists():
        raise StoreMissing(f"{path}: there is no accounting database (yet): ofu-admin init makes one")
    open_store(config).read_until("")  # upgrades a database of an older version
    completer = Completer(_with_clusters(config, clusters), accounting)
    done = completer.read(start_epoch_s, min(end_epoch_s, now_epoch_s))
    done += completer.ask_for_waiting(start_epoch_s, end_epoch_s)
    names = clusters or dict.fromkeys((*config.accounting.clusters, *WaitingReader(path).clusters()))
    reader = ReconcilingReader(path)
    settled = now_epoch_s - config.accounting.settle_seconds
    return Reconciled(
        completed=done,
        clusters=tuple(
            (
                name,
                reader.reconciliation(
                    name,
                    start_epoch_s,
                    end_epoch_s,
                    ended_by_epoch_s=settled,
                    gone_epoch_s=gone_epoch_s(config, now_epoch_s),
                    partitions=tuple(partitions),
                ),
            )
            for name in names
        ),
    )


def _with_clusters(config: Config, clusters: Sequence[str]) -> Config:
    """Whoever names clusters wants their accounting read. The site's own name of its one cluster is none that
    slurmdbd knows."""
    its_own = not config.accounting.clusters and tuple(clusters) == (config.cluster_name,)
    if not clusters or its_own:
        return config
    return replace(config, accounting=replace(config.accounting, clusters=tuple(clusters)))
