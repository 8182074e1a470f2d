"""The static pages in a real browser: under their own policy, from files, for eyes, keyboards and readers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browser.chromium import Browser
from tests.browser.conftest import MANY

pytestmark = pytest.mark.browser

PAGES = (
    *("index.html", "partitions.html", "users.html", "jobs.html", "worst.html", "coverage.html"),
    *("reading.html", "jobs/alpha-2001.html"),
)
AXE = Path(__file__).with_name("axe.min.js")
#: What a page draws: of each canvas how many points are not blank.
DRAWN = """[...document.querySelectorAll("canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let inked = 0;
  for (let at = 3; at < data.length; at += 4) inked += data[at] > 0;
  return inked;
})"""


def show(browser: Browser, site: Path, page: str, **wanted: Any) -> None:
    """Open a page of the site from its file."""
    browser.open(f"file://{site}/{page}", **wanted)
    browser.settle()


class _Strict(SimpleHTTPRequestHandler):
    """Files with the strictest policy under which a page can have style, script and image at all."""

    def end_headers(self) -> None:
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-ancestors 'none'"
        )
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, *said: object) -> None:
        """Nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A web server on loopback; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Strict, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def column(browser: Browser, number: int) -> list[str]:
    """What stands in a column of the first table, from top to bottom."""
    texts = browser.run(
        "[...document.querySelectorAll('table.sortable tbody tr')]"
        f".map((row) => row.cells[{number}].textContent)"
    )
    assert isinstance(texts, list)
    return texts


def head(browser: Browser, title: str) -> int:
    """The number of the column with that title."""
    titles = browser.run(
        "[...document.querySelectorAll('table.sortable thead th')].map((th) => th.textContent)"
    )
    return int(titles.index(title))


@pytest.mark.parametrize("page", PAGES)
def test_pages_keep_their_policy_and_ask_for_nothing_else(browser: Browser, site: Path, page: str) -> None:
    """No page violates its policy, makes an error, or asks for anything that is not beside it."""
    show(browser, site, page)
    assert [] == browser.complaints
    assert [] == [url for url in browser.requests if not url.startswith(f"file://{site}/")]
    assert browser.requests[0] == f"file://{site}/{page}"


def test_pages_work_behind_a_strict_web_server(browser: Browser, site: Path) -> None:
    """A server whose own policy allows nothing but its own files serves the same pages as well."""
    with serving(site) as address:
        for page in ("index.html", "jobs.html", "jobs/alpha-2001.html"):
            browser.open(f"{address}/{page}")
            browser.settle()
            assert [] == browser.complaints
            assert [] == [url for url in browser.requests if not url.startswith(f"{address}/")]
        assert [True] == browser.run(f"{DRAWN}.map((inked) => inked > 500)")
        browser.click("nav a")
        browser.until("location.pathname === '/index.html' && document.querySelector('canvas') !== null")
        assert [] == browser.complaints


def test_the_policy_holds_against_what_it_forbids(browser: Browser, site: Path) -> None:
    """A script or style that got into a page would not run: the policy is in force, not only there."""
    show(browser, site, "index.html")
    browser.run(
        """(() => {
          const attempts = [
            () => {
              const script = document.createElement("script");
              script.textContent = "window.ran = 1";
              document.body.append(script);
            },
            () => document.body.setAttribute("style", "color: red"),
            () => document.body.setAttribute("onclick", "window.ran = 1"),
            () => document.body.click(),
          ];
          for (const attempt of attempts) try { attempt(); } catch { }
        })()"""
    )
    assert [None, True] == browser.run(
        "[window.ran ?? null, getComputedStyle(document.body).color !== 'rgb(255, 0, 0)']"
    )


@pytest.mark.parametrize(("page", "count"), [("index.html", 4), ("jobs/alpha-2001.html", 1)])
def test_charts_are_drawn_in_the_colours_of_the_theme(
    browser: Browser, site: Path, page: str, count: int
) -> None:
    """Every chart has ink; another theme draws them anew on another ground."""
    grounds = []
    for dark in (False, True):
        show(browser, site, page, dark=dark)
        drawn = browser.run(DRAWN)
        assert count == len(drawn)
        assert all(inked > 500 for inked in drawn)
        grounds.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert ["rgb(255, 255, 255)", "rgb(20, 24, 28)"] == grounds


