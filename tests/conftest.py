"""What every test may use, and how tests get on with others that run at the same time."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.matrix import results
from tests.matrix.results import pytest_configure

__all__ = ["pytest_configure"]

#: How much a test that only computes gives way to a cluster, whose daemons and samplers keep time.
NICE = 10

# How long one example takes says nothing on a machine that others use.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def on_a_cluster(item: pytest.Item) -> bool:
    """Whether a test waits for a cluster for most of its time."""
    return item.get_closest_marker("slurm") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In processes side by side the tests on clusters come first: they take longest, and mostly wait."""
    results.pytest_collection_modifyitems(items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not on_a_cluster(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """In processes side by side a test gives way, unless it waits for a cluster."""
    if hasattr(item.config, "workerinput"):
        with suppress(PermissionError):  # some containers' root may not
            os.setpriority(os.PRIO_PROCESS, 0, 0 if on_a_cluster(item) else NICE)
