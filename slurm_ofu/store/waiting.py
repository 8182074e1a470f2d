"""Which runs wait for their row of Slurm's accounting, and of which clusters there are runs at all."""

from typing import Final

from slurm_ofu.store.connection import dicts
from slurm_ofu.store.read import Reader
from slurm_ofu.values import WaitingRun

_WAITING: Final = """
SELECT cluster, job_id, start_epoch_s, end_epoch_s FROM run
WHERE heard = 1 AND accounted = 0 AND end_epoch_s >= ? AND end_epoch_s < ?
    AND (running = 0 OR end_epoch_s < ?) ORDER BY end_epoch_s, run_id
"""
_CLUSTERS: Final = "SELECT DISTINCT cluster FROM run ORDER BY cluster"


class WaitingReader(Reader):
    """The accounting database as the completion from Slurm's accounting sees it."""

    def waiting(
        self, start_epoch_s: float, end_epoch_s: float, *, gone_epoch_s: float = float("-inf")
    ) -> tuple[WaitingRun, ...]:
        """Runs that nodes spoke of, that ended in start <= t < end, and that have no row that is over.

        A run that goes on, by its nodes, waits for none, unless they were last heard before ``gone_epoch_s``.
        """
        asked: list[str | int | float] = [start_epoch_s, end_epoch_s, gone_epoch_s]
        return self._answer(lambda opened: tuple(WaitingRun(**row) for row in dicts(opened, _WAITING, asked)))

    def clusters(self) -> tuple[str, ...]:
        """The clusters of all runs, by name."""
        return self._answer(lambda opened: tuple(name for (name,) in opened.execute(_CLUSTERS)))
