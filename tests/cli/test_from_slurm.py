"""ofu-report --from-slurm and ofu-admin write-back where Slurm's accounting cannot be asked."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from slurm_ofu.cli.report import report
from slurm_ofu.store.migrate import migrate


def configured(folder: Path, text: str) -> str:
    """A configuration with a database that is not there."""
    config = folder / "slurm-ofu.toml"
    config.write_text(f'[database]\nurl = "sqlite://{folder}/ofu.db"\n{text}\n')
    return str(config)


def asked(folder: Path, text: str, *options: str) -> Result:
    """``ofu-report --from-slurm``."""
    config = configured(folder, text)
    return CliRunner().invoke(report, ["--config", config, "--from-slurm", *options], prog_name="ofu-report")


@pytest.mark.parametrize("options", [(), ("-j", "4711_3"), ("-a", "--by", "user", "--json")])
def test_without_sacct_it_says_where_it_was_looked_for(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Exit code 4, as for a database that is not there; nothing on stdout."""
    done = asked(tmp_path, '[accounting]\nbin_dir = "/nonexistent"', *options)
    assert (4, "") == (done.exit_code, done.stdout)
    assert "Slurm's accounting: /nonexistent/sacct cannot be run" in done.stderr


def test_a_site_that_does_not_ask_accounting_is_told_so(tmp_path: Path) -> None:
    """[accounting] source = "none" has no answer."""
    done = asked(tmp_path, '[accounting]\nsource = "none"')
    assert (4, "") == (done.exit_code, done.stdout)
    assert '"none": accounting is not asked' in done.stderr


def test_write_back_is_off_by_default(tmp_path: Path) -> None:
    """Exit code 1 with the key to set, whatever else is missing."""
    config = configured(tmp_path, "")
    done = CliRunner().invoke(main, ["write-back", "--config", config], prog_name="ofu-admin")
    assert (1, "") == (done.exit_code, done.stdout)
    assert f"{config}: [write_back] enabled is false" in done.stderr


def test_write_back_without_a_database_or_with_an_empty_one(tmp_path: Path) -> None:
    """No database is exit code 4; one without runs has nothing to write, and asks Slurm nothing."""
    config = configured(tmp_path, '[write_back]\nenabled = true\n[accounting]\nbin_dir = "/nonexistent"')
    arguments = ["write-back", "--config", config]
    assert 4 == CliRunner().invoke(main, arguments, prog_name="ofu-admin").exit_code
    migrate(tmp_path / "ofu.db")
    for options in ([], ["--dry-run"]):
        done = CliRunner().invoke(main, [*arguments, *options], prog_name="ofu-admin")
        assert (0, "nothing to write\n") == (done.exit_code, done.stdout)


def test_write_back_takes_slurms_times(tmp_path: Path) -> None:
    """What is no time is exit code 1 and named."""
    config = configured(tmp_path, "[write_back]\nenabled = true")
    done = CliRunner().invoke(
        main, ["write-back", "--config", config, "-S", "yesteryear"], prog_name="ofu-admin"
    )
    assert 1 == done.exit_code
    assert "yesteryear" in done.stderr
