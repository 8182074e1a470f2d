"""ofu-admin write-back where there is nothing it could write to."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from tests.store.databases import make_store
from tests.store.records import make_job, make_record


def write_back(folder: Path, settings: str, *arguments: str) -> Result:
    """The command on a database with one run that waits for its row of Slurm's accounting."""
    make_store(folder / "ofu.db").write([make_record(make_job())])
    config = folder / "slurm-ofu.toml"
    config.write_text(f'{settings}\n[database]\nurl = "sqlite://{folder}/ofu.db"\ngroup = ""\n')
    return CliRunner().invoke(main, ["write-back", "--config", str(config), *arguments])


def test_runs_that_wait_for_their_row_are_told(tmp_path: Path) -> None:
    """Nothing is due of a run that Slurm's accounting was not read for, and that is not all there is."""
    done = write_back(tmp_path, "", "--dry-run", "-S", "2025-01-01")
    assert (0, "nothing to write\n") == (done.exit_code, done.stdout)
    assert "1 runs wait for their row of Slurm's accounting" in done.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("[write_back]\nenabled = false", "[write_back] enabled is false"),
        ('[write_back]\nenabled = true\n[accounting]\nsource = "none"', '[accounting] source = "none"'),
    ],
)
def test_what_can_never_write_says_so(tmp_path: Path, settings: str, words: str) -> None:
    """Switched off, or without Slurm's accounting: exit code 1 and why."""
    done = write_back(tmp_path, settings)
    assert 1 == done.exit_code
    assert words in done.stderr
