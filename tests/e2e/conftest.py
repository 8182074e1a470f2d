"""Fixtures of the end-to-end tests."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.collected import CollectedSite
from tests.e2e.site import Site
from tests.services.fixtures import ClusterFactory, slurm_cluster_factory
from tests.standins import nvml_standin
from tests.standins.nvml_standin import Scenario

__all__ = ["slurm_cluster_factory"]

SiteFactory = Callable[..., Site]
CollectedSiteFactory = Callable[..., CollectedSite]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in libnvidia-ml.so.1."""
    return nvml_standin.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def make_site(
    slurm_cluster_factory: ClusterFactory, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> SiteFactory:
    """Makes sites; their clusters end with the module's tests."""

    def make(scenarios: Mapping[str, Scenario], settings: str = "", **options: object) -> Site:
        site = Site(tmp_path_factory.mktemp("site"), nvml_library, scenarios, settings)
        return site.start(slurm_cluster_factory, **options)

    return make


@pytest.fixture(scope="module")
def make_collected_site(
    slurm_cluster_factory: ClusterFactory, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectedSiteFactory]:
    """Makes sites whose nodes deliver to a collector; it and their clusters end with the module's tests."""
    made: list[CollectedSite] = []

    def make(
        scenarios: Mapping[str, Scenario], settings: str = "", collector_settings: str = "", **options: object
    ) -> CollectedSite:
        site = CollectedSite(
            tmp_path_factory.mktemp("site"),
            nvml_library,
            scenarios,
            settings,
            collector_settings=collector_settings,
        )
        made.append(site)
        site.start(slurm_cluster_factory, **options)
        site.configure_all()
        return site

    yield make
    for site in made:
        site.close()
