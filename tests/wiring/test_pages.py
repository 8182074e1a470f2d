"""ofu-report --html over a real accounting database."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.errors import ConfigError, UsageError
from slurm_ofu.reports.order import worst_of
from slurm_ofu.reports.question import Question
from slurm_ofu.store.read import Reader
from slurm_ofu.store.write import SqliteStore
from slurm_ofu.values import Config, JobPage, PagesConfig, RunGpu, Selection, StoredGroup, UsageRow
from slurm_ofu.wiring.pages import write_pages
from tests.reports.html_examples import Elements
from tests.store.records import START, expand, make_gpu, make_job, make_record, make_unstarted

NOW = datetime.fromtimestamp(START + 86400.0, timezone.utc)
QUESTION = Question(
    selection=Selection(start_epoch_s=START - 86400.0, end_epoch_s=START + 86400.0),
    by="job",
    zone=timezone.utc,
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A database with four runs of two users."""
    database = tmp_path_factory.mktemp("pages") / "ofu.db"
    store = SqliteStore(database, group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand)
    store.write(
        [
            make_record(make_job(job_id=1), gpus=[make_gpu(position) for position in range(4)]),
            make_record(
                make_job(job_id=2, user="bob", account="bob"),
                gpus=[make_gpu(reason="no_source", covered=0.0, tensor_ref=None)],
            ),
            make_record(make_job(job_id=3, user="bob")),
            make_unstarted(make_job(job_id=4)),
        ]
    )
    return Reader(database)


class Reticent:
    """A reader that knows neither groups nor a course in time, as Slurm's own accounting does not, and whose
    runs have gone when their pages are asked for."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def jobs(self, selection: Selection) -> list[UsageRow]:
        """All of them."""
        return self._reader.jobs(selection)

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """Nothing by node."""
        if by == "node":
            raise UsageError("nothing is known of single nodes")
        return self._reader.usage(selection, by)

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """Nothing."""
        raise UsageError("nothing is known of the course")

    def page(self, run_id: int) -> JobPage:
        """Another run than that which had this number."""
        return self._reader.page(run_id % 3 + 1)

    def gpus(self, selection: Selection) -> Iterator[RunGpu]:
        """None."""
        return iter(())


def written(site: Path) -> dict[str, Elements]:
    """The pages that are there."""
    return {str(path.relative_to(site)): Elements(path.read_text()) for path in site.rglob("*.html")}


def test_a_database_becomes_a_site(reader: Reader, tmp_path: Path) -> None:
    """Each job has its page, each group its line, and the overview their course."""
    site = tmp_path / "site"
    done = write_pages(Config(path="x"), reader, QUESTION, site, NOW)
    pages = written(site)
    assert (4, len(pages), 0) == (done.job_count, done.page_count, done.removed_count)
    assert 4 == sum(path.startswith("jobs/") for path in pages)
    assert "OFU by hour" in pages["index.html"].text
    assert (site / "assets/uPlot.iife.min.js").exists()
    assert not (site / "assets/README.txt").exists()
    assert all("bob" not in page.text for page in pages.values())
    assert "(users' own)" in pages["accounts.html"].text


def test_a_site_is_written_anew(reader: Reader, tmp_path: Path) -> None:
    """A second run over fewer jobs leaves no page of the others."""
    config = Config(path="x", pages=PagesConfig(job_pages=2, show_users=True, title="Our GPUs"))
    write_pages(Config(path="x"), reader, QUESTION, tmp_path, NOW)
    done = write_pages(config, reader, QUESTION, tmp_path, NOW)
    pages = written(tmp_path)
    assert 2 == done.removed_count == sum(path.startswith("jobs/") for path in pages)
    assert "bob" in pages["users.html"].text
    assert "Our GPUs" in pages["index.html"].text


def test_the_worst_list_is_the_terminals(tmp_path: Path) -> None:
    """Both hold the runs that lost most, short ones and those of little coverage too, none that was busy
    without tensor cores or of which that is not known; how many those are stands below."""
    judged: dict[str, Any] = {
        "idle_seconds": 0.0,
        "idle_covered_seconds": 3500.0,
        "non_tensor_covered_seconds": 3500.0,
    }
    low = replace(make_gpu(tensor_ref=35.0), non_tensor_seconds=0.0, **judged)
    other = replace(make_gpu(tensor_ref=0.0), non_tensor_seconds=3500.0, **judged)
    store = SqliteStore(
        tmp_path / "ofu.db", group=None, world_readable=True, wait_seconds=30.0, expand_hostlist=expand
    )
    store.write(
        [
            make_record(make_job(job_id=1), gpus=[low], end=START + 60.0, allocated=60.0),
            make_record(make_job(job_id=2), gpus=[other]),
            make_record(make_job(job_id=3)),
        ]
    )
    reader = Reader(tmp_path / "ofu.db")
    listed = worst_of(reader.jobs(QUESTION.selection), 5)
    assert ["1"] == [row.group for row in listed]
    write_pages(Config(path="x.toml"), reader, QUESTION, tmp_path / "pages", NOW)
    page = Elements((tmp_path / "pages" / "worst.html").read_text())
    assert "1: busy without tensor cores" in page.text
    assert "1: whether they worked without tensor cores is not known" in page.text
    assert "No job is ranked" not in page.text


def test_what_a_reader_does_not_know_is_left_out(reader: Reader, tmp_path: Path) -> None:
    """Without nodes there is no page of nodes, without a course no chart of it; and a run that has gone
    meanwhile keeps what was known of it, rather than another's figures."""
    write_pages(Config(path="x"), Reticent(reader), QUESTION, tmp_path, NOW)
    pages = written(tmp_path)
    assert "nodes.html" not in pages
    assert "OFU by hour" not in pages["index.html"].text
    for path, page in pages.items():
        if job := re.fullmatch(r"jobs/.*-(\d+)\.html", path):
            assert f"Job {job[1]}" in page.text
            assert "By GPU" not in page.text


