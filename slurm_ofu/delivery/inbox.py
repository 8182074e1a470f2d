"""Take the records that nodes left in a directory into the store.

A file is removed only when the store has it; one that is not a record is moved to ``rejected/`` with
its reason in the log, so that it neither blocks the others nor is lost.
"""

import contextlib
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_ofu.delivery.directory import SUFFIX, directory_problem
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
    stored, rejected, kept, too_new = 0, list[str](), list[str](), list[str]()
    for begin in range(0, len(paths), BATCH):
        batch = []
        for path in paths[begin : begin + BATCH]:
            try:
                batch.append((path, decode(read_regular(path))))
            except FileNotFoundError:
                continue  # another ingest was faster
            except RecordTooNew as error:
                kept.append(f"{path.name}: {error}")
                too_new.append(path.name)
            except OSError as error:
                kept.append(f"{path.name}: {error}")
            except RecordError as error:
                rejected.append(_reject(path, str(error)))
        done, refused = _store(batch, write)
        stored += done
        rejected += refused
        if stop():
            break
    return Ingested(stored=stored, rejected=tuple(rejected), kept=tuple(kept), too_new=tuple(too_new))


def _store(
    batch: Sequence[tuple[Path, NodeRecord]], write: Callable[[Sequence[NodeRecord]], None]
) -> tuple[int, list[str]]:
    """One transaction; where the store refuses it, one per record, so that only the bad one stays out."""
    if not batch:
        return 0, []
    try:
        write([record for _, record in batch])
    except RecordRefused as error:
        if len(batch) == 1:
            return 0, [_reject(batch[0][0], str(error))]
        parts = [_store([item], write) for item in batch]
        return sum(done for done, _ in parts), [why for _, refused in parts for why in refused]
    for path, _ in batch:
        path.unlink(missing_ok=True)
    return len(batch), []


def _reject(path: Path, why: str) -> str:
    rejected = path.parent / "rejected"
    with contextlib.suppress(OSError):
        rejected.mkdir(mode=0o700, exist_ok=True)
        path.replace(rejected / path.name)
    return f"{path.name}: {why}"
