"""ofu-report --html: web pages instead of a report."""

from pathlib import Path

import pytest

from tests.cli.conftest import Ask

WINDOW = ("-a", "-S", "2025-06-01", "-E", "2025-07-01")


def test_pages_are_written_and_said_to_be(ask: Ask, tmp_path: Path) -> None:
    """The pages of a window lie in the directory, stdout stays empty, and a message says where they are."""
    site = tmp_path / "site"
    told = ask("--html", str(site), *WINDOW)
    assert (0, "") == (told.exit_code, told.stdout)
    assert f"pages about 6 jobs: {site}/index.html" in told.stderr
    index = (site / "index.html").read_text()
    assert "Window: 2025-06-01 00:00:00 to 2025-07-01 00:00:00 CEST (UTC+02:00)" in index
    assert 6 == len(list((site / "jobs").iterdir()))
    assert not any("bob" in page.read_text() for page in site.rglob("*.html"))


def test_a_window_without_jobs_has_pages_and_its_exit_code(ask: Ask, tmp_path: Path) -> None:
    """Where nothing matched the pages say so, as the exit code does."""
    told = ask("--html", str(tmp_path / "site"), "-a", "-S", "2024-06-01", "-E", "2024-07-01")
    assert 2 == told.exit_code
    assert "No GPU jobs in this window." in (tmp_path / "site/index.html").read_text()


def test_the_format_of_lines_has_no_part_in_pages(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What OFU_FORMAT says, be it a mistake, is not asked for pages."""
    monkeypatch.setenv("OFU_FORMAT", "JobID,Colour")
    assert 0 == ask("--html", str(tmp_path / "site"), *WINDOW).exit_code


def test_somebody_elses_directory_is_refused(ask: Ask, tmp_path: Path) -> None:
    """A directory with anything else in it is left as it is, and why is said."""
    (tmp_path / "thesis.tex").write_text("years of work")
    told = ask("--html", str(tmp_path), *WINDOW)
    assert 1 == told.exit_code
    assert "is not empty" in told.stderr
    assert ["thesis.tex"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("output", ["--json", "--csv", "-P", "-p", "--format=JobID", "--delimiter=;"])
def test_pages_are_a_format_of_their_own(ask: Ask, tmp_path: Path, output: str) -> None:
    """--html goes with no other output."""
    told = ask("--html", str(tmp_path / "site"), output, *WINDOW)
    assert 1 == told.exit_code
    assert "--html" in told.stderr
    assert not (tmp_path / "site").exists()
