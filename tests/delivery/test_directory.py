"""Records handed over as files in a directory, and taken out of it again."""

import json
import os
import stat
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.delivery.directory import DirectoryDelivery, directory_problem, file_name
from slurm_ofu.delivery.files import forget_halves
from slurm_ofu.delivery.inbox import BATCH, ingest
from slurm_ofu.errors import DeliveryError, RecordRefused, StoreBusy
from slurm_ofu.records.codec import decode, encode
from slurm_ofu.values import NodeRecord
from tests.records.generated import noisy_record

RECORD = noisy_record(1)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


def of_job(job_id: int) -> NodeRecord:
    """The record of another job."""
    return replace(RECORD, job=replace(RECORD.job, key=replace(RECORD.job.key, job_id=job_id)), gpus=())


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox"
    path.mkdir(mode=0o700)
    return path


class Store:
    """Takes records, all or none, but refuses some, and may be busy."""

    def __init__(self, *, refused: frozenset[int] = frozenset(), busy_from: int | None = None) -> None:
        self.refused = refused
        self.busy_from = busy_from
        self.jobs: list[int] = []
        self.writes = 0

    def write(self, records: Sequence[NodeRecord]) -> None:
        """Store records."""
        self.writes += 1
        if self.busy_from is not None and self.writes >= self.busy_from:
            raise StoreBusy("busy")
        jobs = [record.job.key.job_id for record in records]
        if self.refused & set(jobs):
            raise RecordRefused(f"refuses {sorted(self.refused & set(jobs))}")
        self.jobs += jobs


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# --------------------------------------------------------------- handing over


def test_a_record_becomes_a_file(inbox: Path) -> None:
    """A record is a file with the very bytes that it was decoded from, for the owner only."""
    data = encode(RECORD)
    DirectoryDelivery(inbox).send([(RECORD, data)])
    (path,) = inbox.iterdir()
    assert (data, 0o600) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    assert path.name.startswith("1234567.0.node042.cluster.")


def test_the_same_record_twice_is_one_file(inbox: Path) -> None:
    """Handing on the same record twice leaves one result."""
    data = encode(RECORD)
    for _ in range(3):
        DirectoryDelivery(inbox).send([(RECORD, data), (RECORD, data)])
    assert 1 == len(names(inbox))


def test_different_records_are_different_files(inbox: Path) -> None:
    """Two nodes, two jobs, two versions of one record: each has its own file."""
    records = [RECORD, of_job(8), replace(RECORD, node_name="n2"), replace(RECORD, exit_code="1:0")]
    DirectoryDelivery(inbox).send([(record, encode(record)) for record in records])
    assert len(records) == len(names(inbox))


@pytest.mark.parametrize("node", ["../../etc/cron.d/x", "a/b", "..", "x" * 500, "\n", "nöde", ""])
def test_a_node_name_leads_nowhere_else(inbox: Path, node: str) -> None:
    """Whatever a node calls itself, its record lands in the directory."""
    record = replace(RECORD, node_name=node)
    DirectoryDelivery(inbox).send([(record, encode(record))])
    (path,) = inbox.iterdir()
    assert record.node_name == decode(path.read_bytes()).node_name
    assert path.name == file_name(record, encode(record))


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(inbox: Path, mode: int) -> None:
    """Who can write there can put figures into the accounting: such a directory is refused."""
    inbox.chmod(mode)
    with pytest.raises(DeliveryError, match="use a directory of its own, owned by root, mode 0700"):
        DirectoryDelivery(inbox).send([(RECORD, b"")])
    with pytest.raises(DeliveryError, match="use a directory of its own, owned by root, mode 0700"):
        ingest(inbox, decode=decode, write=Store().write)
    assert [] == names(inbox)


@as_root
def test_a_strangers_directory_is_refused(inbox: Path) -> None:
    """A directory that belongs to somebody else is refused."""
    os.chown(inbox, 12345, -1)
    with pytest.raises(DeliveryError, match="12345"):
        DirectoryDelivery(inbox).send([(RECORD, b"")])


@pytest.mark.parametrize(("mode", "good"), [(0o700, True), (0o755, True), (0o750, True), (0o2750, True)])
def test_a_directory_that_others_can_read_will_do(inbox: Path, mode: int, good: bool) -> None:
    """Reading is no forging."""
    inbox.chmod(mode)
    assert good == (directory_problem(inbox) is None)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    """A directory that is not there, or none, is a DeliveryError that says what to do."""
    (tmp_path / "file").write_text("")
    for name, hint in (("nowhere", "create it"), ("file", "not a directory")):
        with pytest.raises(DeliveryError, match=hint):
            DirectoryDelivery(tmp_path / name).send([(RECORD, b"")])


def test_a_write_that_fails_is_an_error(inbox: Path) -> None:
    """When it cannot be written it raises, so that the sender keeps it."""
    data = encode(RECORD)
    (inbox / file_name(RECORD, data)).mkdir()
    (inbox / file_name(RECORD, data) / "inside").write_text("")
    with pytest.raises(DeliveryError, match="cannot be written"):
        DirectoryDelivery(inbox).send([(RECORD, data)])


# --------------------------------------------------------------- taking out


def filled(inbox: Path, *jobs: int) -> None:
    DirectoryDelivery(inbox).send([(of_job(job), encode(of_job(job))) for job in jobs])


