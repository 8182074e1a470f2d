"""ofu-admin recompute: the site's own row reaches old figures."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.admin import main
from tests.store.databases import make_store, query
from tests.store.test_recomputing import OLD, gpu, record


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One run on an H100, made with a wrong clock; one on a GPU that nobody knows."""
    store = make_store(tmp_path / "ofu.db")
    known = gpu(0, 9000.0, OLD, model="NVIDIA H100 80GB HBM3")
    store.write([record([known]), record([gpu(0, 9000.0, None)], job_id=2)])
    return store.path


def ask(database: Path, *arguments: str, models: str = "") -> Result:
    """Run it."""
    config = database.with_name("slurm-ofu.toml")
    config.write_text(f'[database]\nurl = "sqlite://{database}"\ngroup = "root"\n{models}')
    return CliRunner().invoke(main, ["recompute", "--config", str(config), *arguments])


def clocks(database: Path) -> list[tuple[float | None, ...]]:
    """What the rows rest on."""
    return query(database, "SELECT reference_clock_mhz, tensor_ref_seconds FROM run_gpu ORDER BY run_id")


def test_the_catalogue_corrects_old_rows(database: Path) -> None:
    """The shipped clock goes into every row that was made with another; unknown models wait for theirs."""
    before = clocks(database)
    dry = ask(database, "--dry-run")
    assert before == clocks(database)
    done = ask(database)
    left = "NVIDIA X1: no reference clock: 1 GPU rows of 1 runs stay without OFU until [gpu_models] has one\n"
    line = f"NVIDIA H100 80GB HBM3: 1980 MHz → 1830 MHz, 1 GPU rows of 1 runs\n{left}"
    assert [(0, line), (0, line)] == [(its.exit_code, its.output) for its in (dry, done)]
    assert [(1830.0, pytest.approx(9000 / 1830)), (None, None)] == clocks(database)
    again = ask(database)
    assert (0, f"{left}every figure is on the reference clock that is known now\n") == (
        again.exit_code,
        again.output,
    )


def test_a_sites_row_gives_old_jobs_their_ofu(database: Path) -> None:
    """A site adds a row to its configuration, and the jobs before it have their figures, too."""
    done = ask(database, models='[gpu_models."X1"]\nreference_clock_mhz = 1500\n')
    assert "NVIDIA X1: unknown → 1500 MHz, 1 GPU rows of 1 runs\n" in done.output
    assert (1500.0, 6.0) == clocks(database)[1]


def test_without_a_database(tmp_path: Path) -> None:
    """No database is said, with what to do, and is exit code 4."""
    result = ask(tmp_path / "absent.db")
    assert (4, True) == (result.exit_code, "absent.db" in result.output)
