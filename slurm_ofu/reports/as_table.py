"""Many runs or groups, one line each, and what they add up to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_ofu.figures import figures, pool
from slurm_ofu.reports.figure_columns import (
    GROUP_FIGURES,
    RUN_FIGURES,
    WORST_FIGURES,
    FigureColumn,
    cells,
    legends,
    that_are_known,
)
from slurm_ofu.reports.free_text import shortened, wrapped
from slurm_ofu.reports.grid import Column, Line, as_grid, left_out
from slurm_ofu.reports.notes import as_notes, explanations, style
from slurm_ofu.reports.question import Question, headline
from slurm_ofu.reports.run_words import display_job_id, shown_state, sums_of
from slurm_ofu.reports.spans import hours_for_people
from slurm_ofu.reports.wording import moment_of, name
from slurm_ofu.values import Figures, GroupBy, RunRow, UsageRow, UsageSums

_LONGEST_NAME = 20  # cells of a job's name: a long one would need more room than there is
_TITLES: dict[GroupBy, str] = {"qos": "QOS", "gpu-model": "GPU model", "job-name": "Job name"}
_TIMES = ("month", "day", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    """A leading column: what a line is about."""

    column: Column
    of: Callable[[UsageRow], str]


def as_table(
    rows: Sequence[UsageRow],
    question: Question,
    *,
    width: int,
    colour: bool,
    header: bool = True,
    total: UsageSums | None = None,
    worst: Sequence[UsageRow] = (),
    more_notes: Sequence[str] = (),
) -> str:
    """The whole report: headline, a line per row, the total, the worst runs, and notes on what needs one.

    ``total``: what the rows add up to, where that is not they pooled: groups that share runs.
    """
    kept = [row for row in rows if question.by not in _TIMES or row.sums.run_count > 0]
    if not kept:
        return ""
    names = _run_names(kept) if question.by == "job" else _group_names(kept, question.by)
    shown = [figures(sums_of(row)) for row in kept]
    whole = figures(pool(map(sums_of, kept)) if total is None else total)
    columns = that_are_known(RUN_FIGURES if question.by == "job" else GROUP_FIGURES, [*shown, whole])
    lines = [
        _line(tuple(leading.of(row) for leading in names), its, columns)
        for row, its in zip(kept, shown, strict=True)
    ]
    if len(kept) > 1:
        lines.append(_line(("TOTAL", *("" for _ in names[1:])), whole, columns, total=True))
    titles = [*(leading.column for leading in names), *(column.column for column in columns)]
    grid = as_grid(titles, lines, width=width, colour=colour, header=header)
    if not header:
        return grid
    title = "".join(line + "\n" for line in wrapped(headline(question), width))
    notes = [
        *explanations(shown if len(kept) == 1 else [*shown, whole], total=whole),
        *_oldest_figures(kept, question),
        *(legends(columns, whole) if question.by != "job" else []),
        *([_without_runs(len(rows) - len(kept), question.by)] if len(kept) < len(rows) else []),
        *more_notes,
        *_no_room(left_out(titles, lines, width)),
    ]
    return f"{title}\n{grid}{_worst(worst, width, colour)}{as_notes(notes, width=width)}"


def _oldest_figures(rows: Sequence[UsageRow], question: Question) -> list[str]:
    """Of the runs that go on, the one that was not heard of for longest: its node may have died."""
    heard = [
        (row.run.end_epoch_s, display_job_id(row.run))
        for row in rows
        if row.run is not None and row.run.running and row.run.end_epoch_s is not None
    ]
    if not heard:
        return []
    end, job = min(heard)
    oldest = f"the oldest are those of job {job}, " if len(heard) > 1 else ""
    return [f"so far: {oldest}as of {moment_of(end, question.zone)}"]


def _no_room(titles: Sequence[str]) -> list[str]:
    return [f"no room for {', '.join(titles)}: a wider terminal shows them, or --format"] if titles else []


def _without_runs(count: int, by: GroupBy) -> str:
    return (
        f"1 {by} in which nothing ran is left out"
        if count == 1
        else (f"{count} {by}s in which nothing ran are left out")
    )


def _line(
    names: tuple[str, ...], its: Figures, columns: Sequence[FigureColumn], *, total: bool = False
) -> Line:
    return Line(cells=names + cells(columns, its), style=style(its), total=total)


def _worst(rows: Sequence[UsageRow], width: int, colour: bool) -> str:
    if not rows:
        return ""
    named = any(row.run is not None and row.run.job_name is not None for row in rows)
    job_name = _run_name("Name", lambda run: run.job_name, longest=_LONGEST_NAME, give_way=2)
    names = (
        _Name(column=Column(title="JobID"), of=_job_id),
        *([job_name] if named else []),
        _run_name("User", lambda run: run.user, shrinks=True),
        _run_name("Partition", lambda run: run.partition, shrinks=True, give_way=3),
    )
    shown = [figures(sums_of(row)) for row in rows]
    columns = that_are_known(WORST_FIGURES, shown)
    titles = [*(leading.column for leading in names), *(column.column for column in columns)]
    lines = [
        _line(tuple(leading.of(row) for leading in names), its, columns)
        for row, its in zip(rows, shown, strict=True)
    ]
    return f"\nMost lost GPU-hours\n{as_grid(titles, lines, width=width, colour=colour)}"


def _run_names(rows: Sequence[UsageRow]) -> tuple[_Name, ...]:
    """Which run it is; restarts and clusters only where they tell runs apart, name and state only where
    accounting has said some. Job name, state, account, idle hours and partition give way in this order."""
    runs = [row.run for row in rows if row.run is not None]
    restarted = any(run.restart_count > 0 for run in runs)
    several_clusters = len({run.cluster for run in runs}) > 1
    names = [_Name(column=Column(title="JobID"), of=_job_id)]
    if restarted:
        names.append(_run_name("Restarts", lambda run: str(run.restart_count), right=True))
    if several_clusters:
        names.append(_run_name("Cluster", lambda run: run.cluster, shrinks=True))
    if any(run.job_name is not None for run in runs):
        names.append(_run_name("Name", lambda run: run.job_name, longest=_LONGEST_NAME, give_way=6))
    names.append(_run_name("User", lambda run: run.user, shrinks=True))
    names.append(_run_name("Account", lambda run: run.account, shrinks=True, give_way=4))
    names.append(_run_name("Partition", lambda run: run.partition, shrinks=True, give_way=2))
    if any(shown_state(run) is not None for run in runs):
        names.append(_run_name("State", shown_state, longest=_LONGEST_NAME, give_way=5))
    return tuple(names)


def _job_id(row: UsageRow) -> str:
    return name(row.group if row.run is None else display_job_id(row.run))


def _run_name(
    title: str,
    of: Callable[[RunRow], str | None],
    *,
    right: bool = False,
    shrinks: bool = False,
    give_way: int = 0,
    longest: int | None = None,
) -> _Name:
    def cell(row: UsageRow) -> str:
        text = name(None if row.run is None else of(row.run))
        return text if longest is None else shortened(text, longest)

    return _Name(column=Column(title=title, right=right, shrinks=shrinks, give_way=give_way), of=cell)


def _group_names(rows: Sequence[UsageRow], by: GroupBy) -> tuple[_Name, ...]:
    column = Column(title=_TITLES.get(by, by.capitalize()), shrinks=True)
    if by != "hour":
        return (_Name(column=column, of=lambda row: name(row.group)),)
    groups = [row.group or "" for row in rows]
    shown = dict(zip(groups, hours_for_people(groups), strict=True))
    return (_Name(column=column, of=lambda row: shown[row.group or ""]),)
