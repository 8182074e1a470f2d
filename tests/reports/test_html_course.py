"""How the static pages cut their window."""

from datetime import timezone
from itertools import pairwise

import pytest

from slurm_ofu.reports.html_course import course_of
from tests.reports.examples import CET, MORNING

DAY = 86400.0


@pytest.mark.parametrize(
    ("days", "step", "first_labels"),
    [
        (0.5, "hour", ("2026-11-05 10:00", "2026-11-05 11:00")),
        (20, "day", ("2026-11-05", "2026-11-06")),
        (200, "week", ("2026-11-05", "2026-11-09")),
        (1000, "month", ("2026-11", "2026-12")),
    ],
)
def test_longer_windows_are_cut_into_longer_spans(
    days: float, step: str, first_labels: tuple[str, str]
) -> None:
    """Hours, days, weeks from Mondays, months: by the local clock, so that there are not too many."""
    course = course_of(MORNING, MORNING + days * DAY, CET)
    assert course is not None
    assert (step, first_labels) == (course.step, course.labels[:2])
    assert (MORNING, MORNING + days * DAY) == (course.edges[0], course.edges[-1])
    assert len(course.edges) == len(course.labels) + 1 <= 110
    assert all(begin < end for begin, end in pairwise(course.edges))


def test_an_empty_window_has_no_course() -> None:
    """Where nothing can lie there is nothing to be drawn."""
    assert None is course_of(MORNING, MORNING, timezone.utc)
