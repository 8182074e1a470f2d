"""Slurm's accounting into the accounting database: how far it is read, and who is asked for by id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_ofu.errors import AccountingError
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingConfig, AccountingRow, Config, RunRow, Selection
from slurm_ofu.wiring.completing import (
    BACK_SECONDS,
    START_SETTLES,
    YOUNG_SECONDS,
    Completer,
    without_start,
)
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store
from tests.store.records import as_interim, make_job, make_record

END = START_S + 3600


@dataclass
class Slurmdbd:
    """An Accounting over a list; it notes what it was asked, and may be away."""

    known: list[AccountingRow] = field(default_factory=list)
    windows: list[tuple[float, float, tuple[str, ...]]] = field(default_factory=list)
    ids: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    away: bool = False
    name: str = "list"

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """See the protocol."""
        self.windows.append((start_epoch_s, end_epoch_s, tuple(clusters)))
        yield from (row for row in self.known if not clusters or row.cluster in clusters)
        if self.away:
            raise AccountingError("slurmdbd is away")

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """See the protocol."""
        self.ids.append((cluster, tuple(job_ids)))
        yield from (row for row in self.known if row.job_id in job_ids)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A configuration with an empty database."""
    make_store(tmp_path / "ofu.db")
    return Config(path="/x", database=f"sqlite://{tmp_path}/ofu.db", database_group=None)


def runs(config: Config) -> list[RunRow]:
    """All runs that the database knows."""
    reader = Reader(config.database.removeprefix("sqlite://"))
    return [row.run for row in reader.jobs(Selection()) if row.run is not None]


def with_run(config: Config, job_id: int = 42, cluster: str = "alpha") -> None:
    """A node has spoken of a run."""
    store = make_store(Path(config.database.removeprefix("sqlite://")), made=False)
    store.write([make_record(make_job(job_id=job_id, cluster=cluster))])


def test_a_run_is_completed(config: Config) -> None:
    """Its row brings name and state."""
    with_run(config)
    done = Completer(config, Slurmdbd([make_row()])).look(END + 60.0)
    assert 1 == done.changed
    assert [("train", "COMPLETED", True)] == [
        (run.job_name, run.state, run.accounted) for run in runs(config)
    ]


def test_each_look_goes_on_where_the_last_one_ended(config: Config) -> None:
    """Some way back, for ends that come late; the first one begins with the oldest run that waits."""
    with_run(config)
    slurmdbd = Slurmdbd()
    completer = Completer(config, slurmdbd)
    completer.look(END + 60.0)
    completer.look(END + 180.0)
    assert [(START_S - BACK_SECONDS, END + 60.0, ()), (END + 60.0 - BACK_SECONDS, END + 180.0, ())] == (
        slurmdbd.windows
    )


def test_a_collector_started_anew_goes_on_too(config: Config) -> None:
    """How far it was read is in the database."""
    Completer(config, Slurmdbd()).look(END + 60.0)
    again = Slurmdbd()
    Completer(config, again).look(END + 900.0)
    assert [(END + 60.0 - BACK_SECONDS, END + 900.0, ())] == again.windows


def test_what_is_not_read_to_its_end_is_read_again(config: Config) -> None:
    """An error in the middle moves nothing forward."""
    slurmdbd = Slurmdbd([make_row()], away=True)
    completer = Completer(config, slurmdbd)
    with pytest.raises(AccountingError):
        completer.look(END + 60.0)
    slurmdbd.away = False
    completer.look(END + 7200.0)
    assert slurmdbd.windows[1][0] <= END + 60.0 - BACK_SECONDS


def test_runs_that_wait_are_asked_for_by_id(config: Config) -> None:
    """Young ones at every look, older ones once in an hour; never those that have their row."""
    with_run(config, 42)
    with_run(config, 43)
    slurmdbd = Slurmdbd([make_row(job_id=43)])
    completer = Completer(config, slurmdbd)
    for late in (100.0, 200.0, YOUNG_SECONDS + 150.0, YOUNG_SECONDS + 300.0, 2 * YOUNG_SECONDS + 300.0):
        completer.look(END + late)
    assert [("", (42,))] * 4 == slurmdbd.ids


def test_a_run_that_just_ended_is_given_time(config: Config) -> None:
    """slurmdbd may not know of it yet."""
    with_run(config)
    slurmdbd = Slurmdbd()
    Completer(config, slurmdbd).look(END + 1.0)
    assert [] == slurmdbd.ids


