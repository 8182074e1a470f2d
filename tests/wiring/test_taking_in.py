"""The inbox into the database, turn by turn."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreBusy
from slurm_ofu.values import NodeRecord
from slurm_ofu.wiring.taking_in import TakingIn
from tests.delivery.examples import packed
from tests.wiring.collector_process import newer_record


class Store:
    """Takes records, unless it is told that it cannot."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.jobs: list[int] = []

    def write(self, records: Sequence[NodeRecord]) -> None:
        """Store records."""
        if self.trouble is not None:
            raise StoreBusy(self.trouble)
        self.jobs += [record.job.key.job_id for record in records]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def taking(tmp_path: Path, store: Store, said: list[str]) -> TakingIn:
    tmp_path.chmod(0o700)
    return TakingIn(tmp_path, write=store.write, owner_id=None, say=said.append, stop=lambda: False)


def test_trouble_is_said_once(taking: TakingIn, store: Store, said: list[str], tmp_path: Path) -> None:
    """A database that takes nothing is told once however many turns it lasts, another trouble again, and
    the end of it once."""
    (tmp_path / "1.record").write_bytes(packed(1))
    store.trouble = "locked"
    assert [False] * 3 == [taking.turn() for _ in range(3)]
    assert "unavailable" == taking.state()["database"]
    store.trouble = "gone"
    assert [False] * 3 == [taking.turn() for _ in range(3)]
    store.trouble = None
    assert [True] * 3 == [taking.turn() for _ in range(3)]
    assert [
        f"records wait in {tmp_path}: locked",
        f"records wait in {tmp_path}: gone",
        "records are taken in again: 1 that waited are stored",
    ] == said
    assert ([1], "ok", 1) == (store.jobs, taking.state()["database"], taking.state()["stored_records"])


def test_files_that_stay_are_said_once(
    taking: TakingIn, store: Store, said: list[str], tmp_path: Path
) -> None:
    """A record of a newer version is told once, what is no record when it is set aside."""
    (tmp_path / "newer.record").write_bytes(newer_record())
    (tmp_path / "bad.record").write_bytes(b"nonsense")
    for _ in range(3):
        assert taking.turn()
    assert 2 == len(said)
    assert said[0].startswith(f"set aside in {tmp_path}/rejected: bad.record: not a record")
    assert said[1].startswith(f"kept in {tmp_path}: newer.record: record format 99")
    assert 1 == taking.state()["too_new_records"]


def test_an_inbox_that_is_gone_is_trouble(taking: TakingIn, said: list[str], tmp_path: Path) -> None:
    """An inbox that cannot be used does not end the collector."""
    tmp_path.chmod(0o777)
    assert [False, False] == [taking.turn() for _ in range(2)]
    assert 1 == len(said)
    tmp_path.chmod(0o700)
    assert taking.turn()