def test_the_course_ends_now_and_begins_with_the_first_job(reader: Reader, tmp_path: Path) -> None:
    """Of a window that goes on, or begins years before the first job, only what can hold jobs is drawn."""
    selection = Selection(start_epoch_s=0.0, end_epoch_s=START + 1e9)
    question = Question(selection=selection, by="job", zone=timezone.utc)
    write_pages(Config(path="x"), reader, question, tmp_path, NOW)
    page = (tmp_path / "index.html").read_text()
    table = page.partition('id="course-ofu-title"')[2].partition("</table>")[0]
    hours = re.findall(r'<th scope="row"[^>]*>([^<]+)</th>', table)
    first = datetime.fromtimestamp(START, timezone.utc)
    assert [f"{first:%Y-%m-%d %H:%M}", f"{NOW:%Y-%m-%d %H}:00"] == [hours[0], hours[-1]]


def test_a_site_has_templates_of_its_own(reader: Reader, tmp_path: Path) -> None:
    """A template in templates_dir takes the place of ours by that name, and may use ours."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "worst.html.jinja").write_text(
        '{% extends "layout.html.jinja" %}{% block content %}<p>Ask {{ site_title }}</p>{% endblock %}'
    )
    site = tmp_path / "site"
    config = Config(path="x", pages=PagesConfig(templates_dir=str(own), title="<us>"))
    write_pages(config, reader, QUESTION, site, NOW)
    assert "<p>Ask &lt;us&gt;</p>" in (site / "worst.html").read_text()


def test_templates_that_are_not_there_are_an_error_of_the_configuration(
    reader: Reader, tmp_path: Path
) -> None:
    """It names the key and the directory, and nothing is written."""
    config = Config(path="x", pages=PagesConfig(templates_dir=str(tmp_path / "gone")))
    with pytest.raises(ConfigError, match="templates_dir"):
        write_pages(config, reader, QUESTION, tmp_path / "site", NOW)
    assert not (tmp_path / "site").exists()
