"""Take the records that nodes left in a directory into the store.

A file is removed only when the store has it; one that is not a record is moved to ``rejected/`` with
its reason in the log, so that it neither blocks the others nor is lost.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_ofu.delivery.directory import SUFFIX, directory_problem
from slurm_ofu.delivery.expansion import EXPANDED_LIMIT, expanded_bytes
from slurm_ofu.delivery.files import read_regular
from slurm_ofu.errors import DeliveryError, RecordError, RecordRefused, RecordTooNew
from slurm_ofu.values import NodeRecord

BATCH = 200  # records per transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """How many records went where."""

    stored: int
    rejected: tuple[str, ...]  # "file: why"
    kept: tuple[str, ...] = ()  # not readable now or by this version: still there
    too_new: tuple[str, ...] = ()  # files among the kept ones that only a newer version reads


def ingest(
    directory: Path,
    *,
    decode: Callable[[bytes], NodeRecord],
    write: Callable[[Sequence[NodeRecord]], None],
    owner_id: int | None = None,
    passing_over: Container[str] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Ingested:
    """Store every record in ``directory``. Raises DeliveryError, StoreError or OSError with all files kept
    that are not stored.

    ``passing_over``: names of files that are known to be too new. ``stop``, asked after each transaction,
    leaves the rest for another time.
    """
    if problem := directory_problem(directory, owner_id):
        raise DeliveryError(problem)
    found = (path for path in directory.iterdir() if path.suffix == SUFFIX)
    paths = sorted(path for path in found if path.name not in passing_over)
    stored, told = 0, _Told()
    for batch in _batches(paths, decode, told):
        stored += _store(batch, write, told)
        if stop():
            break
    return Ingested(
        stored=stored, rejected=tuple(told.rejected), kept=tuple(told.kept), too_new=tuple(told.too_new)
    )


class _Told:
    """What did not go into the store, as it is found."""

    def __init__(self) -> None:
        self.rejected, self.kept, self.too_new = list[str](), list[str](), list[str]()

    def reject(self, path: Path, why: str) -> None:
        """Set a file aside; where that cannot be done it is one that stays, and is looked at again."""
        rejected = path.parent / "rejected"
        try:
            rejected.mkdir(mode=0o700, exist_ok=True)
            path.replace(rejected / path.name)
        except FileNotFoundError:
            pass  # another ingest was faster
        except OSError as error:
            self.kept.append(f"{path.name}: {why}; cannot be set aside: {error.strerror}")
            return
        self.rejected.append(f"{path.name}: {why}")


def _batches(
    paths: Sequence[Path], decode: Callable[[bytes], NodeRecord], told: _Told
) -> Iterator[Sequence[tuple[Path, NodeRecord]]]:
    """What goes into one transaction each: not too many records, and not too large ones."""
    batch, looked, size = list[tuple[Path, NodeRecord]](), 0, 0
    for path in paths:
        data = _read(path, told)
        more = 0 if data is None else expanded_bytes(data)
        if looked == BATCH or (batch and size + more > EXPANDED_LIMIT):
            yield batch
            batch, looked, size = [], 0, 0
        looked, size = looked + 1, size + more
        if data is not None and (record := _decoded(path, data, decode, told)) is not None:
            batch.append((path, record))
    yield batch


def _read(path: Path, told: _Told) -> bytes | None:
    try:
        return read_regular(path, most_bytes=EXPANDED_LIMIT)
    except FileNotFoundError:
        return None  # another ingest was faster
    except OSError as error:
        told.kept.append(f"{path.name}: {error}")
    except RecordError as error:
        told.reject(path, str(error))
    return None


def _decoded(
    path: Path, data: bytes, decode: Callable[[bytes], NodeRecord], told: _Told
) -> NodeRecord | None:
    try:
        return decode(data)
    except RecordTooNew as error:
        told.kept.append(f"{path.name}: {error}")
        told.too_new.append(path.name)
    except RecordError as error:
        told.reject(path, str(error))
    return None


def _store(
    batch: Sequence[tuple[Path, NodeRecord]], write: Callable[[Sequence[NodeRecord]], None], told: _Told
) -> int:
    """One transaction; where the store refuses it, one per record, so that only the bad one stays out."""
    if not batch:
        return 0
    try:
        write([record for _, record in batch])
    except RecordRefused as error:
        if len(batch) == 1:
            told.reject(batch[0][0], str(error))
            return 0
        return sum(_store([item], write, told) for item in batch)
    for path, _ in batch:
        path.unlink(missing_ok=True)
    return len(batch)