def test_several_clusters_are_read_each_on_its_own(config: Config) -> None:
    """Each has its own progress, and only configured ones are asked about."""
    with_run(config, 42, "alpha")
    with_run(config, 43, "gamma")
    both = replace(config, accounting=AccountingConfig(clusters=("alpha", "beta")))
    slurmdbd = Slurmdbd([make_row(job_id=9, cluster="beta")])
    Completer(both, slurmdbd).look(END + 100.0)
    assert [("alpha",), ("beta",)] == [clusters for _, _, clusters in slurmdbd.windows]
    assert [("alpha", (42,))] == slurmdbd.ids
    assert {("beta", 9, False), ("alpha", 42, True), ("gamma", 43, True)} == {
        (run.cluster, run.job_id, run.heard) for run in runs(config)
    }


def test_ids_of_another_cluster_bring_no_local_rows(config: Config) -> None:
    """C57: a run of another cluster waits; the local cluster's job by the same id is none of its."""
    with_run(config, 42, "beta")
    slurmdbd = Slurmdbd()
    completer = Completer(config, slurmdbd)
    slurmdbd.known = [make_row()]
    done = completer.ask_for_waiting(0.0, END + 60.0)
    assert ([("", (42,))], 0) == (slurmdbd.ids, done.rows)
    assert [("beta", False)] == [(run.cluster, run.accounted) for run in runs(config)]


def test_the_sites_own_name_of_its_cluster_counts(config: Config) -> None:
    """[node] cluster_name is what the records say, so Slurm's rows are of that cluster too."""
    with_run(config, 42, "ours")
    named = replace(config, cluster_name="ours")
    Completer(named, Slurmdbd([make_row(cluster="slurms")])).look(END + 100.0)
    assert [("ours", True)] == [(run.cluster, run.accounted) for run in runs(config)]


def test_a_row_that_slurmdbd_has_made_of_an_end_alone_is_left_for_the_next_look(config: Config) -> None:
    """With a name and uid 0 it is not whole, and says too little of the job; root's own jobs are whole."""
    its = make_row()
    root, nobody = replace(its, uid=0, user="root"), replace(its, uid=None)
    assert [its, root, nobody] == [without_start(row, 0.0) for row in (its, root, nobody)]
    slurmdbd = Slurmdbd([replace(its, uid=0, array_job_id=None)])
    completer = Completer(config, slurmdbd)
    assert 0 == completer.read(0.0, END + 60.0).rows
    slurmdbd.known = [its]
    assert 1 == completer.read(0.0, END + 60.0).changed


def test_a_start_that_never_comes_is_not_waited_for(config: Config) -> None:
    """A controller that went away before it told of a start leaves the row as it is: the run is completed
    from it, but neither its uid nor its name is believed."""
    patience = START_SETTLES * config.accounting.settle_seconds
    unheard = replace(make_row(), uid=0, job_name="allocation")
    completer = Completer(config, Slurmdbd([unheard]))
    assert [0, 1] == [completer.read(0.0, END + patience + after).rows for after in (0.0, 1.0)]
    assert [(None, "COMPLETED", True)] == [(run.job_name, run.state, run.accounted) for run in runs(config)]


# ------------------------------------------------------------------- jobs that go on


def with_running(config: Config, heard_epoch_s: float) -> None:
    """A node has said of a job that it runs."""
    store = make_store(Path(config.database.removeprefix("sqlite://")), made=False)
    store.write([as_interim(make_record(end=heard_epoch_s))])


def test_a_running_job_gets_its_name(config: Config) -> None:
    """Every look lists the jobs that run, so none is asked for by its id."""
    with_running(config, END)
    slurmdbd = Slurmdbd([make_row(end=None, state="RUNNING")])
    Completer(config, slurmdbd).look(END + 120.0)
    assert [("train", "normal", "RUNNING", True, False)] == [
        (run.job_name, run.qos, run.state, run.running, run.accounted) for run in runs(config)
    ]
    assert [] == slurmdbd.ids


@pytest.mark.parametrize(
    ("interim_seconds", "missing_seconds"), [(900.0, 2700.0), (60.0, 180.0), (0.0, 2700.0)]
)
def test_a_job_that_is_heard_no_more_is_asked_for(
    config: Config, interim_seconds: float, missing_seconds: float
) -> None:
    """When three interim records are missing, as any other that waits for its row."""
    config = replace(config, sampler=replace(config.sampler, interim_seconds=interim_seconds))
    with_running(config, END)
    slurmdbd = Slurmdbd()
    completer = Completer(config, slurmdbd)
    completer.ask_for_waiting(0.0, END + missing_seconds)
    assert [] == slurmdbd.ids
    completer.ask_for_waiting(0.0, END + missing_seconds + 1)
    assert [("", (42,))] == slurmdbd.ids
