"""``ofu-admin collect``: the one process that writes a cluster's database.

Received records lie in the inbox, on disk, before anybody is told so, and leave it when the database has
them: whenever this process is killed, what was promised is in one of the two, and storing it again changes
nothing.
"""

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_ofu import __version__
from slurm_ofu.config import url_path
from slurm_ofu.delivery.directory import DirectoryDelivery, directory_problem
from slurm_ofu.delivery.files import forget_halves
from slurm_ofu.delivery.inbox import Ingested, ingest
from slurm_ofu.delivery.inbox_room import InboxRoom
from slurm_ofu.delivery.receiving import Receiver
from slurm_ofu.errors import ConfigError, DeliveryError, OfuError, StoreBusy, StoreError
from slurm_ofu.records.codec import decode
from slurm_ofu.values import Config
from slurm_ofu.wiring.delivering import open_store, owner_id
from slurm_ofu.wiring.duties import DutyThread, duties, run_duty
from slurm_ofu.wiring.serving import Server
from slurm_ofu.wiring.signing import collector_signing
from slurm_ofu.wiring.taking_in import TakingIn

Say = Callable[[str], None]
#: Seconds between two looks for files that others left in the inbox; what comes by HTTP is seen at once.
LOOK_SECONDS = 5.0
#: Seconds between two transactions at least: one costs the same for a single record and for two hundred.
GATHER_SECONDS = 0.05
#: The same while the database takes none: arrivals must not make it be tried again and again.
TROUBLE_SECONDS = 2.0
#: Seconds between two lines about refused messages, and between two looks for what dead writers left.
REFUSALS_SECONDS, HALVES_SECONDS = 60.0, 3600.0
DUTY_END_SECONDS = 10.0
LOCK = ".collector.lock"


class Bell:
    """Wakes the collector's loop: rung by other threads, and by the signals that end it."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self.stopped = False

    def ring(self) -> None:
        """There is something for the loop."""
        with contextlib.suppress(BlockingIOError):  # full: it has been rung
            os.write(self._writing, b".")

    def stop(self, *_: object) -> None:
        """End the loop; also a signal's handler."""
        self.stopped = True
        self.ring()

    def wait(self, seconds: float, *, at_least: float) -> None:
        """Until it rings, or for so long; not less than ``at_least`` but for the end."""
        until = time.monotonic() + at_least
        while not self.stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        if not self.stopped:
            select.select([self._reading], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 1 << 16)


def collect(config: Config, say: Say) -> None:
    """Take records in until SIGTERM or SIGINT. Raises ConfigError, StoreBusy where another collector has
    the inbox, OfuError where a part of this one has failed."""
    bell = Bell()
    with _ended_by_signals(bell), held_inbox(config, say) as directory:
        taking = TakingIn(
            directory,
            write=open_store(config).write,
            owner_id=owner_id(config),
            say=say,
            stop=lambda: bell.stopped,
        )
        receiver = _receiver(config, directory, bell, taking, say)
        server = _server(config, receiver)
        beside = DutyThread(duties(config), say)
        say(f"slurm-ofu {__version__}: {_what(config)}")
        if server is not None:
            server.start()
        beside.start()
        try:
            _loop(bell, taking, receiver, directory, say, lambda: _failed(server, beside))
        finally:
            receiver.stopping = True
            if server is not None:
                server.stop()
            beside.stop(DUTY_END_SECONDS)
        say("ended; what waits in the inbox is taken in at the next start")


def collect_once(config: Config, say: Say) -> tuple[Ingested, int]:
    """Take in what the inbox holds and do every duty once: what was taken in, and how many duties failed.
    Raises what :func:`collect` raises, and StoreError."""
    with held_inbox(config, say) as directory:
        done = ingest(directory, decode=decode, write=open_store(config).write, owner_id=owner_id(config))
        return done, sum(not run_duty(duty, say) for duty in duties(config))


