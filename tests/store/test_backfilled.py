"""What was made of others' samples: whose run it joins, and what it gives way to."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ofu.slurm.hostlists import expand as expand_hostlist
from slurm_ofu.store.backfilling import Asked, BackfillReader
from slurm_ofu.store.reconciling import ReconcilingReader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import AccountingRow, NodeRecord, Reason
from tests.store.accounting_rows import START_S, make_row, resized
from tests.store.databases import Content, content, make_store, query, rows
from tests.store.records import make_gpu, make_job, make_record, make_unstarted

END = START_S + 3600
NODES = "SELECT node_name, reason, gpu_count_assumed, backfilled FROM run_node ORDER BY run_id, node_name"
ALL = Asked(start_epoch_s=0.0, end_epoch_s=4e9)


def backfilled(
    node: str = "n1",
    *,
    start: float = START_S,
    end: float = END,
    covered: float = 3000.0,
    reason: Reason = "ok",
    job_id: int = 42,
) -> NodeRecord:
    """A record made of stored samples; its times are Slurm's."""
    gpu = make_gpu(reason=reason, covered=covered, allocated=end - start)
    record = make_record(
        make_job(job_id=job_id), node=node, reason=reason, start=start, end=end, allocated=end - start
    )
    return replace(record, gpus=(gpu,), backfilled=True)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An empty database."""
    return make_store(tmp_path / "ofu.db")


def asking(store: SqliteStore) -> BackfillReader:
    """Who looks for what was not measured."""
    return BackfillReader(store.path, node_names=expand_hostlist)


def test_it_joins_the_run_that_accounting_alone_knows(store: SqliteStore) -> None:
    """Its figures count, and still no node has spoken."""
    store.take_accounting([make_row()])
    store.write([backfilled()])
    [row] = rows(store)
    assert row.run is not None
    assert (False, "COMPLETED", 3000.0, 1.0) == (
        row.run.heard,
        row.run.state,
        row.sums.covered_seconds,
        row.sums.gpu_count,
    )
    assert [("n1", "ok", 0, 1)] == query(store.path, NODES)


def test_without_a_row_it_has_no_run(store: SqliteStore) -> None:
    """Nothing but Slurm's accounting says whose it would be."""
    store.write([backfilled()])
    store.take_accounting([replace(make_row(end=None), state="RUNNING")])
    store.write([backfilled()])
    assert [] == rows(store)


def test_a_time_in_which_the_job_did_not_run(store: SqliteStore) -> None:
    """Is no life's."""
    store.take_accounting([make_row()])
    store.write([backfilled(start=START_S - 900, end=START_S - 1), backfilled(start=END - 1, end=END + 1)])
    assert [("n1", "not_delivered", 1, 0)] == query(store.path, NODES)


def test_each_life_gets_its_own(store: SqliteStore) -> None:
    """Of a requeued job, by the times; restart counts are in no row before 24.11."""
    second = END + 200
    store.take_accounting(
        [make_row(state="REQUEUED"), make_row(submit=END + 10, start=second, end=second + 900)]
    )
    store.write([backfilled(start=second, end=second + 900, covered=850.0), backfilled()])
    found = [(row.run and row.run.start_epoch_s, row.sums.covered_seconds) for row in rows(store)]
    assert [(START_S, 3000.0), (second, 850.0)] == found


def test_a_node_that_left_a_resized_job(store: SqliteStore) -> None:
    """Its record ends before the job does, and belongs to it all the same."""
    store.take_accounting(resized())
    store.write([backfilled("n3", end=START_S + 2, covered=2.0)])
    assert [("n1", 0), ("n2", 0), ("n3", 1)] == query(
        store.path, "SELECT node_name, backfilled FROM run_node ORDER BY node_name"
    )
    due = {name: asking(store).on_node(name, ALL)[0] for name, _ in asking(store).nodes(ALL)}
    assert {"n1": (START_S, START_S + 5), "n2": (START_S, START_S + 2)} == {
        name: (run.start_epoch_s, run.end_epoch_s) for name, run in due.items()
    }


