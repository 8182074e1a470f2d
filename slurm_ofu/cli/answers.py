"""The answers of ofu-report: what a reader knows, in the shape that was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import click

from slurm_ofu.cli.asked import Shape
from slurm_ofu.cli.options import EXIT_NOTHING, EXIT_OK
from slurm_ofu.figures import pool
from slurm_ofu.gpu_models import doubts
from slurm_ofu.protocols import UsageReader
from slurm_ofu.reports.as_csv import as_csv, as_parsable
from slurm_ofu.reports.as_formatted import formatted_csv, formatted_parsable, formatted_table
from slurm_ofu.reports.as_json import as_json, pages_as_json
from slurm_ofu.reports.as_page import as_page
from slurm_ofu.reports.as_table import as_table
from slurm_ofu.reports.asked_jobs import in_order_asked, not_found
from slurm_ofu.reports.order import in_order, worst_of
from slurm_ofu.reports.question import Question, nothing_found, states_unknown
from slurm_ofu.reports.spans import labelled, span_edges
from slurm_ofu.slurm.claim import doubt_of
from slurm_ofu.values import Finding, Goals, GpuModel, JobPage, UsageRow, UsageSums
from slurm_ofu.values.states import RUNNING, UNKNOWN_STATE

_PAGE_WIDTH = 80
_MOST_PAGES = 20
_USUAL_WORST = 5
_MOST_TO_RANK = 5_000  # runs; each is read for the worst list, which for many takes longer than all the rest
_NOT_RANKED = (
    f"over {_MOST_TO_RANK} runs: those that lost most GPU-hours are listed with --worst {_USUAL_WORST}"
)
_JOBS_OF_NODES = "these are jobs that had any of the nodes asked for, with all their nodes"
_WHOLE = "a page is about the whole job; --starttime and --endtime cut lines: -o, --csv, -P"
FindingsOf = Callable[[JobPage], Sequence[Finding]]
#: Groups that share runs: what they add up to is asked for by itself.
_OVERLAPPING = ("node", "gpu-model", "month", "day", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The text for stdout, and the exit code."""

    text: str
    code: int = EXIT_OK


def _no_findings(page: JobPage) -> Sequence[Finding]:
    return ()


def answer(
    reader: UsageReader,
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel] = (),
    findings_of: FindingsOf = _no_findings,
    goals: Goals | None = None,
) -> Answer:
    """The report; what it cannot show is said on stderr."""
    if question.jobs and question.by == "job" and shape.columns is None and shape.output in (None, "json"):
        return _pages(reader, question, shape, now, site_models, findings_of, goals)
    rows = in_order(_rows(reader, question), question.sort)
    empty = not any(row.sums.run_count for row in rows)
    if question.jobs:
        _name_missing(question, [] if empty else reader.jobs(question.selection))
    elif empty:
        click.echo(nothing_found(question), err=True)
    _name_unknown_states(reader, question)
    text = _text(reader, [] if empty else rows, question, shape, now, site_models)
    return Answer(text=text, code=EXIT_NOTHING if empty else EXIT_OK)


def _rows(reader: UsageReader, question: Question) -> list[UsageRow]:
    match question.by:
        case "month" | "day" | "hour" as length:
            bounds = _bounds(reader, question)
            if bounds is None:
                return []
            start, end = bounds
            edges = span_edges(length, start, max(start, end - question.slack_seconds), question.zone)
            edges[-1] = end
            return labelled(reader.course(question.selection, edges), edges, length, question.zone)
        case group:
            return reader.usage(question.selection, group)


def _bounds(reader: UsageReader, question: Question) -> tuple[float, float] | None:
    """The window's; where it has none, from the first run's beginning to the last one's end."""
    start, end = question.selection.start_epoch_s, question.selection.end_epoch_s
    if start is None or end is None:
        runs = [row.run for row in reader.jobs(question.selection) if row.run is not None]
        begins = [run.start_epoch_s for run in runs if run.start_epoch_s is not None]
        ends = [run.end_epoch_s for run in runs if run.end_epoch_s is not None]
        if not begins or not ends:
            return None
        start = min(begins) if start is None else start
        end = max(ends) if end is None else end
    return (start, end) if start < end else None


def _text(
    reader: UsageReader,
    rows: Sequence[UsageRow],
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel],
) -> str:
    match shape.output, shape.columns:
        case "json", _:
            return as_json(
                rows,
                question,
                generated_at=now.astimezone(question.zone),
                total=_total(reader, rows, question),
                worst=_worst(reader, rows, question, usual=None),
            )
        case "csv", None:
            return as_csv(rows, question.by, header=shape.header)
        case "parsable", None:
            return as_parsable(rows, question.by, header=shape.header, separation=shape.separation)
        case None, None:
            return _table(reader, rows, question, shape, site_models)
    return _formatted(rows, question, shape, now, site_models)


def _formatted(
    rows: Sequence[UsageRow],
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel],
) -> str:
    formatting = shape.formatting(question.zone, now)
    if shape.output == "csv":
        return formatted_csv(rows, question.by, formatting, header=shape.header)
    if shape.output == "parsable":
        return formatted_parsable(
            rows, question.by, formatting, separation=shape.separation, header=shape.header
        )
    return formatted_table(
        rows,
        question.by,
        formatting,
        width=shape.width,
        header=shape.header,
        more_notes=[*_of_nodes(question), *_doubts(rows, site_models)],
    )


