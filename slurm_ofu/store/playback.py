"""Read a database whose writer died in mid-commit, without the right to write to it.

The journal that such a writer leaves must be played back before anybody reads, and only a writer may do
that to the file itself. A reader plays it back on a copy of its own, which is gone afterwards.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_ofu.errors import StoreBusy, StoreError


def journal_path(database: Path) -> Path:
    """Where SQLite keeps a database's rollback journal."""
    return database.with_name(database.name + "-journal")


@contextmanager
def played_back(database: Path) -> Iterator[Path]:
    """A private copy of the database and its journal, which SQLite plays back when it is opened.

    Raises StoreBusy where a writer came back meanwhile, StoreError where the copy cannot be made.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="slurm-ofu-") as directory:
            copy = Path(directory) / database.name
            before = _state(database)
            for source, target in ((database, copy), (journal_path(database), journal_path(copy))):
                shutil.copyfile(source, target)
            if _state(database) != before:
                raise StoreBusy(f"{database}: a writer was at work; try again")
            yield copy
    except FileNotFoundError as error:
        raise StoreBusy(f"{database}: a writer was at work; try again") from error
    except OSError as error:
        raise StoreError(
            f"{database}: a writer died in mid-write, and no copy can be made to read without what it left"
            f" ({error}); as root: ofu-admin init"
        ) from error


def _state(database: Path) -> list[tuple[int, int, int]]:
    found = [path.stat() for path in (database, journal_path(database))]
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]