def test_the_reader_may_choose_the_theme(browser: Browser, site: Path) -> None:
    """What is chosen holds against the system, on every page, and charts are drawn anew."""
    show(browser, site, "index.html")
    light = browser.run("document.querySelector('canvas').toDataURL()")
    choose = (
        "const s = document.querySelector('#theme select'); s.value = '%s';"
        " s.dispatchEvent(new Event('change'))"
    )
    browser.run(f"(() => {{ {choose % 'dark'} }})()")
    browser.settle()
    assert light != browser.run("document.querySelector('canvas').toDataURL()")
    show(browser, site, "jobs.html")
    assert "rgb(20, 24, 28)" == browser.run("getComputedStyle(document.body).backgroundColor")
    browser.run(f"(() => {{ {choose % ''} }})()")
    assert "rgb(255, 255, 255)" == browser.run("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_wider_than_a_small_telephone(browser: Browser, site: Path, page: str) -> None:
    """At 320 px nothing has to be scrolled sideways but tables within their frames; charts fit."""
    show(browser, site, page, width=320, height=640)
    assert 320 == browser.run("document.documentElement.scrollWidth")
    assert all(
        width <= 320
        for width in browser.run("[...document.querySelectorAll('canvas')].map((c) => c.clientWidth)")
    )


def test_a_table_is_sorted_by_mouse(browser: Browser, site: Path) -> None:
    """A click on a heading sorts by it, figures the greatest first, another one the other way; what is not
    known comes last either way; the heading says so. At first it is by GPU-hours."""
    show(browser, site, "jobs.html")
    sorting = "[...document.querySelectorAll('th[aria-sort]')].map((th) => [th.cellIndex, th.ariaSort])"
    assert [[head(browser, "GPU-hours"), "descending"]] == browser.run(sorting)
    ofu = head(browser, "OFU")
    button = f"table.sortable thead th:nth-child({ofu + 1}) button"
    seen = []
    for direction in ("descending", "ascending"):
        browser.click(button)
        assert [[ofu, direction]] == browser.run(sorting)
        texts = [text.strip() for text in column(browser, ofu)]
        figures = [float(text.split(" %")[0]) for text in texts if not text.startswith("n/a")]
        assert sorted(figures, reverse=direction == "descending") == figures
        assert all(text.startswith("n/a") for text in texts[len(figures) :])
        seen.append(len(figures))
    assert seen[0] == seen[1] > 200
    assert 300 == len(column(browser, 0))


def test_a_table_is_sorted_by_keyboard(browser: Browser, site: Path) -> None:
    """The tab key reaches every heading with a visible focus, and enter or blank sort by it."""
    show(browser, site, "partitions.html")
    reached = []
    for _ in range(60):
        browser.press("Tab")
        reached.append(
            browser.run(
                "[document.activeElement.closest('th')?.textContent ?? document.activeElement.tagName,"
                " getComputedStyle(document.activeElement).outlineStyle,"
                " parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
            )
        )
        if reached[-1][0] == "OFU":
            break
    assert ["A", "solid", 3] == reached[0]  # the link past the navigation
    assert ["OFU", "solid", 3] == reached[-1]
    assert all(style == "solid" and width >= 2 for _, style, width in reached)
    for key, direction in (("Enter", "descending"), (" ", "ascending")):
        browser.press(key)
        assert direction == browser.run("document.activeElement.closest('th').ariaSort")


def test_job_ids_are_sorted_as_numbers(browser: Browser, large_site: Path) -> None:
    """9 comes before 10, in tables of any length."""
    show(browser, large_site, "jobs.html")
    browser.click("table.sortable thead th:first-child button")
    assert [str(number) for number in range(100)] == column(browser, 0)


def test_a_hundred_thousand_jobs_stay_usable(browser: Browser, large_site: Path) -> None:
    """The page holds some hundred rows at a time, whatever is done with it, and all jobs can be reached by
    sorting, filtering and turning pages."""
    show(browser, large_site, "jobs.html")
    assert [] == browser.complaints
    status, nodes = "document.querySelector('.status').textContent", "document.querySelectorAll('*').length"
    assert "100,000 rows, page 1 of 1000" == browser.run(status)
    browser.click("table.sortable thead th:first-child button")
    browser.click(".tools button:last-of-type")
    assert "100,000 rows, page 1000 of 1000" == browser.run(status)
    assert str(MANY - 1) == column(browser, 0)[-1]
    browser.run("document.querySelector('.tools input').focus()")
    browser.type("wilma h100")
    wilmas = browser.run(status)
    assert wilmas.endswith("of 100,000 rows, page 1 of " + wilmas.split()[-1])
    assert {"wilma"} == set(column(browser, head(browser, "User")))
    assert 100 == len(column(browser, 0))
    browser.click(".tools button:nth-of-type(3)")
    assert f"page 2 of {wilmas.split()[-1]}" in browser.run(status)
    assert 3000 > browser.run(nodes)
    browser.type(" nobody has this")
    assert "0 of 100,000 rows, page 1 of 1" == browser.run(status)


def test_short_tables_are_filtered_too(browser: Browser, site: Path) -> None:
    """What is typed narrows the table down to rows with all of the words, and is announced."""
    show(browser, site, "jobs.html")
    browser.run("document.querySelector('.tools input').focus()")
    browser.type("fred a100")
    rows = browser.run("[...document.querySelectorAll('tbody tr')].map((row) => row.textContent)")
    assert rows
    assert all("fred" in row and "A100" in row for row in rows)
    assert f"{len(rows)} of 300 rows" == browser.run("document.querySelector('[role=status]').textContent")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser: Browser, site: Path, page: str, dark: bool) -> None:
    """axe-core, with every rule that it has, names and contrast among them, finds no violation."""
    show(browser, site, page, dark=dark)
    if page == "jobs.html":  # axe takes seconds for each hundred rows; the first ones have all there is
        browser.run("[...document.querySelectorAll('tbody tr')].slice(15).forEach((row) => row.remove())")
    browser.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = browser.run(
        "axe.run(document, { preload: false, resultTypes: ['violations'] }).then(({ violations }) =>"
        " violations.map((its) => [its.id, its.help, its.nodes[0].html]))"
    )
    assert [] == found, json.dumps(found, indent=1)


def test_a_chart_says_in_words_what_it_shows(browser: Browser, site: Path) -> None:
    """Who cannot see a chart gets a sentence about it, and its numbers as a table beside it."""
    show(browser, site, "index.html")
    told = browser.run(
        "[...document.querySelectorAll('figure')].map((figure) =>"
        " [figure.querySelector('[role=img]').ariaLabel, figure.querySelectorAll('details tbody tr').length])"
    )
    assert 4 == len(told)
    assert told[0][0].startswith("OFU by day: lowest ")
    assert "GPU-hours by day: " in told[1][0]
    assert all(rows > 5 for _, rows in told)
