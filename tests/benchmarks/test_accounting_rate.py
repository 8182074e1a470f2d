"""How fast Slurm's accounting is read: a gate on ratios measured side by side, and on memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import accounting_rate

pytestmark = [pytest.mark.benchmark, pytest.mark.slurm, pytest.mark.timeout(900)]


def test_accounting_is_read_fast_and_in_little_memory(tmp_path: Path) -> None:
    """A fraction of what slurm2sql takes on the same jobs, sacct and all; four times the rows take no more.

    On a quiet machine both times are less than a tenth, and so is CPU time on a busy one.
    """
    if reason := accounting_rate.missing():
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    found = accounting_rate.measure(tmp_path, jobs=20_000, rounds=1)
    assert found.cpu_ratio < 1 / 7
    assert found.ratio < 1 / 3.5
    assert found.memory_growth < 1.2
