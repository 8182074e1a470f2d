"""Which clusters `ofu-admin reconcile` reads, and which it shows."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.errors import StoreMissing
from slurm_ofu.values import AccountingConfig, AccountingRow, Config
from slurm_ofu.wiring.reconciling import Reconciled, reconcile
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store
from tests.store.records import make_job, make_record
from tests.wiring.test_completing import Slurmdbd

END = START_S + 3600


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A configuration whose database has a run of alpha and one of beta, by the same id."""
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job(cluster=name)) for name in ("alpha", "beta")])
    return Config(path="/x", database=f"sqlite://{tmp_path}/ofu.db", database_group=None)


def ask(config: Config, known: list[AccountingRow], *clusters: str) -> tuple[Reconciled, Slurmdbd]:
    """The reconciliation of the day before, and who was asked what."""
    slurmdbd = Slurmdbd(known)
    found = reconcile(config, END - 86_400, END + 60, END + 7200, clusters=clusters, accounting=slurmdbd)
    return found, slurmdbd


def test_a_cluster_that_is_not_read_is_shown_as_that(config: Config) -> None:
    """Without [accounting] clusters the local one alone is read: of the other nothing is claimed."""
    found, slurmdbd = ask(config, [make_row()])
    assert [()] == [clusters for _, _, clusters in slurmdbd.windows]
    assert [("alpha", True, 0), ("beta", False, 1)] == [
        (name, its.accounting_known, len(its.unaccounted)) for name, its in found.clusters
    ]


def test_whoever_names_a_cluster_has_it_read(config: Config) -> None:
    """-M asks slurmdbd for that cluster, window and waiting ids, and shows no other."""
    found, slurmdbd = ask(config, [make_row(cluster="beta")], "beta")
    assert [("beta",)] == [clusters for _, _, clusters in slurmdbd.windows]
    assert [("beta", True, ())] == [
        (name, its.accounting_known, its.unaccounted) for name, its in found.clusters
    ]


def test_the_sites_own_name_is_none_that_slurmdbd_knows(config: Config) -> None:
    """-M with [node] cluster_name asks about the local cluster, whatever Slurm calls it."""
    named = replace(config, cluster_name="alpha")
    found, slurmdbd = ask(named, [make_row(cluster="slurms")], "alpha")
    assert [()] == [clusters for _, _, clusters in slurmdbd.windows]
    assert [("alpha", ())] == [(name, its.unaccounted) for name, its in found.clusters]


def test_runs_under_a_name_that_is_not_configured_are_shown(config: Config) -> None:
    """[accounting] clusters says what is read; records of a cluster that it lacks do not vanish."""
    found, _ = ask(replace(config, accounting=AccountingConfig(clusters=("alpha",))), [make_row()])
    assert [("alpha", True), ("beta", False)] == [
        (name, its.accounting_known) for name, its in found.clusters
    ]


def test_without_a_database_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """None is made by asking."""
    path = tmp_path / "none.db"
    with pytest.raises(StoreMissing):
        reconcile(
            Config(path="/x", database=f"sqlite://{path}", database_group=None),
            0.0,
            1.0,
            2.0,
            accounting=Slurmdbd(),
        )
    assert not path.exists()
