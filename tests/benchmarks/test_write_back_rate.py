"""The short form of the write-back benchmark."""

from pathlib import Path

import pytest

from benchmarks import write_back_rate
from tests.services.fixtures import require_cluster

pytestmark = [pytest.mark.benchmark, pytest.mark.slurm]


def test_checking_costs_little_and_few_processes(tmp_path: Path) -> None:
    """Five processes for any number of jobs, and not twice the time of unchecked commands."""
    require_cluster()
    found = write_back_rate.measure(tmp_path, jobs=15, rounds=3)
    assert write_back_rate.PROCESSES == found.processes
    assert found.ratio < 2.0
