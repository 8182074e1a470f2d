"""What every test may use."""

from tests.matrix.results import (
    pytest_collection_modifyitems,
    pytest_report_collectionfinish,
    pytest_runtest_makereport,
    pytest_sessionfinish,
)

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_report_collectionfinish",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
]
