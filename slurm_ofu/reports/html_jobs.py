"""Tables of jobs on the static pages: all of them, and those that lost the most."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from slurm_ofu.reports.html_figures import (
    COVERAGE,
    GPU_HOURS,
    IDLE,
    LOST,
    OFU,
    ShownRow,
    coverage_cell,
    hours_cell,
    idle_cell,
    ofu_cell,
    text_cell,
    whole,
)
from slurm_ofu.reports.html_table import Cell, HtmlColumn, HtmlTable
from slurm_ofu.reports.run_words import display_job_id, final_state
from slurm_ofu.reports.wording import NOT_MEASURED, UNKNOWN, name
from slurm_ofu.values import RunRow, UsageRow

#: What left a job out of the worst list, in words; a reason that is not here stands as it is.
LEFT_OUT: Final[Mapping[str, str]] = {
    "unmeasured": "not measured",
    "non_tensor": "busy without tensor cores, which is neither idle nor wasteful",
    "unknown": "whether they worked without tensor cores is not known",
}
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9-]")
_LONGEST_CLUSTER: Final = 40


def job_paths(rows: Iterable[UsageRow]) -> dict[int, str]:
    """The path of each run's page by its ``run_id``: the same run has the same one every time."""
    paths: dict[int, str] = {}
    taken: set[str] = set()
    for run in (row.run for row in rows if row.run is not None):
        cluster = _FILE_NAME.sub("_", run.cluster)[:_LONGEST_CLUSTER]
        restart = f"-{run.restart_count}" if run.restart_count > 0 else ""
        stem = path = f"jobs/{cluster}-{run.job_id}{restart}"
        number = 1
        while path in taken:
            number += 1
            path = f"{stem}_{number}"
        taken.add(path)
        paths[run.run_id] = f"{path}.html"
    return paths


def jobs_table(
    rows: Sequence[ShownRow],
    paths: Mapping[int, str],
    zone: tzinfo,
    *,
    key: str,
    caption: str,
    show_users: bool,
    sorted_by: HtmlColumn = GPU_HOURS,
) -> HtmlTable:
    """A line per run."""
    several_clusters = len({shown.row.run.cluster for shown in rows if shown.row.run is not None}) > 1
    columns = (
        HtmlColumn(title="Job", numeric=False),
        *([HtmlColumn(title="Cluster", numeric=False)] if several_clusters else []),
        *(
            [HtmlColumn(title="Name", numeric=False), HtmlColumn(title="User", numeric=False)]
            if show_users
            else []
        ),
        HtmlColumn(title="Account", numeric=False),
        HtmlColumn(title="Partition", numeric=False),
        HtmlColumn(title="GPU model", numeric=False),
        HtmlColumn(title="GPUs"),
        GPU_HOURS,
        OFU,
        COVERAGE,
        IDLE,
        LOST,
        HtmlColumn(title="State", numeric=False),
        HtmlColumn(title="Start", numeric=False, meaning=f"local time, {UNKNOWN} where nobody said"),
    )
    cells = (
        _cells(shown, paths, zone, several_clusters=several_clusters, show_users=show_users) for shown in rows
    )
    return HtmlTable(
        key=key,
        caption=caption,
        columns=columns,
        rows=cells,
        row_count=len(rows),
        sorted_by=sorted_by.title,
    )


def by_gpu_hours(rows: Iterable[UsageRow]) -> list[UsageRow]:
    """Those with the most GPU-hours first, of unknown time last; equals in the order that they had."""
    return sorted(rows, key=lambda row: -(row.sums.allocated_seconds or 0.0))


def job_title(run: RunRow) -> str:
    """What a job is called."""
    restart = f", restart {run.restart_count}" if run.restart_count > 0 else ""
    return display_job_id(run) + restart


def job_state(run: RunRow) -> str | None:
    """How it ended, or that it goes on."""
    return "RUNNING" if run.running else final_state(run)


def start_text(epoch_s: float, zone: tzinfo) -> str:
    """When it began, to the minute: in a column that is shown and sorted as text."""
    return f"{datetime.fromtimestamp(epoch_s // 1, zone):%Y-%m-%d %H:%M}"


def _cells(
    shown: ShownRow, paths: Mapping[int, str], zone: tzinfo, *, several_clusters: bool, show_users: bool
) -> list[Cell]:
    row, its = shown.row, shown.figures
    return [
        *_run_cells(row, paths, several_clusters=several_clusters, show_users=show_users),
        _model_cell(row),
        whole(its.gpu_count),
        hours_cell(its.gpu_hours),
        ofu_cell(its),
        coverage_cell(its),
        idle_cell(its),
        hours_cell(its.lost_gpu_hours, absent=NOT_MEASURED),
        text_cell(None if row.run is None else job_state(row.run)),
        _start_cell(row, zone),
    ]


def _run_cells(
    row: UsageRow, paths: Mapping[int, str], *, several_clusters: bool, show_users: bool
) -> list[Cell]:
    run = row.run
    if run is None:
        unknown = [text_cell(None)] * (2 + several_clusters + 2 * show_users)
        return [text_cell(row.group), *unknown]
    return [
        Cell(text=job_title(run), order=job_title(run), path=paths.get(run.run_id)),
        *([text_cell(run.cluster)] if several_clusters else []),
        *([text_cell(run.job_name), text_cell(run.user)] if show_users else []),
        text_cell(run.account),
        text_cell(run.partition),
    ]


def _model_cell(row: UsageRow) -> Cell:
    models = row.sums.gpu_models
    if len(models) > 1:
        return text_cell("mixed")
    return text_cell(name(models[0]).removeprefix("NVIDIA ") if models else None)


def _start_cell(row: UsageRow, zone: tzinfo) -> Cell:
    start = None if row.run is None else row.run.start_epoch_s
    return Cell(text=UNKNOWN) if start is None else Cell(text=start_text(start, zone), order=start)
