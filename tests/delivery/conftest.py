"""A munged for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.delivery.munged import Munged, new_key, require


@pytest.fixture(scope="session")
def munge_key() -> bytes:
    """The key of the cluster under test."""
    return new_key()


@pytest.fixture(scope="session")
def munged(munge_key: bytes) -> Iterator[Munged]:
    """The cluster's munged, its clock right."""
    require()
    daemon = Munged(munge_key)
    yield daemon
    daemon.close()
