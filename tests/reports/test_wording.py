"""How figures are put into words."""

from datetime import datetime, timedelta, timezone
from typing import get_args

import pytest

from slurm_ofu.figures import figures
from slurm_ofu.figures.reasons import NO_TOKEN, NOT_CHARGED, SEVERITY
from slurm_ofu.reports.wording import (
    EXPLANATIONS,
    count,
    duration,
    error_points,
    hours,
    moment,
    moment_of,
    ofu,
    percent,
    span,
)
from slurm_ofu.values import Reason, UsageSums
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import CET, HOSTILE, MORNING

PERCENT = [
    (None, "unknown"),
    (0.0, "0.0 %"),
    (1e-9, "<0.1 %"),
    (0.0004, "<0.1 %"),
    (0.0005, "0.1 %"),
    (0.856, "85.6 %"),
    (0.9996, ">99.9 %"),
    (1.0, "100.0 %"),
    (1.083, "108.3 %"),
]


@pytest.mark.parametrize(("ratio", "text"), PERCENT)
def test_percent(ratio: float | None, text: str) -> None:
    """Per cent with one decimal; what is not quite 0 or 1 is not rounded to look like it."""
    assert text == percent(ratio)


OFU: list[tuple[UsageSums, str]] = [
    (measured(), "40.0 % ±0.2"),
    (measured(tensor_ref_variance=None), "40.0 %"),
    (measured(tensor_ref_variance=1e-9), "40.0 % ±<0.1"),
    (measured(reasons=("suspect", "ok")), "40.0 % ±0.2 (suspect)"),
    (measured(gpu_models=("a", "b")), "40.0 % ±0.2 (mixed)"),
    (measured(tensor_ref_seconds=1.083 * 16 * HOUR), "108.3 % ±0.2"),
    (unmeasured(), "n/a (no_source)"),
    (unmeasured(reasons=()), "n/a"),
    (unmeasured(reasons=("ok",)), "n/a"),
    (unmeasured(reasons=(HOSTILE,)), "n/a (�[31mred�]0;title����x�5m�gnp���)"),
]


@pytest.mark.parametrize(("sums", "text"), OFU)
def test_ofu(sums: UsageSums, text: str) -> None:
    """OFU stands with its error bar and what qualifies it, an absent one with its reason."""
    assert text == ofu(figures(sums)).strip()


ZEROS = [
    (0.001, "0.0 % ±0.0 (idle)"),
    (0.93, "0.0 % ±0.0 (no tensor work)"),
    (0.05, "0.0 % ±0.0"),
    (None, "0.0 % ±0.0"),
]


BY_MINUTES = [
    ((16.0, 0.0), "(idle)"),
    ((15.5, 0.2), "(idle)"),
    ((0.0, 16.0), "(no tensor work)"),
    ((14.0, 2.0), "(no tensor work)"),
    ((10.0, 0.5), "±0.0"),
    ((10.0, None), "±0.0"),
    ((16.0, None), "(idle)"),
]


@pytest.mark.parametrize(("hours_of", "text"), BY_MINUTES)
def test_minutes_tell_the_zeros_apart(hours_of: tuple[float, float | None], text: str) -> None:
    """Where it is known by the minute, idle is who did next to nothing, and who did other work is not."""
    idle, other = hours_of
    sums = measured(
        tensor_active_seconds=0.0,
        tensor_ref_seconds=0.0,
        tensor_ref_variance=0.0,
        idle_seconds=idle * HOUR,
        idle_covered_seconds=16 * HOUR,
        non_tensor_seconds=None if other is None else other * HOUR,
        non_tensor_covered_seconds=0.0 if other is None else 16 * HOUR,
        sm_active_seconds=0.05 * 16 * HOUR,
    )
    assert ofu(figures(sums)).endswith(text)


IN_PART = [
    (None, "±0.0"),  # nothing is known of the other hours
    (0.0, "±0.0"),  # nor here: SM activity may be known in the judged minutes alone
    (0.95, "(no tensor work)"),
]