def test_ingest_takes_every_record(inbox: Path) -> None:
    """Every record goes into the store, and its file goes then."""
    filled(inbox, *range(5))
    store = Store()
    its = ingest(inbox, decode=decode, write=store.write)
    assert (5, ()) == (its.stored, its.rejected)
    assert ([0, 1, 2, 3, 4], []) == (sorted(store.jobs), names(inbox))


def test_ingest_stores_in_batches(inbox: Path) -> None:
    """Records go in by the batch, a transaction each."""
    filled(inbox, *range(BATCH + 1))
    store = Store()
    assert BATCH + 1 == ingest(inbox, decode=decode, write=store.write).stored
    assert 2 == store.writes


def test_what_is_no_record_is_set_aside(inbox: Path) -> None:
    """What is not a record is moved to rejected/ with its reason; it neither blocks others nor is lost."""
    filled(inbox, 1, 2)
    (inbox / "bad.record").write_bytes(b"nonsense")
    (inbox / "folder.record").mkdir()
    (inbox / "notes.txt").write_text("not ours")
    store = Store()
    its = ingest(inbox, decode=decode, write=store.write)
    assert (2, 2, [1, 2]) == (its.stored, len(its.rejected), sorted(store.jobs))
    assert its.rejected[0].startswith("bad.record: not a record")
    assert ["bad.record", "folder.record"] == names(inbox / "rejected")
    assert ["notes.txt", "rejected"] == names(inbox)


def test_a_record_that_the_store_refuses_is_set_aside(inbox: Path) -> None:
    """Where the store refuses a batch, only the record that it refuses stays out."""
    filled(inbox, 1, 2, 3)
    store = Store(refused=frozenset({2}))
    its = ingest(inbox, decode=decode, write=store.write)
    assert (2, 1, [1, 3]) == (its.stored, len(its.rejected), sorted(store.jobs))
    assert "refuses [2]" in its.rejected[0]
    assert 1 == len(names(inbox / "rejected"))


@pytest.mark.parametrize("busy_from", [1, 2])
def test_a_busy_store_costs_no_file(inbox: Path, busy_from: int) -> None:
    """StoreBusy keeps every file that is not stored yet, for the next time."""
    filled(inbox, *range(BATCH + 3))
    store = Store(busy_from=busy_from)
    with pytest.raises(StoreBusy):
        ingest(inbox, decode=decode, write=store.write)
    assert BATCH + 3 == len(store.jobs) + len(names(inbox))
    again = Store()
    assert len(names(inbox)) == ingest(inbox, decode=decode, write=again.write).stored


def test_a_busy_store_while_one_record_is_refused_costs_no_file(inbox: Path) -> None:
    """StoreBusy keeps the files also when the records are tried one by one."""
    filled(inbox, 1, 2, 3)
    store = Store(refused=frozenset({1}), busy_from=3)
    with pytest.raises(StoreBusy):
        ingest(inbox, decode=decode, write=store.write)
    kept = [path for path in inbox.rglob("*.record") if path.is_file()]
    assert 3 == len(store.jobs) + len(kept)


def test_what_is_known_to_be_too_new_is_passed_over(inbox: Path) -> None:
    """A file that only a newer version reads is told by its name, and not read again where it is known."""
    filled(inbox, 1)
    newer = zlib.compress(json.dumps({"format": 99, "record": {}}).encode())
    (inbox / "newer.record").write_bytes(newer)
    its = ingest(inbox, decode=decode, write=Store().write)
    assert (1, ("newer.record",), 1) == (its.stored, its.too_new, len(its.kept))
    again = ingest(inbox, decode=decode, write=Store().write, passing_over=set(its.too_new))
    assert ((), ()) == (again.kept, again.too_new)
    assert ["newer.record"] == names(inbox)


def test_ingest_can_be_stopped_between_transactions(inbox: Path) -> None:
    """Told to stop, it ends after the transaction at work; the rest is still there."""
    filled(inbox, *range(BATCH + 5))
    its = ingest(inbox, decode=decode, write=Store().write, stop=lambda: True)
    assert (BATCH, 5) == (its.stored, len(names(inbox)))


def test_what_dead_writers_left(inbox: Path) -> None:
    """Halves of files that are old enough go; what is being written, records and strangers' files stay."""
    old, new = inbox / ".1.0.n1.a.5-0.record.77.78", inbox / ".1.0.n1.a.5-0.record.79.80"
    stranger, record = inbox / ".notes", inbox / "1.record"
    for path in (old, new, stranger, record):
        path.write_bytes(b"x")
    for path in (old, stranger, record):
        os.utime(path, (1, 1))
    forget_halves(inbox, 3600)
    assert sorted(path.name for path in (new, stranger, record)) == names(inbox)


def test_an_inbox_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """An inbox that is not there is a DeliveryError."""
    with pytest.raises(DeliveryError):
        ingest(tmp_path / "nowhere", decode=decode, write=Store().write)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_service_users_directory_is_trusted_when_it_is_configured(inbox: Path) -> None:
    """With [database] owner the directory may be the service user's, and so are the files in it."""
    nobody = 65534
    os.chown(inbox, nobody, -1)
    assert directory_problem(inbox) is not None
    assert directory_problem(inbox, nobody) is None
    DirectoryDelivery(inbox, nobody).send([(RECORD, encode(RECORD))])
    [file] = inbox.iterdir()
    assert nobody == file.stat().st_uid