@contextlib.contextmanager
def held_inbox(config: Config, say: Say) -> Iterator[Path]:
    """The inbox, made where it is missing, for this collector alone."""
    owner = owner_id(config)
    if owner not in (None, os.geteuid()):
        raise ConfigError(
            f"{config.path}: [database] owner = {config.database_owner!r}: run the collector as that user"
            f" (this is user id {os.geteuid()}); ofu-admin install writes a unit that does"
        )
    _make_database(config, say)
    directory = Path(config.collector.inbox)
    make_inbox(directory, None)
    if problem := directory_problem(directory, owner):
        raise DeliveryError(problem)
    with _alone(directory):
        yield directory


def make_inbox(directory: Path, user_id: int | None) -> None:
    """Make the inbox where it is missing, for one user alone. Raises ConfigError."""
    try:
        for parent in reversed([parent for parent in directory.parents if not parent.exists()]):
            parent.mkdir(mode=0o755, exist_ok=True)
            parent.chmod(0o755)  # whatever the umask: readers of the database may have to pass
        if not directory.exists():
            directory.mkdir(mode=0o700)
            if user_id is not None:
                os.chown(directory, user_id, -1, follow_symlinks=False)
    except OSError as error:
        raise ConfigError(
            f"[collector] inbox: {directory} cannot be made: {error.strerror}; run ofu-admin install as root"
        ) from error


def _make_database(config: Config, say: Say) -> None:
    """Before anything else makes its directory, which has the mode that its readers need then. Where it
    cannot be made, records wait."""
    if url_path(config.database).exists():
        return
    try:
        open_store(config).migrate(time.monotonic() + config.delivery_wait_seconds)
    except StoreError as error:
        say(f"there is no database yet, and records will wait: {error}")


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the collector's lock. It ends with the process, however that ends."""
    path = directory / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DeliveryError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            other = os.read(handle, 20).decode("ascii", "replace").strip()
            raise StoreBusy(
                f"{directory}: another collector (process {other or 'unknown'}) takes records in from this"
                " inbox: there can be only one"
            ) from error
        os.truncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _ended_by_signals(bell: Bell) -> Iterator[None]:
    before = {number: signal.signal(number, bell.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _receiver(config: Config, directory: Path, bell: Bell, taking: TakingIn, say: Say) -> Receiver:
    return Receiver(
        inbox=DirectoryDelivery(directory, owner_id(config)),
        room=InboxRoom(directory, config.collector.inbox_limit_mib << 20),
        signing_of=collector_signing(config),
        decode=decode,
        arrived=bell.ring,
        say=say,
        state=taking.state,
    )


def _server(config: Config, receiver: Receiver) -> Server | None:
    listen = config.collector.listen
    return Server(receiver, listen, config.collector.threads) if listen else None


def _what(config: Config) -> str:
    where = f" and at {config.collector.listen}" if config.collector.listen else ""
    return f"records from {config.collector.inbox}{where} go to {url_path(config.database)}"


def _failed(server: Server | None, beside: DutyThread) -> str | None:
    """Which of the threads is gone that should be at work."""
    if server is not None and server.has_failed():
        return "the HTTP server has failed"
    return "the thread of the duties has failed" if beside.has_failed() else None


def _loop(
    bell: Bell,
    taking: TakingIn,
    receiver: Receiver,
    directory: Path,
    say: Say,
    failed: Callable[[], str | None],
) -> None:
    said = cleared = float("-inf")
    while not bell.stopped:
        good = taking.turn()
        if problem := failed():
            raise OfuError(f"{problem}: what led to it is above; the collector ends, to be started anew")
        now = time.monotonic()
        if now - said >= REFUSALS_SECONDS and (lines := receiver.unsaid_refusals()):
            said = now
            for line in lines:
                say(line)
        if now - cleared >= HALVES_SECONDS:
            cleared = now
            with contextlib.suppress(OSError):
                forget_halves(directory, HALVES_SECONDS)
        bell.wait(LOOK_SECONDS, at_least=GATHER_SECONDS if good else TROUBLE_SECONDS)
