"""The order in which nodes are heard and Slurm's rows are read leaves no trace."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingRow, NodeRecord
from tests.store.accounting_rows import make_row
from tests.store.databases import Content, content, make_store
from tests.store.records import (
    START,
    as_interim,
    make_gpu,
    make_job,
    make_quarter,
    make_record,
    make_unstarted,
)

# Two lives of one job, and another job by the same id years later: (restart count, start, end, uid).
LIVES = (
    (0, START, START + 2000, 1000),
    (1, START + 2300, START + 5000, 1000),
    (0, START + 9e7, START + 9e7 + 800, 2000),
)
# When interim records are made, after the start. Epilogs of other nodes come well within two minutes of that,
# or well after: of two different ones of one node, one on either side, only one would be of the same run.
SO_FAR = (100, 600, 760)
AHEAD = "n3"  # its clock is an hour ahead


class Heard(NamedTuple):
    """What one node says of one of the lives; short, since hypothesis prints it."""

    life: int
    node: str
    late_seconds: int
    node_list: str | None
    gpu_count: int
    covered_seconds: float
    unstarted: bool
    too_high: bool
    interim_seconds: int | None  # after its start, while it goes on; None: at its end

    def record(self, *, ahead: bool) -> NodeRecord:
        """As a record. ``ahead``: one node's clock is, and a prolog ran everywhere: an epilog alone has
        nothing but its time to tell its life, and cannot be held against a clock that is wrong."""
        count, start, end, uid = LIVES[self.life]
        end = end + self.late_seconds if self.interim_seconds is None else start + self.interim_seconds
        if ahead and self.node == AHEAD:
            start, end = start + 3600, end + 3600
        elif self.unstarted and not ahead and self.interim_seconds is None:
            job = make_job(restart_count=count + self.too_high, uid=uid)
            return make_unstarted(job, node=self.node, end=end)
        covered = self.covered_seconds
        record = make_record(
            make_job(restart_count=count, uid=uid, node_list=self.node_list, node_count=4),
            node=self.node,
            reason="ok" if covered else "sampler_died",
            start=start,
            end=end,
            allocated=end - start,
            gpus=[make_gpu(at, covered=covered, allocated=end - start) for at in range(self.gpu_count)],
            quarters=[make_quarter()] if covered else [],
        )
        return record if self.interim_seconds is None else as_interim(record)


HEARD = st.builds(
    Heard,
    life=st.sampled_from(range(len(LIVES))),
    node=st.sampled_from(["n1", "n2", "n3"]),
    late_seconds=st.integers(0, 50),
    node_list=st.sampled_from(["n[1-4]", "n1", None]),
    gpu_count=st.integers(1, 2),
    covered_seconds=st.sampled_from([0.0, 100.0, 500.0]),
    unstarted=st.booleans(),
    too_high=st.booleans(),
    interim_seconds=st.sampled_from([None, None, None, *SO_FAR]),
)


# Of one more life no node speaks; the second one is resized after 100 seconds.
READ_LIVES = (*LIVES, (2, START + 6000, START + 6500, 1000))
RESIZED = 1


class Read(NamedTuple):
    """A row of Slurm's accounting: of one life, or of one of the two segments of the resized one."""

    life: int
    running: bool
    second: bool

    def row(self, *, counts: bool) -> AccountingRow:
        """As a row; with ``counts`` as 24.11 and later write it, with restart count and SLUID."""
        count, start, end, uid = READ_LIVES[self.life]
        resize = int(start) + 100 if self.life == RESIZED else None
        second = self.second and resize is not None
        row = make_row(
            submit=resize if second else int(start) - 10,
            start=int(start),
            end=int(end) if second or resize is None else resize,
            state="COMPLETED" if second or resize is None else "RESIZING",
            uid=uid,
            node_list="n1" if second else "n[1-4]",
            gpu_count=2 if second else 8,
            restart_count=count if counts else None,
            sluid=f"s{self.life}{second}" if counts else None,
        )
        return replace(row, end_epoch_s=None, state="RUNNING") if self.running else row


READ = st.builds(
    Read, life=st.sampled_from(range(len(READ_LIVES))), running=st.booleans(), second=st.booleans()
)


def _written(
    batches: Sequence[Sequence[Heard | Read]], template: bytes, *, counts: bool, ahead: bool
) -> Content:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ofu.db"
        path.write_bytes(template)
        store: SqliteStore = make_store(path, made=False)
        for batch in batches:
            store.write([one.record(ahead=ahead) for one in batch if isinstance(one, Heard)])
            store.take_accounting([one.row(counts=counts) for one in batch if isinstance(one, Read)])
        return content(path)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty database."""
    path = tmp_path_factory.mktemp("template") / "ofu.db"
    make_store(path)
    return path.read_bytes()


@pytest.mark.property
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_and_batching_gives_the_same_content(data: st.DataObject, template: bytes) -> None:
    """Whatever the order, the batches and the repetitions: the same records and rows, the same content."""
    counts, ahead = data.draw(st.booleans()), data.draw(st.booleans())
    given = data.draw(st.lists(HEARD | READ, min_size=2, max_size=8))
    shuffled = data.draw(st.permutations(given))
    again = data.draw(st.lists(st.sampled_from(given), max_size=2))
    at_once = _written([given], template, counts=counts, ahead=ahead)
    assert at_once == _written([[one] for one in [*shuffled, *again]], template, counts=counts, ahead=ahead)
