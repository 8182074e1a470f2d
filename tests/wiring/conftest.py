"""A munged for the tests of this folder."""

from tests.delivery.conftest import munge_key, munged

__all__ = ["munge_key", "munged"]
