"""Findings on the pages of ofu-report."""

import json
from pathlib import Path

from click.testing import CliRunner

from slurm_ofu.cli.report import report


def test_findings_follow_the_sites_thresholds(config: Path, tmp_path: Path) -> None:
    """What [findings] says decides what stands on a page and in its JSON."""
    patient = tmp_path / "patient.toml"
    patient.write_text(config.read_text() + "[findings]\nshort_seconds = 1000000\n")
    asked = ["-j", "1003", "--config", str(patient)]
    assert "Findings\n  1. Too short to judge (" in CliRunner().invoke(report, asked).stdout
    (row,) = json.loads(CliRunner().invoke(report, [*asked, "--json"]).stdout)["rows"]
    assert ["short"] == [finding["kind"] for finding in row["findings"]]
    usual = CliRunner().invoke(report, ["-j", "1003", "--config", str(config)]).stdout
    assert "Too short" not in usual