def test_a_node_that_a_job_got_later(store: SqliteStore) -> None:
    """Its time begins with the segment of the job in which it is, whatever 22.05 calls its start."""
    at = START_S + 600
    store.take_accounting(
        [
            make_row(end=at, state="RESIZING"),
            make_row(submit=at, start=START_S, end=END, node_list="n[1-2]", node_count=2, gpu_count=4),
        ]
    )
    [run] = asking(store).on_node("n2", ALL)
    assert (float(at), float(END), 2) == (run.start_epoch_s, run.end_epoch_s, run.gpu_count)
    [run] = asking(store).on_node("n1", ALL)
    assert (float(START_S), float(END), None) == (run.start_epoch_s, run.end_epoch_s, run.gpu_count)


def test_what_a_node_says_itself_takes_its_place(store: SqliteStore) -> None:
    """Also the word of an epilog alone, without any figure; the other nodes keep what was made of samples."""
    store.take_accounting([make_row(node_list="n[1-3]", node_count=3, gpu_count=3)])
    store.write([backfilled("n1"), backfilled("n2")])
    job = make_job(node_list="n[1-3]", node_count=3)
    store.write([make_record(job, node="n1", gpus=[make_gpu(covered=10.0)])])
    assert [("n1", "ok", 0, 0), ("n2", "ok", 0, 1), ("n3", "not_delivered", 1, 0)] == query(store.path, NODES)
    store.write([make_unstarted(job, node="n2", end=END)])
    assert [("n1", 0), ("n2", 0), ("n3", 0)] == query(
        store.path, "SELECT node_name, backfilled FROM run_node ORDER BY node_name"
    )
    store.write([backfilled("n1"), backfilled("n2")])
    assert [("n1", "ok", 0, 0), ("n2", "not_started", 0, 0), ("n3", "not_delivered", 1, 0)] == query(
        store.path, NODES
    )


def test_twice_changes_nothing_and_more_samples_replace_fewer(store: SqliteStore) -> None:
    """Not even the time of the last change."""
    store.take_accounting([make_row()])
    store.write([backfilled()])
    before = query(store.path, "SELECT * FROM run_node"), query(store.path, "SELECT * FROM run")
    store.write([backfilled()])
    store.write([backfilled(covered=100.0)])
    store.write([backfilled(covered=0.0, reason="unmapped")])
    assert before == (query(store.path, "SELECT * FROM run_node"), query(store.path, "SELECT * FROM run"))
    store.write([backfilled(covered=3100.0)])
    assert [(3100.0,)] == query(store.path, "SELECT covered_seconds FROM run_gpu")


def test_who_is_due(store: SqliteStore) -> None:
    """Nodes that were never heard; those that were backfilled only again; no run that goes on, or that
    accounting does not know."""
    store.take_accounting(
        [
            make_row(node_list="n[1-3]", node_count=3, gpu_count=6),
            replace(make_row(job_id=43, end=None), state="RUNNING"),
            make_row(job_id=44, gpu_count=None),
        ]
    )
    unaccounted = make_record(make_job(job_id=45, node_list="n[8-9]", node_count=2), node="n8")
    heard = make_record(make_job(node_list="n[1-3]", node_count=3), node="n1")
    store.write([heard, unaccounted, backfilled("n2")])
    assert [("n3", 1)] == asking(store).nodes(ALL)
    assert [("n2", 1), ("n3", 1)] == asking(store).nodes(replace(ALL, again=True))
    [run] = asking(store).on_node("n3", ALL)
    assert (42, 2, True) == (run.job_id, run.gpu_count, run.wanted)
    assert (1, 1, 0) == _counts(asking(store), ALL)
    for other in (replace(ALL, clusters=("beta",)), replace(ALL, partitions=("gp",))):
        assert [] == asking(store).nodes(other)
    assert [("n3", 1)] == asking(store).nodes(replace(ALL, clusters=("beta", "alpha"), partitions=("gpu",)))
    assert [] == asking(store).nodes(replace(ALL, start_epoch_s=END + 1.0))


def _counts(reader: BackfillReader, asked: Asked) -> tuple[int, int, int]:
    counts = reader.counts(asked)
    return counts.run_count, counts.due_count, counts.backfilled_count


