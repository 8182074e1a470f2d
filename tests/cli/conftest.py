"""A database written by the real store, and ofu-report on it."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.report import report
from slurm_ofu.store.write import SqliteStore
from tests.store.records import expand, make_gpu, make_job, make_record, make_unstarted

Ask = Callable[..., Result]


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time is Berlin's, and nothing of the caller's environment shows."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    for name in ("COLUMNS", "NO_COLOR", "OFU_CONFIG", "OFU_FORMAT", "SLURM_TIME_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def configuration(directory: Path, database: Path) -> Path:
    """A slurm-ofu.toml that names the database."""
    path = directory / "slurm-ofu.toml"
    path.write_text(f'[database]\nurl = "sqlite:///{database}"\n')
    return path


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a database with six runs of two users, on 15 June 2025."""
    directory = tmp_path_factory.mktemp("cli")
    database = directory / "ofu.db"
    store = SqliteStore(database, group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand)
    on_two_nodes = make_job(job_id=1001, node_list="n[1-2]", node_count=2)
    store.write(
        [
            make_record(on_two_nodes, gpus=[make_gpu(position) for position in range(4)]),
            make_record(
                make_job(job_id=1002, user="bob"),
                gpus=[make_gpu(reason="no_source", covered=0.0, tensor_ref=None)],
            ),
            make_record(make_job(job_id=1003, user="bob", account="chem\x1b[31mistry|x", partition="long")),
            make_record(make_job(job_id=1004)),
            make_record(make_job(job_id=1004, restart_count=1), start=1_750_004_500.0, end=1_750_008_100.0),
            make_unstarted(make_job(job_id=1005, cluster="beta")),
        ]
    )
    return configuration(directory, database)


@pytest.fixture
def ask(config: Path) -> Ask:
    """Runs ofu-report with these arguments on that database."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            report, ["--config", str(config), *arguments], prog_name="ofu-report", env=dict(os.environ)
        )

    return run
