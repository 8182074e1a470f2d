"""The inbox's records into the database, turn by turn; what is amiss is said once, not at every turn."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_ofu.delivery.inbox import Ingested, ingest
from slurm_ofu.errors import DeliveryError, StoreError
from slurm_ofu.records.codec import decode
from slurm_ofu.values import NodeRecord


class TakingIn:
    """Stores what lies in an inbox directory."""

    def __init__(
        self,
        directory: Path,
        *,
        write: Callable[[Sequence[NodeRecord]], None],
        owner_id: int | None,
        say: Callable[[str], None],
        stop: Callable[[], bool],
    ) -> None:
        self._directory, self._write, self._owner_id = directory, write, owner_id
        self._say, self._stop = say, stop
        self._too_new: set[str] = set()
        self._told: set[str] = set()
        self._trouble: str | None = None
        self._stored = 0

    def state(self) -> Mapping[str, object]:
        """For the health page."""
        database = "ok" if self._trouble is None else "unavailable"
        return {"database": database, "stored_records": self._stored, "too_new_records": len(self._too_new)}

    def turn(self) -> bool:
        """Take in what is there. False: the database cannot take it now, and every file is kept."""
        try:
            done = ingest(
                self._directory,
                decode=decode,
                write=self._write,
                owner_id=self._owner_id,
                passing_over=self._too_new,
                stop=self._stop,
            )
        except (DeliveryError, StoreError, OSError) as error:
            self._tell_trouble(str(error))
            return False
        self._tell(done)
        return True

    def _tell_trouble(self, text: str) -> None:
        if text != self._trouble:
            self._say(f"records wait in {self._directory}: {text}")
        self._trouble = text

    def _tell(self, done: Ingested) -> None:
        if self._trouble is not None:
            self._say(f"records are taken in again: {done.stored} that waited are stored")
            self._trouble = None
        self._stored += done.stored
        self._too_new.update(done.too_new)
        for why in done.rejected:
            self._say(f"set aside in {self._directory}/rejected: {why}")
        for why in done.kept:
            if why not in self._told:
                self._say(f"kept in {self._directory}: {why}")
        self._told = set(done.kept)
