"""``dir:///path``: records handed over as files in a directory, which a collector ingests.

Who can write there can put figures into the accounting, so a directory that others can write to is
refused. The same record has the same name every time: handing it over twice leaves one file. Interim
records of one run and node share one.
"""

import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path

from slurm_ofu.delivery.files import write_each_whole
from slurm_ofu.errors import DeliveryError
from slurm_ofu.values import NodeRecord

SUFFIX = ".record"
#: What to do about a directory that others can write to. Not to change its mode: it may be /tmp.
ITS_OWN = "use a directory of its own, owned by root, mode 0700"


class DirectoryDelivery:
    """A Delivery into a directory on a disk that the collector sees too. The directory is root's, or of
    ``owner_id``, the collector's service user, whom the files then belong to."""

    def __init__(self, directory: Path, owner_id: int | None = None) -> None:
        self.directory = directory
        self.owner_id = owner_id

    def send(self, records: Sequence[tuple[NodeRecord, bytes]]) -> None:
        """Write each record as a file of its own; safe on disk when this returns."""
        if problem := directory_problem(self.directory, self.owner_id):
            raise DeliveryError(problem)
        files = ((file_name(record, data), data) for record, data in records)
        try:
            write_each_whole(self.directory, files, owner_id=self.directory.stat().st_uid)
        except OSError as error:
            raise DeliveryError(f"{self.directory}: a record cannot be written: {error}") from error


def file_name(record: NodeRecord, data: bytes) -> str:
    """A name that says whose record it is, and is the same for the same bytes. An interim record takes the
    place of the one before: a collector that cannot store them keeps one for each run and node."""
    key, digest = record.job.key, f"{len(data):x}-{zlib.crc32(data):08x}"
    whose = f"{key.job_id}.{key.restart_count}.{_word(record.node_name)}.{_word(key.cluster)}"
    return f"{whose}.{'interim' if record.interim else digest}{SUFFIX}"


def _word(name: str) -> str:
    """A name as a part of a file's: of letters that need one byte each."""
    good = (letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in name)
    return "".join(good)[:64]


def directory_problem(directory: Path, owner_id: int | None = None) -> str | None:
    """Why records must not be passed through this directory, or ``None``. Trusted are root, whoever asks,
    and ``owner_id``."""
    try:
        found = directory.stat()
    except OSError as error:
        return f"{directory}: cannot be used for delivery: {error.strerror}; create it, mode 0700"
    if not stat.S_ISDIR(found.st_mode):
        return f"{directory}: is not a directory"
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        return f"{directory}: others can write to it, and could forge records; {ITS_OWN}"
    if found.st_uid not in (0, os.geteuid(), owner_id):
        return f"{directory}: belongs to user id {found.st_uid}, who could forge records; {ITS_OWN}"
    return None
