"""The static pages as text: what stands on them, and what must not."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from posixpath import dirname, join, normpath

import pytest

from slurm_ofu.errors import ConfigError
from slurm_ofu.reports.free_text import printable
from slurm_ofu.reports.html_site import Site
from slurm_ofu.values import Finding, Goals, JobPage, Selection, UsageRow
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import HOSTILE, accounted, job_row
from tests.reports.html_examples import (
    Elements,
    assets,
    kept,
    month,
    page_like,
    rendered,
    site_facts,
    templates,
)

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' style=position:fixed a='",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    HOSTILE,
)


def attacked(rows: list[UsageRow]) -> list[UsageRow]:
    """Runs whose every name is an attack."""
    return [
        job_row(
            3000 + number,
            kept(measured(gpu_models=(attack,), reasons=("ok", attack)), "gpu"),
            **accounted(
                user=attack,
                account=attack,
                partition=attack,
                job_name=attack,
                state=attack,
                cluster=attack,
                node_list=attack,
                comment=attack,
                qos=attack,
            ),
        )
        for number, attack in enumerate(ATTACKS)
    ] + rows


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """A site about three hundred jobs, users not shown."""
    return rendered(month(300))


def test_every_page_says_when_and_about_what(pages: dict[str, str]) -> None:
    """Window, time of making and zone stand on each page, and what the number means."""
    for text in pages.values():
        page = Elements(text)
        assert "2026-11-05 10:00:00 to 2026-11-25 10:00:00 CET (UTC+01:00)" in page.text
        assert "Made 2026-11-25 10:00:00 CET (UTC+01:00)" in page.text
        assert "What the number means" in page.text


def test_every_link_leads_somewhere(pages: dict[str, str]) -> None:
    """Links and sources are relative, and lead to a page, an asset or a part of the page itself."""
    there = {*pages, *(f"assets/{name}" for name in assets())}
    for path, text in pages.items():
        page = Elements(text)
        ids = {its["id"] for _, its in page.elements if "id" in its}
        for link in page.links():
            if link.startswith("#"):
                assert link[1:] in ids
            else:
                assert normpath(join(dirname(path), link.partition("?")[0])) in there, (path, link)


def test_nothing_is_inline_and_the_policy_is_strict(pages: dict[str, str]) -> None:
    """No handler, no style attribute, no script without a file but data: the policy needs no exception."""
    for text in pages.values():
        page = Elements(text)
        [policy] = [
            its["content"] or ""
            for tag, its in page.elements
            if its.get("http-equiv") == "Content-Security-Policy"
        ]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for tag, its in page.elements:
            assert not [name for name in its if name.startswith("on") or name == "style"]
            assert tag != "style"
            assert tag != "script" or "src" in its or its.get("type") == "application/json"
        assert len({its["id"] for _, its in page.elements if "id" in its}) == sum(
            "id" in its for _, its in page.elements
        )


@pytest.mark.parametrize("count", [20, 600])
def test_hostile_names_are_only_ever_text(count: int) -> None:
    """Whatever a job, user or partition is called, the pages have the same elements as with plain names, and
    no control character; in long tables, too."""
    rows = attacked(month(count))
    pages = rendered(rows, show_users=True, title=ATTACKS[0], job_pages=3, selection=Selection(users=ATTACKS))
    for path, text in pages.items():
        page = Elements(text)
        assert {"img", "svg"}.isdisjoint(tag for tag, _ in page.elements), path
        assert all("<" not in script for script in page.scripts), path
        assert not re.search("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202e\\u2028]", text), path
    assert all(re.fullmatch(r"(jobs/)?[A-Za-z0-9_-]+\.html", path) for path in pages)
    told = Elements(pages["jobs.html"])
    everything = [told.text, *_words(told)]
    for attack in ATTACKS:
        assert any(" ".join(printable(attack).split()) in text for text in everything), attack


def _words(page: Elements) -> list[str]:
    return [
        word
        for text in page.scripts
        if text
        for column in json.loads(text)["columns"]
        for word in column["words"]
    ]


@pytest.mark.parametrize("count", [100, 700])
def test_without_leave_no_user_is_named_anywhere(count: int) -> None:
    """Where users are not shown no page, path, table or data holds the name of a user or of a job."""
    rows = month(count, account="wilma", comment="by barney")
    secret = (*("wilma", "fred", "barney", "betty", "pebbles"), *("train", "md_run", "ablation", "sweep"))
    selection = Selection(users=("wilma",), accounts=("wilma",), job_names=("train",))
    pages = rendered(rows, selection=selection)
    for path, text in pages.items():
        for name in secret:
            assert name not in path
            assert not re.search(rf"\b{name}\b", _without_prose(text)), (path, name)
    assert "users.html" not in pages


def _without_prose(text: str) -> str:
    """Without sentences of the templates: "training" and the like are words, too."""
    return text.replace("training", "")


def test_with_leave_users_have_a_page() -> None:
    """Where users are shown they have a page, and jobs have names."""
    pages = rendered(month(50), show_users=True)
    assert "wilma" in Elements(pages["users.html"]).text
    assert "train-7b" in Elements(pages["jobs.html"]).text


def test_missing_is_said_with_its_reason_and_never_as_zero() -> None:
    """A cluster of which nothing was measured has no figure anywhere, and no per cent but coverage."""
    rows = [job_row(1, kept(unmeasured(reasons=("no_source",)), "gpu"), **accounted())]
    pages = rendered(rows)
    for path in ("index.html", "jobs.html", "partitions.html", "jobs/alpha-1.html"):
        text = Elements(pages[path]).text
        if path != "jobs/alpha-1.html":
            assert "n/a (no_source)" in text, path
    assert "0.0 % ±" not in pages["index.html"]
    assert "nothing was measured" in Elements(pages["index.html"]).text


def test_the_worst_list_holds_whom_it_may() -> None:
    """Jobs that lost nothing, are not ranked, work without tensor cores or were not measured are not on it,
    whatever else is said of them."""
    seconds = 16 * HOUR
    busy = {"non_tensor_seconds": seconds, "non_tensor_covered_seconds": seconds, "idle_seconds": 0.0}
    fp64 = measured(tensor_ref_seconds=0.0, lost_seconds=seconds, **busy)
    rows = [
        job_row(
            1, kept(measured(tensor_ref_seconds=0.1 * seconds, **{**busy, "non_tensor_seconds": 0.0}), "gpu")
        ),
        job_row(2, fp64),
        job_row(3, kept(unmeasured(), "gpu")),
        job_row(4, measured(tensor_ref_seconds=0.0, lost_seconds=seconds)),
        job_row(
            5, kept(measured(tensor_ref_seconds=0.9 * seconds, **{**busy, "non_tensor_seconds": 0.0}), "gpu")
        ),
    ]
    text = rendered(rows, worst=rows)["worst.html"]
    found = re.findall(r'<th scope="row"[^>]*>(?:<a href="[^"]*">)?([^<]+)', text)
    assert ["1"] == found
    assert "12: busy without tensor cores" in Elements(text).text


def test_findings_stand_on_a_jobs_page() -> None:
    """What the caller finds of a job is told there in words, with what to try."""
    row = month(1)[0]
    asked: list[JobPage] = []

    def found(page: JobPage) -> tuple[Finding, ...]:
        asked.append(page)
        return (Finding(kind="short", evidence={"run_seconds": 30.0}),)

    site = Site(site_facts([row]), templates(), assets(), findings_of=found)
    text = dict(site.pages(lambda run_id: page_like(row)))["jobs/alpha-2000.html"]
    assert "Too short to judge (30.0 s)." in Elements(text).text
    assert [(2000, None)] == [(page.row.run.job_id, page.row.run.job_name) for page in asked if page.row.run]


def test_gpus_that_a_finding_is_about_are_marked() -> None:
    """A line of a GPU (node) says the numbers of the findings about it; others say nothing."""
    row = month(1)[0]
    found = (
        Finding(kind="short", evidence={}),
        Finding(kind="suspect", evidence={}, where=("n1:3",), gpu_count=1, of_gpu_count=8),
        Finding(kind="suspect", evidence={}, where=("n2",), gpu_count=4, of_gpu_count=8),
    )
    site = Site(site_facts([row]), templates(), assets(), findings_of=lambda page: found)
    text = dict(site.pages(lambda run_id: page_like(row)))["jobs/alpha-2000.html"]
    lines = re.findall(
        r'<th scope="row"[^>]*>(n[12](?::[0-9])?)</th>(?:\n<td.*)*\n<td class="left"[^>]*>(.*)</td>\n</tr>',
        text,
    )
    assert [("n1", ""), ("n2", "3")] == lines[:2]
    assert ["", "", "", "2", *["3"] * 4] == [numbers for _, numbers in lines[2:]]


def test_a_jobs_page_says_goal_and_loss() -> None:
    """As on the page of text: what was expected of the job, and what it lost against that."""
    row = month(1)[0]
    seconds = row.sums.ofu_covered_seconds
    known = replace(row.sums, non_tensor_seconds=0.0, non_tensor_covered_seconds=seconds)
    row = replace(row, sums=known)
    goals = Goals(default_ratio=0.9, by_partition={})
    site = Site(site_facts([row], goals=goals), templates(), assets(), findings_of=lambda page: ())
    text = Elements(dict(site.pages(lambda run_id: page_like(row)))["jobs/alpha-2000.html"]).text
    assert re.search(r"Goal 90 % \(partition \w+\): [0-9.]+ GPU-hours below it", " ".join(text.split()))


def test_an_empty_window_has_pages_all_the_same() -> None:
    """Without a job the pages say so; nothing is zero per cent."""
    pages = rendered([], groups={}, course=None)
    assert "No GPU jobs in this window." in Elements(pages["index.html"]).text
    assert "0.0 %" not in Elements(pages["index.html"]).text
    assert "No GPU jobs in this window." in Elements(pages["coverage.html"]).text
    assert "No job is ranked." in Elements(pages["worst.html"]).text
    assert not any("Everything was measured" in text for text in pages.values())


def test_who_lost_nothing_is_told_from_who_is_not_ranked() -> None:
    """An empty list says whether jobs were ranked at all."""
    rows = [job_row(1, measured(lost_seconds=0.0))]
    judged, nobody = (Elements(rendered(rows, worst=worst)["worst.html"]).text for worst in (rows, []))
    assert "Of the jobs that are ranked (1) none lost any." in judged
    assert "No job is ranked." in nobody


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("worst.html.jinja", "{{ nonsense }}", "'nonsense' is undefined"),
        ("index.html.jinja", "{% if %}", "index.html.jinja line 1"),
        ("index.html.jinja", '{% extends "gone.html.jinja" %}', "gone.html.jinja"),
    ],
)
def test_a_sites_broken_template_is_named(name: str, text: str, said: str) -> None:
    """A template that cannot be used is an error of the configuration that says which and why."""
    rows = month(3)
    site = Site(site_facts(rows), {**templates(), name: text}, assets(), findings_of=lambda page: ())
    page_of: Callable[[int], JobPage] = lambda run_id: page_like(rows[0])  # noqa: E731
    with pytest.raises(ConfigError, match=re.escape(said)):
        list(site.pages(page_of))


def test_a_changed_asset_has_another_address() -> None:
    """A browser that kept an old script or style asks for the new one."""
    rows = month(1)
    links = []
    for style in (b"a {}", b"b {}"):
        brought = {**assets(), "site.css": style}
        site = Site(site_facts(rows), templates(), brought, findings_of=lambda page: ())
        page = Elements(dict(site.pages(lambda run_id: page_like(rows[0])))["index.html"])
        links.append({link for link in page.links() if "assets/" in link})
    assert [1, 1] == [len(links[0] - links[1]), len(links[1] - links[0])]


def test_runs_of_one_job_have_pages_of_their_own() -> None:
    """A requeued job's lives, and clusters whose names look alike in a path, do not share a page."""
    runs = [("alpha", 0), ("alpha", 1), ("al/ha", 0), ("al ha", 0)]
    rows = [
        job_row(
            7,
            kept(measured(), "gpu"),
            **{**accounted(), "cluster": cluster, "restart_count": restarts, "run_id": at},
        )
        for at, (cluster, restarts) in enumerate(runs)
    ]
    paths = [path for path in rendered(rows) if path.startswith("jobs/")]
    assert 4 == len(set(paths))
    assert {"jobs/alpha-7.html", "jobs/alpha-7-1.html"} <= set(paths)
