"""The cluster fixture for the tests of this folder; other folders' conftest.py may import it alike."""

from __future__ import annotations

import pytest

from .fixtures import slurm_cluster_factory

__all__ = ["slurm_cluster_factory"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slurm: needs a real Slurm cluster on this machine (root)")