def _table(
    reader: UsageReader,
    rows: Sequence[UsageRow],
    question: Question,
    shape: Shape,
    site_models: Sequence[GpuModel],
) -> str:
    usual = None if question.by == "job" or not shape.header else _USUAL_WORST
    many = sum(row.sums.run_count for row in rows) > _MOST_TO_RANK
    too_many = usual is not None and many and question.worst is None
    return as_table(
        rows,
        question,
        width=shape.width,
        colour=shape.colour,
        header=shape.header,
        total=_total(reader, rows, question) if shape.header or len(rows) > 1 else None,
        worst=_worst(reader, rows, question, usual=None if too_many else usual) or (),
        more_notes=[*_of_nodes(question), *_doubts(rows, site_models), *([_NOT_RANKED] if too_many else [])],
    )


def _total(reader: UsageReader, rows: Sequence[UsageRow], question: Question) -> UsageSums | None:
    """What groups that share runs add up to; ``None``: they pooled."""
    if question.by not in _OVERLAPPING or not rows:
        return None
    return pool(row.sums for row in reader.usage(question.selection, "account"))


def _worst(
    reader: UsageReader, rows: Sequence[UsageRow], question: Question, *, usual: int | None
) -> list[UsageRow] | None:
    """The runs that lost most GPU-hours; ``None``: not asked for."""
    most = usual if question.worst is None else question.worst
    if most is None:
        return None
    if most == 0 or not any(row.sums.lost_seconds for row in rows):
        return []
    return worst_of(rows if question.by == "job" else reader.jobs(question.selection), most)


def _of_nodes(question: Question) -> list[str]:
    """Whoever asks for a node may think that he sees it alone."""
    if not question.selection.node_names:
        return []
    return [_JOBS_OF_NODES if question.by == "node" else f"{_JOBS_OF_NODES}; --by node has each by itself"]


def _doubts(rows: Sequence[UsageRow], site_models: Sequence[GpuModel]) -> list[str]:
    """Of the GPU models that have an OFU here."""
    measured = [row.sums for row in rows if row.sums.tensor_ref_seconds is not None]
    return doubts({name for sums in measured for name in sums.gpu_models}, site_models)


def _pages(
    reader: UsageReader,
    question: Question,
    shape: Shape,
    now: datetime,
    site_models: Sequence[GpuModel],
    findings_of: FindingsOf,
    goals: Goals | None,
) -> Answer:
    """A page per run of each job, in the order in which the jobs were asked for."""
    found = reader.jobs(question.selection)
    _name_missing(question, found)
    code = EXIT_OK if found else EXIT_NOTHING
    runs = in_order_asked(question.jobs, (row.run for row in found if row.run is not None))
    if shape.output is None and len(runs) > _MOST_PAGES:
        click.echo(f"{len(runs)} runs, hence a line each (pages for up to {_MOST_PAGES})", err=True)
        rows = in_order(found, question.sort)
        return Answer(text=_table(reader, rows, question, shape, site_models), code=code)
    if _cut_by_window(found, question):
        click.echo(_WHOLE, err=True)
    pages = [reader.page(run.run_id) for run in runs]
    found_in = [findings_of(page) for page in pages]
    if shape.output == "json":
        at = now.astimezone(question.zone)
        return Answer(text=pages_as_json(pages, question, generated_at=at, findings=found_in), code=code)
    texts = (
        _page(page, its, question, shape, site_models, goals)
        for page, its in zip(pages, found_in, strict=True)
    )
    return Answer(text="\n".join(texts), code=code)


def _cut_by_window(found: Sequence[UsageRow], question: Question) -> bool:
    """Whether any of these runs reaches out of the window."""
    start, end = question.selection.start_epoch_s, question.selection.end_epoch_s
    runs = [row.run for row in found if row.run is not None]
    return any(
        (start is not None and run.start_epoch_s is not None and run.start_epoch_s < start)
        or (end is not None and run.end_epoch_s is not None and run.end_epoch_s > end)
        for run in runs
    )


def _page(
    page: JobPage,
    found: Sequence[Finding],
    question: Question,
    shape: Shape,
    site_models: Sequence[GpuModel],
    goals: Goals | None,
) -> str:
    return as_page(
        page,
        question.zone,
        width=min(shape.width, _PAGE_WIDTH),
        colour=shape.colour,
        findings=found,
        goals=goals,
        doubt=None if page.row.run is None else doubt_of(page.row.run.comment),
        more_notes=_doubts([page.row], site_models),
    )


def _name_unknown_states(reader: UsageReader, question: Question) -> None:
    """Say on stderr how many runs may be in the states asked for, for all that is known."""
    states = question.selection.states
    if not states or UNKNOWN_STATE in states or states == (RUNNING,):
        return
    unknown = replace(question.selection, states=(UNKNOWN_STATE,))
    if count := sum(row.sums.run_count for row in reader.usage(unknown, "account")):
        click.echo(states_unknown(count), err=True)


def _name_missing(question: Question, found: Sequence[UsageRow]) -> None:
    """Say on stderr which of the jobs that were asked for are not among those found."""
    runs = [row.run for row in found if row.run is not None]
    if missing := not_found(question.jobs, runs):
        click.echo(nothing_found(replace(question, jobs=missing)), err=True)
