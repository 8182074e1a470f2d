"""What may be concluded from pages without times: laws over any course of pages and outages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.counters.exporter_pace import STALE_NS, Pace

SECOND = 10**9
#: (seconds since the page before, does the GPU move, does the rest of the page, is there a page at all)
Pages = list[tuple[int, bool, bool, bool]]
PAGES = st.lists(
    st.tuples(st.sampled_from([1, 10, 11, 30, 130, 400]), st.booleans(), st.booleans(), st.booleans()),
    max_size=40,
)


def course(pages: Pages, *, must_move: bool) -> list[tuple[int, str, int]]:
    """What was seen at each page that came: when, what, and the longest usual step by then."""
    pace, now, mark, pulse = Pace(), 0, 0, 0
    seen: list[tuple[int, str, int]] = []
    for seconds, moves, page_moves, comes in pages:
        now += seconds * SECOND
        mark += moves
        pulse += moves or page_moves
        if not comes:
            pace.missed = True
            continue
        said = pace.see(now, mark=mark, pulse=pulse, must_move=must_move)
        if said in ("beginning", "new"):
            pace.since_ns = now
        seen.append((now, said, pace.longest_step_ns))
    return seen


@pytest.mark.property
@given(pages=PAGES, must_move=st.booleans())
def test_figures_follow_a_beginning(pages: Pages, must_move: bool) -> None:
    """A first page says nothing; what is new follows a beginning; and only where something must move can a
    page be stale, after two minutes."""
    open_, last_ns = False, 0
    for place, (now, said, _) in enumerate(course(pages, must_move=must_move)):
        assert place > 0 or said == "waiting"
        assert said != "new" or open_
        assert said != "stale" or (must_move and now - last_ns > STALE_NS)
        if said in ("beginning", "new"):
            open_, last_ns = True, now


@pytest.mark.property
@given(pages=PAGES, must_move=st.booleans())
def test_no_figure_covers_an_outage(pages: Pages, must_move: bool) -> None:
    """A figure covers no longer a time than two minutes or three of the steps that were seen twice."""
    last_ns = 0
    for now, said, longest_ns in course(pages, must_move=must_move):
        if said == "new":
            assert now - last_ns <= max(STALE_NS, 3 * longest_ns)
        if said in ("beginning", "new"):
            last_ns = now


def test_an_even_pace_is_followed() -> None:
    """With a collection every third page every third page is new."""
    pages = [(10, number % 3 == 0, False, True) for number in range(13)]
    said = [seen[1] for seen in course(pages, must_move=True)]
    assert ["waiting"] * 3 + ["beginning"] + ["waiting", "waiting", "new"] * 3 == said
