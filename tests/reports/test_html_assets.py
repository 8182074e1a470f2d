"""What the static pages bring along."""

import re
from hashlib import sha256

from tests.reports.html_examples import PACKAGE, assets

#: uPlot 1.6.32 as published on npm.
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_the_chart_library_is_as_its_authors_published_it() -> None:
    """The vendored files are unchanged, and their licence stands beside them."""
    found = assets()
    assert VENDORED == {name: sha256(found[name]).hexdigest() for name in VENDORED}
    assert b"MIT" in found["uPlot.LICENSE.txt"]
    assert "uPlot 1.6.32" in (PACKAGE / "assets/pages/README.txt").read_text()


def test_our_scripts_make_no_markup_and_ask_for_nothing() -> None:
    """No script of ours parses text as HTML or code, or fetches anything: names stay names."""
    forbidden = re.compile(
        rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|fetch\(|XMLHttp"
    )
    for name in ("theme.js", "tables.js", "charts.js"):
        assert [] == forbidden.findall(assets()[name])


def test_styles_load_nothing() -> None:
    """No style sheet names another file or site."""
    for name in ("site.css", "uPlot.min.css"):
        assert [] == re.findall(rb"@import|url\(", assets()[name])
