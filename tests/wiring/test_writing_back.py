"""Rounds of writing back, where some of Slurm's accounting does not answer."""

from pathlib import Path

import pytest

from slurm_ofu.errors import AccountingError
from slurm_ofu.values import Config, WriteBackConfig
from slurm_ofu.wiring.writing_back import BATCH, WriteBack
from tests.slurm.fake_slurm import fake
from tests.store.accounting_rows import START_S, make_row
from tests.store.databases import make_store
from tests.store.records import make_job, make_record

#: slurmdbd answers for any cluster but beta.
BETA_IS_AWAY = """
case "$*" in *-Mbeta*) echo "sacct: error: no such cluster" >&2; exit 1 ;; esac
for argument; do
    case "$argument" in
        -j*) for id in $(echo "${argument#-j}" | tr ',' ' '); do row "$id"; done ;;
    esac
done
"""


def write_back(folder: Path, jobs: list[tuple[str, int]]) -> WriteBack:
    """A database with these (cluster, job id), all over in Slurm's accounting, and such commands."""
    store = make_store(folder / "ofu.db")
    store.write([make_record(make_job(job_id=job_id, cluster=cluster)) for cluster, job_id in jobs])
    store.take_accounting([make_row(cluster=cluster, job_id=job_id) for cluster, job_id in jobs])
    accounting = fake(folder, BETA_IS_AWAY)
    version = folder / "sacctmgr"
    version.write_text("#!/bin/sh\necho slurm 24.11.5\n")
    version.chmod(0o755)
    return WriteBack(
        Config(
            path="/x",
            database=f"sqlite://{folder}/ofu.db",
            database_group=None,
            accounting=accounting,
            write_back=WriteBackConfig(enabled=True, jobs_per_minute=1000.0),
        )
    )


def test_a_cluster_that_does_not_answer_holds_up_no_other(tmp_path: Path) -> None:
    """Its runs stay due, the others are dealt with, also beyond a batch, and the trouble is told once."""
    beta = [("beta", job_id) for job_id in range(1, BATCH + 5)]
    alpha = [("alpha", job_id) for job_id in range(1, 3)]
    its = write_back(tmp_path, alpha + beta)
    done = its.round(its.window(START_S + 86400.0))
    assert {"failed": 2} == dict(done.counts)  # the row that comes is of no cluster of ours
    assert 1 == sum("no such cluster" in message for message in done.messages)


def test_where_nothing_answers_that_is_an_error(tmp_path: Path) -> None:
    """Nothing was done, and everything stays due."""
    its = write_back(tmp_path, [("beta", 1)])
    with pytest.raises(AccountingError, match="no such cluster"):
        its.round(its.window(START_S + 86400.0))
