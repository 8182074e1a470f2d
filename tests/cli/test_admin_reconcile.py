"""ofu-admin reconcile: exit codes, and what it makes of its options."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from tests.slurm.fake_slurm import fake
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store
from tests.store.records import make_job, make_record

SINCE = "2025-06-15"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A database with a run of alpha, whose slurmdbd knows that cluster and no jobs."""
    fake(tmp_path, ":")
    fake(tmp_path, "echo alpha", name="sacctmgr")
    store = make_store(tmp_path / "ofu.db")
    store.write([make_record(make_job())])
    (tmp_path / "slurm.conf").touch()
    return tmp_path


def ask(site: Path, *arguments: str, database: str = "ofu.db") -> Result:
    """Run it."""
    config = site / "slurm-ofu.toml"
    config.write_text(
        f'[database]\nurl = "sqlite://{site}/{database}"\ngroup = "root"\n'
        f'[accounting]\nbin_dir = "{site}"\nslurm_conf = "{site}/slurm.conf"\n'
    )
    return CliRunner().invoke(
        main,
        ["reconcile", "--config", str(config), *arguments],
        prog_name="ofu-admin",
        env=dict(os.environ),
    )


def test_compared_is_zero_whatever_came_out(site: Path) -> None:
    """JSON has a schema version and the window."""
    result = ask(site, "--json", "-S", SINCE)
    document = json.loads(result.stdout)
    assert (0, 1, ["alpha"]) == (
        result.exit_code,
        document["schema_version"],
        [cluster["cluster"] for cluster in document["clusters"]],
    )
    assert document["start"].startswith(SINCE)


def test_a_cluster_that_slurmdbd_does_not_know_is_an_error(site: Path) -> None:
    """A name that was mistyped is not an answer without runs."""
    result = ask(site, "-M", "alhpa")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "slurmdbd knows no cluster 'alhpa'; it knows alpha" in result.stderr


def test_partitions_are_chosen(site: Path) -> None:
    """-r leaves the others out."""
    store = make_store(site / "ofu.db", made=False)
    store.take_accounting([make_row(job_id=7)])
    assert "7 ada, gpu" in ask(site, "-S", SINCE).stdout
    assert "No runs." in ask(site, "-S", SINCE, "-r", "desk,lab").stdout


def test_no_database_and_no_sacct(site: Path) -> None:
    """4 and 1, each with what to do; no database comes into being."""
    missing = ask(site, database="none.db")
    assert (4, True) == (missing.exit_code, "ofu-admin init" in missing.stderr)
    assert not (site / "none.db").exists()
    (site / "sacct").unlink()
    result = ask(site)
    assert (1, True) == (result.exit_code, "bin_dir" in result.stderr)


def test_a_window_that_runs_backwards(site: Path) -> None:
    """Is an error, also one of no length; by the moments, not by what the clocks show."""
    assert 1 == ask(site, "-S", "2026-01-02", "-E", "2026-01-01").exit_code
    assert 1 == ask(site, "-S", "2026-01-01", "-E", "2026-01-01").exit_code
    summer = datetime(2026, 10, 25, 0, 40, tzinfo=timezone.utc)  # 02:40 in Berlin; then 02:10
    window = ("-S", f"uts{summer.timestamp():.0f}", "-E", f"uts{summer.timestamp() + 1800:.0f}")
    assert 0 == ask(site, *window).exit_code
