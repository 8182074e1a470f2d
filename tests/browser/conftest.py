"""One Chromium for a module, and a site for it to look at."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ofu.reports.html_site import Site
from slurm_ofu.values import UsageRow
from tests.browser.chromium import CHROMIUM, Browser, chromium
from tests.reports.html_examples import assets, month, no_findings, page_like, site_facts, templates

MANY = 100_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium; without one tests are skipped, or fail where OFU_TEST_REQUIRE_ALL=1 forbids skips."""
    if CHROMIUM is None:
        if os.environ.get("OFU_TEST_REQUIRE_ALL") == "1":
            pytest.fail("chromium is missing: sh tests/prepare.sh installs it")
        pytest.skip("chromium is missing: sh tests/prepare.sh installs it")
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def written(folder: Path, site: Site, runs: dict[int, UsageRow], *, until: str | None = None) -> Path:
    """The site's files in a folder; ``until``: no further than this page."""
    for name in ("assets", "jobs"):
        (folder / name).mkdir()
    for name, content in assets().items():
        (folder / "assets" / name).write_bytes(content)
    for path, text in site.pages(lambda run_id: page_like(runs[run_id])):
        (folder / path).write_text(text)
        if path == until:
            break
    return folder


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages about three hundred jobs, users shown."""
    rows = month(300)
    made = Site(site_facts(rows, show_users=True), templates(), assets(), findings_of=no_findings)
    runs = {row.run.run_id: row for row in rows if row.run is not None}
    return written(tmp_path_factory.mktemp("site"), made, runs)


@pytest.fixture(scope="package")
def large_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a hundred thousand jobs."""
    kinds = month(300)
    rows = [
        replace(kinds[number % 300], run=replace(kinds[number % 300].run, run_id=number, job_id=number))  # type: ignore[type-var]
        for number in range(MANY)
    ]
    facts = site_facts(rows, show_users=True, groups={}, course=None, job_pages=2)
    made = Site(facts, templates(), assets(), findings_of=no_findings)
    runs = dict(enumerate(rows))
    return written(tmp_path_factory.mktemp("large"), made, runs, until="jobs.html")
