"""What ofu-report says of GPU models whose reference is in doubt."""

from pathlib import Path

from click.testing import CliRunner, Result

from slurm_ofu.cli.report import report
from tests.cli.conftest import configuration
from tests.store.databases import make_store
from tests.store.records import make_gpu, make_job, make_record


def ask(folder: Path, *arguments: str, site: str = "") -> Result:
    """ofu-report on a database with one job on an A10G and one on a GPU that gave no figure."""
    folder.mkdir(exist_ok=True)
    store = make_store(folder / "ofu.db")
    store.write(
        [
            make_record(make_job(job_id=1), gpus=[make_gpu(model="NVIDIA A10G")]),
            make_record(
                make_job(job_id=2),
                gpus=[make_gpu(reason="no_source", covered=0.0, tensor_ref=None, model="NVIDIA L40")],
            ),
        ]
    )
    config = configuration(folder, store.path)
    config.write_text(config.read_text() + site)
    return CliRunner().invoke(report, ["--config", str(config), "-a", "-S", "2025-06-01", *arguments])


def test_an_uncalibrated_model_is_labelled(tmp_path: Path) -> None:
    """A figure of a part that nobody has calibrated says so, in a table and on a page."""
    table, page = ask(tmp_path / "one").output, ask(tmp_path / "two", "-j", "1").output
    assert [True, True] == ["NVIDIA A10G: uncalibrated: " in text for text in (table, page)]
    assert "L40" not in table.partition("Notes")[2]


def test_a_sites_own_row_silences_it(tmp_path: Path) -> None:
    """A site that has calibrated the part says so in its configuration."""
    row = '[gpu_models."NVIDIA A10G"]\nreference_clock_mhz = 1710\n'
    assert "uncalibrated" not in ask(tmp_path, site=row).output
