"""Truth beside measurement: a table with a line per run, and the verdict."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.cluster_day import Run, true_ofu_ratio

#: A figure that speaks for less of the run than this is shown and not judged.
_JUDGED_COVERAGE = 0.9
_ERROR_BARS = 3.0
#: The sampler sees a little less than the run: its first moments are missing.
_EDGES_PP = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One run. What was not measured is ``None``."""

    run: Run
    true_ofu_ratio: float
    is_stored: bool
    ofu_ratio: float | None = None
    ofu_error_pp: float | None = None
    coverage_ratio: float | None = None
    reason: str | None = None

    @property
    def difference_pp(self) -> float | None:
        """Measurement minus truth, in percentage points."""
        return None if self.ofu_ratio is None else 100 * (self.ofu_ratio - self.true_ofu_ratio)

    @property
    def is_judged(self) -> bool:
        """Whether enough of the run was measured to hold the figure against the truth."""
        return (
            self.ofu_ratio is not None
            and self.coverage_ratio is not None
            and self.coverage_ratio >= _JUDGED_COVERAGE
        )

    @property
    def is_wrong(self) -> bool:
        """Whether the figure is further from the truth than error bar and edges explain."""
        if not self.is_judged or self.difference_pp is None:
            return False
        return abs(self.difference_pp) > _ERROR_BARS * (self.ofu_error_pp or 0.0) + _EDGES_PP


def compare(
    runs: Sequence[Run], spans: Sequence[Mapping[str, tuple[float, float]]], report: str
) -> list[Comparison]:
    """Each run with its row of ``ofu-report --json``."""
    rows = {(row["job_id"], row["restart_count"]): row for row in json.loads(report)["rows"]}
    return [
        _comparison(run, true_ofu_ratio(run, its), rows.get((run.job_id, run.restart_count)))
        for run, its in zip(runs, spans, strict=True)
    ]


def _comparison(run: Run, truth: float, row: Mapping[str, Any] | None) -> Comparison:
    if row is None:
        return Comparison(run=run, true_ofu_ratio=truth, is_stored=False)
    names = ("ofu_ratio", "ofu_error_pp", "coverage_ratio", "reason")
    return Comparison(run=run, true_ofu_ratio=truth, is_stored=True, **{name: row[name] for name in names})


def print_comparison(comparisons: Sequence[Comparison], console: Console) -> int:
    """The table and what follows from it. The exit status."""
    # Eighty columns are enough for it.
    table = Table(
        title="OFU: truth beside measurement\n", title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("Job", no_wrap=True)
    table.add_column("What it is")
    for heading in ("True", "Measured", "± pp", "Off by", "Coverage"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Reason")
    for comparison in comparisons:
        table.add_row(*_cells(comparison), style="red" if comparison.is_wrong else None)
    console.print()
    console.print(table)
    console.print()
    return _print_verdict(comparisons, console)


def _cells(its: Comparison) -> tuple[str, ...]:
    return (
        its.run.label,
        its.run.what,
        f"{100 * its.true_ofu_ratio:.2f} %",
        "n/a" if its.ofu_ratio is None else f"{100 * its.ofu_ratio:.2f} %",
        "" if its.ofu_error_pp is None else f"{its.ofu_error_pp:.2f}",
        "" if its.difference_pp is None else f"{its.difference_pp:+.2f}",
        "" if its.coverage_ratio is None else f"{100 * its.coverage_ratio:.0f} %",
        (its.reason or "") if its.is_stored else "missing",
    )


def _print_verdict(comparisons: Sequence[Comparison], console: Console) -> int:
    judged = [abs(its.difference_pp or 0.0) for its in comparisons if its.is_judged]
    missing = [its.run.label for its in comparisons if not its.is_stored]
    wrong = [its.run.label for its in comparisons if its.is_wrong]
    if judged:
        console.print(
            f"largest difference between truth and measurement: {max(judged):.1f} percentage points"
            f"\n({len(judged)} of {len(comparisons)} runs, those measured for"
            f" {100 * _JUDGED_COVERAGE:.0f} % of their time or more)"
        )
    else:
        console.print("no run was measured for long enough to say anything: is this machine very busy?")
    if missing:
        console.print(f"not in the accounting database: {', '.join(missing)}", style="red")
    if wrong:
        console.print(f"further off than their error bars explain: {', '.join(wrong)}", style="red")
    return 0 if judged and not missing and not wrong else 1
