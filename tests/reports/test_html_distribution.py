"""Distributions and coverage on the static pages."""

from slurm_ofu.figures import figures, pool
from slurm_ofu.reports.html_coverage import reasons_table
from slurm_ofu.reports.html_distribution import bands_table, histogram_table
from slurm_ofu.reports.html_figures import shown_row
from slurm_ofu.reports.html_table import HtmlTable
from tests.figures.examples import HOUR, measured, unmeasured
from tests.reports.examples import job_row
from tests.reports.html_examples import kept, month


def texts(table: HtmlTable) -> list[list[str]]:
    """What stands in the cells."""
    return [[cell.text for cell in row] for row in table.rows]


def test_bands_and_those_in_none_add_up_to_all_jobs() -> None:
    """Every job is in one line: in a band, without tensor work, or not measured."""
    rows = month(200)
    lines = texts(bands_table(figures(pool(row.sums for row in rows))))
    assert 200 == sum(int(line[1]) for line in lines)
    assert ["no tensor work", "not measured"] == [line[0] for line in lines[-2:]]


def test_the_histogram_holds_measured_hours_of_jobs_with_tensor_work() -> None:
    """A job's measured hours lie at its OFU; one without tensor work, or without an OFU, is not at 0."""
    seconds = 16 * HOUR
    busy = {"non_tensor_seconds": seconds, "non_tensor_covered_seconds": seconds}
    rows = [
        job_row(1, measured(tensor_ref_seconds=0.29 * seconds)),
        job_row(2, measured(tensor_ref_seconds=0.0, idle_seconds=0.0, **busy)),
        job_row(3, unmeasured()),
        job_row(4, measured(tensor_ref_seconds=2.5 * seconds)),
    ]
    found = [line for line in texts(histogram_table(map(shown_row, rows))) if line[2] != "0"]
    assert [["29–30", "16.0", "1"], ["≥ 120", "16.0", "1"]] == found


def test_coverage_adds_up_by_reason_and_keeps_unknown_apart() -> None:
    """Hours without an OFU by their jobs' reason; GPUs of unknown time are no hours, and no zero."""
    rows = [
        job_row(1, unmeasured(reasons=("no_source",))),
        job_row(2, unmeasured(reasons=("no_source",))),
        job_row(3, measured()),
        job_row(
            4, unmeasured(reasons=("not_delivered",), allocated_seconds=None, gpu_count_unknown_time=8.0)
        ),
    ]
    lines = [line[:4] for line in texts(reasons_table([shown_row(row) for row in rows]))]
    assert [["no_source", "32.0", "2", "0"], ["not_delivered", "unknown", "1", "8"]] == lines


def test_an_example_run_without_tensor_work_is_in_no_band() -> None:
    """The examples count as the accounting database does."""
    seconds = 16 * HOUR
    busy = {"non_tensor_seconds": seconds, "non_tensor_covered_seconds": seconds}
    sums = kept(measured(tensor_ref_seconds=0.0, idle_seconds=0.0, **busy), "gpu")
    assert (1, 0) == (sums.non_tensor_run_count, sum(sums.band_run_counts))
