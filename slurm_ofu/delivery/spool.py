"""The node's spool: what the hooks left of each run, and the records on their way.

    state/TAG.prolog      what Slurm told the prolog (the shell writes it)
    state/TAG.sampler     pid and start time of the sampler's process (the shell writes it)
    state/TAG.checkpoint  the sampler's sums so far
    state/TAG.epilog      what Slurm told the epilog (the shell writes it)
    state/TAG.lock        held by whoever works on the run: the sampler, or a finisher
    outbox/TAG.record     a finished record that is not delivered yet
    outbox/TAG.rejected   one that its receiver never takes, kept for a person to look at
    done/TAG              the run was finished; kept for a day, so that a second epilog is known as one

TAG is ``<job id>.<restart count>.<uptime in 1/100 s>``. A run leaves ``state/`` when its record is in
the outbox, and the outbox when the receiver has it.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_ofu.delivery.files import write_whole

DONE_KEPT_SECONDS = 86_400
REJECTED = ".rejected"
_FACTS = ("prolog", "sampler", "checkpoint", "epilog")
_SUFFIXES = (*_FACTS, "lock")
_TAG = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


class Spool:
    """One node's spool directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.outbox = directory / "outbox"
        self.done = directory / "done"

    def make(self) -> None:
        """Create what is missing, for root's eyes only. Raises OSError."""
        for directory in (self.directory, self.state, self.outbox, self.done):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def tags(self) -> tuple[str, ...]:
        """Every run that any hook left something of and that is not finished."""
        with contextlib.suppress(FileNotFoundError):
            names = [path.name.rpartition(".") for path in self.state.iterdir()]
            stems = {stem for stem, _, suffix in names if suffix in _FACTS and _TAG.fullmatch(stem)}
            return tuple(sorted(stem for stem in stems if not self._is_done(stem)))
        return ()

    def _is_done(self, tag: str) -> bool:
        """Finished; what is left in ``state`` nevertheless is a second epilog's, or that of a crash."""
        return (self.done / tag).exists()

    def facts(self, tag: str, hook: str) -> tuple[bytes, float] | None:
        """What a hook wrote and when (wall clock), or ``None``."""
        path = self.state / f"{tag}.{hook}"
        try:
            return path.read_bytes(), path.stat().st_mtime
        except OSError:
            return None

    def has_ended(self, tag: str) -> bool:
        """Whether an epilog spoke, if only with an empty file because the disk was full."""
        return (self.state / f"{tag}.epilog").exists()

    def sampler_lives(self, tag: str) -> bool:
        """Whether the process that the prolog started for a run is still there (by pid and start time)."""
        path = self.state / f"{tag}.sampler"
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = (str(path.readlink()) if path.is_symlink() else path.read_text()).split()
            fields = Path(f"/proc/{int(words[0])}/stat").read_text().rpartition(")")[2].split()
            return fields[0] not in "ZX" and fields[19] == words[1]
        return False

    def checkpoint(self, tag: str) -> bytes | None:
        """The sampler's last checkpoint, or ``None``."""
        with contextlib.suppress(OSError):
            return (self.state / f"{tag}.checkpoint").read_bytes()
        return None

    def write_checkpoint(self, tag: str, data: bytes) -> None:
        """Replace the checkpoint. Raises OSError; the one before is then still there."""
        write_whole(self.state / f"{tag}.checkpoint", data, sync=False)

    @contextlib.contextmanager
    def hold(self, tag: str) -> Iterator[bool]:
        """Work on a run alone: True when nobody else does, or has finished it. The lock ends with the
        process."""
        path = self.state / f"{tag}.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield True  # a spool that cannot be written is nobody else's either
            return
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if self._is_done(tag):
                # A sampler that is slow to start may come after its run was finished: there is no epilog
                # any more that could end it. Opening the lock made it anew.
                with contextlib.suppress(OSError):
                    path.unlink()
                yield False
                return
            yield True
        finally:
            os.close(handle)

    def finish(self, tag: str, record: bytes, *, done_note: str) -> None:
        """The run's record is made: into the outbox, for good, then out of ``state``. Raises OSError."""
        self.make()
        write_whole(self.outbox / f"{tag}.record", record, sync=True)
        self.mark_done(tag, done_note)

    def mark_done(self, tag: str, done_note: str) -> None:
        """Remember that the run is finished and forget its state. Raises OSError where it cannot be
        remembered, not even in the room that its state took; forgotten it is all the same."""
        note = f"{done_note}\n".encode()
        try:
            write_whole(self.done / tag, note, sync=False)
        except OSError:
            self.forget(tag)
            write_whole(self.done / tag, note, sync=False)
        self.forget(tag)

    def has_record(self, tag: str) -> bool:
        """Whether the run's record is in the outbox."""
        return (self.outbox / f"{tag}.record").exists()

    def forget(self, tag: str) -> None:
        """Drop what is left of a run in ``state``, checkpoints that were never finished included."""
        for path in self.state.glob(f".{tag}.*"):
            with contextlib.suppress(OSError):
                path.unlink()
        for suffix in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                (self.state / f"{tag}.{suffix}").unlink()

    def done_notes(self) -> tuple[tuple[str, str], ...]:
        """(tag, note) of every run that was finished lately."""
        notes = []
        with contextlib.suppress(FileNotFoundError):
            for path in self.done.iterdir():
                with contextlib.suppress(OSError):
                    if _TAG.fullmatch(path.name):
                        notes.append((path.name, path.read_text(encoding="utf-8", errors="replace")))
        return tuple(notes)

    def waiting(self) -> tuple[Path, ...]:
        """The records in the outbox, oldest first."""
        with contextlib.suppress(FileNotFoundError):
            paths = [path for path in self.outbox.iterdir() if path.suffix == ".record"]
            return tuple(sorted(paths, key=_modified))
        return ()

    def rejected(self) -> tuple[Path, ...]:
        """What cannot be delivered until a person has looked at it, by name."""
        with contextlib.suppress(FileNotFoundError):
            return tuple(sorted(path for path in self.outbox.iterdir() if path.suffix == REJECTED))
        return ()

    def forget_old(self, now_epoch_s: float | None = None) -> None:
        """Drop marks of runs that were finished more than a day ago and before every run that goes on:
        whoever shared a GPU with one of those must stay known."""
        limit = (time.time() if now_epoch_s is None else now_epoch_s) - DONE_KEPT_SECONDS
        with contextlib.suppress(OSError):
            for stem in {path.name.rpartition(".")[0] for path in self.state.iterdir()}:
                if stem and self._is_done(stem):
                    self.forget(stem)
        limit = min([limit, *(_modified(path) for path in self.state.glob("*.prolog"))])
        with contextlib.suppress(OSError):
            for path in self.done.iterdir():
                if _modified(path) < limit:
                    path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")
