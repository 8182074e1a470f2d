"""Reports have two sources, the accounting database and Slurm's own accounting: the same laws for both."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.errors import AccountingError, StoreError, UsageError
from slurm_ofu.figures import figures, pool
from slurm_ofu.protocols import UsageReader
from slurm_ofu.records.token import token_of
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingRow, NodeRecord, Selection, StoredGroup, UsageRow, UsageSums
from slurm_ofu.wiring.from_slurm import SlurmReader
from tests.store.accounting_rows import START_S, make_row, resized
from tests.store.databases import make_store
from tests.store.records import make_gpu, make_job, make_record

BY: tuple[StoredGroup, ...] = ("job", "user", "partition", "account", "qos", "job-name")
HOUR = 3600


class ListedAccounting:
    """Slurm's accounting as a list of rows."""

    name = "listed"

    def __init__(self, rows: Sequence[AccountingRow]) -> None:
        self.listed = rows
        self.broken = False

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """Those with a part in the window."""
        for row in self.listed:
            start, end = row.start_epoch_s, row.end_epoch_s or math.inf
            inside = start is not None and start < end_epoch_s and end >= start_epoch_s
            if inside and row.cluster in (clusters or {row.cluster}):
                yield row
        if self.broken:
            raise AccountingError("slurmdbd went away")

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """Those of these raw ids."""
        return (row for row in self.listed if row.job_id in job_ids and row.cluster == cluster)

    def by_id(self, cluster: str | None, addresses: Sequence[str]) -> Iterator[AccountingRow]:
        """As sacct -j has it."""
        for row in self.listed:
            names = {str(row.job_id), str(row.array_job_id), str(row.het_job_id)}
            names |= {f"{row.array_job_id}_{row.array_task_id}", f"{row.het_job_id}+{row.het_offset}"}
            if names & set(addresses) and row.cluster == (cluster or row.cluster):
                yield row


@dataclass(frozen=True)
class World:
    """The same runs in both."""

    database: Reader
    slurm: SlurmReader


def one(
    job_id: int, *, user: str = "ada", at: int = 0, ofu: float | None = 0.2, **row: Any
) -> tuple[NodeRecord, AccountingRow]:
    """A run of an hour on one GPU, ``at`` seconds after the others, and its row."""
    start, end = START_S + at, START_S + at + row.pop("seconds", HOUR)
    names = {name: row.pop(name) for name in ("account", "partition") if name in row}
    cluster = row.pop("cluster", "alpha")
    gpu = make_gpu(covered=3500.0, tensor_ref=None if ofu is None else ofu * 3500.0, degrees=None)
    if ofu is None:
        gpu = make_gpu(reason="no_source", covered=0.0, tensor_ref=None)
    node = row.get("node_list", "n1")
    job = make_job(job_id=job_id, user=user, uid=None, cluster=cluster, node_list=node, **names)
    record = make_record(job, node=node, start=float(start), end=float(end), gpus=[gpu])
    accounted = make_row(job_id=job_id, user=user, uid=None, start=start, end=end, cluster=cluster)
    return record, replace(accounted, **names, **row)


