"""Figures on the static pages: missing is never zero, in words nor in what is sorted or drawn."""

from slurm_ofu.figures import figures, pool
from slurm_ofu.reports.html_charts import course_charts
from slurm_ofu.reports.html_course import course_of
from slurm_ofu.reports.html_figures import GROUP_COLUMNS, group_cells, shown_row
from slurm_ofu.reports.html_jobs import jobs_table
from slurm_ofu.reports.html_overview import cards
from slurm_ofu.reports.html_table import Cell
from slurm_ofu.values import UsageRow, UsageSums
from tests.figures.examples import measured, unmeasured
from tests.reports.examples import CET, MORNING, job_row
from tests.reports.html_examples import kept

NOTHING = unmeasured(reasons=("no_source",))
ZERO = kept(
    measured(
        tensor_active_seconds=0.0,
        tensor_ref_seconds=0.0,
        idle_seconds=0.0,
        idle_covered_seconds=57600.0,
        non_tensor_seconds=0.0,
        non_tensor_covered_seconds=57600.0,
    ),
    "gpu",
)


def by_title(sums: UsageSums) -> dict[str, Cell]:
    """The cells of a group's line."""
    cells = group_cells(figures(sums))
    return {column.title: cell for column, cell in zip(GROUP_COLUMNS, cells, strict=True)}


def test_what_was_not_measured_is_sorted_as_not_known() -> None:
    """A figure that is missing says so with its reason and has no number; a true zero has 0."""
    missing, zero = by_title(NOTHING), by_title(ZERO)
    names = ("OFU", "Idle", "No tensor work", "Lost")
    assert {("n/a (no_source)", None), ("n/a", None)} == {
        (missing[name].text, missing[name].order) for name in names
    }
    assert [0.0, 0.0, 0.0] == [zero[name].order for name in ("OFU", "Idle", "No tensor work")]
    assert "0.0 % ±0.2" in zero["OFU"].text
    assert ("0.0", 0.0) != (missing["Not measured"].text, missing["Not measured"].order)


def test_a_job_of_unknown_start_and_time_has_no_numbers_for_them() -> None:
    """What nobody said is unknown and comes last, rather than first."""
    row = job_row(1, unmeasured(allocated_seconds=None), start_epoch_s=None)
    table = jobs_table([shown_row(row)], {}, CET, key="j", caption="J", show_users=False)
    [cells] = table.rows
    found = {column.title: cell for column, cell in zip(table.columns, cells, strict=True)}
    for title in ("Start", "GPU-hours", "Coverage"):
        assert ("unknown", None) == (found[title].text, found[title].order)


def test_cards_say_why_there_is_no_figure() -> None:
    """On top of a page nothing that is missing looks like a figure."""
    told = {card.label: card.text for card in cards(figures(NOTHING))}
    assert "n/a (no_source)" == told["OFU"]
    assert {"n/a"} == {
        told[name] for name in ("Idle GPU-hours", "GPU-hours without tensor work", "Lost GPU-hours")
    }
    assert "0.0 %" == {card.label: card.text for card in cards(figures(ZERO))}["OFU"]


def test_a_time_without_jobs_is_no_zero_and_no_gap_in_measuring() -> None:
    """Charts have a gap where nothing ran or nothing was measured, and tell the two apart in the table."""
    course = course_of(MORNING, MORNING + 4 * 3600, CET)
    assert course is not None
    sums = [ZERO, pool(()), NOTHING, measured()]
    ofu, hours = course_charts(course, [UsageRow(group=None, sums=its) for its in sums])
    drawn = [(row[1].text.strip("\u2007"), row[1].order) for row in ofu.table.rows]
    assert [("0.0 % ±0.2", 0.0), ("no jobs", None), ("n/a (no_source)", None), ("40.0 % ±0.2", 0.4)] == [
        (text.partition(" (idle")[0].partition(" (no t")[0], order) for text, order in drawn
    ]
    assert "lowest 0.0 % (2026-11-05 10:00), highest 40.0 % (2026-11-05 13:00)" in ofu.summary
    assert "Without a figure: 2 of 4." in ofu.summary
    assert [(16.0, 0.0), (0.0, 0.0), (0.0, 16.0), (16.0, 0.0)] == [
        (row[1].order, row[2].order) for row in hours.table.rows
    ]
    assert "32.0 measured, 16.0 not measured" in hours.summary