def test_the_others_on_the_node_come_along(store: SqliteStore) -> None:
    """Runs at the same time, heard ones too, are there to be told apart from; earlier ones are not."""
    store.take_accounting(
        [
            make_row(),
            make_row(job_id=43, start=START_S + 60),
            make_row(job_id=44, start=START_S - 900, end=START_S),
        ]
    )
    store.write(
        [
            make_record(make_job(job_id=43), start=START_S + 60.0),
            backfilled(job_id=44, start=START_S - 900, end=START_S),
        ]
    )
    found = asking(store).on_node("n1", replace(ALL, start_epoch_s=START_S + 1.0))
    assert [(42, True), (43, False)] == [(run.job_id, run.wanted) for run in found]
    store.write([backfilled()])
    assert [] == asking(store).on_node("n1", ALL)


def test_reconcile_does_not_take_it_for_a_nodes_word(store: SqliteStore) -> None:
    """A run whose every node was backfilled is no longer silent, and its node has still never reported."""
    store.take_accounting([make_row(), make_row(job_id=43, node_list="n2")])
    store.write([backfilled()])
    found = ReconcilingReader(store.path).reconciliation("alpha", 0.0, 4e9, ended_by_epoch_s=4e9)
    assert [43] == [run.job_id for run in found.silent]
    assert [("n2", 0, 1)] == [(node.node_name, node.heard_count, node.silent_count) for node in found.nodes]


# ------------------------------------------------------------- any order

LIVES = ((START_S, END), (END + 300, END + 4000))
ACCOUNTED = [
    make_row(state="REQUEUED", node_list="n[1-3]", node_count=3, gpu_count=3),
    make_row(
        submit=END + 10, start=LIVES[1][0], end=LIVES[1][1], node_list="n[1-3]", node_count=3, gpu_count=3
    ),
]


def _heard(life: int, node: str, covered: float, started: bool) -> NodeRecord:
    """A node's own word; its clock differs from Slurm's by seconds."""
    job = make_job(restart_count=life, node_list="n[1-3]", node_count=3)
    start, end = LIVES[life][0] + 3.0, LIVES[life][1] + 2.0
    if not started:
        return make_unstarted(job, node=node, end=end)
    return make_record(job, node=node, start=start, end=end, gpus=[make_gpu(covered=covered)])


HEARD = st.builds(
    _heard,
    life=st.integers(0, 1),
    node=st.sampled_from(["n1", "n2"]),
    covered=st.sampled_from([0.0, 5.0]),
    started=st.booleans(),
)
FILLED = st.builds(
    lambda life, node, covered: backfilled(node, start=LIVES[life][0], end=LIVES[life][1], covered=covered),
    life=st.integers(0, 1),
    node=st.sampled_from(["n1", "n2", "n3"]),
    covered=st.sampled_from([0.0, 100.0, 500.0]),
)


def _written(
    batches: Sequence[Sequence[NodeRecord]], rows: Sequence[AccountingRow], template: bytes
) -> Content:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ofu.db"
        path.write_bytes(template)
        store = make_store(path, made=False)
        store.take_accounting(rows)
        for batch in batches:
            store.write(batch)
        store.take_accounting(rows)
        return content(path)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An empty database."""
    path = tmp_path_factory.mktemp("template") / "ofu.db"
    make_store(path)
    return path.read_bytes()


@pytest.mark.property
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_in_any_order_a_nodes_own_word_stays(data: st.DataObject, template: bytes) -> None:
    """Records of nodes and backfilled ones in any order and any batches leave the same content, in which no
    node that spoke of a life is backfilled."""
    told = data.draw(st.lists(HEARD | FILLED, min_size=2, max_size=8))
    shuffled = data.draw(st.permutations(told))
    again = data.draw(st.lists(st.sampled_from(told), max_size=2))
    one_by_one = _written([[one] for one in [*shuffled, *again]], ACCOUNTED, template)
    assert _written([told], ACCOUNTED, template) == one_by_one
    heard = {(one.node_name, one.end_epoch_s - 2) for one in told if not one.backfilled}
    filled = {(one.node_name, one.end_epoch_s) for one in told if one.backfilled}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ofu.db"
        path.write_bytes(template)
        store = make_store(path, made=False)
        store.take_accounting(ACCOUNTED)
        store.write(shuffled)
        kept = query(path, "SELECT node_name, end_epoch_s FROM run_node WHERE backfilled = 1")
    assert filled - heard == set(kept)