def runs() -> list[tuple[NodeRecord, AccountingRow]]:
    """Users, partitions, an array, a heterogeneous job, another cluster, no figure, no time."""
    return [
        one(1),
        one(2, user="bob", at=100, ofu=0.4, account="chemistry", qos="high", job_name="train"),
        one(3, user="bob", at=7200, ofu=None, partition="long"),
        one(5, at=150, ofu=0.3, state="CANCELLED by 1000", node_list="n7"),
        one(11, at=200, array_job_id=10, array_task_id=0, ofu=0.0),
        one(10, at=300, array_job_id=10, array_task_id=1, ofu=0.9),
        one(20, at=400, het_job_id=20, het_offset=0, partition="prio"),
        one(21, at=400, het_job_id=20, het_offset=1, ofu=1.05),
        one(1, at=50_000, cluster="beta"),
        one(30, at=60_000, seconds=0, ofu=None),
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What nodes recorded, completed by accounting; and accounting with each run's token."""
    store = make_store(tmp_path_factory.mktemp("readers") / "ofu.db")
    pairs = runs()
    store.write([record for record, _ in pairs])
    store.take_accounting([row for _, row in pairs])
    database = Reader(store.path)
    tokens = {
        (row.run.cluster, row.run.job_id): token_of(row.sums)
        for row in database.jobs(Selection())
        if row.run is not None
    }
    rows = [replace(row, system_comment=tokens[row.cluster, row.job_id]) for _, row in pairs]
    accounting = ListedAccounting(rows)
    return World(database, SlurmReader(accounting, accounting.by_id, field="SystemComment"))


@pytest.fixture(params=["database", "slurm"])
def reader(request: pytest.FixtureRequest, world: World) -> UsageReader:
    """Each reader in turn."""
    chosen: UsageReader = getattr(world, request.param)
    return chosen


def ids(rows: Sequence[UsageRow]) -> list[int]:
    """The job ids of rows."""
    return [row.run.job_id for row in rows if row.run is not None]


def near(expected: UsageSums, actual: UsageSums) -> None:
    """The same figures, to a token's precision."""
    one, other = figures(expected), figures(actual)
    for name in (
        "gpu_hours",
        "gpu_hours_measured",
        "ofu_ratio",
        "ofu_error_pp",
        "tpa_mean_ratio",
        "gpu_count",
    ):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        assert left is None or math.isclose(left, right, rel_tol=6e-3, abs_tol=1e-9), (name, left, right)
    assert (one.run_count, one.reason, one.estimator) == (other.run_count, other.reason, other.estimator)


SELECTIONS = {
    "everything": Selection(),
    "a user": Selection(users=("bob",)),
    "a partition": Selection(partitions=("long", "prio")),
    "an account": Selection(accounts=("chemistry",)),
    "a cluster": Selection(clusters=("beta",)),
    "a job": Selection(job_ids=(1,)),
    "a whole array": Selection(job_ids=(10,)),
    "a task": Selection(array_tasks=((10, 0),)),
    "a whole heterogeneous job": Selection(job_ids=(20,)),
    "a component": Selection(het_components=((20, 1),)),
    "several": Selection(job_ids=(2,), array_tasks=((10, 1),), users=("ada", "bob")),
    "a window": Selection(start_epoch_s=START_S + HOUR + 150.0, end_epoch_s=START_S + 7200.0),
    "its first instant": Selection(start_epoch_s=float(START_S), end_epoch_s=START_S + 0.5),
    "its last instant": Selection(start_epoch_s=START_S + 7200.0 + HOUR, end_epoch_s=START_S + 40_000.0),
    "a job before its start": Selection(job_ids=(1,), clusters=("alpha",), end_epoch_s=float(START_S)),
    "a job at its start": Selection(job_ids=(1,), clusters=("alpha",), end_epoch_s=START_S + 0.5),
    "a job after its end": Selection(job_ids=(2,), start_epoch_s=START_S + 100.0 + HOUR),
    "a job at its end": Selection(job_ids=(2,), start_epoch_s=START_S + 99.5 + HOUR),
    "a job of no time": Selection(job_ids=(30,), start_epoch_s=START_S + 60_000.0),
    "nobody": Selection(users=("nobody",)),
    "a QOS": Selection(qos=("high",)),
    "names": Selection(job_names=("train", "other")),
    "a node": Selection(node_names=("n7", "n8")),
    "a state": Selection(states=("CANCELLED", "FAILED")),
    "the rest": Selection(states=("COMPLETED",), node_names=("n1",)),
    "a moment in between": Selection(start_epoch_s=START_S + 600.0, end_epoch_s=START_S + 600.0),
}


@pytest.mark.contract
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("by", BY)
def test_both_readers_agree(world: World, selection: Selection, by: StoredGroup) -> None:
    """The same groups in the same order with the same figures."""
    expected, actual = world.database.usage(selection, by), world.slurm.usage(selection, by)
    assert [row.group for row in expected] == [row.group for row in actual]
    for one, other in zip(expected, actual, strict=True):
        near(one.sums, other.sums)
        if one.run is not None and other.run is not None:
            assert replace(one.run, run_id=0, claim=None) == replace(other.run, run_id=0, claim=None)


@pytest.mark.contract
@pytest.mark.parametrize("by", BY)
def test_groups_are_the_runs_pooled(reader: UsageReader, by: StoredGroup) -> None:
    """The total over any grouping is the total over the runs."""
    total = pool(row.sums for row in reader.jobs(Selection()))
    near(total, pool(row.sums for row in reader.usage(Selection(), by)))


@pytest.mark.contract
def test_runs_come_oldest_first_each_once(reader: UsageReader) -> None:
    """By their start."""
    rows = reader.jobs(Selection())
    starts = [row.run.start_epoch_s for row in rows if row.run is not None]
    assert 10 == len(rows) == len(starts)
    assert sorted(starts, key=lambda at: at or 0.0) == starts


@pytest.mark.contract
def test_a_run_has_a_page(reader: UsageReader) -> None:
    """With the same row; a run that there is not raises StoreError."""
    for row in reader.jobs(Selection()):
        assert row.run is not None
        assert row == reader.page(row.run.run_id).row
    with pytest.raises(StoreError):
        reader.page(4711)


# ------------------------------------------------------------------ Slurm's accounting alone

Make = Callable[..., SlurmReader]


def slurm(*rows: AccountingRow, field: str = "SystemComment") -> SlurmReader:
    """A reader of these rows."""
    accounting = ListedAccounting(rows)
    return SlurmReader(accounting, accounting.by_id, field=field)


TOKEN = "ofu1:ofu=0.4;tpa=0.5;clk=0.8;cov=1;gpuh=2;err=0.2;gpus=2"


def test_a_gpu_job_without_a_token_counts_with_its_time() -> None:
    """Not as zero: no figure, its GPU-hours not measured, and the reason says that there is no token."""
    [row] = slurm(replace(make_row(gpu_count=4), system_comment="rt#1")).jobs(Selection())
    its = figures(row.sums)
    assert (None, 4.0, 4.0, 0.0, "no_token") == (
        *(its.ofu_ratio, its.gpu_count, its.gpu_hours, its.coverage_ratio),
        its.reason,
    )


def test_jobs_without_gpus_and_jobs_that_go_on_are_not_shown() -> None:
    """Of those that go on, no token says anything yet."""
    cpu = [make_row(job_id=1, gpu_count=None), make_row(job_id=2, gpu_count=0)]
    running = make_row(job_id=3, end=None, state="RUNNING")
    pending = make_row(job_id=4, start=None, end=None, state="PENDING", submit=START_S)
    assert [] == slurm(*cpu, running, pending).jobs(Selection())


def test_a_job_that_goes_on_is_shown_where_it_is_asked_for() -> None:
    """Its GPUs count as allocated until now; nothing is known of what they did."""
    running = make_row(job_id=3, end=None, state="RUNNING", gpu_count=2)
    running = replace(running, elapsed_seconds=1200)
    assert [] == slurm(running, make_row(job_id=4)).jobs(Selection(states=("UNKNOWN",)))
    [row] = slurm(running, make_row(job_id=4)).jobs(Selection(states=("RUNNING",)))
    assert row.run is not None
    assert (3, True, START_S + 1200.0) == (row.run.job_id, row.run.running, row.run.end_epoch_s)
    assert (1, 2400.0, None, 1) == (
        *(row.sums.running_run_count, row.sums.allocated_seconds, row.sums.tensor_ref_seconds),
        row.sums.unmeasured_run_count,
    )


@pytest.mark.parametrize("by", ["node", "gpu-model"])
def test_slurm_does_not_say_what_was_on_a_node(by: StoredGroup) -> None:
    """Nor on which model: the message says what does."""
    with pytest.raises(UsageError, match=f"--by {by} needs the accounting database"):
        slurm(make_row()).usage(Selection(), by)
    assert [] == list(slurm(make_row()).gpus(Selection()))


def test_a_window_cuts_a_job_by_time() -> None:
    """And marks it, where anything was measured; the windows add up to the whole, and its page is whole."""
    reader = slurm(replace(make_row(), system_comment=TOKEN), make_row(job_id=77))
    edges = [START_S + seconds for seconds in (-10.0, 600.0, 1800.0, 4000.0)]
    spans = [row.sums for row in reader.course(Selection(), edges)]
    assert [1200.0, 2400.0, 3600.0] == pytest.approx([sums.covered_seconds for sums in spans])
    assert [(2, 1)] * 3 == [(sums.run_count, sums.prorated_run_count) for sums in spans]
    window = Selection(start_epoch_s=edges[1], end_epoch_s=edges[2])
    cut, bare = reader.jobs(window)
    assert cut.run is not None
    assert [2400.0, 0.4] == [
        pytest.approx(cut.sums.allocated_seconds),
        pytest.approx(figures(cut.sums).ofu_ratio),
    ]
    assert [1, 0] == [cut.sums.prorated_run_count, bare.sums.prorated_run_count]
    assert 7200.0 == pytest.approx(reader.page(cut.run.run_id).row.sums.allocated_seconds)


def test_a_token_stands_for_its_job_whatever_else_the_field_holds() -> None:
    """Also where Slurm does not track GPUs, and within another tool's text."""
    rows = slurm(replace(make_row(gpu_count=None), system_comment=f"rt#1 {TOKEN} see mail")).jobs(Selection())
    assert [0.4] == [figures(row.sums).ofu_ratio for row in rows]


def test_only_the_configured_field_is_read() -> None:
    """Any user can write a token into a comment of his own."""
    forged = replace(make_row(), comment=TOKEN)
    assert ["no_token"] == [figures(row.sums).reason for row in slurm(forged).jobs(Selection())]
    assert ["ok"] == [figures(row.sums).reason for row in slurm(forged, field="Comment").jobs(Selection())]


def test_the_token_of_a_resized_job_counts_once() -> None:
    """sacctmgr writes it into every segment; it speaks for the whole run."""
    rows = [replace(row, system_comment=TOKEN) for row in resized()]
    [row] = slurm(*rows).jobs(Selection())
    assert 2.0 == figures(row.sums).gpu_hours
    [bare] = slurm(*resized()).jobs(Selection())
    assert 18.0 == bare.sums.allocated_seconds


def test_a_former_life_has_no_token() -> None:
    """Slurm keeps one for the last life only: the former one is a run of its own without figures."""
    first = make_row(state="REQUEUED")
    end = START_S + HOUR
    second = replace(make_row(submit=end, start=end + 100, end=end + HOUR), system_comment=TOKEN)
    rows = slurm(first, second).jobs(Selection())
    assert [(0, "no_token"), (1, "ok")] == [
        (row.run.restart_count, figures(row.sums).reason) for row in rows if row.run is not None
    ]


def test_a_token_of_a_later_format_is_not_read() -> None:
    """It is not taken for one of ours."""
    [row] = slurm(replace(make_row(), system_comment=TOKEN.replace("ofu1:", "ofu2:"))).jobs(Selection())
    assert "no_token" == figures(row.sums).reason


def test_a_token_without_a_gpu_count_takes_slurms() -> None:
    """One written by hand may leave it out."""
    [row] = slurm(replace(make_row(gpu_count=3), system_comment=TOKEN.replace(";gpus=2", ""))).jobs(
        Selection()
    )
    assert 3.0 == row.sums.gpu_count


def test_accounting_that_goes_away_in_the_middle_is_no_answer() -> None:
    """The rows that came are not reported."""
    accounting = ListedAccounting([make_row()])
    accounting.broken = True
    reader = SlurmReader(accounting, accounting.by_id, field="SystemComment")
    with pytest.raises(StoreError, match="Slurm's accounting: slurmdbd went away"):
        reader.usage(Selection(), "user")


def test_a_second_question_is_asked_anew(tmp_path: Path) -> None:
    """Only the same question twice in a row is answered from memory, as a page after its line."""
    accounting = ListedAccounting([make_row(job_id=1)])
    reader = SlurmReader(accounting, accounting.by_id, field="SystemComment")
    assert [1] == ids(reader.jobs(Selection()))
    accounting.listed = [make_row(job_id=2)]
    assert [1] == ids(reader.jobs(Selection()))
    assert [2] == ids(reader.jobs(Selection(users=("ada",))))