@pytest.mark.parametrize(("sm_active", "text"), IN_PART)
def test_a_judged_hour_does_not_make_the_others_idle(sm_active: float | None, text: str) -> None:
    """Months of FP64 that were not judged by the minute, and one idle hour that was: nobody was idle."""
    sums = measured(
        tensor_active_seconds=0.0,
        tensor_ref_seconds=0.0,
        tensor_ref_variance=0.0,
        idle_seconds=HOUR,
        idle_covered_seconds=HOUR,
        non_tensor_seconds=0.0,
        non_tensor_covered_seconds=HOUR,
        sm_active_seconds=None if sm_active is None else sm_active * 16 * HOUR,
    )
    assert ofu(figures(sums)).endswith(text)


def test_a_short_run_may_be_idle() -> None:
    """The second before its first minute, in which nothing is judged, is no good part of it."""
    sums = measured(
        gpu_count=1.0,
        ofu_covered_seconds=8.0,
        tensor_active_seconds=0.0,
        tensor_ref_seconds=0.0,
        tensor_ref_variance=0.0,
        idle_seconds=7.1,
        idle_covered_seconds=7.1,
        sm_active_seconds=0.0,
    )
    assert ofu(figures(sums)).endswith("(idle)")


@pytest.mark.parametrize(("sm_active", "text"), ZEROS)
def test_two_kinds_of_zero(sm_active: float | None, text: str) -> None:
    """A busy FP64 job is told from an idle one where SM activity is known, and only there."""
    sums = measured(
        tensor_ref_seconds=0.0,
        tensor_active_seconds=0.0,
        tensor_ref_variance=0.0,
        sm_active_seconds=None if sm_active is None else sm_active * 16 * HOUR,
    )
    assert text == ofu(figures(sums)).strip()


def test_every_reason_is_explained_and_ranked() -> None:
    """Each reason there is has an explanation and a place in the order of severity."""
    assert {*get_args(Reason), NO_TOKEN, NOT_CHARGED} == set(EXPLANATIONS) == set(SEVERITY)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0.0, "0.0"), (1e-5, "<0.001"), (0.02, "0.020"), (0.95, "0.9"), (1234.56, "1234.6")],
)
def test_hours(value: float | None, text: str) -> None:
    """GPU-hours: zero, hardly any and unknown are three things."""
    assert text == hours(value) or (value == 0.95 and hours(value) in ("0.9", "1.0"))


def test_small_words() -> None:
    """Counts lose a needless decimal, durations take a fitting unit, errors say when they are tiny."""
    assert ("8", "7.5", "unknown") == (count(8.0), count(7.5), count(None))
    assert ("12.0 s", "2.0 min", "1.5 h", "3.0 d") == tuple(map(duration, (12, 120, 5400, 259200)))
    assert ("0.0", "<0.1", "0.1", "12.3") == tuple(map(error_points, (0.0, 0.01, 0.05, 12.34)))


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        (CET, "2026-11-05 10:00:00 CET (UTC+01:00)"),
        (timezone.utc, "2026-11-05 09:00:00 UTC"),
        (timezone(timedelta(hours=-9, minutes=-30)), "2026-11-04 23:30:00 UTC-09:30"),
    ],
)
def test_moments_say_their_zone(zone: timezone, text: str) -> None:
    """A time stands with the zone's name and offset."""
    assert text == moment_of(MORNING + 0.9, zone)


def test_a_span_over_a_change_of_clocks_says_both_zones() -> None:
    """Where the offset changes within a window both ends carry their zone."""
    summer = timezone(timedelta(hours=2), "CEST")
    start, end = datetime(2026, 10, 25, tzinfo=summer), datetime(2026, 10, 26, tzinfo=CET)
    assert "2026-10-25 00:00:00 CEST (UTC+02:00) to 2026-10-26 00:00:00 CET (UTC+01:00)" == span(start, end)
    assert "2026-10-26 00:00:00 CET (UTC+01:00)" == moment(end)
